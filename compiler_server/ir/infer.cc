#include "compiler_server/ir/infer.h"

#include <algorithm>

#include "compiler_server/ir/constraint.h"

namespace hpu::ir {
namespace {

using Types = std::vector<TensorType>;
using Result = absl::StatusOr<Types>;

struct Call {
  OpKind op;
  std::span<Value* const> operands;
  const Attrs& attrs;
  const TensorType* declared;

  const TensorType& type(size_t i) const { return operands[i]->type; }
  const Dims& sizes(size_t i) const { return operands[i]->type.sizes; }
  bool has(size_t i) const { return i < operands.size() && operands[i] != nullptr; }
  int64_t Int(AttrKey key) const { return std::get<int64_t>(*attrs.Find(key)); }
  bool Bool(AttrKey key) const { return std::get<bool>(*attrs.Find(key)); }
  const Dims& Ints(AttrKey key) const { return std::get<Dims>(*attrs.Find(key)); }
};

Types One(DType dtype, Dims sizes) { return {Contiguous(dtype, std::move(sizes))}; }

bool HasDim(const TensorType& type, int64_t dim) { return dim >= 0 && dim < type.rank(); }

Result InferBroadcast(const Call& call) {
  Dims sizes;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    CONSTRAINT(BroadcastSizes(sizes, call.sizes(i), &sizes), "elementwise_c2", "sizes ",
               ToText(sizes), " and ", ToText(call.sizes(i)), " do not broadcast");
  }
  const size_t first = call.op == OpKind::kWhere ? 1 : 0;
  if (first == 1) {
    CONSTRAINT(call.type(0).dtype == DType::kBool, "where_c1", "condition is ",
               DTypeName(call.type(0).dtype), ", not bool");
  }
  const DType dtype = call.type(first).dtype;
  for (size_t i = first; i < call.operands.size(); ++i) {
    CONSTRAINT(call.type(i).dtype == dtype, "elementwise_c1", "operand types ", DTypeName(dtype),
               " and ", DTypeName(call.type(i).dtype), " differ");
  }
  switch (Traits(call.op).result_type) {
    case ResultType::kBool:
      return One(DType::kBool, std::move(sizes));
    case ResultType::kDeclared:
      return One(call.declared->dtype, std::move(sizes));
    default:
      return One(dtype, std::move(sizes));
  }
}

Result InferSame(const Call& call) {
  const TensorType& x = call.type(0);
  CONSTRAINT(HasDim(x, call.Int(AttrKey::kDim)), "dim_c1", "dim ", call.Int(AttrKey::kDim),
             " is outside ", ToText(x));
  return One(x.dtype, x.sizes);
}

Result InferReduce(const Call& call) {
  const TensorType& x = call.type(0);
  const Dims& dims = call.Ints(AttrKey::kDims);
  Dims sizes;
  size_t next = 0;
  for (int64_t i = 0; i < x.rank(); ++i) {
    const bool reduced = next < dims.size() && dims[next] == i;
    if (reduced) ++next;
    if (!reduced) sizes.push_back(x.sizes[i]);
    if (reduced && call.Bool(AttrKey::kKeepdim)) sizes.push_back(1);
  }
  CONSTRAINT(next == dims.size(), "reduce_c1", "dims ", ToText(dims),
             " are not sorted, unique and inside ", ToText(x));
  const bool by_index = call.op == OpKind::kArgmax || call.op == OpKind::kArgmin;
  CONSTRAINT(!by_index || dims.size() == 1, "reduce_c2", "takes exactly one dim");
  return One(by_index ? DType::kI64 : x.dtype, std::move(sizes));
}

Result InferNorm(const Call& call) {
  const TensorType& x = call.type(0);
  const int64_t axes = call.Int(AttrKey::kAxes);
  CONSTRAINT(axes >= 1 && axes <= x.rank(), "norm_c1", axes, " normalised axes of ", ToText(x));
  const Dims tail(x.sizes.end() - axes, x.sizes.end());
  for (size_t i = 1; i < call.operands.size(); ++i) {
    if (!call.has(i)) continue;
    CONSTRAINT(call.sizes(i) == tail && call.type(i).dtype == x.dtype, "norm_c2", "operand ", i,
               " is ", ToText(call.type(i)), ", not ", DTypeName(x.dtype), ToText(tail));
  }
  return One(x.dtype, x.sizes);
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
  Dims sizes;
  CONSTRAINT(BroadcastSizes(std::span(a.sizes).first(a.rank() - 2),
                            std::span(b.sizes).first(b.rank() - 2), &sizes),
             "matmul_c4", "batch sizes of ", ToText(a), " and ", ToText(b), " do not broadcast");
  sizes.push_back(a_matrix[0]);
  sizes.push_back(b_matrix[1]);
  return One(a.dtype, std::move(sizes));
}

// Window attributes: one entry per spatial dimension (pads: two), all in range.
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

// x [N, spatial, K], weight [spatial, C/g, K] -> [N, spatial, C]: the gradient of conv by its
// input. The forward convolution of the declared result must give x's sizes.
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

Result InferPool(const Call& call) {
  const TensorType& x = call.type(0);
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
  return One(x.dtype, std::move(sizes));
}

Result InferSdpa(const Call& call) {
  const TensorType& q = call.type(0);
  const TensorType& k = call.type(1);
  const TensorType& v = call.type(2);
  CONSTRAINT(q.rank() == 4 && k.rank() == 4 && v.rank() == 4, "sdpa_c1", "operands ", ToText(q),
             ", ", ToText(k), ", ", ToText(v), " are not [batch, heads, length, size]");
  CONSTRAINT(q.dtype == k.dtype && q.dtype == v.dtype, "sdpa_c2", "operand types differ");
  CONSTRAINT(k.sizes[0] == q.sizes[0] && v.sizes[0] == q.sizes[0] && k.sizes[1] == v.sizes[1] &&
                 k.sizes[2] == v.sizes[2] && k.sizes[3] == q.sizes[3],
             "sdpa_c3", "sizes of ", ToText(q), ", ", ToText(k), ", ", ToText(v), " do not fit");
  CONSTRAINT(k.sizes[1] > 0 && q.sizes[1] % k.sizes[1] == 0, "sdpa_c4", q.sizes[1],
             " query heads are not a multiple of ", k.sizes[1]);
  if (call.has(3)) {
    const TensorType& mask = call.type(3);
    Dims scores = {q.sizes[0], q.sizes[1], q.sizes[2], k.sizes[2]};
    Dims both;
    CONSTRAINT(mask.dtype == q.dtype && BroadcastSizes(scores, mask.sizes, &both) && both == scores,
               "sdpa_c5", "mask ", ToText(mask), " does not broadcast to ", DTypeName(q.dtype),
               ToText(scores));
  }
  return One(q.dtype, {q.sizes[0], q.sizes[1], q.sizes[2], v.sizes[3]});
}

Result InferReshape(const Call& call) {
  const TensorType& x = call.type(0);
  CONSTRAINT(x.elements() == call.declared->elements(), "reshape_c1", ToText(x), " has ",
             x.elements(), " elements, ", ToText(*call.declared), " has ",
             call.declared->elements());
  return One(x.dtype, call.declared->sizes);
}

Result InferPermute(const Call& call) {
  const TensorType& x = call.type(0);
  const Dims& perm = call.Ints(AttrKey::kPerm);
  Dims sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  bool complete = static_cast<int>(perm.size()) == x.rank();
  for (size_t i = 0; complete && i < sorted.size(); ++i) {
    complete = sorted[i] == static_cast<int64_t>(i);
  }
  CONSTRAINT(complete, "permute_c1", ToText(perm), " is no permutation of the dimensions of ",
             ToText(x));
  Dims sizes;
  for (int64_t dim : perm) sizes.push_back(x.sizes[dim]);
  return One(x.dtype, std::move(sizes));
}

Result InferExpand(const Call& call) {
  const TensorType& x = call.type(0);
  Dims both;
  CONSTRAINT(BroadcastSizes(call.declared->sizes, x.sizes, &both) && both == call.declared->sizes,
             "expand_c1", ToText(x), " does not expand to ", ToText(call.declared->sizes));
  return One(x.dtype, call.declared->sizes);
}

Result InferSlice(const Call& call) {
  const TensorType& x = call.type(0);
  const Dims& starts = call.Ints(AttrKey::kStarts);
  const Dims& limits = call.Ints(AttrKey::kLimits);
  const Dims& steps = call.Ints(AttrKey::kSteps);
  CONSTRAINT(starts.size() == x.sizes.size() && limits.size() == x.sizes.size() &&
                 steps.size() == x.sizes.size(),
             "slice_c1", "starts, limits and steps need one entry per dimension of ", ToText(x));
  Dims sizes;
  for (size_t i = 0; i < starts.size(); ++i) {
    CONSTRAINT(starts[i] >= 0 && starts[i] <= limits[i] && limits[i] <= x.sizes[i] && steps[i] >= 1,
               "slice_c2", "range ", starts[i], ":", limits[i], ":", steps[i], " of dimension ", i,
               " in ", ToText(x));
    sizes.push_back((limits[i] - starts[i] + steps[i] - 1) / steps[i]);
  }
  return One(x.dtype, std::move(sizes));
}

Result InferConcat(const Call& call) {
  CONSTRAINT(!call.operands.empty(), "concat_c1", "no operands");
  const TensorType& first = call.type(0);
  const int64_t dim = call.Int(AttrKey::kDim);
  CONSTRAINT(HasDim(first, dim), "dim_c1", "dim ", dim, " is outside ", ToText(first));
  Dims sizes = first.sizes;
  for (size_t i = 1; i < call.operands.size(); ++i) {
    const TensorType& next = call.type(i);
    Dims other = next.sizes;
    bool fits = next.dtype == first.dtype && next.rank() == first.rank();
    if (fits) other[dim] = first.sizes[dim];
    CONSTRAINT(fits && other == first.sizes, "concat_c2", "operand ", i, " ", ToText(next),
               " does not fit ", ToText(first));
    sizes[dim] += next.sizes[dim];
  }
  return One(first.dtype, std::move(sizes));
}

Result InferPad(const Call& call) {
  const TensorType& x = call.type(0);
  const Dims& low = call.Ints(AttrKey::kLow);
  const Dims& high = call.Ints(AttrKey::kHigh);
  CONSTRAINT(low.size() == x.sizes.size() && high.size() == x.sizes.size(), "pad_c1",
             "low and high need one entry per dimension of ", ToText(x));
  Dims sizes;
  for (size_t i = 0; i < low.size(); ++i) {
    CONSTRAINT(low[i] >= 0 && high[i] >= 0, "pad_c2", "negative padding of dimension ", i);
    sizes.push_back(x.sizes[i] + low[i] + high[i]);
  }
  return One(x.dtype, std::move(sizes));
}

// The addressed elements must lie in x's memory.
absl::Status CheckStrided(const Call& call, const TensorType& view) {
  const Dims& strides = call.Ints(AttrKey::kStrides);
  // The memory of a result of ours is row-major; that of the others is what their strides say.
  const int64_t offset = call.Int(AttrKey::kOffset);
  CONSTRAINT(strides.size() == view.sizes.size(), "strided_c1", "strides ", ToText(strides),
             " for ", ToText(view));
  CONSTRAINT(std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s >= 0; }),
             "strided_c2", "negative stride in ", ToText(strides));
  const int64_t span = SpanElements({view.dtype, view.sizes, strides});
  CONSTRAINT(offset >= 0 && (span == 0 || offset + span <= SpanElements(call.type(0))),
             "strided_c3", "elements ", offset, " to ", offset + span, " are outside ",
             ToText(call.type(0)));
  return absl::OkStatus();
}

