#include "backend/torch/fallback.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>
#include <sstream>
#include <string_view>
#include <unordered_map>

#include "backend/runtime/bridge_log.h"
#include "backend/torch/allocator.h"
#include "backend/torch/errors.h"
#include "backend/torch/generator.h"
#include "backend/torch/host_access.h"

namespace hpu::torch_backend {
namespace {

using c10::IValue;
using torch::jit::Stack;

// Operators without a CPU kernel of their own (PyTorch composes them) that must be taken as a
// whole: for unknown devices the composition ends in an operator that nobody implements.
constexpr const char* kTakenWhole[] = {
    "aten::_convolution",
    "aten::convolution",
    "aten::convolution_backward",
};

// Operators some of whose tensor arguments may lie on the CPU beside hpu tensors, as on any
// accelerator: indices and lengths.
constexpr std::string_view kMixedDevices[] = {
    "aten::_index_put_impl_", "aten::_pack_padded_sequence",
    "aten::_unsafe_index",    "aten::index",
    "aten::index_put_",       "aten::_ctc_loss",
};

struct Policy {
  bool none = false;
  std::set<std::string> only;  // empty: any
};

struct Shared {
  std::mutex mutex;
  std::unordered_map<std::string, uint64_t> counts;
  Policy policy;
};

Shared& GetShared() {
  static Shared* shared = new Shared;
  return *shared;
}

// "tril" for aten::tril; other namespaces are kept.
std::string_view ShortName(const c10::FunctionSchema& schema) {
  std::string_view name = schema.name();
  if (name.starts_with("aten::")) name.remove_prefix(6);
  return name;
}

bool IsHpu(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == c10::DeviceType::HPU;
}

std::string TypeText(const at::Tensor& tensor) {
  return std::string(IsHpu(tensor) ? "HABANA" : "CPU") + c10::toString(tensor.scalar_type()) +
         "Type";
}

template <typename Visit>
void ForEachTensor(const IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& item : value.toTensorList()) visit(item);
  } else if (value.isList()) {  // optional tensors
    for (const IValue& item : value.toListRef()) {
      if (item.isTensor() && item.toTensor().defined()) visit(item.toTensor());
    }
  }
}

void LogFallback(const c10::FunctionSchema& schema, c10::ArrayRef<IValue> arguments) {
  std::ostringstream text;
  text << "CPU fallback " << ShortName(schema) << " : ";
  const char* separator = "";
  for (size_t i = 0; i < arguments.size(); ++i) {
    ForEachTensor(arguments[i], [&](const at::Tensor& tensor) {
      text << separator << schema.arguments()[i].name() << '=' << TypeText(tensor);
      separator = ", ";
    });
  }
  runtime::WriteLogLine(text.str());
}

// Counts the operator; throws if the policy forbids it to run on the CPU.
void Admit(const c10::FunctionSchema& schema) {
  const std::string name(ShortName(schema));
  Shared& shared = GetShared();
  std::lock_guard lock(shared.mutex);
  const Policy& policy = shared.policy;
  const bool allowed = !policy.none && (policy.only.empty() || policy.only.contains(name));
  TORCH_CHECK_NOT_IMPLEMENTED(
      allowed, schema.name(), " has no hpu kernel, and PT_HPU_PLACE_ON_CPU=",
      policy.none ? "none" : c10::Join(",", policy.only),
      " does not let it run on the CPU (allowed values: empty for any operator, none, or a comma "
      "list of operator names that includes ",
      name, ")");
  ++shared.counts[name];
}

void CheckDevices(const c10::FunctionSchema& schema, c10::ArrayRef<IValue> arguments) {
  if (std::find(std::begin(kMixedDevices), std::end(kMixedDevices), schema.name()) !=
      std::end(kMixedDevices)) {
    return;
  }
  const at::Tensor* other = nullptr;
  size_t where = 0;
  bool any_hpu = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    ForEachTensor(arguments[i], [&](const at::Tensor& tensor) {
      if (IsHpu(tensor)) {
        any_hpu = true;
      } else if (tensor.dim() > 0 && other == nullptr) {
        other = &tensor;
        where = i;
      }
    });
  }
  TORCH_CHECK(other == nullptr || !any_hpu,
              "Expected all tensors to be on the same device, but found at least two devices, ",
              kHpuDevice, " and ", other->device(), "! (when checking argument for argument ",
              schema.arguments()[where].name(), " in ", schema.name(), ")");
}

// One call of one operator.
class CpuCall {
 public:
  CpuCall(const c10::OperatorHandle& op, Stack* stack)
      : op_(op),
        schema_(op.schema()),
        stack_(stack),
        first_(stack->size() - schema_.arguments().size()) {}

