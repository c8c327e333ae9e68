// The operators of torch.nn.SyncBatchNorm, between which it exchanges statistics. PyTorch has them
// for CUDA alone; the formulas are those of a batch norm whose batch lies on several devices.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <optional>
#include <tuple>
#include <vector>

namespace hpu::torch_backend {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Pair = std::tuple<Tensor, Tensor>;

// Statistics of narrow types are f32.
Tensor Widen(const Tensor& tensor) {
  return at::isReducedFloatingType(tensor.scalar_type()) ? tensor.to(at::kFloat) : tensor;
}

std::vector<int64_t> AllButChannels(const Tensor& input) {
  std::vector<int64_t> dims;
  for (int64_t dim = 0; dim < input.dim(); ++dim) {
    if (dim != 1) dims.push_back(dim);
  }
  return dims;
}

// Gives a tensor with an element per channel the rank of `input`.
Tensor Broadcast(const Tensor& channels, const Tensor& input) {
  std::vector<int64_t> sizes(static_cast<size_t>(input.dim()), 1);
  sizes[1] = channels.numel();
  return channels.view(sizes);
}

bool IsGiven(const OptionalTensor& tensor) { return tensor.has_value() && tensor->defined(); }

Pair Stats(const Tensor& input, double epsilon) {
  const Tensor wide = Widen(input);
  const auto [variance, mean] = at::var_mean(wide, AllButChannels(wide), /*unbiased=*/false);
  return {mean, variance.add(epsilon).rsqrt()};
}

// `mean` and `invstd` have a row per device, `counts` an element.
Pair GatherWithCounts(const Tensor& /*input*/, const Tensor& mean, const Tensor& invstd,
                      const OptionalTensor& running_mean, const OptionalTensor& running_variance,
                      double momentum, double epsilon, const Tensor& counts) {
  const Tensor weights = counts.to(mean.scalar_type()).view({-1, 1});
  const Tensor total = weights.sum();
  const Tensor whole_mean = mean.mul(weights).sum(0).div(total);
  const Tensor variances = invstd.pow(-2).sub(epsilon);
  const Tensor whole_variance =
      variances.add(mean.sub(whole_mean).square()).mul(weights).sum(0).div(total);
  if (IsGiven(running_mean)) {
    running_mean->mul_(1 - momentum).add_(whole_mean, momentum);
  }
  if (IsGiven(running_variance)) {
    const Tensor unbiased = whole_variance.mul(total).div(total.sub(1));
    running_variance->mul_(1 - momentum).add_(unbiased, momentum);
  }
  return {whole_mean, whole_variance.add(epsilon).rsqrt()};
}

Pair Gather(const Tensor& input, const Tensor& mean, const Tensor& invstd,
            const OptionalTensor& running_mean, const OptionalTensor& running_variance,
            double momentum, double epsilon, int64_t count) {
  const Tensor counts = at::full({mean.size(0)}, count, mean.options());
  return GatherWithCounts(input, mean, invstd, running_mean, running_variance, momentum, epsilon,
                          counts);
}

Tensor Elementwise(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                   const Tensor& mean, const Tensor& invstd, double /*epsilon*/) {
  const Tensor scale = IsGiven(weight) ? invstd.mul(*weight) : invstd;
  const Tensor centred = Widen(input).sub(Broadcast(mean, input));
  Tensor result = centred.mul(Broadcast(scale, input));
  if (IsGiven(bias)) result = result.add(Broadcast(*bias, input));
  return result.to(input.scalar_type());
}

std::tuple<Tensor, Tensor, Tensor, Tensor> BackwardReduce(const Tensor& grad, const Tensor& input,
                                                          const Tensor& mean, const Tensor& invstd,
                                                          const OptionalTensor& weight,
                                                          bool wants_input, bool wants_weight,
                                                          bool wants_bias) {
  const Tensor wide = Widen(grad);
  const std::vector<int64_t> dims = AllButChannels(input);
  const Tensor sum = wide.sum(dims);
  const Tensor sum_centred = wide.mul(Widen(input).sub(Broadcast(mean, input))).sum(dims);
  const at::ScalarType type = IsGiven(weight) ? weight->scalar_type() : sum.scalar_type();
  return {wants_input ? sum : Tensor(), wants_input ? sum_centred : Tensor(),
          wants_weight ? sum_centred.mul(invstd).to(type) : Tensor(),
          wants_bias ? sum.to(type) : Tensor()};
}

Tensor BackwardElementwise(const Tensor& grad, const Tensor& input, const Tensor& mean,
                           const Tensor& invstd, const OptionalTensor& weight, const Tensor& sum,
                           const Tensor& sum_centred, const Tensor& counts) {
  const Tensor total = counts.to(sum.scalar_type()).sum();
  const Tensor scale = IsGiven(weight) ? invstd.mul(*weight) : invstd;
  const Tensor slope = sum_centred.mul(invstd.square()).div(total);
  const Tensor centred = Widen(input).sub(Broadcast(mean, input));
  return Widen(grad)
      .sub(Broadcast(sum.div(total), input))
      .sub(centred.mul(Broadcast(slope, input)))
      .mul(Broadcast(scale, input))
      .to(input.scalar_type());
}

TORCH_LIBRARY_IMPL(aten, HPU, library) {
  library.impl("batch_norm_stats", &Stats);
  library.impl("batch_norm_gather_stats", &Gather);
  library.impl("batch_norm_gather_stats_with_counts", &GatherWithCounts);
  library.impl("batch_norm_elemt", &Elementwise);
  library.impl("batch_norm_backward_reduce", &BackwardReduce);
  library.impl("batch_norm_backward_elemt", &BackwardElementwise);
}

}  // namespace
}  // namespace hpu::torch_backend
