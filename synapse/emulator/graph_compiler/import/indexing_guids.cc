// Gathers (loads at computed positions), scatters (stores at computed positions, in order), one-hot
// and sorting.
#include <algorithm>

#include "synapse/emulator/graph_compiler/fusion/access_algebra.h"
#include "synapse/emulator/graph_compiler/import/guid_table.h"
#include "synapse/emulator/graph_compiler/import/importer.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::emulator {
namespace {

using Args = std::vector<E>;

absl::Status NeedInputs(const ShapeContext& context, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (!context.HasInput(i)) return InvalidArgument("input ", i, " is missing");
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> ReadAxis(const NodeDesc& node, size_t rank) {
  int32_t axis = 0;
  if (!ReadParams(node, &axis)) return InvalidArgument("params are missing");
  if (axis < 0 || static_cast<size_t>(axis) >= rank) {
    return InvalidArgument("axis ", axis, " is outside rank ", rank);
  }
  return static_cast<size_t>(axis);
}

Access WholeAccess(const View& view) { return {view.value, view.type, view.strides, view.offset}; }

// PyTorch's negative positions count from the end.
E WrapNegative(E index, int64_t size) {
  return Select(index < 0.0, index + static_cast<double>(size), index);
}

// ---- gathers --------------------------------------------------------------------------------

absl::StatusOr<std::vector<Sizes>> InferGather(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 2));
  Sizes out = context.Input(0);
  ASSIGN_OR_RETURN(const size_t axis, ReadAxis(context.node, out.size()));
  const Sizes& index = context.Input(1);
  out.erase(out.begin() + static_cast<int64_t>(axis));
  out.insert(out.begin() + static_cast<int64_t>(axis), index.begin(), index.end());
  return std::vector<Sizes>{out};
}

absl::StatusOr<std::vector<Sizes>> InferEmbedding(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 2));
  if (context.Input(0).size() != 2) return InvalidArgument("embedding weight is not a matrix");
  Sizes out = {context.Input(0)[0]};
  const Sizes& index = context.Input(1);
  out.insert(out.end(), index.begin(), index.end());
  return std::vector<Sizes>{out};
}

// Output: the table's shape with dimension `dim` replaced by those of the index.
void GatherRows(Importer& im, const View& table, const View& index, size_t dim) {
  const size_t index_rank = index.shape.size();
  Shape shape = im.OutputShape(0);
  if (shape.size() != table.shape.size() - 1 + index_rank) {
    // A reshaped declaration (for example without leading 1s): computed flat, then viewed.
    shape.assign(table.shape.begin(), table.shape.begin() + static_cast<int64_t>(dim));
    shape.insert(shape.end(), index.shape.begin(), index.shape.end());
    shape.insert(shape.end(), table.shape.begin() + static_cast<int64_t>(dim) + 1,
                 table.shape.end());
  }
  Access index_access{index.value, index.type, Shape(shape.size(), 0), index.offset};
  Access access{table.value, table.type, Shape(shape.size(), 0), table.offset};
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d < dim) {
      access.strides[d] = table.strides[d];
    } else if (d < dim + index_rank) {
      index_access.strides[d] = index.shape[d - dim] == 1 ? 0 : index.strides[d - dim];
    } else {
      access.strides[d] = table.strides[d - index_rank + 1];
    }
  }
  View out = im.OutputValue(0);
  ReshapeView(out, shape, &out);
  im.MapTo(out, {}, [&](BodyBuilder& body, const Args&) {
    const E position = WrapNegative(body.Load(index_access), table.shape[dim]);
    return body.LoadIndirect(access, position, table.strides[dim], table.shape[dim]);
  });
}

absl::Status ImportGather(Importer& im) {
  const size_t rank = im.Input(0).shape.size();
  ASSIGN_OR_RETURN(const size_t axis, ReadAxis(im.node(), rank));
  ns_GatherKernel_ParamsV2 params{};
  if (ReadParams(im.node(), &params) && params.batchDims != 0) {
    return Unimplemented("gather with batch dimensions");
  }
  GatherRows(im, im.Input(0), im.Input(1), FromFcdAxis(rank, static_cast<int64_t>(axis)));
  return absl::OkStatus();
}

absl::Status ImportEmbedding(Importer& im) {
  GatherRows(im, im.Input(0), im.Input(1), 0);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Sizes>> InferGatherElements(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 2));
  if (context.Input(0).size() != context.Input(1).size()) {
    return InvalidArgument("input and index differ in rank");
  }
  return std::vector<Sizes>{context.Input(1)};
}

