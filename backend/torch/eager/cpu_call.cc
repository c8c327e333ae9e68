#include "backend/torch/eager/cpu_call.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "backend/torch/device/allocator.h"
#include "backend/torch/device/errors.h"
#include "backend/torch/device/generator.h"
#include "backend/torch/eager/dropout_switches.h"
#include "backend/torch/eager/host_access.h"
#include "backend/torch/eager/result_memory.h"
#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {
namespace {

using c10::IValue;
using torch::jit::Stack;

bool IsOptionalTensorList(const c10::TypePtr& type) {
  const auto list = type->cast<c10::ListType>();
  return list != nullptr && list->getElementType()->isSubtypeOf(*c10::OptionalType::ofTensor());
}

bool IsGenerator(const c10::TypePtr& type) {
  const auto optional = type->cast<c10::OptionalType>();
  return (optional ? optional->getElementType() : type)->kind() == c10::TypeKind::GeneratorType;
}

class CpuCall {
 public:
  CpuCall(const CpuCallPlan& plan, const c10::OperatorHandle& op, Stack* stack)
      : plan_(plan), op_(op), stack_(stack), first_(stack->size() - plan.argument_count()) {}

  void Run() {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    draws_ = plan_.Draws(torch::jit::last(*stack_, plan_.argument_count()));
    for (size_t i = 0; i < plan_.argument_count(); ++i) ConvertArgument(i);
    std::optional<ResultMemory> results;
    if (host_.SharesMemory()) results.emplace();
    if (draws_ && plan_.needs_default_generator()) {
      const LendDefaultState lend;
      CallCpuKernel();
    } else {
      CallCpuKernel();
    }
    for (const Converted& entry : converted_) {
      if (entry.written) host_.TakeResize(entry.host, entry.device);
    }
    host_.Finish();
    ConvertReturns();
  }

 private:
  struct Converted {
    at::Tensor device;
    at::Tensor host;
    bool written;
  };

  void CallCpuKernel() {
    if (!MayWiden()) return Redispatch();
    const Stack arguments(stack_->begin() + static_cast<ptrdiff_t>(first_), stack_->end());
    try {
      Redispatch();
    } catch (const c10::NotImplementedError& error) {
      // AT_DISPATCH reports a missing type like this: "histogram_cpu" not implemented for 'Long'
      if (error.msg().find("not implemented for '") == std::string::npos) throw;
      stack_->resize(first_);
      stack_->insert(stack_->end(), arguments.begin(), arguments.end());
      CallWidened();
    }
  }

  void Redispatch() { op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_); }

  // Returns true if nothing is written to, and all tensors that would be widened have the same
  // type.
  bool MayWiden() {
    for (const Converted& entry : converted_) {
      const at::ScalarType type = entry.host.scalar_type();
      if (entry.written || WideType(type) == type) return false;
      if (type != converted_.front().host.scalar_type()) return false;
    }
    return !converted_.empty();
  }

  // Returns the type that CPU kernels have and that holds every value of `type`, except for the
  // largest i64. Integers are widened for histc alone, whose results are counts. Most other
  // operators without integers give fractions (softmax), which integers cannot hold.
  at::ScalarType WideType(at::ScalarType type) const {
    if (at::isReducedFloatingType(type)) return at::kFloat;
    const bool counts = op_.schema().name() == "aten::histc";
    return counts && at::isIntegralType(type, /*includeBool=*/false) ? at::kDouble : type;
  }

