// Calls that have been recorded for one stream and not yet run.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "backend/torch/record/call_rule.h"
#include "backend/torch/record/call_signature.h"

namespace hpu::torch_backend {

// Storages are the values of a recording; a view of one is a tensor with a form and an offset. Not
// thread-safe.
class Recording {
 public:
  enum class Parameter : uint8_t { kNone, kFixed, kTrained };
  struct Value {
    enum class Kind : uint8_t {
      kInput,  // it had memory when the first call touched it
      kHost,   // a copy of a tensor on the CPU
      kEmpty,  // it has no memory and no defined elements before the first call that touches it
      kMade,   // the result of a call
    };
    Kind kind = Kind::kInput;
    c10::Storage storage;
    at::Tensor host;  // kHost
    // kInput: whether it is a parameter, and whether gradients of it are wanted.
    Parameter parameter = Parameter::kNone;
    // kInput: the byte of the storage where the first operand that lies there begins.
    int64_t first_byte = 0;
    bool written = false;  // in place, by a call
  };
  struct Call {
    std::shared_ptr<const CallRule> rule;
    // By tensor of the call: its value, and where it begins in its storage.
    size_t first_operand = 0;
    size_t first_number = 0;
    // Whether no gradients are wanted of it and it is no part of a backward.
    bool apart_from_autograd = false;
    // The values of the rule's results of kind kNew follow one another from here.
    uint32_t first_result = 0;
    uint32_t line = 0;  // LineOfCaller()
  };
  struct Operand {
    uint32_t value = 0;
    int64_t offset = 0;
  };

  // The storages of a capture that were made before it are inputs, even if they have no elements
  // yet.
  explicit Recording(bool is_capture = false) : is_capture_(is_capture) {}
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // Records a call and returns its results, by result of the operator.
  std::vector<c10::IValue> Add(std::shared_ptr<const CallRule> rule, const CallSignature& call,
                               uint32_t line);

  bool Touches(const c10::StorageImpl& storage) const;
  // Makes all values that nobody else can make any more lost, for `reason`.
  void Lose(const std::string& reason);

  // Makes the results of a call lost, for `reason`.
  void LoseResults(const Call& call, const std::string& reason);

  const std::vector<Value>& values() const { return values_; }
  const std::vector<Call>& calls() const { return calls_; }
  const std::vector<double>& numbers() const { return numbers_; }
  // Returns words that are equal for equal calls, whatever their numbers are, and wherever in the
  // storages of inputs they begin: for an input, the words say how far its operands are from the
  // first one. Equal words also mean storages of equal kinds, and of equal sizes if they are no
  // inputs.
  const SignatureWords& words() const { return words_; }
  const Operand& operand(const Call& call, size_t tensor) const {
    return operands_[call.first_operand + tensor];
  }
  // Returns the numbers of the calls that update parameters or belong to such an update: an
  // optimizer's. They tend to vary from step to step. Empty if no parameter is written.
  std::vector<uint32_t> NumbersOfUpdates() const;
  // Returns, in their order, the calls which fill new memory with a number that later calls change
  // in place and that somebody beside the recording holds: an optimizer's state.
  std::vector<uint32_t> StateFills() const;
  // Returns the recording as it would be if these calls had run before it. This
  // one has no calls any more then.
  std::unique_ptr<Recording> Without(const std::vector<uint32_t>& calls);
  // Returns the values that calls fill and somebody beside the recording holds.
  std::vector<uint32_t> HeldValues() const;
  // Gives memory to the storages that had none, of which the calls touch no more than parts and
  // that somebody beside the recording holds; they are inputs then. A program that returned such a
  // storage would write all of it. Returns their values.
  std::vector<uint32_t> GiveMemoryToParts();
  // Returns whether the tensor is all of a storage that had no memory before this recording.
  bool IsEmptyStorage(const at::Tensor& tensor, const Operand& operand) const;
  // Returns how many bytes after the first operand of its storage, if that is an input, a tensor of
  // a call begins; in other storages, after the beginning.
  int64_t DistanceOf(const Call& call, size_t tensor) const;
  // Returns where the numbers of a call end.
  size_t EndOfNumbers(size_t call) const;
  // Returns the tensors of a call over the storages of this recording.
  std::vector<at::Tensor> TensorsOf(const Call& call) const;

 private:
  void LoseValue(const Value& value, std::shared_ptr<const std::string> reason) const;
  uint32_t ValueOf(const at::Tensor& tensor);
  uint32_t AddPending(Value::Kind kind, c10::Storage storage);
  uint32_t AddInput(Value value);
  void NoteStorage(const Value& value);
  // Adds a tensor of the rule's to the operands and to the words.
  void AddOperand(const CallRule& rule, size_t tensor, const Operand& operand);
  // Takes a value of another recording over.
  uint32_t Take(Value value);

  const bool is_capture_;
  std::vector<Value> values_;
  std::vector<Call> calls_;
  std::vector<Operand> operands_;
  std::vector<double> numbers_;
  SignatureWords words_;
  bool updates_parameters_ = false;
  std::vector<uint32_t> fills_;  // the calls that fill a storage without elements
  std::unordered_map<const c10::StorageImpl*, uint32_t> inputs_;
};

}  // namespace hpu::torch_backend
