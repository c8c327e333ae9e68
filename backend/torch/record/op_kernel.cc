#include "backend/torch/record/op_kernel.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backend/runtime/launch_history.h"
#include "backend/runtime/launch_modes.h"
#include "backend/torch/device/allocator.h"
#include "backend/torch/device/errors.h"
#include "backend/torch/eager/fallback.h"
#include "backend/torch/eager/meta_call.h"
#include "backend/torch/eager/op_counts.h"
#include "backend/torch/eager/own_kernel.h"
#include "backend/torch/eager/tensor_arguments.h"
#include "backend/torch/programs/call_line.h"
#include "backend/torch/pytorch/unstable_torch.h"
#include "backend/torch/record/call_table.h"
#include "backend/torch/record/custom_kernel.h"
#include "backend/torch/record/front_end.h"
#include "backend/torch/record/index_checks.h"
#include "backend/torch/record/number_checks.h"
#include "backend/torch/record/recorder.h"

namespace hpu::torch_backend {
namespace {

using c10::IValue;
using torch::jit::Stack;

// These take the statistics that their forward saved. Programs save them as f32, which the CPU's
// kernels of narrower types refuse, so their calls with such statistics are programs from the
// first.
constexpr const char* kTakeStatistics[] = {
    "aten::native_batch_norm_backward",
    "aten::native_layer_norm_backward",
};

// Names (no namespace, no overload) of the operators that recipes have.
std::set<std::string, std::less<>>& RecipeOps() {
  static auto* names = new std::set<std::string, std::less<>>;
  return *names;
}

bool TakesStatistics(const c10::FunctionSchema& schema) {
  return std::find(std::begin(kTakeStatistics), std::end(kTakeStatistics), schema.name()) !=
         std::end(kTakeStatistics);
}

bool HasSeveralFloats(c10::ArrayRef<IValue> arguments) {
  std::optional<at::ScalarType> first;
  bool several = false;
  for (const IValue& value : arguments) {
    ForEachTensor(value, [&](const at::Tensor& tensor) {
      if (!first.has_value()) first = tensor.scalar_type();
      several |= tensor.scalar_type() != *first;
    });
  }
  return several;
}

bool HasFloat8(const CallSignature& call) {
  return std::ranges::any_of(call.tensors(), [](const at::Tensor* tensor) {
    return at::isFloat8Type(tensor->scalar_type());
  });
}

}  // namespace

void SetRecipeOps(const std::vector<std::string>& names) {
  RecipeOps() = {names.begin(), names.end()};
}

OpKernel::OpKernel(const c10::FunctionSchema& schema, std::optional<OwnKernel> own, int in_recipes)
    : own_(std::move(own)),
      argument_count_(schema.arguments().size()),
      mixed_devices_(TakesMixedDevices(schema)),
      takes_statistics_(TakesStatistics(schema)),
      only_in_recipes_(schema.name() == kCustomKernel),
      counts_(CountsOf(ShortName(schema))),
      name_(runtime::NumberOfText(ShortName(schema))),
      in_recipes_(in_recipes),
      check_numbers_(NumberCheckOf(schema)),
      check_indices_(IndexCheck::Of(schema)),
      table_(schema.name()),
      rules_(schema) {}

void OpKernel::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const auto arguments = torch::jit::last(*stack, argument_count_);
  if (check_numbers_ != nullptr) check_numbers_(arguments);
  if (check_indices_.has_value() && WantsIndexChecks()) CheckIndices(op, arguments);
  const bool records = Recorder::Get().Records();
  if (records) {
    Recorder& recorder = Recorder::Get();
    if (Recorder::IsLazy() && !own_.has_value() && !mixed_devices_) MoveToDevice(op, stack);
    if (!IsRecordable(op, arguments)) {
      // The parts of a call that is always composed are recorded, or refused one by one.
      if (IsComposed() && own_->kind == OwnKernel::Kind::kComposed) {
        recorder.RefuseInCapture(op.schema().name());
      }
    } else if (recorder.Record(rules_, op, argument_count_, stack)) {
      return;
    }
  }
  const bool applies = own_.has_value() && (own_->applies == nullptr || own_->applies(arguments));
  if (own_.has_value() && !applies && !IsComposed()) {
    return own_->kernel.callBoxed(op, keys, stack);
  }
  if (!mixed_devices_) CheckDevices(op.schema(), arguments);
  if (InFrontEnd()) return RunOnHost(op, keys, stack);
  const bool direct =
      !only_in_recipes_ && HostMayCompute() && AcquiredDevice().properties().host_addressable;
  if (applies && IsComposed()) {
    const bool by_host =
        direct && (own_->kind == OwnKernel::Kind::kComposed ||
                   (own_->kind == OwnKernel::Kind::kComposedInRecordings && !records));
    return by_host ? RunDirectly(op, keys, stack) : own_->kernel.callBoxed(op, keys, stack);
  }
  const CallSignature call(arguments);
  if (call.refusal() != nullptr) return FallBack(op, keys, stack, call.refusal());
  CallTable::Found found = table_.Find(call);
  if (found.made == nullptr) {
    // A warm-up in compile-only mode is there to have the programs.
    // CPU kernels of many operators lack float8.
    const bool at_once = runtime::IsCompileOnly() || HasFloat8(call) ||
                         (takes_statistics_ && HasSeveralFloats(arguments));
    if (direct && !found.worth_a_program && !at_once && IndicesFit(arguments)) {
      return RunDirectly(op, keys, stack);
    }
    found.made = Compile(op, arguments, call);
    table_.Keep(call, found.made);
  }
  if (found.made->program == nullptr) {
    if (only_in_recipes_) RefuseWithoutProgram(arguments, found.made->refusal);
    if (direct && !found.made->lasting) return RunDirectly(op, keys, stack);
    return FallBack(op, keys, stack, found.made->refusal);
  }
  std::vector<IValue> results;
  try {
    const runtime::LaunchPurpose purpose(Purpose(op.schema()));
    results = found.made->Run(call);
  } catch (const AliasedInputs&) {
    return FallBack(op, keys, stack, "it writes to an argument that overlaps with another");
  }
  ++counts_.recipes;
  Return(op.schema(), arguments, std::move(results), stack);
}

