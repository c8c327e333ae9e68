// Runs eagerly the draws that are made of others: they are composed here of operators on hpu, as
// compiler_server/passes/decompose/distributions.cc makes a graph of them, with the same draws in
// the same order.
#include <ATen/ATen.h>

#include <limits>
#include <numbers>

#include "backend/runtime/launch_modes.h"
#include "backend/torch/eager/own_kernel.h"

namespace hpu::torch_backend {
namespace {

using at::Tensor;
using MaybeGenerator = std::optional<at::Generator>;

// Types narrower than f32 are calculated in f32 and rounded once.
Tensor Wide(const Tensor& x) { return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat); }
Tensor WideLike(const Tensor& x, at::IntArrayRef sizes) {
  return at::empty(sizes,
                   x.options().dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat));
}

Tensor& LogNormal(Tensor& self, double mean, double std, MaybeGenerator generator) {
  TORCH_CHECK(std > 0.0, "log_normal_ expects std > 0.0, but found std=", std);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  return self.copy_(WideLike(self, self.sizes()).normal_(mean, std, std::move(generator)).exp_());
}

Tensor& Cauchy(Tensor& self, double median, double sigma, MaybeGenerator generator) {
  TORCH_CHECK(sigma > 0.0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const Tensor u = WideLike(self, self.sizes()).uniform_(0, 1, std::move(generator));
  return self.copy_(u.sub_(0.5).mul_(std::numbers::pi).tan_().mul_(sigma).add_(median));
}

// Returns numbers around the means. A mean or a deviation may be a number.
template <typename Mean, typename Deviation>
Tensor NormalAround(const Tensor& like, at::IntArrayRef sizes, const Mean& mean,
                    const Deviation& deviation, MaybeGenerator generator) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const Tensor numbers = WideLike(like, sizes).normal_(0, 1, std::move(generator));
  return numbers.mul_(deviation).add_(mean).to(like.scalar_type());
}
void CheckDeviation(double deviation) {
  TORCH_CHECK(deviation >= 0, "normal expects std >= 0.0, but found std ", deviation);
}
// Waits for the device, as on a CUDA device.
void CheckDeviation(const Tensor& deviation) {
  if (deviation.numel() == 0 || runtime::IsCompileOnly()) return;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  TORCH_CHECK(deviation.min().ge(0).item<bool>(), "normal expects all elements of std >= 0.0");
}
Tensor NormalTensorFloat(const Tensor& mean, double deviation, MaybeGenerator generator) {
  CheckDeviation(deviation);
  return NormalAround(mean, mean.sizes(), mean, deviation, std::move(generator));
}
Tensor NormalFloatTensor(double mean, const Tensor& deviation, MaybeGenerator generator) {
  CheckDeviation(deviation);
  return NormalAround(deviation, deviation.sizes(), mean, deviation, std::move(generator));
}
Tensor NormalTensorTensor(const Tensor& mean, const Tensor& deviation, MaybeGenerator generator) {
  CheckDeviation(deviation);
  const std::vector<int64_t> sizes = at::infer_size(mean.sizes(), deviation.sizes());
  return NormalAround(mean, sizes, mean, deviation, std::move(generator));
}
Tensor& NormalTensorFloatOut(const Tensor& mean, double deviation, MaybeGenerator generator,
                             Tensor& out) {
  return Into(out, NormalTensorFloat(mean, deviation, std::move(generator)));
}
Tensor& NormalFloatTensorOut(double mean, const Tensor& deviation, MaybeGenerator generator,
                             Tensor& out) {
  return Into(out, NormalFloatTensor(mean, deviation, std::move(generator)));
}
Tensor& NormalTensorTensorOut(const Tensor& mean, const Tensor& deviation, MaybeGenerator generator,
                              Tensor& out) {
  return Into(out, NormalTensorTensor(mean, deviation, std::move(generator)));
}

Tensor Permutation(int64_t n, MaybeGenerator generator, const at::TensorOptions& options) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  at::native::check_supported_max_int_with_precision(n, at::empty({0}, options));
  const auto keys = [&] {
    return at::empty({n}, options.dtype(at::kFloat)).uniform_(0, 1, generator);
  };
  const Tensor low = keys();
  const Tensor high = keys();
  const Tensor first = std::get<1>(low.sort(/*stable=*/true, 0, false));
  const Tensor second = std::get<1>(high.index_select(0, first).sort(/*stable=*/true, 0, false));
  return first.index_select(0, second).to(c10::typeMetaToScalarType(options.dtype()));
}
Tensor RandpermGenerator(int64_t n, MaybeGenerator generator, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device> device,
                         std::optional<bool>) {
  const auto options = at::TensorOptions().dtype(dtype.value_or(at::kLong)).device(device);
  return Permutation(n, std::move(generator), options);
}
Tensor Randperm(int64_t n, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                std::optional<at::Device> device, std::optional<bool> pinned) {
  return RandpermGenerator(n, std::nullopt, dtype, layout, device, pinned);
}
Tensor& RandpermGeneratorOut(int64_t n, MaybeGenerator generator, Tensor& out) {
  return Into(out, Permutation(n, std::move(generator), out.options()));
}
Tensor& RandpermOut(int64_t n, Tensor& out) { return RandpermGeneratorOut(n, std::nullopt, out); }

