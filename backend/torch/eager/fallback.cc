#include "backend/torch/eager/fallback.h"

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
#include "backend/torch/device/allocator.h"
#include "backend/torch/eager/cpu_call.h"

namespace hpu::torch_backend {
namespace {

using c10::IValue;
using torch::jit::Stack;

// Operators without a CPU kernel of their own (PyTorch composes them) that must be taken as a
// whole: for unknown devices the composition ends in an operator that nothing implements.
constexpr const char* kTakenWhole[] = {
    "aten::_convolution",
    "aten::convolution",
    "aten::convolution_backward",
};

// These are similar, but PyTorch composes their gradients and their autocast, too, from those of
// the parts. They are taken as a whole only where neither is wanted.
constexpr const char* kTakenWholeWithoutGradient[] = {
    "aten::gru",
    "aten::lstm",
    "aten::rnn_relu",
    "aten::rnn_tanh",
};

// Some tensor arguments of these operators (indices and lengths) may be on the CPU beside hpu
// tensors, as on any accelerator.
constexpr std::string_view kMixedDevices[] = {
    "aten::_index_put_impl_",
    "aten::_pack_padded_sequence",
    "aten::_unsafe_index",
    "aten::index",
    "aten::index_put_",
    "aten::_ctc_loss",
    "aten::gru",
    "aten::lstm",
    "aten::rnn_relu",
    "aten::rnn_tanh",
};

struct Policy {
  bool none = false;
  std::set<std::string> only;  // empty: any operator
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

// Returns "tril" for aten::tril; other namespaces are kept.
std::string_view ShortName(const c10::FunctionSchema& schema) {
  std::string_view name = schema.name();
  if (name.starts_with("aten::")) name.remove_prefix(6);
  return name;
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

template <size_t size>
bool Contains(const char* const (&names)[size], const std::string& name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool WantsParts(const c10::FunctionSchema& schema, const Stack& stack) {
  if (at::autocast::is_autocast_enabled(c10::kHPU)) return true;
  // This is a tangent of forward-mode differentiation, which needs no grad mode.
  const bool forward = c10::AutogradState::get_tls_state().get_fw_grad_mode();
  const bool backward = at::GradMode::is_enabled();
  bool wanted = false;
  for (const IValue& value : torch::jit::last(stack, schema.arguments().size())) {
    ForEachTensor(value, [&](const at::Tensor& tensor) {
      wanted |= backward && tensor.requires_grad();
      wanted |= forward && tensor.defined() && tensor._fw_grad(0).defined();
    });
  }
  return wanted;
}

void RunParts(const c10::OperatorHandle& op, Stack* stack) {
  op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
}

// The kernels of kTakenWholeWithoutGradient, for AutogradHPU and, where inference mode bypasses
// that, for HPU. Fake tensors reach the first one, too.
void RunPartsOrGoOn(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (WantsParts(op.schema(), *stack)) return RunParts(op, stack);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  op.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
}

void RunPartsOrOnCpu(const c10::OperatorHandle& op, Stack* stack) {
  if (at::autocast::is_autocast_enabled(c10::kHPU)) return RunParts(op, stack);
  RunOnCpu(op, stack);
}

// The kernel on hpu of operators that have none there and are not composed of others: those of
// other libraries (torchvision), and those of aten that the CPU lacks, too.
void RunForeignOnCpu(const c10::OperatorHandle& op, Stack* stack) {
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasKernelForDispatchKey(c10::DispatchKey::CPU), "Could not run '",
                              op.operator_name(),
                              "' on hpu: it has a kernel neither for hpu nor for the CPU");
  RunOnCpu(op, stack);
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
  CallOnCpu(op, stack);
}

void RegisterFallback() {
  // This is never freed, because the kernels stay for the life of the process.
  static auto* library =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::HPU, __FILE__, __LINE__);
  static auto* with_gradients = new torch::Library(
      torch::Library::IMPL, "aten", c10::DispatchKey::AutogradHPU, __FILE__, __LINE__);
  static auto* foreign =
      new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::HPU, __FILE__, __LINE__);
  foreign->fallback(torch::CppFunction::makeFromBoxedFunction<&RunForeignOnCpu>());
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const auto op = dispatcher.findOp(name);
    if (!op.has_value() || !op->hasSchema() || op->hasKernelForDispatchKey(c10::DispatchKey::HPU)) {
      continue;
    }
    if (Contains(kTakenWholeWithoutGradient, name.name)) {
      with_gradients->impl(c10::toString(name).c_str(),
                           torch::CppFunction::makeFromBoxedFunction<&RunPartsOrGoOn>());
      library->impl(c10::toString(name).c_str(),
                    torch::CppFunction::makeFromBoxedFunction<&RunPartsOrOnCpu>());
      continue;
    }
    if (!op->hasKernelForDispatchKey(c10::DispatchKey::CPU) && !Contains(kTakenWhole, name.name)) {
      continue;
    }
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
