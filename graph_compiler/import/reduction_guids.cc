// Reductions, index reductions and scans.
#include <algorithm>
#include <limits>

#include "graph_compiler/import/elementwise.h"
#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/import/importer.h"
#include "graph_compiler/ir/access_algebra.h"

namespace hpu::graph_compiler {
namespace {

using Dims = std::vector<size_t>;

struct Reduction {
  uint32_t mask = 0;  // bit i = FCD dimension i
  bool keep = true;
};

bool IsMultiDim(std::string_view base) {
  return base.find("_multi_dim_fwd") != std::string_view::npos;
}

absl::StatusOr<Reduction> ReadReduction(const NodeDesc& node, size_t rank) {
  Reduction reduction;
  const uint32_t all = rank >= 32 ? ~0u : (1u << rank) - 1;
  if (IsMultiDim(node.guid)) {
    ns_Reduction_ParamsV2 params{};
    if (!ReadParams(node, &params)) return InvalidArgument("reduction params are missing");
    reduction.mask = params.reductionDimensionMask == 0 ? all : params.reductionDimensionMask & all;
    reduction.keep = params.keepDim != 0;
    return reduction;
  }
  ns_Reduction_Params params{};
  if (!ReadParams(node, &params)) return InvalidArgument("reduction params are missing");
  if (params.reductionDimension >= rank) {
    return InvalidArgument("reduction of axis ", params.reductionDimension, " of rank ", rank);
  }
  reduction.mask = 1u << params.reductionDimension;
  return reduction;
}

absl::StatusOr<std::vector<Sizes>> InferReduction(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 1));
  const Sizes& in = context.Input(0);
  ASSIGN_OR_RETURN(const Reduction reduction, ReadReduction(context.node, in.size()));
  Sizes out;
  for (size_t i = 0; i < in.size(); ++i) {
    if ((reduction.mask >> i & 1) == 0) {
      out.push_back(in[i]);
    } else if (reduction.keep) {
      out.push_back(1);
    }
  }
  if (out.empty()) out.push_back(1);
  return std::vector<Sizes>(context.node.outputs.size(), out);
}

Dims DimsOf(const Reduction& reduction, size_t rank) {
  Dims dims;
  for (size_t d = 0; d < rank; ++d) {
    if ((reduction.mask >> (rank - 1 - d) & 1) != 0) dims.push_back(d);
  }
  return dims;
}

// Returns the output with its reduced dimensions put back with size 1.
View KeptDims(const View& out, const Shape& in, const Dims& dims) {
  Shape kept = in;
  for (const size_t dim : dims) kept[dim] = 1;
  View view;
  ReshapeView(out, kept, &view);
  return view;
}

struct KindRow {
  std::string_view stem;  // between "reduce_" and "_fwd" or "_multi_dim_fwd"
  ReduceKind kind;
};
constexpr KindRow kKinds[] = {
    {"sum", ReduceKind::kSum}, {"mean", ReduceKind::kSum},  {"max", ReduceKind::kMax},
    {"min", ReduceKind::kMin}, {"prod", ReduceKind::kProd}, {"sum_square", ReduceKind::kSum},
};

// Finds the position (row major over `dims`) of the first element equal to the extremum; a NaN
// counts as the extremum.
void ImportExtremumIndex(Importer& im, size_t output, const View& x, const Dims& dims,
                         ReduceKind kind) {
  const MemoryType type =
      ComputeType(x.type) == ScalarType::kF32 ? MemoryType::kF32 : MemoryType::kI64;
  const View extremum = im.Reduce(kind, type, x.shape, dims, {x}, FirstArg);
  Shape steps(x.shape.size(), 0);
  int64_t step = 1;
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    steps[*dim] = step;
    step *= x.shape[*dim];
  }
  const View out = KeptDims(im.OutputValue(output), x.shape, dims);
  im.ReduceTo(out, ReduceKind::kMin, x.shape, dims, {x, extremum},
              [&](BodyBuilder& body, const Args& a) {
                const E index = Cast(body.Load(Importer::Iota(steps)), ScalarType::kI32);
                E hit = EqualTo(AsStored(a[0], x), AsStored(a[1], x));
                if (a[0].type() == ScalarType::kF32) {
                  hit = Or(hit, body.Op(Opcode::kIsNan, ScalarType::kBool, {a[0]}));
                }
                return Select(hit, index,
                              body.ConstInt(ScalarType::kI32, std::numeric_limits<int32_t>::max()));
              });
}

