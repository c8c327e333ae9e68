#include "backend/custom_op/kernel_call.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>

namespace hpu::custom_op {
namespace {

using CustomKernel = std::vector<at::Tensor>(at::TensorList, c10::string_view, int64_t,
                                             c10::string_view, at::IntArrayRef);

std::atomic<FindVersion> find_version{nullptr};

std::string Hexadecimal(const FilledParams& params) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  const auto* bytes = static_cast<const uint8_t*>(params.data.get());
  for (size_t i = 0; bytes != nullptr && i < params.size; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

}  // namespace

void SetFindVersion(FindVersion find) { find_version = find; }

std::vector<at::Tensor> CallKernel(const std::string& op, const std::string& guid,
                                   const std::vector<at::Tensor>& inputs,
                                   const habana::PartialOutputMetaDataVector& outputs,
                                   const FilledParams& params) {
  const FindVersion find = find_version;
  TORCH_CHECK(find != nullptr, op, ": import habana_frameworks.torch before the operator is used");
  TORCH_CHECK_VALUE(!inputs.empty(), op, ": a custom kernel needs at least one tensor");
  TORCH_CHECK_VALUE(!outputs.empty(), op, ": its output function returned no output");
  std::vector<int64_t> results;
  for (const habana::PartialOutputMetaData& output : outputs) {
    results.push_back(static_cast<int64_t>(output.dtype));
    results.push_back(static_cast<int64_t>(output.shape.size()));
    results.insert(results.end(), output.shape.begin(), output.shape.end());
  }
  static const auto kernel = c10::Dispatcher::singleton()
                                 .findSchemaOrThrow("hpu::custom_kernel", "")
                                 .typed<CustomKernel>();
  return kernel.call(inputs, guid, find(guid), Hexadecimal(params), results);
}

}  // namespace hpu::custom_op