  // This is for types that accelerators' kernels have and the CPU's lack.
  void CallWidened() {
    const at::ScalarType narrow = converted_.front().host.scalar_type();
    const at::ScalarType wide = WideType(narrow);
    for (size_t i = first_; i < stack_->size(); ++i) {
      IValue& value = (*stack_)[i];
      if (value.isTensor() && value.toTensor().defined()) {
        value = value.toTensor().to(wide);
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor& item : value.toTensorList()) list.push_back(item.to(wide));
        value = std::move(list);
      }
    }
    Redispatch();
    for (size_t i = first_; i < stack_->size(); ++i) {
      IValue& value = (*stack_)[i];
      if (value.isTensor() && value.toTensor().defined() &&
          value.toTensor().scalar_type() == wide) {
        value = value.toTensor().to(narrow);
      }
    }
  }

  bool Writes(size_t argument) const {
    const CpuCallPlan::Argument& declared = plan_.argument(argument);
    return declared.written ||
           declared.undeclared.In(torch::jit::last(*stack_, plan_.argument_count()));
  }

  at::Tensor ConvertTensor(size_t argument, at::Tensor tensor) {
    if (!IsHpu(tensor)) return tensor;
    const bool written = Writes(argument);
    at::Tensor host = host_.ToHost(tensor, written);
    converted_.push_back({std::move(tensor), host, written});
    return host;
  }

  void ConvertArgument(size_t i) {
    IValue& value = (*stack_)[first_ + i];
    if (value.isTensor()) {
      value = ConvertTensor(i, std::move(value).toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& item : value.toTensorList()) list.push_back(ConvertTensor(i, item));
      value = std::move(list);
    } else if (value.isList() && plan_.argument(i).optional_tensors) {
      c10::List<std::optional<at::Tensor>> list;
      for (const IValue& item : value.toListRef()) {
        list.push_back(item.isTensor() ? std::optional(ConvertTensor(i, item.toTensor()))
                                       : std::nullopt);
      }
      value = std::move(list);
    } else if (value.isDevice()) {
      if (value.toDevice().type() == c10::DeviceType::HPU) value = c10::Device(c10::kCPU);
    } else if (plan_.argument(i).generator) {
      if (draws_) {
        value = LendEngine(value.isNone() ? std::nullopt : std::optional(value.toGenerator()));
      } else {
        value = IValue();
      }
    }
  }

  void ConvertReturns() {
    const size_t count = plan_.return_count();
    const size_t first_return = stack_->size() - count;
    for (size_t i = 0; i < count; ++i) {
      IValue& value = (*stack_)[first_return + i];
      if (value.isTensor()) {
        value = ConvertResult(std::move(value).toTensor());
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor& item : value.toTensorList()) list.push_back(ConvertResult(item));
        value = std::move(list);
      }
    }
  }

  // Returns the argument itself for in-place and out= results, else an hpu tensor for the CPU one.
  at::Tensor ConvertResult(const at::Tensor& result) {
    if (!result.defined()) return result;
    for (const Converted& entry : converted_) {
      if (entry.host.is_same(result)) return entry.device;
    }
    return host_.ToDevice(result);
  }

  const CpuCallPlan& plan_;
  const c10::OperatorHandle& op_;
  Stack* const stack_;
  const size_t first_;
  HostAccess host_;
  c10::SmallVector<Converted, 4> converted_;
  bool draws_ = false;
};

}  // namespace

CpuCallPlan::CpuCallPlan(const c10::OperatorHandle& op)
    : return_count_(op.schema().returns().size()),
      needs_default_generator_(op.hasTag(at::Tag::nondeterministic_seeded)),
      dropout_switches_(DropoutSwitchesOf(op.schema())) {
  for (size_t i = 0; i < op.schema().arguments().size(); ++i) {
    const c10::Argument& declared = op.schema().arguments()[i];
    Argument& argument = arguments_.emplace_back();
    const c10::AliasInfo* alias = declared.alias_info();
    argument.written = alias != nullptr && alias->isWrite();
    argument.undeclared = UndeclaredWriteOf(op.schema(), i);
    argument.optional_tensors = IsOptionalTensorList(declared.type());
    argument.generator = IsGenerator(declared.type());
    if (argument.generator) needs_default_generator_ = false;
  }
}

bool CpuCallPlan::Draws(c10::ArrayRef<IValue> arguments) const {
  return std::none_of(dropout_switches_.begin(), dropout_switches_.end(),
                      [&](size_t i) { return IsOff(arguments[i]); });
}

void CallOnCpu(const CpuCallPlan& plan, const c10::OperatorHandle& op, Stack* stack) {
  CpuCall(plan, op, stack).Run();
}

}  // namespace hpu::torch_backend