absl::Status ImportReduction(Importer& im) {
  const View x = im.Input(0);
  const size_t rank = x.shape.size();
  ASSIGN_OR_RETURN(const Reduction reduction, ReadReduction(im.node(), rank));
  const Dims dims = DimsOf(reduction, rank);
  std::string_view stem = im.guid_base();
  stem.remove_prefix(std::string_view("reduce_").size());
  stem.remove_suffix(std::string_view(IsMultiDim(stem) ? "_multi_dim_fwd" : "_fwd").size());
  const auto* row = std::find_if(std::begin(kKinds), std::end(kKinds),
                                 [&](const KindRow& r) { return r.stem == stem; });
  if (row == std::end(kKinds)) return Internal("no reduction ", std::string(stem));
  const bool square = stem == "sum_square";
  const auto element = [&](BodyBuilder&, const Args& a) { return square ? a[0] * a[0] : a[0]; };
  if (im.HasOutput(1)) ImportExtremumIndex(im, 1, x, dims, row->kind);
  if (stem != "mean") {
    im.ReduceTo(KeptDims(im.OutputValue(0), x.shape, dims), row->kind, x.shape, dims, {x}, element);
    return absl::OkStatus();
  }
  int64_t count = 1;
  for (const size_t dim : dims) count *= x.shape[dim];
  const View sum =
      im.Reduce(row->kind, MemoryType::kF32, x.shape, dims, {x},
                [](BodyBuilder&, const Args& a) { return Cast(a[0], ScalarType::kF32); });
  im.MapTo(KeptDims(im.OutputValue(0), x.shape, dims), {sum},
           [&](BodyBuilder&, const Args& a) { return a[0] * (1.0 / static_cast<double>(count)); });
  return absl::OkStatus();
}

absl::Status ImportArgExtremum(Importer& im) {
  const View x = im.Input(0);
  ASSIGN_OR_RETURN(const Reduction reduction, ReadReduction(im.node(), x.shape.size()));
  const bool is_max = im.guid_base().rfind("argmax", 0) == 0;
  ImportExtremumIndex(im, 0, x, DimsOf(reduction, x.shape.size()),
                      is_max ? ReduceKind::kMax : ReduceKind::kMin);
  return absl::OkStatus();
}

View Reversed(const View& view, size_t dim) {
  View result = view;
  result.offset += (view.shape[dim] - 1) * view.strides[dim];
  result.strides[dim] = -view.strides[dim];
  return result;
}

// Adds a loop nest that goes along `dim` innermost and in order, so that an element may read what
// those before it stored.
void AddSerialLoop(Importer& im, const Shape& domain, size_t dim, Body body) {
  Node node;
  node.domain = domain;
  node.kind = Loop{.serial = 1};
  node.body = std::move(body);
  std::vector<size_t> order;
  for (size_t d = 0; d < domain.size(); ++d) {
    if (d != dim) order.push_back(d);
  }
  order.push_back(dim);
  PermuteDims(node, order);
  im.AddNode(std::move(node));
}

// Loads the element whose position along `dim` is `place`.
E LoadAlong(BodyBuilder& body, const View& view, size_t dim, E place) {
  Access access{view.value, view.type, view.strides, view.offset};
  access.strides[dim] = 0;
  return body.LoadIndirect(access, place, view.strides[dim], view.shape[dim]);
}

E PositionAlong(BodyBuilder& body, size_t rank, size_t dim) {
  Shape along(rank, 0);
  along[dim] = 1;
  return body.Load(Importer::Iota(along));
}

absl::StatusOr<size_t> ScannedDim(int32_t axis, size_t rank) {
  if (axis < 0 || static_cast<size_t>(axis) >= rank) {
    return InvalidArgument("scan along axis ", axis, " of rank ", rank);
  }
  return FromFcdAxis(rank, axis);
}