Result InferStrided(const Call& call) {
  RETURN_IF_ERROR(CheckStrided(call, *call.declared));
  return One(call.type(0).dtype, call.declared->sizes);
}

Result InferStridedScatter(const Call& call) {
  RETURN_IF_ERROR(CheckStrided(call, call.type(1)));
  CONSTRAINT(call.type(0).dtype == call.type(1).dtype, "strided_scatter_c1",
             "operand types differ");
  return One(call.type(0).dtype, call.sizes(0));
}

absl::Status CheckIndex(const Call& call) {
  const int64_t dim = call.Int(AttrKey::kDim);
  CONSTRAINT(HasDim(call.type(0), dim), "dim_c1", "dim ", dim, " is outside ",
             ToText(call.type(0)));
  CONSTRAINT(IsInteger(call.type(1).dtype), "index_c1", "index is ", ToText(call.type(1)));
  return absl::OkStatus();
}

Result InferGather(const Call& call) {
  RETURN_IF_ERROR(CheckIndex(call));
  const Dims& x = call.sizes(0);
  const int64_t dim = call.Int(AttrKey::kDim);
  Dims sizes(x.begin(), x.begin() + dim);
  sizes.insert(sizes.end(), call.sizes(1).begin(), call.sizes(1).end());
  sizes.insert(sizes.end(), x.begin() + dim + 1, x.end());
  return One(call.type(0).dtype, std::move(sizes));
}

