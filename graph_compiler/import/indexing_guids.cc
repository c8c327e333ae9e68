// Gathers (loads at computed positions), one-hot and sorting.

#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/import/importer.h"
#include "graph_compiler/import/indexing.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::graph_compiler {
namespace {

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

// The output has the shape of the table with dimension `dim` replaced by the dimensions of the
// index.
void GatherRows(Importer& im, const View& table, const View& index, size_t dim) {
  const size_t index_rank = index.shape.size();
  Shape shape = im.OutputShape(0);
  if (shape.size() != table.shape.size() - 1 + index_rank) {
    // The output is declared with another shape (for example without leading 1s), so it is computed
    // flat and then viewed.
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
    return LoadAt(body, access, body.Load(index_access), table.strides[dim], table.shape[dim]);
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
    return LoadAt(body, access, a[0], x.strides[dim], x.shape[dim]);
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
    return LoadAt(body, access, WrapNegative(a[0], size), 1, size);
  });
  return absl::OkStatus();
}

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
  Sort sort{.in = MoveLast(x, dim), .descending = !top.bottom};
  if (im.HasOutput(0)) sort.values = MoveLast(im.OutputValue(0), dim);
  if (im.HasOutput(1)) sort.indices = MoveLast(im.OutputValue(1), dim);
  Node node;
  node.domain = sort.in.shape;
  node.domain.back() = top.k;
  node.kind = std::move(sort);
  im.AddNode(std::move(node));
  return absl::OkStatus();
}

const GuidRow kIndexingRows[] = {
    {"gather_fwd", InferGather, ImportGather},
    {"embedding_pt_fwd", InferEmbedding, ImportEmbedding},
    {"gather_elements_fwd", InferGatherElements, ImportGatherElements},
    {"take_fwd", InferTake, ImportTake},
    {"one_hot_fwd", InferOneHot, ImportOneHot},
    {"topk", InferTopK, ImportTopK},
};

}  // namespace

std::span<const GuidRow> IndexingRows() { return kIndexingRows; }

}  // namespace hpu::graph_compiler
