// The properties that a captured graph of one ATen call depends on, as 64-bit words: element types,
// sizes and strides of tensors, which of them are one tensor or share memory, the bits of numbers,
// whether PyTorch asks for deterministic algorithms, and its default type. Equal words mean equal
// programs, so they are compared word by word, and a hash is only for finding them. Addresses are
// no part of it.
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

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
  // Whether floating-point numbers are part of the words, or are kept beside them.
  enum class Numbers { kInWords, kBeside };

  // `arguments` are all arguments of a call; they must outlive this object. Which operator is
  // called is no part of the words.
  explicit CallSignature(c10::ArrayRef<c10::IValue> arguments, Numbers numbers = Numbers::kInWords);

  // Says why no graph can hold the call, or is null. Nothing else here is meaningful then.
  const char* refusal() const { return refusal_; }
  std::span<const uint64_t> words() const { return {words_.data(), words_.size()}; }
  size_t hash() const { return hash_; }
  // The tensors of the call, each once, in the order of the arguments. They are the inputs of the
  // call's graph.
  c10::ArrayRef<const at::Tensor*> tensors() const { return tensors_; }
  // With kBeside: the floating-point numbers, in the order of the arguments.
  c10::ArrayRef<double> numbers() const { return numbers_; }

 private:
  void Add(const c10::IValue& value);
  void AddTensor(const at::Tensor& tensor);
  void AddNumber(const at::Tensor& number);
  void AddDouble(double number);
  void AddWord(uint64_t word) { words_.push_back(word); }

  const Numbers where_;
  c10::SmallVector<double, 8> numbers_;
  c10::SmallVector<uint64_t, 64> words_;
  c10::SmallVector<const at::Tensor*, 16> tensors_;
  size_t hash_ = 0;
  const char* refusal_ = nullptr;
};

// A map by the words of signatures, in which a CallSignature can be looked up without a copy.
using SignatureWords = std::vector<uint64_t>;
struct SignatureHash {
  using is_transparent = void;
  size_t operator()(const CallSignature& call) const { return call.hash(); }
  size_t operator()(const SignatureWords& words) const { return HashOf(words); }
};
struct SignatureEqual {
  using is_transparent = void;
  bool operator()(const SignatureWords& a, const SignatureWords& b) const { return a == b; }
  bool operator()(const CallSignature& a, const SignatureWords& b) const {
    return std::ranges::equal(a.words(), b);
  }
  bool operator()(const SignatureWords& a, const CallSignature& b) const { return (*this)(b, a); }
};
template <typename Entry>
using SignatureMap = std::unordered_map<SignatureWords, Entry, SignatureHash, SignatureEqual>;

inline SignatureWords WordsOf(const CallSignature& call) {
  return {call.words().begin(), call.words().end()};
}

// The most signatures that are kept of one operator. A script whose sizes or numbers change with
// every call would otherwise fill the memory.
inline constexpr size_t kMostSignatures = 4096;
// The time after which an answer that may change (there was no compile server) is asked for again.
inline constexpr std::chrono::seconds kRetryAfter{30};

}  // namespace hpu::torch_backend