absl::Status ImportGatherElements(Importer& im) {
  const View x = im.Input(0);
  const size_t rank = x.shape.size();
  ASSIGN_OR_RETURN(const size_t axis, ReadAxis(im.node(), rank));
  const size_t dim = FromFcdAxis(rank, static_cast<int64_t>(axis));
  Access access = WholeAccess(x);
  access.strides[dim] = 0;
  im.MapToOutput(0, {im.Input(1)}, [&](BodyBuilder& body, const Args& a) {
    return body.LoadIndirect(access, WrapNegative(a[0], x.shape[dim]), x.strides[dim],
                             x.shape[dim]);
  });
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Sizes>> InferTake(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 2));
  return std::vector<Sizes>{context.Input(1)};
}

absl::Status ImportTake(Importer& im) {
  const View x = im.Contiguous(im.Input(0));
  const int64_t size = NumElements(x.shape);
  im.MapToOutput(0, {im.Input(1)}, [&](BodyBuilder& body, const Args& a) {
    const Access access{x.value, x.type, Shape(im.OutputShape(0).size(), 0), x.offset};
    return body.LoadIndirect(access, WrapNegative(a[0], size), 1, size);
  });
  return absl::OkStatus();
}

// ---- scatters -------------------------------------------------------------------------------

// A loop over `domain` whose dimensions marked in `serial` run in order, last in the nest.
void AddSerialLoop(Importer& im, const Shape& domain, const std::vector<bool>& serial, Body body) {
  Node node;
  node.domain = domain;
  node.body = std::move(body);
  node.overwrites = true;
  std::vector<size_t> order;
  for (const bool wanted : {false, true}) {
    for (size_t d = 0; d < domain.size(); ++d) {
      if (serial[d] == wanted) order.push_back(d);
    }
  }
  PermuteDims(node, order);
  node.serial = static_cast<size_t>(std::count(serial.begin(), serial.end(), true));
  im.AddNode(std::move(node));
}

void CopyTo(Importer& im, const View& out, const View& x) {
  im.MapTo(out, {x}, [](BodyBuilder&, const Args& a) { return a[0]; });
}

enum class Update { kSet, kSum, kProd, kMax, kMin };

E Updated(Update update, E old, E element) {
  switch (update) {
    case Update::kSum:
      return old + element;
    case Update::kProd:
      return old * element;
    case Update::kMax:
      return Max(old, element);
    case Update::kMin:
      return Min(old, element);
    case Update::kSet:
      return element;
  }
  return element;
}

// out = x; out[..., index[i], ...] = update(out[...], src[i]) along `dim`. `index` and `src` have
// the shape of `src`, which may be smaller than x's.
void Scatter(Importer& im, const View& index, const View& src, size_t dim, Update update) {
  const View x = im.Input(0);
  const View out = im.OutputValue(0, &x.strides);
  CopyTo(im, out, x);
  Access target = WholeAccess(out);
  target.strides[dim] = 0;
  target.indirect_stride = out.strides[dim];
  target.indirect_limit = std::max<int64_t>(out.shape[dim], 1);
  BodyBuilder body;
  const E position = WrapNegative(body.Load(Importer::AccessOf(index, src.shape)), out.shape[dim]);
  target.indirect_value = position.id;
  E element = body.Load(WholeAccess(src));
  if (update != Update::kSet) {
    const E old =
        body.LoadIndirect(target, position, target.indirect_stride, target.indirect_limit);
    element = Updated(update, old, element);
  }
  body.Store(element, target);
  std::vector<bool> serial(src.shape.size(), false);
  serial[dim] = true;
  AddSerialLoop(im, src.shape, serial, body.Take());
}

View LimitTo(const View& view, const Shape& shape) {
  View result = view;
  for (size_t d = 0; d < shape.size(); ++d) result = SliceView(result, d, 0, shape[d], 1);
  return result;
}

absl::Status ImportScatter(Importer& im) {
  const size_t rank = im.Input(0).shape.size();
  ASSIGN_OR_RETURN(const size_t axis, ReadAxis(im.node(), rank));
  const View index = im.Input(1);
  if (index.shape.size() != rank || im.Input(2).shape.size() != rank) {
    return InvalidArgument("scatter operands differ in rank");
  }
  Scatter(im, index, LimitTo(im.Input(2), index.shape),
          FromFcdAxis(rank, static_cast<int64_t>(axis)), Update::kSet);
  return absl::OkStatus();
}

