// The kernel on hpu of every ATen operator that computes. A call takes one of three ways:
//
// - a recipe: the program of a graph of this one call, found by the call's signature;
// - direct: the CPU's kernel on the device's memory, where the device lets the host use its memory
//   in place, until the calls of a signature are worth a program (call_table.h, docs/eager.md);
// - the fallback: the CPU's kernel for a call that no recipe can hold (eager/fallback.h).
//
// With PT_HPU_PLACE_ON_CPU=none only the first one is left.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/torch/eager/cpu_call.h"
#include "backend/torch/eager/op_counts.h"
#include "backend/torch/eager/own_kernel.h"
#include "backend/torch/pytorch/unstable_torch.h"
#include "backend/torch/record/call_program.h"
#include "backend/torch/record/call_rule.h"
#include "backend/torch/record/call_table.h"
#include "backend/torch/record/index_checks.h"
#include "backend/torch/record/number_checks.h"

namespace hpu::torch_backend {

class OpKernel final : public c10::OperatorKernel {
 public:
  // `in_recipes` says whether recipes have the operator; -1: those that SetRecipeOps names.
  OpKernel(const c10::FunctionSchema& schema, std::optional<OwnKernel> own, int in_recipes = -1);
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack);

 private:
  using Stack = torch::jit::Stack;
  using IValue = c10::IValue;

  // Returns the number of what a message says that the call's launches are for.
  uint32_t Purpose(const c10::FunctionSchema& schema) const;
  // `call` is the signature of `arguments`.
  std::shared_ptr<const CallProgram> Compile(const c10::OperatorHandle& op,
                                             c10::ArrayRef<IValue> arguments,
                                             const CallSignature& call) const;
  // The CPU's kernel raises an error for the other calls.
  bool IndicesFit(c10::ArrayRef<IValue> arguments) const;
  // While a graph is captured, or in compile-only mode, indices have not been computed.
  void CheckIndices(const c10::OperatorHandle& op, c10::ArrayRef<IValue> arguments) const;
  // Copies tensors on the CPU to the device, where others are, unless the call writes to them. Lazy
  // mode takes them anywhere, and scripts rely on that.
  void MoveToDevice(const c10::OperatorHandle& op, Stack* stack) const;
  static bool IsOnCpu(const at::Tensor& tensor);
  // Copies from and to the CPU are not recorded, and neither are operators that are composed of
  // others on hpu. Throws for tensors on different devices.
  bool IsRecordable(const c10::OperatorHandle& op, c10::ArrayRef<IValue> arguments);
  // Replaces the arguments by the results. A result that is declared to be a written argument is
  // that tensor itself.
  void Return(const c10::FunctionSchema& schema, c10::ArrayRef<IValue> arguments,
              std::vector<IValue> results, Stack* stack) const;
  // A call of an operator that recipes do not have counts as a fallback from the start.
  void RunDirectly(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack);
  void FallBack(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack,
                const std::string& reason);
  void RunOnHost(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) const;
  // In compile-only mode the CPU's kernel may refuse elements that were never computed, such as
  // probabilities that are all 0. A run would have given results of the same shapes.
  void RunOnWhatIsThere(const c10::OperatorHandle& op, Stack* stack) const;
  // Throws what tells the user why a call that only recipes hold has no program.
  [[noreturn]] static void RefuseWithoutProgram(c10::ArrayRef<IValue> arguments,
                                                const std::string& refusal);
  // Makes the plan at the first call, because most operators are never called on the host.
  const CpuCallPlan& PlanFor(const c10::OperatorHandle& op) const;
  bool IsComposed() const { return own_.has_value() && own_->kind != OwnKernel::Kind::kHost; }

  const std::optional<OwnKernel> own_;
  const size_t argument_count_;
  const bool mixed_devices_;
  const bool takes_statistics_;
  const bool only_in_recipes_;  // the host cannot run it
  OpCounts& counts_;
  const uint32_t name_;              // the number of the operator's name
  std::atomic<int> in_recipes_;      // -1: not known yet
  const NumberCheck check_numbers_;  // may be null
  const std::optional<IndexCheck> check_indices_;
  mutable std::once_flag planned_;
  mutable std::optional<CpuCallPlan> plan_;
  CallTable table_;
  RuleTable rules_;
};

// Sets the names (no namespace, no overload) of the operators that recipes have.
void SetRecipeOps(const std::vector<std::string>& names);

}  // namespace hpu::torch_backend
