// Rewrites softmax and normalisations.
#include <algorithm>
#include <limits>

#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {
namespace {

void SoftmaxOf(Call& call, OpKind op) {
  // In softmax.int(x, dim, dtype) and in _softmax(x, dim, half_to_float) the conversion comes
  // first.
  Value* x = call.Operand("self", call.dtype());
  call.Return(call.b.Emit(op, {x}, {{AttrKey::kDim, call.Dim("dim", x->type.rank())}}));
}
void Softmax(Call& call) { SoftmaxOf(call, OpKind::kSoftmax); }
void LogSoftmax(Call& call) { SoftmaxOf(call, OpKind::kLogSoftmax); }

// Returns an optional parameter in x's type.
Value* Parameter(Call& call, std::string_view name, const Value* x) {
  Value* value = call.OptionalTensor(name);
  return value == nullptr ? nullptr : call.b.Cast(value, x->type.dtype);
}

// Optional operands at the end may be omitted.
std::vector<Value*> WithParameters(Value* x, Value* weight, Value* bias) {
  if (bias != nullptr) return {x, weight, bias};
  if (weight != nullptr) return {x, weight};
  return {x};
}

// _safe_softmax(x, dim, dtype) gives zeros for a line that holds only -inf.
void SafeSoftmax(Call& call) {
  Value* x = call.Operand("self", call.dtype());
  const int64_t dim = call.Dim("dim", x->type.rank());
  if (call.refused() || x->type.rank() == 0) return call.Refuse("softmax of a 0-d tensor");
  Value* peak = call.b.Reduce(OpKind::kReduceMax, x, {dim}, true);
  const Expr hidden = Expr{&call, peak} == -kInfinity;
  const Expr y{&call, call.b.Emit(OpKind::kSoftmax, {x}, {{AttrKey::kDim, dim}})};
  call.Return(Where(hidden, 0.0, y).value);
}

bool StatisticsUsed(Call& call) {
  bool used = false;
  for (size_t i = 1; i < call.result_count(); ++i) used = used || call.used(i);
  return used;
}

// Emits a norm whose statistics a gradient reads, as several ops, so that the result and the
// statistics share them. The results are y, the mean if it is subtracted, and 1 / deviation.
void RowNormWithStatistics(Call& call, bool centred, double eps) {
  const Expr input = In(call, kInput);
  const auto axes = static_cast<int64_t>(call.Ints("normalized_shape").size());
  if (axes > input.rank() || input.value->type.elements() == 0) {
    return call.Refuse("norm of ", ToText(input.value->type));
  }
  Dims own;
  for (int64_t dim = input.rank() - axes; dim < input.rank(); ++dim) own.push_back(dim);
  const Expr mean = centred ? Mean(input, own) : Expr{};
  const Expr x = centred ? input - mean : input;
  const Expr scale = Rsqrt(Mean(x * x, own) + eps);
  Expr y = x * scale;
  if (call.Has("weight")) y = y * In(call, "weight");
  if (centred && call.Has("bias")) y = y + In(call, "bias");
  if (!centred) return Give(call, {y, Reshape(scale, call.type(1).sizes)});
  Give(call, {y, Reshape(mean, call.type(1).sizes), Reshape(scale, call.type(2).sizes)});
}

void LayerNorm(Call& call) {
  if (StatisticsUsed(call)) return RowNormWithStatistics(call, true, call.Float("eps"));
  Value* x = call.Tensor(kInput);
  const auto axes = static_cast<int64_t>(call.Ints("normalized_shape").size());
  Value* weight = Parameter(call, "weight", x);
  Value* bias = Parameter(call, "bias", x);
  const double eps = call.Float("eps");
  call.Return(call.b.Emit(OpKind::kLayerNorm, WithParameters(x, weight, bias),
                          {{AttrKey::kAxes, axes}, {AttrKey::kEps, eps}}));
}

double EpsilonOf(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return 0.0078125;
    case DType::kF16:
      return 0.0009765625;
    case DType::kF64:
      return 2.220446049250313e-16;
    default:
      return 1.1920928955078125e-07;
  }
}

