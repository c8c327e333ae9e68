#include <algorithm>

#include "compiler_server/ir/constraint.h"
#include "compiler_server/ir/infer.h"
#include "compiler_server/ir/infer_rules.h"

namespace hpu::ir {

int64_t WindowPositions(int64_t size, int64_t low, int64_t high, int64_t kernel, int64_t stride,
                        int64_t dilation, bool ceil) {
  const int64_t room = size + low + high - dilation * (kernel - 1) - 1;
  if (room < 0) return 0;
  int64_t positions = room / stride + 1;
  // In PyTorch a window may start in the input or the low padding, but never in the high padding.
  if (ceil && room % stride != 0 && positions * stride < size + low) ++positions;
  return positions;
}

Result InferMatmul(const Call& call) {
  const TensorType& a = call.type(0);
  const TensorType& b = call.type(1);
  CONSTRAINT(a.rank() >= 2 && b.rank() >= 2, "matmul_c1", "operands ", ToText(a), " and ",
             ToText(b), " need two dimensions");
  Dims a_matrix(a.sizes.end() - 2, a.sizes.end());
  Dims b_matrix(b.sizes.end() - 2, b.sizes.end());
  if (call.Bool(AttrKey::kTransposeA)) std::swap(a_matrix[0], a_matrix[1]);
  if (call.Bool(AttrKey::kTransposeB)) std::swap(b_matrix[0], b_matrix[1]);
  CONSTRAINT(a_matrix[1] == b_matrix[0], "matmul_c2", "inner sizes ", a_matrix[1], " and ",
             b_matrix[0], " differ");
  CONSTRAINT(a.dtype == b.dtype, "matmul_c3", "operand types ", DTypeName(a.dtype), " and ",
             DTypeName(b.dtype), " differ");
  std::optional<Dims> batch = BroadcastSizes(std::span(a.sizes).first(a.rank() - 2),
                                             std::span(b.sizes).first(b.rank() - 2));
  CONSTRAINT(batch.has_value(), "matmul_c4", "batch sizes of ", ToText(a), " and ", ToText(b),
             " do not broadcast");
  Dims sizes = *std::move(batch);
  sizes.push_back(a_matrix[0]);
  sizes.push_back(b_matrix[1]);
  return One(a.dtype, std::move(sizes));
}

Result InferMatmulGrouped(const Call& call) {
  CONSTRAINT(call.operands.size() > 2, "matmul_grouped_c1", "no matrix");
  const TensorType& a = call.type(0);
  const TensorType& ends = call.type(1);
  const TensorType& b = call.type(2);
  const bool inner = call.Bool(AttrKey::kInner);
  const auto matrices = static_cast<int64_t>(call.operands.size()) - 2;
  CONSTRAINT(a.rank() == 2 && (b.rank() == 2 || (b.rank() == 3 && !inner)), "matmul_grouped_c1",
             "operands ", ToText(a), " and ", ToText(b), ", not a matrix and one or several");
  for (size_t i = 2; i < call.operands.size(); ++i) {
    CONSTRAINT(IsFloat(a.dtype) && call.type(i).dtype == a.dtype && call.sizes(i) == b.sizes,
               "matmul_grouped_c2", "operands ", ToText(a), " and ", ToText(call.type(i)),
               " are not of one float type, or matrices of several sizes");
  }
  const int64_t terms = b.sizes[b.rank() - 2];
  CONSTRAINT(a.sizes[1] == terms && terms > 0, "matmul_grouped_c3", "inner sizes ", a.sizes[1],
             " and ", terms, " differ or are 0");
  CONSTRAINT(ends.rank() == 1 && ends.dtype == DType::kI32 && ends.sizes[0] > 0,
             "matmul_grouped_c4", "ends are ", ToText(ends));
  const bool one = inner || b.rank() == 3;
  const int64_t groups = inner ? ends.sizes[0] : b.rank() == 3 ? b.sizes[0] : matrices;
  CONSTRAINT(groups == ends.sizes[0] && (matrices == 1 || !one), "matmul_grouped_c5", matrices,
             " matrices ", ToText(b), " for ", ends.sizes[0], " groups");
  Dims sizes = {a.sizes[0], b.sizes.back()};
  if (inner) sizes.insert(sizes.begin(), groups);
  return One(a.dtype, std::move(sizes));
}

Result InferMatmulQuantized(const Call& call) {
  const TensorType& x = call.type(0);
  const TensorType& weights = call.type(1);
  const bool blocks = weights.rank() == 3;
  CONSTRAINT(x.rank() == 2 && IsFloat(x.dtype), "matmul_quantized_c1", "x is ", ToText(x));
  CONSTRAINT((blocks || weights.rank() == 2) && weights.dtype == (blocks ? DType::kU8 : DType::kI8),
             "matmul_quantized_c2", "weights are ", ToText(weights),
             ", not i8[N,K] or u8[N/2h,K,h]");
  const int64_t inner = x.sizes[1];
  const int64_t columns = blocks ? 2 * weights.sizes[0] * weights.sizes[2] : weights.sizes[0];
  CONSTRAINT(weights.sizes[1] == inner, "matmul_quantized_c3", "inner sizes ", inner, " and ",
             weights.sizes[1], " differ");
  for (size_t i = 2; i < call.operands.size(); ++i) {
    if (!call.has(i)) continue;
    const TensorType& factor = call.type(i);
    CONSTRAINT(call.has(2) && IsFloat(factor.dtype) && factor.rank() == 2 &&
                   factor.sizes == call.sizes(2) && factor.sizes[1] == columns &&
                   factor.sizes[0] > 0 && inner % factor.sizes[0] == 0,
               "matmul_quantized_c4", i == 2 ? "scale " : "zero ", ToText(factor), " for ",
               ToText(weights));
  }
  return One(x.dtype, {x.sizes[0], columns});
}

namespace {

// Checks that each window attribute has one entry per spatial dimension (pads two), all in range.
absl::Status CheckWindow(const Call& call, int64_t spatial) {
  const auto fits = [&](AttrKey key, int64_t per_dim, int64_t least) {
    const Dims& dims = call.Ints(key);
    return static_cast<int64_t>(dims.size()) == per_dim * spatial &&
           std::all_of(dims.begin(), dims.end(), [&](int64_t v) { return v >= least; });
  };
  CONSTRAINT(spatial >= 1 && spatial <= 3, "window_c1", "operand has ", spatial,
             " spatial dimensions, not 1 to 3");
  CONSTRAINT(fits(AttrKey::kStride, 1, 1), "window_c2", "bad stride ",
             ToText(call.Ints(AttrKey::kStride)));
  CONSTRAINT(fits(AttrKey::kPads, 2, 0), "window_c3", "bad pads ",
             ToText(call.Ints(AttrKey::kPads)));
  if (call.attrs.Find(AttrKey::kDilation) != nullptr) {
    CONSTRAINT(fits(AttrKey::kDilation, 1, 1), "window_c4", "bad dilation ",
               ToText(call.Ints(AttrKey::kDilation)));
  }
  if (call.attrs.Find(AttrKey::kKernel) != nullptr) {
    CONSTRAINT(fits(AttrKey::kKernel, 1, 1), "window_c5", "bad kernel ",
               ToText(call.Ints(AttrKey::kKernel)));
  }
  return absl::OkStatus();
}

}  // namespace

Result InferConv(const Call& call) {
  const TensorType& x = call.type(0);
  const TensorType& weight = call.type(1);
  const int64_t spatial = x.rank() - 2;
  RETURN_IF_ERROR(CheckWindow(call, spatial));
  const int64_t groups = call.Int(AttrKey::kGroups);
  CONSTRAINT(x.dtype == weight.dtype, "conv_c1", "operand types differ");
  CONSTRAINT(weight.rank() == x.rank(), "conv_c2", "weight ", ToText(weight), " for x ", ToText(x));
  const int64_t channels = x.sizes.back();
  const int64_t filters = weight.sizes.back();
  CONSTRAINT(groups >= 1 && weight.sizes[spatial] * groups == channels && filters % groups == 0,
             "conv_c3", "weight ", ToText(weight), " does not fit ", channels, " channels in ",
             groups, " groups");
  Dims sizes = {x.sizes[0]};
  for (int64_t i = 0; i < spatial; ++i) {
    const Dims& pads = call.Ints(AttrKey::kPads);
    sizes.push_back(WindowPositions(x.sizes[i + 1], pads[2 * i], pads[2 * i + 1], weight.sizes[i],
                                    call.Ints(AttrKey::kStride)[i],
                                    call.Ints(AttrKey::kDilation)[i], false));
    CONSTRAINT(sizes.back() >= 1, "conv_c4", "kernel is larger than the padded input");
  }
  sizes.push_back(filters);
  return One(x.dtype, std::move(sizes));
}

// Infers x [N, spatial, K], weight [spatial, C/g, K] -> [N, spatial, C], which is the gradient of
// conv by its input. The forward convolution of the declared result must have the sizes of x.
Result InferConvTranspose(const Call& call) {
  const TensorType& x = call.type(0);
  const TensorType& weight = call.type(1);
  const TensorType& y = *call.declared;
  const int64_t spatial = x.rank() - 2;
  RETURN_IF_ERROR(CheckWindow(call, spatial));
  const int64_t groups = call.Int(AttrKey::kGroups);
  CONSTRAINT(weight.rank() == x.rank() && y.rank() == x.rank() && x.dtype == weight.dtype,
             "conv_transpose_c1", "weight ", ToText(weight), " for x ", ToText(x));
  CONSTRAINT(groups >= 1 && weight.sizes.back() == x.sizes.back() &&
                 weight.sizes[spatial] * groups == y.sizes.back() && y.sizes[0] == x.sizes[0] &&
                 x.sizes.back() % groups == 0,
             "conv_transpose_c2", "weight ", ToText(weight), " does not map ", ToText(x), " to ",
             ToText(y));
  const Dims& pads = call.Ints(AttrKey::kPads);
  for (int64_t i = 0; i < spatial; ++i) {
    CONSTRAINT(WindowPositions(y.sizes[i + 1], pads[2 * i], pads[2 * i + 1], weight.sizes[i],
                               call.Ints(AttrKey::kStride)[i], call.Ints(AttrKey::kDilation)[i],
                               false) == x.sizes[i + 1],
               "conv_transpose_c3", "a convolution of ", ToText(y), " does not give ", ToText(x));
  }
  return One(x.dtype, y.sizes);
}

// Infers gradient [N, spatial, K], x [N, spatial, C] -> the weight's [spatial, C/g, K]. A
// convolution of x by a weight of the declared sizes must have the sizes of the gradient.
Result InferConvWeightGradient(const Call& call) {
  const TensorType& gradient = call.type(0);
  const TensorType& x = call.type(1);
  const TensorType& weight = *call.declared;
  const int64_t spatial = x.rank() - 2;
  RETURN_IF_ERROR(CheckWindow(call, spatial));
  const int64_t groups = call.Int(AttrKey::kGroups);
  CONSTRAINT(weight.rank() == x.rank() && gradient.rank() == x.rank() && gradient.dtype == x.dtype,
             "conv_weight_gradient_c1", "gradient ", ToText(gradient), " of x ", ToText(x));
  CONSTRAINT(groups >= 1 && weight.sizes.back() == gradient.sizes.back() &&
                 weight.sizes[spatial] * groups == x.sizes.back() &&
                 gradient.sizes[0] == x.sizes[0] && gradient.sizes.back() % groups == 0,
             "conv_weight_gradient_c2", "weight ", ToText(weight), " does not map ", ToText(x),
             " to ", ToText(gradient));
  const Dims& pads = call.Ints(AttrKey::kPads);
  for (int64_t i = 0; i < spatial; ++i) {
    CONSTRAINT(WindowPositions(x.sizes[i + 1], pads[2 * i], pads[2 * i + 1], weight.sizes[i],
                               call.Ints(AttrKey::kStride)[i], call.Ints(AttrKey::kDilation)[i],
                               false) == gradient.sizes[i + 1],
               "conv_weight_gradient_c3", "a convolution of ", ToText(x), " does not give ",
               ToText(gradient));
  }
  return One(x.dtype, weight.sizes);
}

namespace {

// The sizes of the result of a window over x.
absl::StatusOr<Dims> PooledSizes(const Call& call, const TensorType& x) {
  const int64_t spatial = x.rank() - 2;
  RETURN_IF_ERROR(CheckWindow(call, spatial));
  const Dims& pads = call.Ints(AttrKey::kPads);
  Dims sizes = {x.sizes[0]};
  for (int64_t i = 0; i < spatial; ++i) {
    const int64_t dilation =
        call.attrs.Find(AttrKey::kDilation) == nullptr ? 1 : call.Ints(AttrKey::kDilation)[i];
    sizes.push_back(WindowPositions(x.sizes[i + 1], pads[2 * i], pads[2 * i + 1],
                                    call.Ints(AttrKey::kKernel)[i], call.Ints(AttrKey::kStride)[i],
                                    dilation, call.Bool(AttrKey::kCeil)));
    CONSTRAINT(sizes.back() >= 1, "pool_c1", "window is larger than the padded input");
  }
  sizes.push_back(x.sizes.back());
  return sizes;
}

}  // namespace

Result InferPool(const Call& call) {
  const TensorType& x = call.type(0);
  ASSIGN_OR_RETURN(Dims sizes, PooledSizes(call, x));
  return One(call.op == OpKind::kMaxPoolIndex ? DType::kI32 : x.dtype, std::move(sizes));
}

// Takes the gradient of max_pool's result and the max_pool_index of x [N, spatial, C], and infers
// the gradient of x.
Result InferMaxPoolGradient(const Call& call) {
  const TensorType& gradient = call.type(0);
  const TensorType& index = call.type(1);
  const TensorType& x = call.type(2);
  ASSIGN_OR_RETURN(const Dims sizes, PooledSizes(call, x));
  CONSTRAINT(gradient.sizes == sizes && gradient.dtype == x.dtype, "max_pool_gradient_c1",
             "gradient ", ToText(gradient), " of x ", ToText(x));
  CONSTRAINT(index.sizes == sizes && index.dtype == DType::kI32, "max_pool_gradient_c2", "index ",
             ToText(index), " of x ", ToText(x));
  return One(x.dtype, x.sizes);
}

namespace {

// Checks q, k and v from operand `first` on, and the mask.
absl::Status CheckSdpa(const Call& call, size_t first, size_t mask_operand) {
  const TensorType& q = call.type(first);
  const TensorType& k = call.type(first + 1);
  const TensorType& v = call.type(first + 2);
  CONSTRAINT(q.rank() == 4 && k.rank() == 4 && v.rank() == 4, "sdpa_c1", "operands ", ToText(q),
             ", ", ToText(k), ", ", ToText(v), " are not [batch, heads, length, size]");
  CONSTRAINT(IsFloat(q.dtype) && q.dtype == k.dtype && q.dtype == v.dtype, "sdpa_c2",
             "operand types differ or are not floats");
  CONSTRAINT(k.sizes[0] == q.sizes[0] && v.sizes[0] == q.sizes[0] && k.sizes[1] == v.sizes[1] &&
                 k.sizes[2] == v.sizes[2] && k.sizes[3] == q.sizes[3],
             "sdpa_c3", "sizes of ", ToText(q), ", ", ToText(k), ", ", ToText(v), " do not fit");
  CONSTRAINT(k.sizes[1] > 0 && q.sizes[1] % k.sizes[1] == 0, "sdpa_c4", q.sizes[1],
             " query heads are not a multiple of ", k.sizes[1]);
  if (call.has(mask_operand)) {
    const TensorType& mask = call.type(mask_operand);
    Dims scores = {q.sizes[0], q.sizes[1], q.sizes[2], k.sizes[2]};
    CONSTRAINT(mask.dtype == q.dtype && BroadcastSizes(scores, mask.sizes) == scores, "sdpa_c5",
               "mask ", ToText(mask), " does not broadcast to ", DTypeName(q.dtype),
               ToText(scores));
  }
  return absl::OkStatus();
}

Dims SdpaSizes(const TensorType& q, const TensorType& v) {
  return {q.sizes[0], q.sizes[1], q.sizes[2], v.sizes[3]};
}

// The type of one number per row of scores.
TensorType RowStatistic(const TensorType& q) {
  const DType dtype = q.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  return Contiguous(dtype, {q.sizes[0], q.sizes[1], q.sizes[2], 1});
}

// Checks what a gradient gets from the forward. Gradient and result are operands 0 and 4, and q, k
// and v are 1 to 3; `statistic` is the operand with a number per row.
absl::Status CheckSaved(const Call& call, size_t statistic) {
  const TensorType& q = call.type(1);
  const Dims out = SdpaSizes(q, call.type(3));
  for (const size_t i : {0, 4}) {
    CONSTRAINT(call.type(i).dtype == q.dtype && call.sizes(i) == out, "sdpa_backward_c1",
               "operand ", i, " is ", ToText(call.type(i)), ", the result was ", DTypeName(q.dtype),
               ToText(out));
  }
  const TensorType expected = RowStatistic(q);
  CONSTRAINT(
      call.type(statistic).dtype == expected.dtype && call.sizes(statistic) == expected.sizes,
      "sdpa_backward_c2", "operand ", statistic, " is ", ToText(call.type(statistic)),
      " for queries ", ToText(q));
  return absl::OkStatus();
}

Types GradientTypes(const Call& call) {
  Types types;
  for (const size_t i : {1, 2, 3}) types.push_back(Contiguous(call.type(1).dtype, call.sizes(i)));
  return types;
}

// Checks how weights are dropped. They are kept with probability `keep`, as decided by the
// generator, whose state is operands `seed` and the next one. Either both are there or all weights
// are kept.
absl::Status CheckKept(const Call& call, size_t seed) {
  const double keep = call.Float(AttrKey::kKeep);
  CONSTRAINT(keep > 0 && keep <= 1 && call.Int(AttrKey::kBase) >= 0, "sdpa_train_c1", "keep ", keep,
             ", base ", call.Int(AttrKey::kBase));
  CONSTRAINT(call.has(seed) == call.has(seed + 1) && call.has(seed) == (keep < 1), "sdpa_train_c2",
             "seed and offset are given where weights are dropped, and only there");
  for (size_t i = seed; call.has(seed) && i < seed + 2; ++i) {
    CONSTRAINT(call.type(i).dtype == DType::kI64 && call.type(i).rank() == 0, "sdpa_train_c3",
               "operand ", i, " is ", ToText(call.type(i)), ", not one i64");
  }
  return absl::OkStatus();
}

}  // namespace

Result InferSdpa(const Call& call) {
  RETURN_IF_ERROR(CheckSdpa(call, 0, 3));
  return One(call.type(0).dtype, SdpaSizes(call.type(0), call.type(2)));
}

Result InferSdpaLogsumexp(const Call& call) {
  RETURN_IF_ERROR(CheckSdpa(call, 0, 3));
  const TensorType& q = call.type(0);
  return Types{Contiguous(q.dtype, SdpaSizes(q, call.type(2))), RowStatistic(q)};
}

Result InferSdpaBackward(const Call& call) {
  RETURN_IF_ERROR(CheckSdpa(call, 1, 6));
  RETURN_IF_ERROR(CheckSaved(call, 5));
  return GradientTypes(call);
}

Result InferSdpaTrain(const Call& call) {
  RETURN_IF_ERROR(CheckSdpa(call, 0, 3));
  RETURN_IF_ERROR(CheckKept(call, 4));
  const TensorType& q = call.type(0);
  return Types{Contiguous(q.dtype, SdpaSizes(q, call.type(2))), RowStatistic(q), RowStatistic(q)};
}

Result InferSdpaTrainBackward(const Call& call) {
  RETURN_IF_ERROR(CheckSdpa(call, 1, 7));
  RETURN_IF_ERROR(CheckSaved(call, 5));
  RETURN_IF_ERROR(CheckSaved(call, 6));
  RETURN_IF_ERROR(CheckKept(call, 8));
  return GradientTypes(call);
}

}  // namespace hpu::ir
