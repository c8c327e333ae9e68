// Rewrites softmaxes over blocks or parts of rows, as attention over paged keys has them, and the
// norm of torch.ops.hpu with the inverse of its root.
#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {
namespace {

Expr LargestOf(Expr x, int64_t dim, bool keepdim) {
  return {x.call, x.call->b.Reduce(OpKind::kReduceMax, x.value, {dim}, keepdim)};
}
Expr Larger(Expr x, Expr y) { return Apply(OpKind::kMax, x, y); }

void BlockSoftmax(Call& call) {
  Expr scores = In(call, "attn");
  if (call.Has("block_bias")) scores = scores + In(call, "block_bias");
  if (call.refused()) return;
  const int64_t last = scores.rank() - 1;
  const Expr maximum = LargestOf(scores, last, true);
  const Expr exponentials = Exp(scores - maximum);
  Give(call, {exponentials, maximum, Sum(exponentials, {last})});
}

// The blocks of a group share a maximum and a sum, which are made by scattering and read back by
// gathering. Blocks of no group share the last row.
void BlockSoftmaxAdjustment(Call& call) {
  Value* block_max = call.Tensor("block_max");
  Value* groups = call.Tensor("block_groups");
  const int64_t batch = call.Int("batch_size");
  if (call.refused()) return;
  const int64_t blocks = block_max->type.sizes[0];
  const Dims flat = {blocks, blocks == 0 ? 0 : block_max->type.elements() / blocks};
  const Expr maximum = Reshape(In(call, block_max), flat);
  const Expr total = Reshape(In(call, "block_sums"), flat);
  const Expr given{&call, groups};
  const Expr known = (given >= 0.0) & (given < static_cast<double>(batch));
  const Expr group = Where(known, given, static_cast<double>(batch));
  Value* places = call.b.Expand(call.b.Reshape(group.value, {blocks, 1}), flat);
  const auto of_groups = [&](OpKind op, double start, Expr values) {
    Value* begin = call.b.Full(start, DType::kF32, {batch + 1, flat[1]});
    Value* all = call.b.Emit(op, {begin, places, values.value}, {{AttrKey::kDim, int64_t{0}}});
    return Expr{&call, call.b.Gather(all, group.value, 0)};
  };
  const Expr factor = Exp(maximum - of_groups(OpKind::kScatterMax, -kInfinity, maximum));
  const Expr adjusted = total * factor;
  const Expr sums = of_groups(OpKind::kScatterAdd, 0, adjusted);
  Give(call, Reshape(factor / Larger(sums, adjusted), call.type().sizes));
}

// A step of a softmax over parts of a row: inputM and inputL are the maximum and the sum of the
// parts before.
void SoftmaxFa2(Call& call) {
  Value* input = call.Tensor(kInput);
  if (call.refused()) return;
  if (call.Has("descale")) return call.Refuse("a scale");
  const Expr scores = In(call, input);
  const int64_t dim = call.Dim("dim", scores.rank());
  const Expr largest = LargestOf(scores, dim, false);
  const Expr before = call.Has("inputM") ? In(call, "inputM") : Number(largest, -kInfinity);
  const Expr maximum = call.Has("inputM") ? Larger(before, largest) : largest;
  Dims apart = maximum.sizes();
  apart.insert(apart.begin() + dim, 1);
  const Expr exponentials = Exp(scores - Reshape(maximum, apart));
  const Expr factor = Exp(before - maximum);
  Expr total = Sum(exponentials, {dim}, false);
  if (call.Has("inputL")) total = total + factor * In(call, "inputL");
  Give(call, {exponentials, maximum, total, factor});
}

void CustomSoftmax(Call& call) {
  const Expr x = In(call, kInput);
  if (call.refused()) return;
  Give(call,
       Expr{&call, call.b.Emit(OpKind::kSoftmax, {x.value}, {{AttrKey::kDim, x.rank() - 1}})});
}

void RmsNormAndInverse(Call& call) {
  Value* data = call.Tensor("data_in");
  Value* gamma = call.Tensor("gamma");
  const double epsilon = call.Float("epsilon");
  if (call.refused() || data->type.rank() < 1) return call.Refuse("no dimension");
  if (!call.used(1)) {
    const Expr y{&call, call.b.Emit(OpKind::kRmsNorm, {In(call, data).value, In(call, gamma).value},
                                    {{AttrKey::kAxes, int64_t{1}}, {AttrKey::kEps, epsilon}})};
    Value* unused = call.b.Full(0, DType::kF32, call.type(1).sizes);
    return Give(call, {y, {&call, unused}});
  }
  const Expr x = In(call, data);
  const Expr inverse = Rsqrt(Mean(x * x, {x.rank() - 1}) + epsilon);
  Give(call, {x * inverse * In(call, gamma), inverse});
}

constexpr HandlerRow kBlockSoftmaxRows[] = {
    {"hpu.block_softmax.default", BlockSoftmax},
    {"hpu.block_softmax_adjustment.default", BlockSoftmaxAdjustment},
    {"hpu.custom_softmax.default", CustomSoftmax},
    {"hpu.rms_norm.default", RmsNormAndInverse},
    {"hpu.rms_norm_fast.default", RmsNormAndInverse},
    {"hpu.softmax_fa2.default", SoftmaxFa2},
};

}  // namespace

std::span<const HandlerRow> BlockSoftmaxRows() { return kBlockSoftmaxRows; }

}  // namespace hpu::compiler