void RmsNorm(Call& call) {
  Value* x = call.Tensor(kInput);
  const auto axes = static_cast<int64_t>(call.Ints("normalized_shape").size());
  Value* weight = Parameter(call, "weight", x);
  // PyTorch's default is the machine epsilon of the input's type.
  const double eps = call.Float("eps", EpsilonOf(x->type.dtype));
  if (StatisticsUsed(call)) return RowNormWithStatistics(call, false, eps);
  call.Return(call.b.Emit(OpKind::kRmsNorm, WithParameters(x, weight, nullptr),
                          {{AttrKey::kAxes, axes}, {AttrKey::kEps, eps}}));
}

// Returns a per-channel parameter [C] in a form that broadcasts against [N, C, ...].
Value* PerChannel(Call& call, Value* parameter, const Value* x) {
  Dims sizes(x->type.rank() - 1, 1);
  sizes[0] = parameter->type.elements();
  return call.b.Reshape(parameter, sizes);
}

Value* ScaleAndShift(Call& call, Value* x, Value* weight, Value* bias) {
  if (weight != nullptr) x = call.b.Binary(OpKind::kMul, x, PerChannel(call, weight, x));
  if (bias != nullptr) x = call.b.Binary(OpKind::kAdd, x, PerChannel(call, bias, x));
  return x;
}

// Returns the mean over each group of channels and its space, [N, C, 1...]. The mean over the space
// of a channel comes first, so that no reshape blocks a channels-last layout (passes/layout.h).
Value* GroupMean(Call& call, Value* x, int64_t groups) {
  Dims space;
  for (int64_t dim = 2; dim < x->type.rank(); ++dim) space.push_back(dim);
  if (!space.empty()) x = call.b.Reduce(OpKind::kReduceMean, x, space, true);
  const Dims sizes = x->type.sizes;
  const Dims grouped = {sizes[0], groups, sizes[1] / groups};
  if (grouped[2] == 1) return x;
  x = call.b.Reduce(OpKind::kReduceMean, call.b.Reshape(x, grouped), {2}, true);
  return call.b.Reshape(call.b.Expand(x, grouped), sizes);
}

// Returns a statistic of channels [N, C, 1...], which is the same for all channels of a group, as
// [N, groups].
Value* PerGroup(Call& call, Value* statistic, int64_t groups, const TensorType& type) {
  const Dims& sizes = statistic->type.sizes;
  Value* grouped = call.b.Reshape(statistic, {sizes[0], groups, sizes[1] / groups});
  return call.b.Cast(call.b.Reshape(call.b.Slice(grouped, 2, 0, 1), type.sizes), type.dtype);
}

void EmitGroupNorm(Call& call, Value* x, Value* weight, Value* bias, int64_t groups, double eps) {
  if (call.refused()) return;
  const Dims& sizes = x->type.sizes;
  if (sizes.size() < 2 || groups < 1 || sizes[1] % groups != 0 || x->type.elements() == 0) {
    return call.Refuse("group norm of ", ToText(x->type), " with ", groups, " groups");
  }
  const DType dtype = x->type.dtype;
  const auto as_f32 = [&](Value* value) {
    return value == nullptr ? nullptr : call.b.Cast(value, DType::kF32);
  };
  x = as_f32(x);
  Value* mean = GroupMean(call, x, groups);
  x = call.b.Binary(OpKind::kSub, x, mean);
  Value* variance = GroupMean(call, call.b.Binary(OpKind::kMul, x, x), groups);
  Value* scale = call.b.Unary(OpKind::kRsqrt, call.b.Binary(OpKind::kAdd, variance, eps));
  std::vector<Value*> results(call.result_count());
  for (size_t i = 1; i < results.size(); ++i) {  // native_group_norm: mean, 1 / deviation
    if (call.used(i)) results[i] = PerGroup(call, i == 1 ? mean : scale, groups, call.type(i));
  }
  if (weight != nullptr) {
    scale = call.b.Binary(OpKind::kMul, scale, PerChannel(call, as_f32(weight), x));
  }
  Value* y = ScaleAndShift(call, call.b.Binary(OpKind::kMul, x, scale), nullptr, as_f32(bias));
  results[0] = call.b.Cast(y, dtype);
  call.Return(std::move(results));
}

