// Rewrites the gradients of softmax and of normalisations to reductions along the normalised
// dimensions and a pointwise formula.
#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {
namespace {

// _softmax_backward_data(grad, result, dim, type of the input)
void SoftmaxBackward(Call& call) {
  const Expr y = In(call, "output");
  const Expr product = In(call, "grad_output") * y;
  const int64_t dim = call.Dim("dim", y.rank());
  if (y.rank() == 0) return call.Refuse("softmax of a 0-d tensor");
  Give(call, product - y * Sum(product, {dim}));
}

void LogSoftmaxBackward(Call& call) {
  const Expr y = In(call, "output");
  const Expr grad = In(call, "grad_output");
  const int64_t dim = call.Dim("dim", y.rank());
  if (y.rank() == 0) return call.Refuse("softmax of a 0-d tensor");
  Give(call, grad - Exp(y) * Sum(grad, {dim}));
}

// The values that the gradient of a normalisation needs. Each broadcasts against the input.
struct Normalised {
  Expr grad;    // gradient of the result
  Expr x;       // the input, normalised
  Expr scale;   // 1 / deviation
  Expr weight;  // may be absent
  Dims own;     // the dimensions that were normalised over
};

// The input's gradient of y = normalised * weight is scale * (g - mean(g) - x * mean(g * x)) with g
// = grad * weight. The first mean is there only if the mean was subtracted.
Expr InputGradient(const Normalised& at, bool centred) {
  const Expr grad = at.weight.value == nullptr ? at.grad : at.grad * at.weight;
  Expr rest = grad - at.x * Mean(grad * at.x, at.own);
  if (centred) rest = rest - Mean(grad, at.own);
  return rest * at.scale;
}

Expr OptionalIn(Call& call, std::string_view name) {
  Value* value = call.OptionalTensor(name);
  return value == nullptr ? Expr{&call, nullptr} : In(call, value);
}

Dims Range(int64_t begin, int64_t end) {
  Dims dims;
  for (int64_t dim = begin; dim < end; ++dim) dims.push_back(dim);
  return dims;
}

// Provides the results that `output_mask` asks for.
void GiveMasked(Call& call, std::vector<Expr> results) {
  const std::vector<bool> wanted = call.Bools("output_mask");
  if (wanted.size() != results.size()) return call.Refuse("output mask of ", wanted.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (!wanted[i] || !call.used(i)) {
      results[i].value = nullptr;
    } else if (results[i].value != nullptr) {
      results[i] = Reshape(results[i], call.type(i).sizes);
    }
  }
  Give(call, results);
}

// native_layer_norm_backward(grad, x, normalized_shape, mean, rstd, weight, bias, output_mask);
// _fused_rms_norm_backward has neither mean nor bias.
void RowNormBackward(Call& call, bool centred) {
  const Expr grad = In(call, "grad_out");
  const Expr input = In(call, "input");
  const Expr weight = OptionalIn(call, "weight");
  const Expr scale = In(call, "rstd");
  const auto axes = static_cast<int64_t>(call.Ints("normalized_shape").size());
  const int64_t rank = input.rank();
  if (axes < 1 || axes > rank || input.value->type.elements() == 0) {
    return call.Refuse("norm of ", ToText(input.value->type));
  }
  const Expr x = (centred ? input - In(call, "mean") : input) * scale;
  const Normalised at{grad, x, scale, weight, Range(rank - axes, rank)};
  const Dims others = Range(0, rank - axes);
  std::vector<Expr> results = {InputGradient(at, centred), Sum(grad * x, others)};
  if (centred) results.push_back(Sum(grad, others));
  GiveMasked(call, std::move(results));
}
void LayerNormBackward(Call& call) { RowNormBackward(call, true); }
void RmsNormBackward(Call& call) { RowNormBackward(call, false); }

// Returns a vector with one value per channel in a form that broadcasts against [N, C, ...].
Expr PerChannel(Expr vector, int64_t rank) {
  Dims sizes(rank - 1, 1);
  sizes[0] = vector.value->type.elements();
  return Reshape(vector, sizes);
}

Dims AllButChannels(int64_t rank) {
  Dims dims = Range(0, rank);
  dims.erase(dims.begin() + 1);
  return dims;
}

// native_batch_norm_backward(grad, x, weight, running_mean, running_var, save_mean, save_invstd,
// train, eps, output_mask)
void BatchNormBackward(Call& call) {
  const Expr grad = In(call, "grad_out");
  const Expr input = In(call, "input");
  const int64_t rank = input.rank();
  if (rank < 2 || input.value->type.elements() == 0) {
    return call.Refuse("batch norm of ", ToText(input.value->type));
  }
  const bool train = call.Bool("train");
  const Expr mean = PerChannel(In(call, train ? "save_mean" : "running_mean"), rank);
  const Expr scale = PerChannel(
      train ? In(call, "save_invstd") : Rsqrt(In(call, "running_var") + call.Float("eps")), rank);
  Expr weight = OptionalIn(call, "weight");
  if (weight.value != nullptr) weight = PerChannel(weight, rank);
  const Expr centred = input - mean;
  const Dims own = AllButChannels(rank);
  // All three gradients use the same two sums over the batch. Their other operands are one number
  // per channel.
  const Expr sum = Sum(grad, own);
  const Expr product = Sum(grad * centred, own);
  const Expr factor = weight.value == nullptr ? scale : scale * weight;
  Expr input_grad = grad;
  if (train) {
    const double share =
        static_cast<double>(input.sizes()[1]) / static_cast<double>(input.value->type.elements());
    input_grad = grad - sum * share - centred * (product * scale * scale * share);
  }
  GiveMasked(call, {input_grad * factor, product * scale, sum});
}

// Returns a statistic [N, groups] in a form that broadcasts against the channels of [N, C, ...].
Expr PerGroup(Expr statistic, const Dims& sizes, int64_t groups) {
  const Dims grouped = {sizes[0], groups, sizes[1] / groups};
  Dims channels(sizes.size(), 1);
  channels[0] = sizes[0];
  channels[1] = sizes[1];
  return Reshape(Expand(Reshape(statistic, {sizes[0], groups, 1}), grouped), channels);
}

// Returns the mean over each group. The mean over the space of a channel comes first, so that
// channels-last layouts need no reshape of the whole tensor (norm.cc).
Expr GroupMean(Expr x, int64_t groups) {
  const Expr channels = Mean(x, Range(2, x.rank()), false);
  const Dims sizes = x.sizes();
  const Expr mean = Mean(Reshape(channels, {sizes[0], groups, sizes[1] / groups}), {2});
  return PerGroup(mean, sizes, groups);
}

// native_group_norm_backward(grad, x, mean, rstd, weight, N, C, HxW, group, output_mask)
void GroupNormBackward(Call& call) {
  const Expr grad = In(call, "grad_out");
  const Expr input = In(call, "input");
  const int64_t groups = call.Int("group");
  const Dims sizes = input.sizes();
  if (sizes.size() < 2 || groups < 1 || sizes[1] % groups != 0 ||
      input.value->type.elements() == 0) {
    return call.Refuse("group norm of ", ToText(input.value->type), " with ", groups, " groups");
  }
  const Expr scale = PerGroup(In(call, "rstd"), sizes, groups);
  const Expr x = (input - PerGroup(In(call, "mean"), sizes, groups)) * scale;
  Expr weighted = grad;
  const Expr weight = OptionalIn(call, "weight");
  if (weight.value != nullptr) weighted = grad * PerChannel(weight, input.rank());
  const Expr rest = weighted - x * GroupMean(weighted * x, groups) - GroupMean(weighted, groups);
  const Dims own = AllButChannels(input.rank());
  GiveMasked(call, {rest * scale, Sum(grad * x, own), Sum(grad, own)});
}

// _weight_norm_interface_backward(grad, v, g, norms, dim) is the gradient of w = v * (g / |v|),
// with one norm for each place in `dim`. PyTorch's CPU kernel, which an eager step would call,
// assumes without a check that every operand is contiguous.
void WeightNormBackward(Call& call) {
  const Expr grad = In(call, "grad_w");
  const Expr v = In(call, "saved_v");
  const Expr norms = In(call, "saved_norms");
  const int64_t dim = call.Int("dim");
  Dims others;
  for (int64_t d = 0; d < v.rank(); ++d) {
    if (d != dim) others.push_back(d);
  }
  const Expr along = Sum(grad * v, others) / norms;
  const Expr scale = In(call, "saved_g") / norms;
  Give(call, {scale * (grad - v * (along / norms)), along});
}

constexpr HandlerRow kNormBackwardRows[] = {
    {"aten._weight_norm_interface_backward.default", WeightNormBackward},
    {"aten._fused_rms_norm_backward.default", RmsNormBackward},
    {"aten._log_softmax_backward_data.default", LogSoftmaxBackward},
    {"aten._softmax_backward_data.default", SoftmaxBackward},
    {"aten.native_batch_norm_backward.default", BatchNormBackward},
    {"aten.native_group_norm_backward.default", GroupNormBackward},
    {"aten.native_layer_norm_backward.default", LayerNormBackward},
};

}  // namespace

std::span<const HandlerRow> NormBackwardRows() { return kNormBackwardRows; }

}  // namespace hpu::compiler
