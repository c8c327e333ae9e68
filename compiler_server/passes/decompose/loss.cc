// Rewrites losses and their gradients.
#include <array>

#include "compiler_server/passes/decompose/expression.h"
#include "compiler_server/passes/decompose/indexing.h"

namespace hpu::compiler {
namespace {

constexpr std::string_view kTarget = "target";

enum LossReduction { kNoReduction = 0, kMeanReduction = 1, kSumReduction = 2 };  // at::Reduction

int64_t ReductionOf(Call& call) {
  const int64_t reduction = call.Int("reduction");
  if (reduction < kNoReduction || reduction > kSumReduction) call.Refuse("reduction ", reduction);
  return reduction;
}

// Returns the losses of the elements, reduced as the call asks.
Expr Reduced(Call& call, Expr loss) {
  const int64_t reduction = ReductionOf(call);
  const Dims all = Call::AllDims(loss.rank());
  if (reduction == kMeanReduction) return Mean(loss, all, false);
  return reduction == kSumReduction ? Sum(loss, all, false) : loss;
}
void GiveReduced(Call& call, Expr loss) { Give(call, Reduced(call, loss)); }

// Returns the gradient that reaches each element.
Expr ElementGradient(Call& call) {
  const Expr grad = In(call, kGrad);
  const auto count = static_cast<double>(call.type().elements());
  return ReductionOf(call) == kMeanReduction ? grad * (1 / count) : grad;
}

void MseLoss(Call& call) {
  const Expr error = In(call, kSelf) - In(call, kTarget);
  GiveReduced(call, error * error);
}
void MseLossBackward(Call& call) {
  Give(call, (In(call, kSelf) - In(call, kTarget)) * ElementGradient(call) * 2.0);
}

void SmoothL1Loss(Call& call) {
  const Expr error = Abs(In(call, kSelf) - In(call, kTarget));
  const double beta = call.Float("beta");
  if (beta == 0) return GiveReduced(call, error);
  GiveReduced(call, Where(error < beta, error * error * (0.5 / beta), error - 0.5 * beta));
}
void SmoothL1LossBackward(Call& call) {
  const Expr error = In(call, kSelf) - In(call, kTarget);
  const double beta = call.Float("beta");
  // If beta is 0, an error of 0 counts as negative.
  const Expr inside = beta == 0 ? error : error * (1 / beta);
  const Expr slope = Where(error <= -beta, -1.0, Where(error >= beta, 1.0, inside));
  Give(call, slope * ElementGradient(call));
}

void HuberLoss(Call& call) {
  const Expr error = Abs(In(call, kSelf) - In(call, kTarget));
  const double delta = call.Float("delta");
  const Expr far = (error - 0.5 * delta) * delta;
  GiveReduced(call, Where(error <= delta, error * error * 0.5, far));
}
void HuberLossBackward(Call& call) {
  const Expr error = In(call, kSelf) - In(call, kTarget);
  const double delta = call.Float("delta");
  Give(call, Min(Max(error, -delta), delta) * ElementGradient(call));
}

Expr Weighted(Call& call, Expr x) { return call.Has("weight") ? x * In(call, "weight") : x; }

void BinaryCrossEntropy(Call& call) {
  const Expr x = In(call, kSelf);
  const Expr y = In(call, kTarget);
  const Expr hit = Max(Log(x), -100);
  const Expr miss = Max(Apply(OpKind::kLog1p, -x), -100);
  GiveReduced(call, Weighted(call, (y - 1.0) * miss - y * hit));
}
void BinaryCrossEntropyBackward(Call& call) {
  const Expr x = In(call, kSelf);
  const Expr slope = (x - In(call, kTarget)) / Max((1.0 - x) * x, 1e-12);
  Give(call, Weighted(call, ElementGradient(call) * slope));
}

void BinaryCrossEntropyWithLogits(Call& call) {
  const Expr x = In(call, kSelf);
  const Expr y = In(call, kTarget);
  Expr rest = Apply(OpKind::kLog1p, Exp(-Abs(x))) + Max(-x, 0);
  if (call.Has("pos_weight")) rest = rest * ((In(call, "pos_weight") - 1.0) * y + 1.0);
  GiveReduced(call, Weighted(call, (1.0 - y) * x + rest));
}

void SoftMarginLoss(Call& call) {
  GiveReduced(call, Apply(OpKind::kLog1p, Exp(-(In(call, kSelf) * In(call, kTarget)))));
}
void SoftMarginLossBackward(Call& call) {
  const Expr y = In(call, kTarget);
  const Expr slope = -(y * Sigmoid(-(In(call, kSelf) * y)));
  Give(call, slope * ElementGradient(call));
}

// The classes are along dimension 1 of scores [N, C, ...], or along the only dimension.
struct Classes {
  Value* target = nullptr;  // [N, ...], i32
  Expr valid;               // true where the target is not ignore_index
  Expr weight;              // the weight of each target's class, 0 where the target is ignored
  int64_t dim = 1;
};

// Returns the sizes of the targets with a dimension of size 1 inserted for the classes.
Dims WithClassDim(const Classes& classes) {
  Dims sizes = classes.target->type.sizes;
  sizes.insert(sizes.begin() + classes.dim, 1);
  return sizes;
}

Classes ReadClasses(Call& call) {
  Classes classes;
  Value* scores = call.Tensor(kSelf);
  Value* target = call.Tensor(kTarget);
  classes.dim = scores->type.rank() == 1 ? 0 : 1;
  classes.target = call.b.Cast(target, DType::kI32);
  if (classes.dim == 0) classes.target = call.b.Reshape(classes.target, {});
  if (scores->type.rank() != classes.target->type.rank() + 1) {
    call.Refuse("classes of ", ToText(scores->type));
    return classes;
  }
  const auto ignored = static_cast<double>(call.Int("ignore_index"));
  const Expr equal{&call, call.b.Binary(OpKind::kEq, classes.target, ignored)};
  classes.valid = Apply(OpKind::kLogicalNot, equal);
  classes.weight = Cast(classes.valid, DType::kF32);
  if (Value* weight = call.OptionalTensor("weight")) {
    Value* zero = call.b.Scalar(0, DType::kI32);
    Value* safe = call.b.Emit(OpKind::kWhere, {classes.valid.value, classes.target, zero});
    const Expr each{&call, call.b.Gather(call.b.Cast(weight, DType::kF32), safe, 0)};
    classes.weight = Where(classes.valid, each, 0.0);
  }
  return classes;
}

// nll_loss_forward(scores, target, weight, reduction, ignore_index) -> loss, sum of the weights
void NllLoss(Call& call) {
  const Classes classes = ReadClasses(call);
  if (call.refused()) return;
  Value* zero = call.b.Scalar(0, DType::kI32);
  Value* safe = call.b.Emit(OpKind::kWhere, {classes.valid.value, classes.target, zero});
  Value* scores = call.b.Emit(OpKind::kGatherElements,
                              {call.Tensor(kSelf), call.b.Reshape(safe, WithClassDim(classes))},
                              {{AttrKey::kDim, classes.dim}});
  const Expr score = In(call, call.b.Reshape(scores, classes.target->type.sizes));
  // Where() is needed because an ignored score may be infinite.
  const Expr loss = Where(classes.valid, -(score * classes.weight), 0.0);
  const Dims all = Call::AllDims(loss.rank());
  const Expr total = Sum(classes.weight, all, false);
  switch (ReductionOf(call)) {
    case kMeanReduction:
      return Give(call, {Sum(loss, all, false) / total, total});
    case kSumReduction:
      return Give(call, {Sum(loss, all, false), total});
    default:
      // The total of a single row is its weight; for several rows the total is 0.
      return Give(call, {loss, classes.dim == 0 ? total : Number(loss, 0)});
  }
}

// nll_loss_backward(grad, scores, target, weight, reduction, ignore_index, total_weight) is written
// as a choice per element, which fuses with the gradient of log_softmax.
void NllLossBackward(Call& call) {
  const Classes classes = ReadClasses(call);
  if (call.refused()) return;
  Expr grad = -In(call, kGrad);
  if (ReductionOf(call) == kMeanReduction) grad = grad / In(call, "total_weight");
  const Dims& sizes = call.Tensor(kSelf)->type.sizes;
  const Expr each =
      Reshape(Expand(grad * classes.weight, classes.target->type.sizes), WithClassDim(classes));
  Dims along(sizes.size(), 1);
  along[classes.dim] = sizes[classes.dim];
  Value* positions = call.b.Reshape(call.b.Iota(0, 1, DType::kI32, along[classes.dim]), along);
  Value* target = call.b.Reshape(classes.target, WithClassDim(classes));
  const Expr chosen{&call, call.b.Binary(OpKind::kEq, positions, target)};
  const Expr valid = Reshape(classes.valid, WithClassDim(classes));
  Give(call, Where(chosen & valid, each, 0.0));
}

// multi_margin_loss_backward(grad, scores, target, p, margin, weight, reduction). With z = margin -
// x[target] + x[c], class c has the gradient p z^(p - 1) / classes where z is above 0, and the
// target that of all others, negative.
void MultiMarginLossBackward(Call& call) {
  const Expr scores = In(call, kSelf);
  const auto p = call.Int("p");
  if (call.refused() || scores.rank() < 1 || scores.rank() > 2 || (p != 1 && p != 2)) {
    return call.Refuse("margins of ", ToText(scores.value->type));
  }
  const int64_t classes = scores.sizes().back();
  const int64_t rows = scores.rank() == 2 ? scores.sizes()[0] : 1;
  const Expr x = Reshape(scores, {rows, classes});
  Value* label = call.b.Reshape(call.b.Cast(call.Tensor(kTarget), DType::kI32), {rows, 1});
  const Expr target{&call, label};
  const Expr chosen{
      &call, call.b.Emit(OpKind::kGatherElements, {x.value, label}, {{AttrKey::kDim, int64_t{1}}})};
  const Expr z = x - chosen + call.Float("margin");
  Expr slope = p == 1 ? Number(z, 1) : z * 2.0;
  if (Value* weight = call.OptionalTensor("weight")) {
    slope = slope * Expr{&call, call.b.Gather(call.b.Cast(weight, DType::kF32), label, 0)};
  }
  const Expr is_target = Positions(call, classes, DType::kI32) == target;
  const Expr each = Where(is_target | (z <= 0.0), 0.0, Expand(slope, x.sizes()));
  const Expr all = Where(is_target, -Sum(each, {1}), each);
  const bool mean = ReductionOf(call) == kMeanReduction;
  const Expr share = all / static_cast<double>(mean ? classes * rows : classes);
  Expr grad = In(call, kGrad);
  if (grad.rank() == 1) grad = Reshape(grad, {grad.sizes()[0], 1});
  if (!call.refused()) Give(call, Reshape(share * grad, scores.sizes()));
}

// The labels of rows of scores [.., classes] end at the first -1.
struct Labels {
  Expr x;          // the scores
  Expr label;      // the labels, 0 behind their end
  Expr is_label;   // true before their end
  Expr is_target;  // true for classes that are labels
  Expr margin;     // 1 - x[label] + x[class], of each label (the last but one dimension) and class
  int64_t last;    // the dimension of classes
};

Expr Beside(Expr y) {  // adds a dimension for classes after those of y
  Dims sizes = y.sizes();
  sizes.push_back(1);
  return Reshape(y, sizes);
}
Expr Across(Expr y) {  // adds one before the last dimension of y
  Dims sizes = y.sizes();
  sizes.insert(sizes.end() - 1, 1);
  return Reshape(y, sizes);
}

// Refuses the call if scores and labels do not fit.
Labels ReadLabels(Call& call) {
  Labels labels;
  labels.x = In(call, kSelf);
  const Expr target{&call, call.b.Cast(call.Tensor(kTarget), DType::kI32)};
  labels.last = labels.x.rank() - 1;
  if (call.refused() || labels.last < 0 || labels.x.sizes()[labels.last] == 0 ||
      target.sizes() != labels.x.sizes()) {
    call.Refuse("labels of ", ToText(labels.x.value->type));
    return labels;
  }
  const int64_t classes = labels.x.sizes()[labels.last];
  const Expr place = Positions(call, classes, DType::kI32);
  const Expr ends = Where(target < 0.0, place, static_cast<double>(classes));
  const Expr end{&call, call.b.Reduce(OpKind::kReduceMin, ends.value, {labels.last}, true)};
  labels.is_label = place < end;
  labels.label = Where(labels.is_label, target, 0.0);
  const Expr hits = Cast((Beside(labels.label) == place) & Beside(labels.is_label), DType::kI32);
  labels.is_target =
      Expr{&call, call.b.Reduce(OpKind::kReduceMax, hits.value, {labels.last}, false)} > 0.0;
  const Expr score{&call, call.b.Emit(OpKind::kGatherElements, {labels.x.value, labels.label.value},
                                      {{AttrKey::kDim, labels.last}})};
  labels.margin = 1.0 - Beside(score) + Across(labels.x);
  return labels;
}

// multilabel_margin_loss_forward(scores, target, reduction) is the sum over labels l and other
// classes c of max(0, 1 - (x[l] - x[c])) / classes. The second result marks the labels' classes.
void MultilabelMarginLoss(Call& call) {
  const Labels labels = ReadLabels(call);
  if (call.refused()) return;
  const int64_t last = labels.last;
  const Expr counts =
      Beside(labels.is_label) & Across(Apply(OpKind::kLogicalNot, labels.is_target));
  const Expr each = Sum(Where(counts, Max(labels.margin, 0), 0.0), {last, last + 1}, false);
  Expr loss = Reduced(call, each / static_cast<double>(labels.x.sizes()[last]));
  // PyTorch's kernel returns a 0-d loss for a single row, but its tracing declares a size of 1.
  if (last == 0) loss = Reshape(loss, call.type().sizes);
  Give(call, {loss, Cast(labels.is_target, DType::kF32)});
}

// multilabel_margin_loss_backward(grad, scores, target, reduction, is_target): each pair of a label
// and another class with a margin above 0 pulls the class down and the label up.
void MultilabelMarginLossBackward(Call& call) {
  const Labels labels = ReadLabels(call);
  if (call.refused()) return;
  const int64_t last = labels.last;
  const Expr counts = Beside(labels.is_label) &
                      Across(Apply(OpKind::kLogicalNot, labels.is_target)) & (labels.margin > 0.0);
  const Expr pairs = Cast(counts, DType::kF32);
  Value* none = call.b.Full(0, DType::kF32, labels.x.sizes());
  const Expr pulled{
      &call, AddAt(call, none, last, labels.label.value, Sum(pairs, {last + 1}, false).value)};
  const Expr all = Sum(pairs, {last}, false) - pulled;
  const int64_t classes = labels.x.sizes()[last];
  const int64_t rows = NumElements(labels.x.sizes()) / classes;
  const bool mean = ReductionOf(call) == kMeanReduction;
  Expr grad = In(call, kGrad);
  if (grad.rank() == last && last > 0) grad = Beside(grad);
  Give(call, all * grad / static_cast<double>(mean ? classes * rows : classes));
}

constexpr HandlerRow kLossRows[] = {
    {"aten.binary_cross_entropy.default", BinaryCrossEntropy},
    {"aten.binary_cross_entropy_backward.default", BinaryCrossEntropyBackward},
    {"aten.binary_cross_entropy_with_logits.default", BinaryCrossEntropyWithLogits},
    {"aten.huber_loss.default", HuberLoss},
    {"aten.huber_loss_backward.default", HuberLossBackward},
    {"aten.mse_loss.default", MseLoss},
    {"aten.mse_loss_backward.default", MseLossBackward},
    {"aten.multi_margin_loss_backward.default", MultiMarginLossBackward},
    {"aten.multilabel_margin_loss_backward.default", MultilabelMarginLossBackward},
    {"aten.multilabel_margin_loss_forward.default", MultilabelMarginLoss},
    {"aten.nll_loss2d_backward.default", NllLossBackward},
    {"aten.nll_loss2d_forward.default", NllLoss},
    {"aten.nll_loss_backward.default", NllLossBackward},
    {"aten.nll_loss_forward.default", NllLoss},
    {"aten.smooth_l1_loss.default", SmoothL1Loss},
    {"aten.smooth_l1_loss_backward.default", SmoothL1LossBackward},
    {"aten.soft_margin_loss.default", SoftMarginLoss},
    {"aten.soft_margin_loss_backward.default", SoftMarginLossBackward},
};

}  // namespace

std::span<const HandlerRow> LossRows() { return kLossRows; }

}  // namespace hpu::compiler