absl::Status ImportScatterReduce(Importer& im) {
  ns_ScatterReduceKernel_Params params{};
  if (!ReadParams(im.node(), &params)) return InvalidArgument("params are missing");
  const auto rank = static_cast<int32_t>(im.Input(0).shape.size());
  const int32_t dim = params.dim < 0 ? params.dim + rank : params.dim;
  if (dim < 0 || dim >= rank) return InvalidArgument("dim ", params.dim, " is outside rank ", rank);
  if (params.include_self == 0) return Unimplemented("scatter_reduce without the old values");
  static constexpr Update kUpdates[] = {Update::kSum, Update::kProd, Update::kSet, Update::kMax,
                                        Update::kMin};
  if (params.mode < 0 || params.mode > NS_SCATTER_REDUCE_AMIN ||
      params.mode == NS_SCATTER_REDUCE_MEAN) {
    return Unimplemented("scatter_reduce with mode ", params.mode);
  }
  const View index = im.Input(1);
  Scatter(im, index, LimitTo(im.Input(2), index.shape), static_cast<size_t>(dim),
          kUpdates[params.mode]);
  return absl::OkStatus();
}

// Clients disagree on the order in which the axis is counted: the one that fits is taken.
absl::StatusOr<size_t> IndexCopyDim(Importer& im) {
  const Shape& x = im.Input(0).shape;
  const Shape& src = im.Input(2).shape;
  ASSIGN_OR_RETURN(const size_t axis, ReadAxis(im.node(), x.size()));
  const int64_t count = NumElements(im.Input(1).shape);
  for (const size_t dim : {FromFcdAxis(x.size(), static_cast<int64_t>(axis)), axis}) {
    Shape expected = x;
    expected[dim] = count;
    if (src == expected) return dim;
  }
  return InvalidArgument("index_copy: no axis makes the source fit");
}

absl::Status ImportIndexCopy(Importer& im) {
  ASSIGN_OR_RETURN(const size_t dim, IndexCopyDim(im));
  const View src = im.Input(2);
  const View flat = im.Reshape(im.Input(1), {NumElements(im.Input(1).shape)});
  View index = flat;
  index.shape.assign(src.shape.size(), 1);
  index.strides.assign(src.shape.size(), 0);
  index.shape[dim] = flat.shape[0];
  index.strides[dim] = flat.strides[0];
  Scatter(im, index, src, dim, Update::kSet);
  return absl::OkStatus();
}

// idx[k, n...]: each k-tuple addresses the k outermost dimensions; upd (n..., rest...).
absl::Status ImportScatterNd(Importer& im) {
  const View x = im.Input(0);
  const View index = im.Input(1);
  const auto tuple = static_cast<size_t>(index.shape.back());
  const size_t index_dims = index.shape.size() - 1;
  if (tuple > x.shape.size()) return InvalidArgument("scatter_nd tuples longer than the rank");
  Shape domain(index.shape.begin(), index.shape.end() - 1);
  domain.insert(domain.end(), x.shape.begin() + static_cast<int64_t>(tuple), x.shape.end());
  const View update = im.Reshape(im.Input(2), domain);
  const View out = im.OutputValue(0);
  CopyTo(im, out, x);
  BodyBuilder body;
  E position = body.ConstInt(ScalarType::kI64, 0);
  int64_t limit = 1;
  for (size_t j = 0; j < tuple; ++j) {
    Access access{index.value, index.type, Shape(domain.size(), 0),
                  index.offset + static_cast<int64_t>(j) * index.strides.back()};
    for (size_t d = 0; d < index_dims; ++d) access.strides[d] = index.strides[d];
    const E one = WrapNegative(Cast(body.Load(access), ScalarType::kI64), x.shape[j]);
    const E last = body.ConstInt(ScalarType::kI64, std::max<int64_t>(x.shape[j] - 1, 0));
    const E inside = Min(Max(one, ConstLike(one, 0)), last);
    position = position + inside * static_cast<double>(out.strides[j]);
    limit += (x.shape[j] - 1) * out.strides[j];
  }
  Access target{out.value, out.type, Shape(domain.size(), 0), out.offset};
  for (size_t d = index_dims; d < domain.size(); ++d) {
    target.strides[d] = out.strides[d - index_dims + tuple];
  }
  target.indirect_value = position.id;
  target.indirect_stride = 1;
  target.indirect_limit = std::max<int64_t>(limit, 1);
  body.Store(body.Load(WholeAccess(update)), target);
  std::vector<bool> serial(domain.size(), false);
  for (size_t d = 0; d < index_dims; ++d) serial[d] = true;
  AddSerialLoop(im, domain, serial, body.Take());
  return absl::OkStatus();
}

// ---- one-hot, sorting -----------------------------------------------------------------------

