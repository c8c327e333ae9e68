// Autocast on hpu: operators of PyTorch's own policy lists run in the autocast dtype, in f32 or in
// the widest type of their arguments; all other operators pass through.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "backend/torch/pytorch/unstable_torch.h"

namespace at::autocast {
namespace {

#define KERNEL_HPU(...) KERNEL(c10::DeviceType::HPU, __VA_ARGS__)
#define KERNEL_HPU_LOWER_PRECISION_FP(...) KERNEL_HPU(__VA_ARGS__, lower_precision_fp)
#define KERNEL_HPU_FP32(...) KERNEL_HPU(__VA_ARGS__, fp32)
#define KERNEL_HPU_FP32_SET_OPT_DTYPE(...) KERNEL_HPU(__VA_ARGS__, fp32_set_opt_dtype)
#define KERNEL_HPU_PROMOTE(...) KERNEL_HPU(__VA_ARGS__, promote)
#define KERNEL_HPU_DIFFERENT_SIGNATURE(...) \
  KERNEL_DIFFERENT_REDISPATCH_SIGNATURE(c10::DeviceType::HPU, __VA_ARGS__)

Tensor RefuseBinaryCrossEntropy(const Tensor& /*input*/, const Tensor& /*target*/,
                                const std::optional<Tensor>& /*weight*/, int64_t /*reduction*/) {
  TORCH_CHECK(false,
              "binary_cross_entropy is unsafe under autocast: a sigmoid in low precision reaches "
              "0 and 1. Use binary_cross_entropy_with_logits, or leave autocast for this call.");
}

TORCH_LIBRARY_IMPL(_, AutocastHPU, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastHPU, m) {
  AT_FORALL_LOWER_PRECISION_FP(KERNEL_HPU_LOWER_PRECISION_FP)
  AT_FORALL_FP32(KERNEL_HPU_FP32)
  AT_FORALL_FP32_SET_OPT_DTYPE(KERNEL_HPU_FP32_SET_OPT_DTYPE)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_HPU_DIFFERENT_SIGNATURE)
  AT_FORALL_PROMOTE(KERNEL_HPU_PROMOTE)
  m.impl("binary_cross_entropy", &RefuseBinaryCrossEntropy);
}

}  // namespace
}  // namespace at::autocast
