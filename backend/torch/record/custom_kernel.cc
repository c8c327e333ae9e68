#include "backend/torch/record/custom_kernel.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <vector>

#include "backend/custom_op/kernel_call.h"
#include "backend/runtime/device.h"
#include "backend/torch/device/errors.h"

namespace hpu::torch_backend {
namespace {

int64_t FindVersion(const std::string& guid) {
  return Check(runtime::Device::Get().FindKernel(guid));
}

std::vector<at::Tensor> ResultsWithoutElements(at::TensorList inputs, c10::string_view /*guid*/,
                                               int64_t /*version*/, c10::string_view /*params*/,
                                               at::IntArrayRef results) {
  TORCH_CHECK_VALUE(!inputs.empty(), "custom_kernel: it needs at least one tensor");
  std::vector<at::Tensor> made;
  size_t at = 0;
  while (at < results.size()) {
    const size_t left = results.size() - at;
    TORCH_CHECK_VALUE(
        left >= 2 && results[at + 1] >= 0 && static_cast<size_t>(results[at + 1]) <= left - 2,
        "custom_kernel: `results` ends within a result");
    const auto type = static_cast<at::ScalarType>(results[at]);
    TORCH_CHECK_VALUE(results[at] >= 0 && type < at::ScalarType::Undefined,
                      "custom_kernel: ", results[at], " is the number of no element type");
    const auto rank = static_cast<size_t>(results[at + 1]);
    made.push_back(at::empty(results.slice(at + 2, rank), inputs[0].options().dtype(type)));
    at += 2 + rank;
  }
  return made;
}

}  // namespace

void DefineCustomKernel() {
  // They are never freed, because the operator stays for the life of the process.
  static auto* definition =
      new torch::Library(torch::Library::FRAGMENT, "hpu", std::nullopt, __FILE__, __LINE__);
  static auto* shapes =
      new torch::Library(torch::Library::IMPL, "hpu", c10::DispatchKey::Meta, __FILE__, __LINE__);
  definition->def(
      "custom_kernel(Tensor[] inputs, str guid, int version, str params, int[] results) -> "
      "Tensor[]");
  shapes->impl("custom_kernel", &ResultsWithoutElements);
  custom_op::SetFindVersion(&FindVersion);
}

}  // namespace hpu::torch_backend