absl::StatusOr<std::vector<Sizes>> InferOneHot(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 1));
  ns_OneHotKernel_Params params{};
  if (!ReadParams(context.node, &params)) return InvalidArgument("params are missing");
  Sizes out = context.Input(0);
  if (params.axis < 0 || static_cast<size_t>(params.axis) > out.size() || params.depth <= 0) {
    return InvalidArgument("one_hot of depth ", params.depth, " at axis ", params.axis);
  }
  out.insert(out.begin() + params.axis, static_cast<uint64_t>(params.depth));
  return std::vector<Sizes>{out};
}

absl::Status ImportOneHot(Importer& im) {
  ns_OneHotKernel_Params params{};
  ReadParams(im.node(), &params);
  View index = im.Input(0);
  const size_t rank = index.shape.size() + 1;
  const size_t dim = FromFcdAxis(rank, params.axis);
  index.shape.insert(index.shape.begin() + static_cast<int64_t>(dim), 1);
  index.strides.insert(index.strides.begin() + static_cast<int64_t>(dim), 0);
  Shape along(rank, 0);
  along[dim] = 1;
  im.MapToOutput(0, {index}, [&](BodyBuilder& body, const Args& a) {
    const ScalarType type = ComputeType(im.OutputType(0));
    return Select(EqualTo(a[0], body.Load(Importer::Iota(along))),
                  body.Const(type, params.on_value), body.Const(type, params.off_value));
  });
  return absl::OkStatus();
}

struct TopK {
  uint32_t k = 0;
  uint32_t axis = 0;
  bool bottom = false;
};

absl::StatusOr<TopK> ReadTopK(const NodeDesc& node, const Sizes& sizes) {
  TopK top;
  if (node.params.size() < 8) return InvalidArgument("topk params are missing");
  std::memcpy(&top.k, node.params.data(), 4);
  std::memcpy(&top.axis, node.params.data() + 4, 4);
  top.bottom = node.params.size() > 8 && node.params[8] != 0;
  if (top.axis >= sizes.size() || top.k > sizes[top.axis]) {
    return InvalidArgument("topk of ", top.k, " along axis ", top.axis);
  }
  return top;
}

absl::StatusOr<std::vector<Sizes>> InferTopK(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 1));
  Sizes out = context.Input(0);
  ASSIGN_OR_RETURN(const TopK top, ReadTopK(context.node, out));
  out[top.axis] = top.k;
  return std::vector<Sizes>(context.node.outputs.size(), out);
}

View MoveLast(const View& view, size_t dim) {
  std::vector<size_t> order;
  for (size_t d = 0; d < view.shape.size(); ++d) {
    if (d != dim) order.push_back(d);
  }
  order.push_back(dim);
  return PermuteView(view, order);
}

absl::Status ImportTopK(Importer& im) {
  const View x = im.Input(0);
  ASSIGN_OR_RETURN(const TopK top, ReadTopK(im.node(), im.InputDesc(0).sizes));
  const size_t dim = FromFcdAxis(x.shape.size(), top.axis);
  Node node;
  node.kind = NodeKind::kSort;
  node.a = MoveLast(x, dim);
  node.domain = node.a.shape;
  node.domain.back() = top.k;
  node.descending = !top.bottom;
  node.has_values = im.HasOutput(0);
  node.has_indices = im.HasOutput(1);
  if (node.has_values) node.out = MoveLast(im.OutputValue(0), dim);
  if (node.has_indices) node.out_indices = MoveLast(im.OutputValue(1), dim);
  im.AddNode(std::move(node));
  return absl::OkStatus();
}

const GuidRow kRows[] = {
    {"gather_fwd", InferGather, ImportGather},
    {"embedding_pt_fwd", InferEmbedding, ImportEmbedding},
    {"gather_elements_fwd", InferGatherElements, ImportGatherElements},
    {"take_fwd", InferTake, ImportTake},
    {"scatter_fwd", InferSameAsFirst, ImportScatter},
    {"scatter_reduce_fwd", InferSameAsFirst, ImportScatterReduce},
    {"index_copy_fwd", InferSameAsFirst, ImportIndexCopy},
    {"scatter_nd_onnx_fwd", InferSameAsFirst, ImportScatterNd},
    {"scatter_nd_update_fwd", InferSameAsFirst, ImportScatterNd},
    {"one_hot_fwd", InferOneHot, ImportOneHot},
    {"topk", InferTopK, ImportTopK},
};

}  // namespace

std::span<const GuidRow> IndexingRows() { return kRows; }

}  // namespace hpu::emulator