void OpKernel::RefuseWithoutProgram(c10::ArrayRef<IValue> arguments, const std::string& refusal) {
  const int64_t version = arguments[2].toInt();
  TORCH_CHECK(false, "custom kernel ", arguments[1].toStringRef(), ": ", refusal,
              version != 0
                  ? ""
                  : ". No library of GC_KERNEL_PATH has this GUID, so it must be a node of "
                    "the device (docs/custom_kernels.md)");
}

uint32_t OpKernel::Purpose(const c10::FunctionSchema& schema) const {
  const uint32_t line = LineOfCaller();
  return line == 0 ? name_ : runtime::NumberOfText(WithLine(ShortName(schema), line));
}

std::shared_ptr<const CallProgram> OpKernel::Compile(const c10::OperatorHandle& op,
                                                     c10::ArrayRef<IValue> arguments,
                                                     const CallSignature& call) const {
  try {
    return CompileCall(op, arguments, call);
  } catch (const python_error&) {
    // The CPU's kernel raises its own error for wrong arguments.
    if (only_in_recipes_ || !HostMayCompute()) throw;
    auto refused = std::make_shared<CallProgram>();
    refused->refusal = "its shape function raised an error";
    return refused;
  }
}

bool OpKernel::IndicesFit(c10::ArrayRef<IValue> arguments) const {
  return !check_indices_.has_value() || check_indices_->FindOutside(arguments).empty();
}

void OpKernel::CheckIndices(const c10::OperatorHandle& op, c10::ArrayRef<IValue> arguments) const {
  if (InFrontEnd() || Recorder::Get().IsCapturing() || runtime::IsCompileOnly()) return;
  const std::string found = check_indices_->FindOutside(arguments);
  TORCH_CHECK_INDEX(found.empty(), WithLine(ShortName(op.schema()), FindLineOfCaller()), ": ",
                    found, " (checked because of PT_HPU_CHECK_INDICES)");
}

