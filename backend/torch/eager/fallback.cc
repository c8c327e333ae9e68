#include "backend/torch/eager/fallback.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <sstream>
#include <string_view>

#include "backend/runtime/bridge_log.h"
#include "backend/torch/device/allocator.h"
#include "backend/torch/eager/cpu_call.h"
#include "backend/torch/eager/op_counts.h"
#include "backend/torch/eager/tensor_arguments.h"

namespace hpu::torch_backend {
namespace {

using c10::IValue;
using torch::jit::Stack;

// Some tensor arguments of these operators (indices and lengths) may be on the CPU beside hpu
// tensors, as on any accelerator.
constexpr std::string_view kMixedDevices[] = {
    "aten::_index_put_impl_",
    "aten::_pack_padded_sequence",
    "aten::_unsafe_index",
    "aten::index",
    "aten::index_put",
    "aten::index_put_",
    "aten::_ctc_loss",
    "aten::gru",
    "aten::lstm",
    "aten::rnn_relu",
    "aten::rnn_tanh",
};

struct Policy {
  bool none = false;
  std::set<std::string, std::less<>> only;  // empty: any operator
};

struct Shared {
  std::mutex mutex;
  Policy policy;
  std::atomic<bool> host_may_compute{true};
};

Shared& GetShared() {
  static Shared* shared = new Shared;
  return *shared;
}

std::string TypeText(const at::Tensor& tensor) {
  return std::string(IsHpu(tensor) ? "HABANA" : "CPU") + c10::toString(tensor.scalar_type()) +
         "Type";
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

}  // namespace

bool TakesMixedDevices(const c10::FunctionSchema& schema) {
  return std::find(std::begin(kMixedDevices), std::end(kMixedDevices), schema.name()) !=
         std::end(kMixedDevices);
}

void CheckDevices(const c10::FunctionSchema& schema, c10::ArrayRef<IValue> arguments) {
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

void AdmitFallback(const c10::FunctionSchema& schema, c10::ArrayRef<IValue> arguments,
                   const std::string& reason) {
  const std::string_view name = ShortName(schema);
  {
    Shared& shared = GetShared();
    const std::lock_guard lock(shared.mutex);
    const Policy& policy = shared.policy;
    const bool allowed = !policy.none && (policy.only.empty() || policy.only.contains(name));
    TORCH_CHECK_NOT_IMPLEMENTED(
        allowed, schema.name(), " has no hpu kernel", reason.empty() ? "" : " for this call (",
        reason, reason.empty() ? "" : ")",
        ", and PT_HPU_PLACE_ON_CPU=", policy.none ? "none" : c10::Join(",", policy.only),
        " does not let it run on the CPU (allowed values: empty for any operator, none, or a comma "
        "list of operator names that includes ",
        name, ")");
  }
  ++CountsOf(name).fallbacks;
  if (runtime::LogEnabled(runtime::LogModule::kFallback, runtime::LogKind::kDebug)) {
    LogFallback(schema, arguments);
  }
}

void RunOnCpu(const c10::OperatorHandle& op, Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const auto arguments = torch::jit::last(*stack, schema.arguments().size());
  if (!TakesMixedDevices(schema)) CheckDevices(schema, arguments);
  AdmitFallback(schema, arguments, "");
  CallOnCpu(CpuCallPlan(op), op, stack);
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
  const std::lock_guard lock(shared.mutex);
  shared.host_may_compute = !policy.none && policy.only.empty();
  shared.policy = std::move(policy);
}

bool HostMayCompute() { return GetShared().host_may_compute.load(std::memory_order_relaxed); }

}  // namespace hpu::torch_backend
