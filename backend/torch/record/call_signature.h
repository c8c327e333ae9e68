// What a captured graph of one ATen call depends on, as 64-bit words: element types, sizes and
// strides of tensors, which of them are one tensor or share memory, and the bits of numbers. Equal
// words mean equal graphs, so they are compared word by word, and a hash is only for finding them.
// Addresses are no part of it.
#pragma once

#include <ATen/ATen.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

// Returns a hash of words.
inline size_t HashOf(std::span<const uint64_t> words) {
  size_t hash = words.size();
  for (const uint64_t word : words) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  return hash;
}

class CallSignature {
 public:
  // `arguments` are all arguments of a call; they must outlive this object. Which operator is
  // called is no part of the words.
  explicit CallSignature(c10::ArrayRef<c10::IValue> arguments);

  // Says why no graph can hold the call, or is null. Nothing else here is meaningful then.
  const char* refusal() const { return refusal_; }
  std::span<const uint64_t> words() const { return {words_.data(), words_.size()}; }
  size_t hash() const { return hash_; }
  // The tensors of the call, each once, in the order of the arguments. They are the inputs of the
  // call's graph.
  c10::ArrayRef<const at::Tensor*> tensors() const { return tensors_; }

 private:
  void Add(const c10::IValue& value);
  void AddTensor(const at::Tensor& tensor);
  void AddNumber(const at::Tensor& number);
  void AddWord(uint64_t word) { words_.push_back(word); }

  c10::SmallVector<uint64_t, 64> words_;
  c10::SmallVector<const at::Tensor*, 16> tensors_;
  size_t hash_ = 0;
  const char* refusal_ = nullptr;
};

}  // namespace hpu::torch_backend
