#include <algorithm>

#include "compiler_server/ir/constraint.h"
#include "compiler_server/ir/infer_rules.h"

namespace hpu::ir {

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
  CONSTRAINT(BroadcastSizes(call.declared->sizes, x.sizes) == call.declared->sizes, "expand_c1",
             ToText(x), " does not expand to ", ToText(call.declared->sizes));
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

namespace {

// Checks that the addressed elements are in x's memory.
absl::Status CheckStrided(const Call& call, const TensorType& view) {
  const Dims& strides = call.Ints(AttrKey::kStrides);
  // Results of IR ops have row-major memory; the memory of all other values follows their strides.
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

}  // namespace

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

namespace {

absl::Status CheckIndex(const Call& call) {
  const int64_t dim = call.Int(AttrKey::kDim);
  CONSTRAINT(HasDim(call.type(0), dim), "dim_c1", "dim ", dim, " is outside ",
             ToText(call.type(0)));
  CONSTRAINT(IsInteger(call.type(1).dtype), "index_c1", "index is ", ToText(call.type(1)));
  return absl::OkStatus();
}

}  // namespace

Result InferGather(const Call& call) {
  RETURN_IF_ERROR(CheckIndex(call));
  const Dims& x = call.sizes(0);
  const int64_t dim = call.Int(AttrKey::kDim);
  Dims sizes(x.begin(), x.begin() + dim);
  sizes.insert(sizes.end(), call.sizes(1).begin(), call.sizes(1).end());
  sizes.insert(sizes.end(), x.begin() + dim + 1, x.end());
  return One(call.type(0).dtype, std::move(sizes));
}

namespace {

bool FitsIndex(const Call& call) {
  if (call.type(0).rank() != call.type(1).rank()) return false;
  for (int64_t i = 0; i < call.type(0).rank(); ++i) {
    if (i != call.Int(AttrKey::kDim) && call.sizes(1)[i] > call.sizes(0)[i]) return false;
  }
  return true;
}

}  // namespace

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

}  // namespace hpu::ir
