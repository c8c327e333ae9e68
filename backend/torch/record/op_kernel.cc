#include "backend/torch/record/op_kernel.h"

#include <ATen/ATen.h>
#include <torch/library.h>

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
#include "backend/torch/eager/cpu_call.h"
#include "backend/torch/eager/fallback.h"
#include "backend/torch/eager/meta_call.h"
#include "backend/torch/eager/op_counts.h"
#include "backend/torch/eager/own_kernel.h"
#include "backend/torch/eager/tensor_arguments.h"
#include "backend/torch/programs/call_line.h"
#include "backend/torch/pytorch/unstable_torch.h"
#include "backend/torch/record/call_table.h"
#include "backend/torch/record/front_end.h"
#include "backend/torch/record/index_checks.h"
#include "backend/torch/record/number_checks.h"
#include "backend/torch/record/recorder.h"

namespace hpu::torch_backend {
namespace {

using c10::IValue;
using torch::jit::Stack;

// Operators without a CPU kernel of their own (PyTorch composes them) that must be taken as a
// whole: for unknown devices the composition ends in an operator that nothing implements.
constexpr const char* kTakenWhole[] = {
    "aten::_convolution", "aten::convolution", "aten::convolution_backward",
    "aten::cummax",       "aten::cummin",      "aten::logcumsumexp",
};

// These are similar, but PyTorch composes their gradients and their autocast, too, from those of
// the parts. They are taken as a whole only where neither is wanted.
constexpr const char* kTakenWholeWithoutGradient[] = {
    "aten::gru",
    "aten::lstm",
    "aten::rnn_relu",
    "aten::rnn_tanh",
};

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

template <size_t size>
bool Contains(const char* const (&names)[size], const std::string& name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
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

class OpKernel final : public c10::OperatorKernel {
 public:
  // `in_recipes` says whether recipes have the operator; -1: ask RecipeOps.
  OpKernel(const c10::FunctionSchema& schema, std::optional<OwnKernel> own, int in_recipes = -1)
      : own_(std::move(own)),
        argument_count_(schema.arguments().size()),
        mixed_devices_(TakesMixedDevices(schema)),
        takes_statistics_(Contains(kTakeStatistics, schema.name())),
        counts_(CountsOf(ShortName(schema))),
        name_(runtime::NumberOfText(ShortName(schema))),
        in_recipes_(in_recipes),
        check_numbers_(NumberCheckOf(schema)),
        check_indices_(IndexCheck::Of(schema)),
        rules_(schema) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    const auto arguments = torch::jit::last(*stack, argument_count_);
    if (check_numbers_ != nullptr) check_numbers_(arguments);
    if (check_indices_.has_value() && WantsIndexChecks()) CheckIndices(op, arguments);
    if (Recorder& recorder = Recorder::Get(); recorder.Records()) {
      if (Recorder::IsLazy() && !own_.has_value() && !mixed_devices_) MoveToDevice(op, stack);
      if (!IsRecordable(op, arguments)) {
        if (IsComposed()) recorder.RefuseInCapture(op);
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
    const bool direct = HostMayCompute() && AcquiredDevice().properties().host_addressable;
    if (applies && IsComposed()) {
      return direct ? RunDirectly(op, keys, stack) : own_->kernel.callBoxed(op, keys, stack);
    }
    const CallSignature call(arguments);
    if (call.refusal() != nullptr) return FallBack(op, keys, stack, call.refusal());
    CallTable::Found found = table_.Find(call);
    if (found.made == nullptr) {
      // A warm-up in compile-only mode is there to have the programs.
      const bool at_once =
          runtime::IsCompileOnly() || (takes_statistics_ && HasSeveralFloats(arguments));
      if (direct && !found.worth_a_program && !at_once && IndicesFit(arguments)) {
        return RunDirectly(op, keys, stack);
      }
      found.made = Compile(op, arguments);
      table_.Keep(call, found.made);
    }
    if (found.made->program == nullptr) {
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

 private:
  // Returns the number of what a message says that the call's launches are for.
  uint32_t Purpose(const c10::FunctionSchema& schema) const {
    const uint32_t line = LineOfCaller();
    return line == 0 ? name_ : runtime::NumberOfText(WithLine(ShortName(schema), line));
  }

  static std::shared_ptr<const CallProgram> Compile(const c10::OperatorHandle& op,
                                                    c10::ArrayRef<IValue> arguments) {
    try {
      return CompileCall(op, arguments);
    } catch (const python_error&) {
      // The CPU's kernel raises its own error for wrong arguments.
      if (!HostMayCompute()) throw;
      auto refused = std::make_shared<CallProgram>();
      refused->refusal = "its shape function raised an error";
      return refused;
    }
  }

  // The CPU's kernel raises an error for the other calls.
  bool IndicesFit(c10::ArrayRef<IValue> arguments) const {
    return !check_indices_.has_value() || check_indices_->FindOutside(arguments).empty();
  }

  // While a graph is captured, or in compile-only mode, indices have not been computed.
  void CheckIndices(const c10::OperatorHandle& op, c10::ArrayRef<IValue> arguments) const {
    if (InFrontEnd() || Recorder::Get().IsCapturing() || runtime::IsCompileOnly()) return;
    const std::string found = check_indices_->FindOutside(arguments);
    TORCH_CHECK_INDEX(found.empty(), WithLine(ShortName(op.schema()), FindLineOfCaller()), ": ",
                      found, " (checked because of PT_HPU_CHECK_INDICES)");
  }

  // Copies tensors on the CPU to the device, where others are, unless the call writes to them. Lazy
  // mode takes them anywhere, and scripts rely on that.
  void MoveToDevice(const c10::OperatorHandle& op, Stack* stack) const {
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
  static bool IsOnCpu(const at::Tensor& tensor) {
    return tensor.defined() && tensor.device().is_cpu() && tensor.dim() > 0;
  }

  // Copies from and to the CPU are not recorded, and neither are operators that are composed of
  // others on hpu. Throws for tensors on different devices.
  bool IsRecordable(const c10::OperatorHandle& op, c10::ArrayRef<IValue> arguments) {
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

  // Replaces the arguments by the results. A result that is declared to be a written argument is
  // that tensor itself.
  void Return(const c10::FunctionSchema& schema, c10::ArrayRef<IValue> arguments,
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

  // A call of an operator that recipes do not have counts as a fallback from the start.
  void RunDirectly(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
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

  void FallBack(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack,
                const std::string& reason) {
    AdmitFallback(op.schema(), torch::jit::last(*stack, argument_count_), reason);
    RunOnHost(op, keys, stack);
  }

  void RunOnHost(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) const {
    if (own_.has_value() && !IsComposed()) return own_->kernel.callBoxed(op, keys, stack);
    if (runtime::IsCompileOnly()) return RunOnWhatIsThere(op, stack);
    CallOnCpu(op, stack);
  }

  // In compile-only mode the CPU's kernel may refuse elements that were never computed, such as
  // probabilities that are all 0. A run would have given results of the same shapes.
  void RunOnWhatIsThere(const c10::OperatorHandle& op, Stack* stack) const {
    const size_t first = stack->size() - argument_count_;
    const Stack arguments(stack->begin() + static_cast<ptrdiff_t>(first), stack->end());
    try {
      CallOnCpu(op, stack);
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

  bool IsComposed() const { return own_.has_value() && own_->kind == OwnKernel::Kind::kComposed; }

  const std::optional<OwnKernel> own_;
  const size_t argument_count_;
  const bool mixed_devices_;
  const bool takes_statistics_;
  OpCounts& counts_;
  const uint32_t name_;              // the number of the operator's name
  std::atomic<int> in_recipes_;      // -1: not known yet
  const NumberCheck check_numbers_;  // may be null
  const std::optional<IndexCheck> check_indices_;
  CallTable table_;
  RuleTable rules_;
};

bool WantsParts(const c10::FunctionSchema& schema, const Stack& stack) {
  if (at::autocast::is_autocast_enabled(c10::kHPU)) return true;
  // This is a tangent of forward-mode differentiation, which needs no grad mode.
  const bool forward = c10::AutogradState::get_tls_state().get_fw_grad_mode();
  const bool backward = at::GradMode::is_enabled();
  bool wanted = false;
  for (const IValue& value : torch::jit::last(stack, schema.arguments().size())) {
    ForEachTensor(value, [&](const at::Tensor& tensor) {
      wanted |= backward && tensor.requires_grad();
      wanted |= forward && tensor._fw_grad(0).defined();
    });
  }
  return wanted;
}

void RunParts(const c10::OperatorHandle& op, Stack* stack) {
  op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
}

// The kernel of kTakenWholeWithoutGradient for AutogradHPU. Fake tensors reach it, too.
void RunPartsOrGoOn(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (WantsParts(op.schema(), *stack)) return RunParts(op, stack);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  op.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
}

// Their kernel for HPU, which inference mode reaches without the one above.
class PartsOrOpKernel final : public c10::OperatorKernel {
 public:
  explicit PartsOrOpKernel(const c10::FunctionSchema& schema) : whole_(schema, std::nullopt) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    if (at::autocast::is_autocast_enabled(c10::kHPU)) return RunParts(op, stack);
    whole_(op, keys, stack);
  }

 private:
  OpKernel whole_;
};

// The kernel on hpu of operators that have none there and are not composed of others: those of
// other libraries (torchvision), and those of aten that the CPU lacks, too.
void RunForeignOnCpu(const c10::OperatorHandle& op, Stack* stack) {
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasKernelForDispatchKey(c10::DispatchKey::CPU), "Could not run '",
                              op.operator_name(),
                              "' on hpu: it has a kernel neither for hpu nor for the CPU");
  RunOnCpu(op, stack);
}

template <typename Kernel, typename... Arguments>
torch::CppFunction NewKernel(Arguments&&... arguments) {
  return torch::CppFunction::makeFromBoxedKernel(c10::BoxedKernel::makeFromFunctor(
      std::make_unique<Kernel>(std::forward<Arguments>(arguments)...)));
}

}  // namespace

void RegisterOpKernels() {
  // These are never freed, because the kernels stay for the life of the process.
  static auto* library =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::HPU, __FILE__, __LINE__);
  static auto* with_gradients = new torch::Library(
      torch::Library::IMPL, "aten", c10::DispatchKey::AutogradHPU, __FILE__, __LINE__);
  static auto* foreign =
      new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::HPU, __FILE__, __LINE__);
  foreign->fallback(torch::CppFunction::makeFromBoxedFunction<&RunForeignOnCpu>());
  std::map<std::string, OwnKernel> own;
  for (OwnKernel& row : CopyKernels()) own.emplace(row.op, row);
  for (OwnKernel& row : RandomKernels()) own.emplace(row.op, row);
  for (OwnKernel& row : DataDependentKernels()) own.emplace(row.op, row);
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const auto op = dispatcher.findOp(name);
    if (!op.has_value() || !op->hasSchema() || op->hasKernelForDispatchKey(c10::DispatchKey::HPU)) {
      continue;
    }
    const std::string full = c10::toString(name);
    const auto found = own.find(full);
    if (found != own.end()) {
      library->impl(full.c_str(), NewKernel<OpKernel>(op->schema(), found->second));
    } else if (Contains(kTakenWholeWithoutGradient, name.name)) {
      with_gradients->impl(full.c_str(),
                           torch::CppFunction::makeFromBoxedFunction<&RunPartsOrGoOn>());
      library->impl(full.c_str(), NewKernel<PartsOrOpKernel>(op->schema()));
    } else if (op->hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
               Contains(kTakenWhole, name.name)) {
      library->impl(full.c_str(), NewKernel<OpKernel>(op->schema(), std::nullopt));
    }
  }
}

namespace {

// Registers the kernel on hpu of an operator that the package defines
// (habana_frameworks/torch/ops).
void RegisterOpKernel(const std::string& name, const std::string& overload) {
  // It is never freed, because the kernels stay for the life of the process.
  static auto* library =
      new torch::Library(torch::Library::IMPL, "hpu", c10::DispatchKey::HPU, __FILE__, __LINE__);
  const c10::OperatorName full(name, overload);
  const auto op = c10::Dispatcher::singleton().findSchema(full);
  TORCH_CHECK(op.has_value(), "register_op_kernel: there is no operator ", full);
  library->impl(c10::toString(full).c_str(),
                NewKernel<OpKernel>(op->schema(), std::nullopt, /*in_recipes=*/1));
}

}  // namespace

void BindOpKernels(pybind11::module_& module) {
  module.def("register_op_kernel", &RegisterOpKernel);
  module.def("wants_index_checks", &WantsIndexChecks);
  module.def("set_recipe_ops", [](const std::vector<std::string>& names) {
    RecipeOps() = {names.begin(), names.end()};
  });
  module.def("forget_call_programs", [] {
    ForgetCallPrograms();
    Recorder::Get().ForgetPrograms();
  });
}

}  // namespace hpu::torch_backend