bool FitsIndex(const Call& call) {
  if (call.type(0).rank() != call.type(1).rank()) return false;
  for (int64_t i = 0; i < call.type(0).rank(); ++i) {
    if (i != call.Int(AttrKey::kDim) && call.sizes(1)[i] > call.sizes(0)[i]) return false;
  }
  return true;
}

Result InferGatherElements(const Call& call) {
  RETURN_IF_ERROR(CheckIndex(call));
  CONSTRAINT(FitsIndex(call), "gather_elements_c1", "index ", ToText(call.type(1)),
             " does not fit ", ToText(call.type(0)));
  return One(call.type(0).dtype, call.sizes(1));
}

Result InferScatter(const Call& call) {
  RETURN_IF_ERROR(CheckIndex(call));
  CONSTRAINT(
      FitsIndex(call) && call.sizes(2) == call.sizes(1) && call.type(2).dtype == call.type(0).dtype,
      "scatter_c1", "index ", ToText(call.type(1)), " and source ", ToText(call.type(2)),
      " do not fit ", ToText(call.type(0)));
  return One(call.type(0).dtype, call.sizes(0));
}

Result InferTopk(const Call& call) {
  const TensorType& x = call.type(0);
  const int64_t dim = call.Int(AttrKey::kDim);
  const int64_t k = call.Int(AttrKey::kK);
  CONSTRAINT(HasDim(x, dim) && k >= 0 && k <= x.sizes[dim], "topk_c1", k, " of dimension ", dim,
             " in ", ToText(x));
  Dims sizes = x.sizes;
  sizes[dim] = k;
  return Types{Contiguous(x.dtype, sizes), Contiguous(DType::kI64, sizes)};
}

