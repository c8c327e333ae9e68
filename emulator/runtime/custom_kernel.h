// The custom kernels of a recipe, found in the libraries of this process and run like the recipe's
// own code.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "emulator/kernels/kernel_libraries.h"
#include "recipe/recipe.h"

namespace hpu::emulator {

// A kernel that has accepted its operands. It refers to the recipe's entry.
class PreparedKernel {
 public:
  // Errors of KernelLibraries::Find, or INVALID_ARGUMENT with the kernel's own text.
  static absl::StatusOr<PreparedKernel> Prepare(const CustomKernel& custom);

  uint64_t tasks() const { return tasks_; }

 private:
  friend class CustomRun;
  PreparedKernel(const CustomKernel& custom, const HpuKernel& kernel)
      : custom_(&custom), kernel_(&kernel) {}

  const CustomKernel* custom_;
  const HpuKernel* kernel_;
  uint64_t tasks_ = 1;
};

// One run of a kernel over operands of one launch. Tasks may run on several threads.
class CustomRun {
 public:
  // `operands` are the addresses of inputs and then outputs.
  CustomRun(const PreparedKernel& kernel, void* const* operands);

  // `context` is a CustomRun (ParallelLoop::function).
  static void RunTasks(const void* context, int64_t begin, int64_t end, void* scratch);

  // Returns what a task failed with first, after all have ended.
  absl::Status status() const { return status_; }

 private:
  void RunTasks(uint64_t begin, uint64_t end) const;

  const PreparedKernel& kernel_;
  std::vector<HpuKernelTensor> inputs_;
  std::vector<HpuKernelTensor> outputs_;
  mutable std::mutex mutex_;
  mutable absl::Status status_;
};

}  // namespace hpu::emulator
