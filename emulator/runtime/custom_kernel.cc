#include "emulator/runtime/custom_kernel.h"

#include <cstdio>
#include <cstring>
#include <exception>

namespace hpu::emulator {
namespace {

constexpr size_t kErrorBytes = 1024;
constexpr uint64_t kMostTasks = uint64_t{1} << 40;

std::vector<HpuKernelTensor> Tensors(const std::vector<CustomOperand>& operands,
                                     void* const* addresses) {
  std::vector<HpuKernelTensor> tensors;
  for (size_t i = 0; i < operands.size(); ++i) {
    tensors.push_back({.data = addresses == nullptr ? nullptr : addresses[i],
                       .dtype = operands[i].dtype,
                       .rank = static_cast<uint32_t>(operands[i].sizes.size()),
                       .sizes = operands[i].sizes.data(),
                       .strides = operands[i].strides.data()});
  }
  return tensors;
}

HpuKernelCall CallOf(const CustomKernel& custom, const std::vector<HpuKernelTensor>& inputs,
                     const std::vector<HpuKernelTensor>& outputs, char* error) {
  return {.inputs = inputs.data(),
          .outputs = outputs.data(),
          .input_count = static_cast<uint32_t>(inputs.size()),
          .output_count = static_cast<uint32_t>(outputs.size()),
          .params = custom.params.empty() ? nullptr : custom.params.data(),
          .params_size = custom.params.size(),
          .first_task = 0,
          .end_task = 0,
          .error = error,
          .error_size = kErrorBytes};
}

absl::Status Failure(const CustomKernel& custom, const char* function, int32_t code,
                     const char* error) {
  const std::string text(error, strnlen(error, kErrorBytes));
  return InvalidArgument("custom kernel ", custom.guid, " of version ", custom.version, ": ",
                         function, "() failed with code ", code, text.empty() ? "" : ": ", text);
}

// Calls a function of a library. One in C++ may throw, and no exception may reach the threads of
// the device, which would never end the launch.
template <typename Function>
int32_t CallLibrary(const Function& function, char* error) {
  try {
    return function();
  } catch (const std::exception& thrown) {
    std::snprintf(error, kErrorBytes, "it threw an exception: %s", thrown.what());
  } catch (...) {
    std::snprintf(error, kErrorBytes, "it threw an exception");
  }
  return -1;
}

}  // namespace

absl::StatusOr<PreparedKernel> PreparedKernel::Prepare(const CustomKernel& custom) {
  ASSIGN_OR_RETURN(const HpuKernel* kernel,
                   KernelLibraries::Get().Find(custom.guid, custom.version));
  PreparedKernel prepared(custom, *kernel);
  if (kernel->prepare == nullptr) return prepared;
  char error[kErrorBytes] = "";
  const std::vector<HpuKernelTensor> inputs = Tensors(custom.inputs, nullptr);
  const std::vector<HpuKernelTensor> outputs = Tensors(custom.outputs, nullptr);
  const HpuKernelCall call = CallOf(custom, inputs, outputs, error);
  const int32_t code = CallLibrary([&] { return kernel->prepare(&call, &prepared.tasks_); }, error);
  if (code != 0) return Failure(custom, "prepare", code, error);
  if (prepared.tasks_ == 0 || prepared.tasks_ > kMostTasks) {
    return InvalidArgument("custom kernel ", custom.guid, ": prepare() set ", prepared.tasks_,
                           " tasks");
  }
  return prepared;
}

CustomRun::CustomRun(const PreparedKernel& kernel, void* const* operands)
    : kernel_(kernel),
      inputs_(Tensors(kernel.custom_->inputs, operands)),
      outputs_(Tensors(kernel.custom_->outputs, operands + kernel.custom_->inputs.size())) {}

void CustomRun::RunTasks(const void* context, int64_t begin, int64_t end, void* /*scratch*/) {
  static_cast<const CustomRun*>(context)->RunTasks(static_cast<uint64_t>(begin),
                                                   static_cast<uint64_t>(end));
}

void CustomRun::RunTasks(uint64_t begin, uint64_t end) const {
  char error[kErrorBytes] = "";
  HpuKernelCall call = CallOf(*kernel_.custom_, inputs_, outputs_, error);
  call.first_task = begin;
  call.end_task = end;
  const int32_t code = CallLibrary([&] { return kernel_.kernel_->run(&call); }, error);
  if (code == 0) return;
  std::lock_guard lock(mutex_);
  if (status_.ok()) status_ = Failure(*kernel_.custom_, "run", code, error);
}

}  // namespace hpu::emulator