Result InferVector(const Call& call) {
  CONSTRAINT(call.declared->rank() == 1, "iota_c1", "result ", ToText(*call.declared),
             " is no vector");
  return One(call.declared->dtype, call.declared->sizes);
}

// Batch and channels stay; the spatial sizes are declared.
Result InferWindowDeclared(const Call& call) {
  const TensorType& x = call.type(0);
  const TensorType& y = *call.declared;
  CONSTRAINT(x.rank() >= 3 && y.rank() == x.rank() && y.sizes.front() == x.sizes.front() &&
                 y.sizes.back() == x.sizes.back(),
             "resize_c1", "result ", ToText(y), " for ", ToText(x));
  return One(x.dtype, y.sizes);
}

Result InferDeclared(const Call& call) { return One(call.declared->dtype, call.declared->sizes); }

bool NeedsDeclared(OpKind op) {
  switch (Traits(op).shape) {
    case ShapeRule::kReshape:
    case ShapeRule::kExpand:
    case ShapeRule::kStrided:
    case ShapeRule::kVector:
    case ShapeRule::kWindowDeclared:
    case ShapeRule::kConvTranspose:
    case ShapeRule::kDeclared:
      return true;
    default:
      return Traits(op).result_type == ResultType::kDeclared;
  }
}

Result Dispatch(const Call& call) {
  switch (Traits(call.op).shape) {
    case ShapeRule::kBroadcast:
      return InferBroadcast(call);
    case ShapeRule::kSame:
      return InferSame(call);
    case ShapeRule::kReduce:
      return InferReduce(call);
    case ShapeRule::kNorm:
      return InferNorm(call);
    case ShapeRule::kMatmul:
      return InferMatmul(call);
    case ShapeRule::kConv:
      return InferConv(call);
    case ShapeRule::kConvTranspose:
      return InferConvTranspose(call);
    case ShapeRule::kSdpa:
      return InferSdpa(call);
    case ShapeRule::kReshape:
      return InferReshape(call);
    case ShapeRule::kPermute:
      return InferPermute(call);
    case ShapeRule::kExpand:
      return InferExpand(call);
    case ShapeRule::kSlice:
      return InferSlice(call);
    case ShapeRule::kConcat:
      return InferConcat(call);
    case ShapeRule::kPad:
      return InferPad(call);
    case ShapeRule::kStrided:
      return InferStrided(call);
    case ShapeRule::kStridedScatter:
      return InferStridedScatter(call);
    case ShapeRule::kGather:
      return InferGather(call);
    case ShapeRule::kGatherElements:
      return InferGatherElements(call);
    case ShapeRule::kScatter:
      return InferScatter(call);
    case ShapeRule::kTopk:
      return InferTopk(call);
    case ShapeRule::kVector:
      return InferVector(call);
    case ShapeRule::kPool:
      return InferPool(call);
    case ShapeRule::kWindowDeclared:
      return InferWindowDeclared(call);
    case ShapeRule::kDeclared:
      return InferDeclared(call);
  }
  return Internal("op without a shape rule");
}

}  // namespace

