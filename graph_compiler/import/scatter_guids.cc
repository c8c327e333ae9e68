// Scatters become stores at computed positions, in order.
#include <algorithm>

#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/import/importer.h"
#include "graph_compiler/import/indexing.h"
#include "graph_compiler/ir/access_algebra.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::graph_compiler {
namespace {

// Adds a loop over `domain` whose dimensions marked in `serial` run in order, last in the nest.
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
  const auto count = std::count(serial.begin(), serial.end(), true);
  node.kind = Loop{.serial = static_cast<size_t>(count)};
  im.AddNode(std::move(node));
}

// Copies the content that a scatter starts from. Nothing is to be done where the output lies in the
// input's own memory.
void CopyTo(Importer& im, const View& out, const View& x) {
  if (!im.TakeInPlace(0, out)) im.MapTo(out, {x}, FirstArg);
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

// Computes out = x; out[..., index[i], ...] = update(out[...], src[i]) along `dim`. `index` and
// `src` have the shape of `src`, which may be smaller than the shape of x. An index outside of the
// dimension writes nothing, as on a card, whose engines drop stores outside of a tensor.
void Scatter(Importer& im, const View& index, const View& src, size_t dim, Update update) {
  const View x = im.Input(0);
  const View out = im.OutputValue(0, &x.strides);
  CopyTo(im, out, x);
  Access target = WholeAccess(out);
  target.strides[dim] = 0;
  target.indirect_stride = out.strides[dim];
  target.indirect_limit = std::max<int64_t>(out.shape[dim], 1);
  BodyBuilder body;
  const E position = body.Load(Importer::AccessOf(index, src.shape));
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

// Clients disagree on the order in which the axis is counted, so the order that fits is taken.
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

// In idx[k, n...] each k-tuple addresses the k outermost dimensions; upd is (n..., rest...).
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
  const E nowhere = body.ConstInt(ScalarType::kI64, -1);
  std::vector<E> tuple_values;
  int64_t limit = 1;
  for (size_t j = 0; j < tuple; ++j) {
    Access access{index.value, index.type, Shape(domain.size(), 0),
                  index.offset + static_cast<int64_t>(j) * index.strides.back()};
    for (size_t d = 0; d < index_dims; ++d) access.strides[d] = index.strides[d];
    const E one = WrapNegative(Cast(body.Load(access), ScalarType::kI64), x.shape[j]);
    position = position + one * static_cast<double>(out.strides[j]);
    tuple_values.push_back(one);
    limit += (x.shape[j] - 1) * out.strides[j];
  }
  for (size_t j = 0; j < tuple; ++j) {
    const E one = tuple_values[j];
    position = Select(one < static_cast<double>(x.shape[j]), position, nowhere);
    position = Select(one < 0.0, nowhere, position);
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

const GuidRow kScatterRows[] = {
    {"scatter_fwd", InferSameAsFirst, ImportScatter},
    {"scatter_reduce_fwd", InferSameAsFirst, ImportScatterReduce},
    {"index_copy_fwd", InferSameAsFirst, ImportIndexCopy},
    {"scatter_nd_onnx_fwd", InferSameAsFirst, ImportScatterNd},
    {"scatter_nd_update_fwd", InferSameAsFirst, ImportScatterNd},
};

}  // namespace

std::span<const GuidRow> ScatterRows() { return kScatterRows; }

}  // namespace hpu::graph_compiler
