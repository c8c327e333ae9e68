// A rule is what lazy mode and captures know about the calls of one signature: their arguments but
// for tensors and floating-point numbers, and what their results are like. It is found out once, on
// fake tensors.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/torch/eager/op_counts.h"
#include "backend/torch/pytorch/unstable_torch.h"
#include "backend/torch/record/call_signature.h"

namespace hpu::torch_backend {

// How a tensor lies in its storage.
struct TensorForm {
  at::ScalarType dtype = at::kFloat;
  at::DimVector sizes;
  at::DimVector strides;

  explicit TensorForm(const at::Tensor& tensor)
      : dtype(tensor.scalar_type()), sizes(tensor.sizes()), strides(tensor.strides()) {}
  TensorForm(at::ScalarType type, at::IntArrayRef size, at::IntArrayRef stride)
      : dtype(type), sizes(size), strides(stride) {}

  size_t StorageBytes() const;
  at::Tensor Over(c10::Storage storage, int64_t offset) const;
};

// An argument with places for tensors and floating-point numbers.
struct ArgumentTemplate {
  enum class Kind : uint8_t { kConstant, kTensor, kNumber, kWrappedNumber, kList };
  Kind kind = Kind::kConstant;
  c10::IValue constant;  // kConstant
  size_t tensor = 0;     // kTensor: among the call's tensors
  std::vector<ArgumentTemplate> items;
  c10::TypePtr element;  // kList

  // Returns the argument with the given tensors and, in order, numbers.
  c10::IValue Fill(c10::ArrayRef<at::Tensor> tensors, const double*& numbers) const;
};

struct CallRule {
  struct Result {
    enum class Kind : uint8_t { kNew, kArgument, kUndefined };
    Kind kind = Kind::kNew;
    size_t tensor = 0;  // kArgument: among the call's tensors
    TensorForm form;    // kNew
  };
  struct Resize {
    size_t tensor = 0;
    at::DimVector sizes;
    at::DimVector strides;
  };

  uint64_t id = 0;  // of no other rule of the process
  // Says why the calls are not recorded; empty if they are.
  std::string refusal;
  c10::OperatorHandle op;
  SignatureWords words;  // of the signature
  OpCounts* counts = nullptr;
  std::vector<ArgumentTemplate> arguments;
  std::vector<TensorForm> tensors;  // the call's tensors
  std::vector<bool> on_host;        // by tensor
  std::vector<size_t> written;      // the call's tensors that the schema says are written
  bool shares_memory = false;       // whether two of the call's tensors lie in one storage
  // By result of the operator: the number of tensors in a list, or -1 for a single tensor.
  std::vector<int64_t> lengths;
  std::vector<Result> results;  // by tensor among the results
  bool fills_argument = false;  // whether the call only fills its tensor with a number
  // These say what the operator makes of `out` tensors that have another size than its results. A
  // rule that has some has nothing else.
  std::vector<Resize> resizes;

  // Returns whether a call writes memory that overlaps with itself or, in part, with that of
  // another tensor of the call. The CPU's kernels refuse that.
  bool WritesWhatOverlaps(const CallSignature& call) const;
};

// Asks the front end. Throws what PyTorch's shape functions raise for wrong arguments.
std::shared_ptr<const CallRule> DescribeCall(const c10::OperatorHandle& op,
                                             c10::ArrayRef<c10::IValue> arguments,
                                             const CallSignature& call);

// Returns the rule of calls that are not recorded.
std::shared_ptr<const CallRule> RefusedRule(const c10::OperatorHandle& op, std::string reason);

// The rules of one operator. Thread-safe.
class RuleTable {
 public:
  explicit RuleTable(const c10::FunctionSchema& schema);

  // Returns whether the sizes of the results depend on floating-point arguments, so that rules are
  // found by these, too.
  bool sized_by_numbers() const { return sized_by_numbers_; }
  // Returns whether a number beside a floating-point tensor may become an input of a program
  // (lazy/numbers.py).
  bool takes_numbers() const { return takes_numbers_; }
  // Returns null if the rule is not known yet.
  std::shared_ptr<const CallRule> Find(const CallSignature& call);
  void Keep(const CallSignature& call, std::shared_ptr<const CallRule> rule);

 private:
  const bool sized_by_numbers_;
  const bool takes_numbers_;
  std::mutex mutex_;
  SignatureMap<std::shared_ptr<const CallRule>> rules_;
};

// Replaces the integers of a call that calculates with floating-point tensors by the same numbers
// as doubles, which PyTorch calculates alike. An integer is part of a program, and a double need
// not be.
void TakeIntegersAsDoubles(c10::ArrayRef<c10::Argument> declared, size_t argument_count,
                           torch::jit::Stack* stack);

}  // namespace hpu::torch_backend