void GroupNorm(Call& call) {
  Value* x = call.Tensor(kInput);
  EmitGroupNorm(call, x, Parameter(call, "weight", x), Parameter(call, "bias", x),
                call.Int("num_groups"), call.Float("eps"));
}

// native_group_norm(x, weight, bias, N, C, HxW, groups, eps)
void NativeGroupNorm(Call& call) {
  Value* x = call.Tensor(kInput);
  EmitGroupNorm(call, x, Parameter(call, "weight", x), Parameter(call, "bias", x),
                call.Int("group"), call.Float("eps"));
}

// instance_norm(x, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn)
void InstanceNorm(Call& call) {
  if (!call.Bool("use_input_stats")) return call.Refuse("instance norm by statistics");
  if (call.Has("running_mean")) return call.Refuse("instance norm that tracks statistics");
  Value* x = call.Tensor(kInput);
  if (x->type.rank() < 2) return call.Refuse("instance norm of ", ToText(x->type));
  EmitGroupNorm(call, x, Parameter(call, "weight", x), Parameter(call, "bias", x), x->type.sizes[1],
                call.Float("eps"));
}

// At inference the norm is one multiplication and one addition per element, with factors that are
// calculated per channel in f32.
void EmitBatchNorm(Call& call, double eps) {
  Value* x = call.Tensor(kInput);
  Value* mean = call.b.Cast(call.Tensor("running_mean"), DType::kF32);
  Value* variance = call.b.Cast(call.Tensor("running_var"), DType::kF32);
  Value* weight = call.OptionalTensor("weight");
  Value* bias = call.OptionalTensor("bias");
  if (call.refused()) return;
  if (x->type.rank() < 2) return call.Refuse("batch norm of ", ToText(x->type));
  Value* scale = call.b.Unary(OpKind::kRsqrt, call.b.Binary(OpKind::kAdd, variance, eps));
  if (weight != nullptr) {
    scale = call.b.Binary(OpKind::kMul, scale, call.b.Cast(weight, DType::kF32));
  }
  Value* shift = call.b.Unary(OpKind::kNeg, call.b.Binary(OpKind::kMul, mean, scale));
  if (bias != nullptr) {
    shift = call.b.Binary(OpKind::kAdd, shift, call.b.Cast(bias, DType::kF32));
  }
  Value* y = ScaleAndShift(call, call.b.Cast(x, DType::kF32), scale, shift);
  call.Return(call.b.Cast(y, x->type.dtype));
}

// batch_norm(x, weight, bias, mean, var, training, momentum, eps[, cudnn])
void BatchNorm(Call& call) {
  if (call.Bool("training")) return call.Refuse("batch norm in training");
  EmitBatchNorm(call, call.Float("eps"));
}

// _native_batch_norm_legit_no_training(x, weight, bias, mean, var, momentum, eps) returns y, and
// statistics that hold nothing.
void BatchNormNoTraining(Call& call) {
  EmitBatchNorm(call, call.Float("eps"));
  if (call.refused()) return;
  std::vector<Value*> results = call.results();
  for (size_t i = 1; i < std::min<size_t>(call.result_count(), 3); ++i) {
    results.push_back(call.b.Full(0, call.type(i).dtype, call.type(i).sizes));
  }
  call.Return(std::move(results));
}

// Up to this many positions of a channel are read once for the mean and again, from a cache, for
// the variance.
constexpr int64_t kPositionsInCache = 256;

struct ChannelStatistics {
  Expr mean, variance;
};