int64_t WindowPositions(int64_t size, int64_t low, int64_t high, int64_t kernel, int64_t stride,
                        int64_t dilation, bool ceil) {
  const int64_t room = size + low + high - dilation * (kernel - 1) - 1;
  if (room < 0) return 0;
  int64_t positions = room / stride + 1;
  // PyTorch: a window may start in the input or the low padding, never in the high padding.
  if (ceil && room % stride != 0 && positions * stride < size + low) ++positions;
  return positions;
}

absl::Status CheckForm(OpKind op, std::span<Value* const> operands, const Attrs& attrs) {
  const OpTraits& traits = Traits(op);
  const int count = static_cast<int>(operands.size());
  CONSTRAINT(
      count >= traits.min_operands && (traits.max_operands < 0 || count <= traits.max_operands),
      "form_c1", traits.name, " has ", count, " operands");
  for (int i = 0; i < count; ++i) {
    const bool optional = traits.max_operands >= 0 && i >= traits.min_operands;
    CONSTRAINT(operands[i] != nullptr || optional, "form_c2", "operand ", i, " of ", traits.name,
               " is absent");
  }
  CONSTRAINT(attrs.items().size() == traits.attrs.size(), "form_c3", traits.name, " takes ",
             traits.attrs.size(), " attributes, not ", attrs.items().size());
  for (const AttrSpec& spec : traits.attrs) {
    const Attr* attr = attrs.Find(spec.key);
    // Attr's alternatives are in the order of AttrType.
    CONSTRAINT(attr != nullptr && attr->index() == static_cast<size_t>(spec.type), "form_c4",
               traits.name, ": attribute ", AttrName(spec.key), " is missing or of another type");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TensorType>> InferTypes(OpKind op, std::span<Value* const> operands,
                                                   const Attrs& attrs, const TensorType* declared) {
  RETURN_IF_ERROR(CheckForm(op, operands, attrs));
  const OpTraits& traits = Traits(op);
  if (NeedsDeclared(op) && declared == nullptr) {
    return Internal(traits.name, " needs a declared result type");
  }
  for (size_t i = op == OpKind::kWhere ? 1 : 0; i < operands.size(); ++i) {
    // Index operands have their own rule.
    if (operands[i] == nullptr || (i > 0 && traits.op_class == OpClass::kIndex)) continue;
    CONSTRAINT(Contains(traits.dtypes, operands[i]->type.dtype), "dtype_c1", "operand ", i, " of ",
               traits.name, " is ", DTypeName(operands[i]->type.dtype));
  }
  return Dispatch({op, operands, attrs, declared});
}

}  // namespace hpu::ir