  void Run() {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    for (size_t i = 0; i < schema_.arguments().size(); ++i) ConvertArgument(i);
    if (NeedsDefaultGenerator()) {
      const LendDefaultState lend;
      op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_);
    } else {
      op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack_);
    }
    for (const Converted& entry : converted_) {
      if (entry.written) host_.TakeResize(entry.host, entry.device);
    }
    host_.Finish();
    ConvertReturns();
  }

 private:
  struct Converted {
    size_t argument;
    at::Tensor device;
    at::Tensor host;
    bool written;
  };

  at::Tensor ConvertTensor(size_t argument, const at::Tensor& tensor) {
    if (!IsHpu(tensor)) return tensor;
    const c10::AliasInfo* alias = schema_.arguments()[argument].alias_info();
    const bool written = alias != nullptr && alias->isWrite();
    at::Tensor host = host_.ToHost(tensor, written);
    converted_.push_back({argument, tensor, host, written});
    return host;
  }

  void ConvertArgument(size_t i) {
    IValue& value = (*stack_)[first_ + i];
    if (value.isTensor()) {
      value = ConvertTensor(i, value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& item : value.toTensorList()) list.push_back(ConvertTensor(i, item));
      value = std::move(list);
    } else if (value.isList() && IsOptionalTensorList(i)) {
      c10::List<std::optional<at::Tensor>> list;
      for (const IValue& item : value.toListRef()) {
        list.push_back(item.isTensor() ? std::optional(ConvertTensor(i, item.toTensor()))
                                       : std::nullopt);
      }
      value = std::move(list);
    } else if (value.isDevice()) {
      if (value.toDevice().type() == c10::DeviceType::HPU) value = c10::Device(c10::kCPU);
    } else if (TakesGenerator(i)) {
      takes_generator_ = true;
      value = EngineOf(value.isNone() ? std::nullopt : std::optional(value.toGenerator()));
    }
  }

  bool IsOptionalTensorList(size_t i) const {
    const auto list = schema_.arguments()[i].type()->cast<c10::ListType>();
    return list != nullptr && list->getElementType()->isSubtypeOf(*c10::OptionalType::ofTensor());
  }

  bool TakesGenerator(size_t i) const {
    c10::TypePtr type = schema_.arguments()[i].type();
    if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    return type->kind() == c10::TypeKind::GeneratorType;
  }

  bool NeedsDefaultGenerator() const {
    return !takes_generator_ && op_.hasTag(at::Tag::nondeterministic_seeded);
  }

  void ConvertReturns() {
    const size_t count = schema_.returns().size();
    const size_t first_return = stack_->size() - count;
    for (size_t i = 0; i < count; ++i) {
      IValue& value = (*stack_)[first_return + i];
      if (value.isTensor()) {
        value = ConvertResult(value.toTensor());
      } else if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor& item : value.toTensorList()) list.push_back(ConvertResult(item));
        value = std::move(list);
      }
    }
  }

  // The argument itself for in-place and out= results, else a hpu tensor for the CPU one.
  at::Tensor ConvertResult(const at::Tensor& result) {
    if (!result.defined()) return result;
    for (const Converted& entry : converted_) {
      if (entry.host.is_same(result)) return entry.device;
    }
    return host_.ToDevice(result);
  }

  const c10::OperatorHandle& op_;
  const c10::FunctionSchema& schema_;
  Stack* const stack_;
  const size_t first_;
  HostAccess host_;
  std::vector<Converted> converted_;
  bool takes_generator_ = false;
};

bool IsTakenWhole(const std::string& name) {
  return std::find(std::begin(kTakenWhole), std::end(kTakenWhole), name) != std::end(kTakenWhole);
}

TORCH_LIBRARY_IMPL(_, HPU, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&RunOnCpu>());
}

}  // namespace

void RunOnCpu(const c10::OperatorHandle& op, Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const auto arguments = torch::jit::last(*stack, schema.arguments().size());
  CheckDevices(schema, arguments);
  Admit(schema);
  if (runtime::LogEnabled(runtime::LogModule::kFallback, runtime::LogKind::kDebug)) {
    LogFallback(schema, arguments);
  }
  CpuCall(op, stack).Run();
}

void RegisterFallback() {
  // Never freed: the kernels stay for the life of the process.
  static auto* library =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::HPU, __FILE__, __LINE__);
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const auto op = dispatcher.findOp(name);
    if (!op.has_value() || !op->hasSchema() || op->hasKernelForDispatchKey(c10::DispatchKey::HPU)) {
      continue;
    }
    if (!op->hasKernelForDispatchKey(c10::DispatchKey::CPU) && !IsTakenWhole(name.name)) continue;
    library->impl(c10::toString(name).c_str(),
                  torch::CppFunction::makeFromBoxedFunction<&RunOnCpu>());
  }
}

std::map<std::string, uint64_t> FallbackCounts() {
  Shared& shared = GetShared();
  std::lock_guard lock(shared.mutex);
  return {shared.counts.begin(), shared.counts.end()};
}

void ResetFallbackCounts() {
  Shared& shared = GetShared();
  std::lock_guard lock(shared.mutex);
  shared.counts.clear();
}

void ReloadFallbackPolicy() {
  const char* text = std::getenv("PT_HPU_PLACE_ON_CPU");
  Policy policy;
  std::istringstream names(text == nullptr ? "" : text);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == "none") {
      policy.none = true;
    } else if (!name.empty()) {
      policy.only.insert(name);
    }
  }
  Shared& shared = GetShared();
  std::lock_guard lock(shared.mutex);
  shared.policy = std::move(policy);
}

}  // namespace hpu::torch_backend