// Returns the statistics over all dimensions but the channels. A large image is read only once:
// each part of it (its last dimensions) gets a mean and a sum of squares of its own, and these are
// then joined. The squares of the whole are the squares within the parts plus the squares of the
// parts' means.
ChannelStatistics StatisticsOfChannels(Expr x) {
  const Dims& sizes = x.sizes();
  const int64_t count = x.value->type.elements() / sizes[1];
  Dims own = {0};
  for (int64_t dim = 2; dim < x.rank(); ++dim) own.push_back(dim);
  Dims part;
  int64_t part_size = 1;
  for (int64_t dim = x.rank(); dim-- > 2;) {
    if (!part.empty() && part_size * sizes[dim] > kPositionsInCache) break;
    part.insert(part.begin(), dim);
    part_size *= sizes[dim];
  }
  if (count <= kPositionsInCache || part.empty()) {
    const Expr mean = Mean(x, own);
    const Expr centred = x - mean;
    return {mean, Mean(centred * centred, own)};
  }
  const Expr part_mean = Mean(x, part);
  const Expr within = x - part_mean;
  const Expr part_squares = Sum(within * within, part);
  const Expr mean = Mean(part_mean, own);
  const Expr between = part_mean - mean;
  const Expr squares =
      Sum(part_squares, own) + Sum(between * between, own) * static_cast<double>(part_size);
  return {mean, squares * (1 / static_cast<double>(count))};
}

// Batch norm in training uses the batch's own statistics. The results are y, mean, 1 / deviation
// and, if there are running statistics, their new values. The running variance is the unbiased one.
void BatchNormTraining(Call& call) {
  const double eps = call.Float("eps");
  const bool tracks = call.result_count() == 5;
  if (!call.Bool("training")) {
    if (!tracks) return call.Refuse("batch norm without statistics");
    BatchNormNoTraining(call);
    if (call.refused()) return;
    std::vector<Value*> results = call.results();
    // PyTorch's shape function says f32 for them, also where they are narrower.
    for (const char* name : {"running_mean", "running_var"}) {
      results.push_back(call.b.Cast(call.Tensor(name), call.type(results.size()).dtype));
    }
    return call.Return(std::move(results));
  }
  const Expr input = In(call, kInput);
  const int64_t rank = input.rank();
  if (rank < 2 || input.value->type.elements() == 0) {
    return call.Refuse("batch norm of ", ToText(input.value->type));
  }
  const auto [mean, variance] = StatisticsOfChannels(input);
  const Expr scale = Rsqrt(variance + eps);
  Expr y = (input - mean) * scale;
  const auto per_channel = [&](std::string_view name) {
    return In(call, PerChannel(call, call.Tensor(name), input.value));
  };
  if (call.Has("weight")) y = y * per_channel("weight");
  if (call.Has("bias")) y = y + per_channel("bias");
  const Dims channels = {input.sizes()[1]};
  std::vector<Expr> results = {y, Reshape(mean, channels), Reshape(scale, channels)};
  if (tracks) {
    const double momentum = call.Float("momentum");
    const double count = static_cast<double>(input.value->type.elements() / channels[0]);
    const auto moved = [&](std::string_view name, Expr now) {
      return In(call, name) * (1 - momentum) + Reshape(now, channels) * momentum;
    };
    results.push_back(moved("running_mean", mean));
    results.push_back(moved("running_var", variance * (count / (count - 1))));
  }
  Give(call, results);
}

constexpr HandlerRow kNormRows[] = {
    {"aten._fused_rms_norm.default", RmsNorm},
    {"aten._log_softmax.default", LogSoftmax},
    {"aten._native_batch_norm_legit.no_stats", BatchNormTraining},
    {"aten._native_batch_norm_legit_functional.default", BatchNormTraining},
    {"aten._native_batch_norm_legit_no_training.default", BatchNormNoTraining},
    {"aten._safe_softmax.default", SafeSoftmax},
    {"aten._softmax.default", Softmax},
    {"aten.batch_norm.default", BatchNorm},
    {"aten.group_norm.default", GroupNorm},
    {"aten.instance_norm.default", InstanceNorm},
    {"aten.layer_norm.default", LayerNorm},
    {"aten.log_softmax.int", LogSoftmax},
    {"aten.native_batch_norm.default", BatchNorm},
    {"aten.native_group_norm.default", NativeGroupNorm},
    {"aten.native_layer_norm.default", LayerNorm},
    {"aten.rms_norm.default", RmsNorm},
    {"aten.softmax.int", Softmax},
};

}  // namespace

std::span<const HandlerRow> NormRows() { return kNormRows; }

}  // namespace hpu::compiler