void OpKernel::MoveToDevice(const c10::OperatorHandle& op, Stack* stack) const {
  bool on_cpu = false;
  for (const IValue& value : torch::jit::last(*stack, argument_count_)) {
    ForEachTensor(value, [&](const at::Tensor& tensor) { on_cpu |= IsOnCpu(tensor); });
  }
  for (size_t i = 0; on_cpu && i < argument_count_; ++i) {
    IValue& value = torch::jit::peek(*stack, i, argument_count_);
    const c10::AliasInfo* alias = op.schema().arguments()[i].alias_info();
    if (alias != nullptr && alias->isWrite()) continue;
    if (value.isTensor() && IsOnCpu(value.toTensor())) {
      value = value.toTensor().to(kHpuDevice);
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> moved;
      for (const at::Tensor& tensor : value.toTensorVector()) {
        moved.push_back(IsOnCpu(tensor) ? tensor.to(kHpuDevice) : tensor);
      }
      value = moved;
    }
  }
}

bool OpKernel::IsOnCpu(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().is_cpu() && tensor.dim() > 0;
}

bool OpKernel::IsRecordable(const c10::OperatorHandle& op, c10::ArrayRef<IValue> arguments) {
  if (!own_.has_value()) {
    if (!mixed_devices_) CheckDevices(op.schema(), arguments);
    return true;
  }
  if (IsComposed()) return own_->applies != nullptr && !own_->applies(arguments);
  bool on_device = true;
  for (const IValue& value : arguments) {
    ForEachTensor(value, [&](const at::Tensor& tensor) { on_device &= IsHpu(tensor); });
  }
  return on_device && arguments[0].toTensor().numel() > 0;
}

void OpKernel::Return(const c10::FunctionSchema& schema, c10::ArrayRef<IValue> arguments,
                      std::vector<IValue> results, Stack* stack) const {
  for (size_t i = 0; i < results.size(); ++i) {
    const c10::AliasInfo* alias = schema.returns()[i].alias_info();
    if (alias == nullptr || !alias->isWrite()) continue;
    for (size_t k = 0; k < argument_count_; ++k) {
      const c10::AliasInfo* given = schema.arguments()[k].alias_info();
      if (given != nullptr && *given == *alias) results[i] = arguments[k];
    }
  }
  torch::jit::drop(*stack, argument_count_);
  for (IValue& result : results) stack->push_back(std::move(result));
}

void OpKernel::RunDirectly(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  int known = in_recipes_.load(std::memory_order_relaxed);
  if (known < 0) {
    std::string name(ShortName(op.schema()));
    if (name.ends_with('_') && !name.ends_with("__")) name.pop_back();
    known = IsComposed() || RecipeOps().contains(name) ? 1 : 0;
    in_recipes_.store(known, std::memory_order_relaxed);
  }
  if (known == 0) return FallBack(op, keys, stack, "");
  ++counts_.direct;
  RunOnHost(op, keys, stack);
}

void OpKernel::FallBack(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack,
                        const std::string& reason) {
  AdmitFallback(op.schema(), torch::jit::last(*stack, argument_count_), reason);
  RunOnHost(op, keys, stack);
}

void OpKernel::RunOnHost(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                         Stack* stack) const {
  if (own_.has_value() && !IsComposed()) return own_->kernel.callBoxed(op, keys, stack);
  if (runtime::IsCompileOnly()) return RunOnWhatIsThere(op, stack);
  CallOnCpu(PlanFor(op), op, stack);
}

const CpuCallPlan& OpKernel::PlanFor(const c10::OperatorHandle& op) const {
  std::call_once(planned_, [&] { plan_.emplace(op); });
  return *plan_;
}

void OpKernel::RunOnWhatIsThere(const c10::OperatorHandle& op, Stack* stack) const {
  const size_t first = stack->size() - argument_count_;
  const Stack arguments(stack->begin() + static_cast<ptrdiff_t>(first), stack->end());
  try {
    CallOnCpu(PlanFor(op), op, stack);
  } catch (const c10::Error&) {
    stack->resize(first);
    stack->insert(stack->end(), arguments.begin(), arguments.end());
    try {
      return CallOnMeta(op, stack);
    } catch (const std::exception&) {
      // The first error says more.
    }
    throw;
  }
}

}  // namespace hpu::torch_backend