// Weights are checked as on a CUDA device: the elements after one wait for the device.
void CheckWeights(const Tensor& weights, int64_t count, bool replacement) {
  TORCH_CHECK(
      at::isFloatingType(weights.scalar_type()),
      "multinomial only supports floating-point dtypes for input, got: ", weights.scalar_type());
  TORCH_CHECK(weights.dim() == 1 || weights.dim() == 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(count > 0, "cannot sample n_sample <= 0 samples");
  TORCH_CHECK(replacement || count <= weights.size(-1),
              "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  if (weights.numel() == 0 || runtime::IsCompileOnly()) return;
  const Tensor valid =
      weights.lt(std::numeric_limits<double>::infinity()).logical_and_(weights.ge(0));
  TORCH_CHECK(valid.all().item<bool>(),
              "probability tensor contains either `inf`, `nan` or element < 0");
  TORCH_CHECK(weights.sum(-1).gt(0).all().item<bool>(),
              "invalid multinomial distribution (sum of probabilities <= 0)");
}

Tensor Multinomial(const Tensor& self, int64_t count, bool replacement, MaybeGenerator generator) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  CheckWeights(self, count, replacement);
  std::vector<int64_t> sizes = self.sizes().vec();
  sizes.back() = count;
  if (self.numel() == 0) return at::empty(sizes, self.options().dtype(at::kLong));
  const Tensor weights = Wide(self);
  if (count == 1 || !replacement) {
    const Tensor quotient = weights.div(
        at::empty(weights.sizes(), weights.options()).exponential_(1, std::move(generator)));
    if (count == 1) return quotient.argmax(-1, /*keepdim=*/true);
    // A stable sort, so that equal quotients are in the order that recipes give them.
    const Tensor order = std::get<1>(quotient.sort(/*stable=*/true, -1, /*descending=*/true));
    return order.slice(-1, 0, count).contiguous();
  }
  const Tensor sums = weights.cumsum(-1);
  const Tensor u = at::empty(sizes, weights.options()).uniform_(0, 1, std::move(generator));
  const Tensor place = u.mul_(1 - 0x1p-23).mul_(sums.slice(-1, weights.size(-1) - 1));
  return at::searchsorted(sums, place, /*out_int32=*/false, /*right=*/true);
}
Tensor& MultinomialOut(const Tensor& self, int64_t count, bool replacement,
                       MaybeGenerator generator, Tensor& out) {
  return Into(out, Multinomial(self, count, replacement, std::move(generator)));
}

Tensor Rrelu(const Tensor& self, Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
             bool /*training*/, MaybeGenerator generator) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const Tensor x = Wide(self);
  const Tensor slope = at::empty(x.sizes(), x.options())
                           .uniform_(lower.toDouble(), upper.toDouble(), std::move(generator));
  const Tensor slopes = at::where(x.le(0), slope, 1);
  noise.copy_(slopes);
  return x.mul(slopes).to(self.scalar_type());
}
Tensor& RreluInPlace(Tensor& self, Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                     bool training, MaybeGenerator generator) {
  return self.copy_(Rrelu(self, noise, lower, upper, training, std::move(generator)));
}
// Calls with other types have only the CPU's kernel, which says what is wrong with integers.
bool IsFloat(const c10::IValue& value) {
  return !value.isTensor() || at::isFloatingType(value.toTensor().scalar_type());
}
bool FloatsFirst(c10::ArrayRef<c10::IValue> arguments) { return IsFloat(arguments[0]); }
bool FloatsBoth(c10::ArrayRef<c10::IValue> arguments) {
  return IsFloat(arguments[0]) && IsFloat(arguments[1]);
}
bool DrawsSlopes(c10::ArrayRef<c10::IValue> arguments) { return arguments[4].toBool(); }

}  // namespace

std::vector<OwnKernel> DistributionKernels() {
  return {AlwaysComposed("aten::cauchy_", &Cauchy, &FloatsFirst),
          AlwaysComposed("aten::log_normal_", &LogNormal, &FloatsFirst),
          AlwaysComposed("aten::multinomial", &Multinomial),
          AlwaysComposed("aten::multinomial.out", &MultinomialOut),
          AlwaysComposed("aten::normal.Tensor_float", &NormalTensorFloat, &FloatsBoth),
          AlwaysComposed("aten::normal.Tensor_float_out", &NormalTensorFloatOut, &FloatsBoth),
          AlwaysComposed("aten::normal.float_Tensor", &NormalFloatTensor, &FloatsBoth),
          AlwaysComposed("aten::normal.float_Tensor_out", &NormalFloatTensorOut, &FloatsBoth),
          AlwaysComposed("aten::normal.Tensor_Tensor", &NormalTensorTensor, &FloatsBoth),
          AlwaysComposed("aten::normal.Tensor_Tensor_out", &NormalTensorTensorOut, &FloatsBoth),
          AlwaysComposed("aten::randperm", &Randperm),
          AlwaysComposed("aten::randperm.out", &RandpermOut),
          AlwaysComposed("aten::randperm.generator", &RandpermGenerator),
          AlwaysComposed("aten::randperm.generator_out", &RandpermGeneratorOut),
          AlwaysComposed("aten::rrelu_with_noise", &Rrelu, &DrawsSlopes),
          AlwaysComposed("aten::rrelu_with_noise_", &RreluInPlace, &DrawsSlopes)};
}

}  // namespace hpu::torch_backend