// Computes y[i] = y[i-1] op x[i] in order of i. The exclusive form is y[i] = y[i-1] op x[i-1] and
// starts at the identity.
absl::Status ImportScan(Importer& im) {
  ns_CumSumKernel_Params params{};
  if (!ReadParams(im.node(), &params)) return InvalidArgument("params are missing");
  View x = im.Input(0);
  ASSIGN_OR_RETURN(const size_t dim, ScannedDim(params.axis, x.shape.size()));
  const bool product = im.guid_base() == "cumprod_fwd";
  const bool narrow = MemoryTypeSize(im.OutputType(0)) < 4;
  const MemoryType type = !narrow                                             ? im.OutputType(0)
                          : ComputeType(im.OutputType(0)) == ScalarType::kF32 ? MemoryType::kF32
                                                                              : MemoryType::kI32;
  const View result = narrow ? im.NewValue(type, x.shape) : im.OutputValue(0);
  View out = result;
  if (params.reverse != 0) {
    x = Reversed(x, dim);
    out = Reversed(out, dim);
  }
  BodyBuilder body;
  const E index = PositionAlong(body, x.shape.size(), dim);
  const E before = Max(index - 1.0, ConstLike(index, 0));
  const E x_i = params.exclusive != 0 ? LoadAlong(body, x, dim, before)
                                      : body.Load(Importer::AccessOf(x, x.shape));
  const E is_first = EqualTo(index, ConstLike(index, 0));
  const E identity = body.Const(ComputeType(type), product ? 1 : 0);
  const E element = Cast(x_i, ComputeType(type));
  const E y = LoadAlong(body, out, dim, before);
  const E joined = product ? y * element : y + element;
  body.Store(Select(is_first, params.exclusive != 0 ? identity : element, joined),
             Importer::AccessOf(out, out.shape));
  AddSerialLoop(im, x.shape, dim, body.Take());
  if (narrow) im.Bind(0, im.CastTo(result, im.OutputType(0)));
  return absl::OkStatus();
}

// Output 1 is the place of the last extremum so far, and output 0 the element there. A NaN counts
// as the extremum: a comparison with it is false, so that only another NaN replaces it.
absl::Status ImportRunningExtremum(Importer& im) {
  ns_CumMaxKernel_Params params{};
  if (!ReadParams(im.node(), &params)) return InvalidArgument("params are missing");
  const View x = im.Input(0);
  ASSIGN_OR_RETURN(const size_t dim, ScannedDim(params.axis, x.shape.size()));
  const View places = im.HasOutput(1) ? im.OutputValue(1) : im.NewValue(MemoryType::kI32, x.shape);
  BodyBuilder body;
  const E index = PositionAlong(body, x.shape.size(), dim);
  const E before = Max(index - 1.0, ConstLike(index, 0));
  const E place = LoadAlong(body, places, dim, before);
  const E extremum = LoadAlong(body, x, dim, place);
  const E x_i = AsStored(body.Load(Importer::AccessOf(x, x.shape)), x);
  E replaces = im.guid_base() == "cummax_fwd" ? x_i >= extremum : x_i <= extremum;
  if (x_i.type() == ScalarType::kF32) {
    replaces = Or(replaces, body.Op(Opcode::kIsNan, ScalarType::kBool, {x_i}));
  }
  replaces = Or(replaces, EqualTo(index, ConstLike(index, 0)));
  body.Store(Select(replaces, Cast(index, place.type()), place),
             Importer::AccessOf(places, places.shape));
  AddSerialLoop(im, x.shape, dim, body.Take());
  if (!im.HasOutput(0)) return absl::OkStatus();
  im.MapTo(im.OutputValue(0), {places},
           [&](BodyBuilder& value, const Args& a) { return LoadAlong(value, x, dim, a[0]); });
  return absl::OkStatus();
}

const GuidRow kReductionRows[] = {
    {"reduce_sum_fwd", InferReduction, ImportReduction},
    {"reduce_mean_fwd", InferReduction, ImportReduction},
    {"reduce_max_fwd", InferReduction, ImportReduction},
    {"reduce_min_fwd", InferReduction, ImportReduction},
    {"reduce_prod_fwd", InferReduction, ImportReduction},
    {"reduce_sum_square_fwd", InferReduction, ImportReduction},
    {"reduce_sum_multi_dim_fwd", InferReduction, ImportReduction},
    {"reduce_mean_multi_dim_fwd", InferReduction, ImportReduction},
    {"reduce_max_multi_dim_fwd", InferReduction, ImportReduction},
    {"reduce_min_multi_dim_fwd", InferReduction, ImportReduction},
    {"reduce_prod_multi_dim_fwd", InferReduction, ImportReduction},
    {"reduce_sum_square_multi_dim_fwd", InferReduction, ImportReduction},
    {"argmax_fwd", InferReduction, ImportArgExtremum},
    {"argmin_fwd", InferReduction, ImportArgExtremum},
    {"argmax_multi_dim_fwd", InferReduction, ImportArgExtremum},
    {"argmin_multi_dim_fwd", InferReduction, ImportArgExtremum},
    {"cummax_fwd", InferSameAsFirst, ImportRunningExtremum},
    {"cummin_fwd", InferSameAsFirst, ImportRunningExtremum},
    {"cumsum_fwd", InferSameAsFirst, ImportScan},
    {"cumprod_fwd", InferSameAsFirst, ImportScan},
};

}  // namespace

std::span<const GuidRow> ReductionRows() { return kReductionRows; }

}  // namespace hpu::graph_compiler
