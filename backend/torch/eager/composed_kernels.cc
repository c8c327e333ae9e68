// Operators that are composed here of others that programs have: PyTorch has no kernel of theirs
// for the CPU, no functional form, or composes them in a way that does not fit hpu.
#include <ATen/ATen.h>

#include "backend/torch/eager/own_kernel.h"
#include "backend/torch/eager/tensor_arguments.h"

namespace hpu::torch_backend {

at::Tensor& Into(at::Tensor& out, const at::Tensor& result) {
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

namespace {

using at::Tensor;

using Indices = c10::List<std::optional<Tensor>>;

// Moves indices on the CPU, which PyTorch allows beside a tensor on a device.
Indices OnDevice(const Indices& indices) {
  Indices moved;
  for (const std::optional<Tensor>& index : indices) {
    moved.push_back(index.has_value() && index->defined() ? std::optional(index->to(kHpuDevice))
                                                          : index);
  }
  return moved;
}

// index_put is composed as PyTorch does it.
Tensor& IndexPutInPlace(Tensor& self, const Indices& indices, const Tensor& values,
                        bool accumulate) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return at::_index_put_impl_(self, OnDevice(indices), values, accumulate, /*unsafe=*/false);
}
Tensor IndexPut(const Tensor& self, const Indices& indices, const Tensor& values, bool accumulate) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  Tensor result = self.clone(at::MemoryFormat::Preserve);
  return IndexPutInPlace(result, indices, values, accumulate);
}

// The CPU has no kernel of it.
Tensor MaskedScale(const Tensor& self, const Tensor& mask, double scale) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return self.mul(mask).mul_(scale);
}

Tensor& AdaptiveAvgPool3dBackward(const Tensor& grad, const Tensor& self, Tensor& out) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return Into(out, at::_adaptive_avg_pool3d_backward(grad, self));
}

std::tuple<Tensor&, Tensor&, Tensor&> NativeBatchNorm(
    const Tensor& input, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
    const std::optional<Tensor>& mean, const std::optional<Tensor>& variance, bool training,
    double momentum, double epsilon, Tensor& out, Tensor& save_mean, Tensor& save_deviation) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const auto [y, saved_mean, saved_deviation] =
      at::native_batch_norm(input, weight, bias, mean, variance, training, momentum, epsilon);
  return {Into(out, y), Into(save_mean, saved_mean), Into(save_deviation, saved_deviation)};
}

const Tensor& ResizeOutput(const Tensor& self, at::IntArrayRef sizes, at::Device /*device*/) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  at::native::resize_output(self, sizes);
  return self;
}

}  // namespace

std::vector<OwnKernel> ComposedKernels() {
  return {
      AlwaysComposed("aten::_masked_scale", &MaskedScale),
      AlwaysComposed("aten::index_put", &IndexPut),
      AlwaysComposed("aten::index_put_", &IndexPutInPlace),
      AlwaysComposed("aten::adaptive_avg_pool3d_backward.grad_input", &AdaptiveAvgPool3dBackward),
      AlwaysComposed("aten::native_batch_norm.out", &NativeBatchNorm),
      AlwaysComposed("aten::_resize_output_", &ResizeOutput)};
}

}  // namespace hpu::torch_backend
