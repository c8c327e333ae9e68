// Transposes, reshapes, broadcasts and reinterpretation give the same elements another form. Nearly
// all of them become views.
#include <algorithm>
#include <numeric>

#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/import/importer.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::graph_compiler {
namespace {

uint64_t Count(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), uint64_t{1}, std::multiplies<>());
}

absl::StatusOr<std::vector<uint32_t>> Permutation(const NodeDesc& node, size_t rank) {
  std::vector<uint32_t> permutation;
  synTransposeParamsNDims wide{};
  synTransposeParams narrow{};
  if (ReadParams(node, &wide)) {
    permutation.assign(wide.permutation, wide.permutation + std::min<size_t>(rank, HABANA_DIM_MAX));
  } else if (ReadParams(node, &narrow) && rank <= MAX_DIMENSIONS_NUM) {
    permutation.assign(narrow.permutation, narrow.permutation + rank);
  } else {
    return InvalidArgument("transpose params are missing or too short for rank ", rank);
  }
  std::vector<bool> seen(rank, false);
  for (const uint32_t dim : permutation) {
    if (dim >= rank || seen[dim]) return InvalidArgument("transpose by a non-permutation");
    seen[dim] = true;
  }
  return permutation;
}

absl::StatusOr<std::vector<Sizes>> InferTranspose(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 1));
  const Sizes& in = context.Input(0);
  ASSIGN_OR_RETURN(const auto permutation, Permutation(context.node, in.size()));
  Sizes out;
  for (const uint32_t dim : permutation) out.push_back(in[dim]);
  return std::vector<Sizes>{out};
}

absl::Status ImportTranspose(Importer& im) {
  const size_t rank = im.Input(0).shape.size();
  ASSIGN_OR_RETURN(const auto permutation, Permutation(im.node(), rank));
  std::vector<size_t> order(rank);
  for (size_t i = 0; i < rank; ++i) order[rank - 1 - i] = rank - 1 - permutation[i];
  im.Bind(0, PermuteView(im.Input(0), order));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Sizes>> InferReshape(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 1));
  Sizes out = context.Output(0).sizes;
  if (!context.Output(0).sizes_known) {
    if (!context.HasInput(1)) return InvalidArgument("reshape without sizes of the output");
    out = context.Input(1);
  }
  if (Count(out) != Count(context.Input(0))) {
    return InvalidArgument("reshape of ", Count(context.Input(0)), " elements to ", Count(out));
  }
  return std::vector<Sizes>{out};
}

absl::Status ImportReshape(Importer& im) {
  im.Bind(0, im.Reshape(im.Input(0), im.OutputShape(0)));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Sizes>> InferFlatten(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 1));
  const Sizes& in = context.Input(0);
  ASSIGN_OR_RETURN(const size_t axis, ReadAxis(context.node, in.size()));
  const Sizes inner(in.begin(), in.begin() + axis + 1);
  const Sizes outer(in.begin() + axis + 1, in.end());
  return std::vector<Sizes>{{Count(inner), Count(outer)}};
}

absl::StatusOr<std::vector<Sizes>> InferExpandDims(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 1));
  Sizes out = context.Input(0);
  ASSIGN_OR_RETURN(const size_t axis, ReadAxis(context.node, out.size() + 1));
  out.insert(out.begin() + axis, 1);
  return std::vector<Sizes>{out};
}

absl::StatusOr<std::vector<Sizes>> InferSqueeze(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 1));
  Sizes out = context.Input(0);
  if (context.node.params.empty()) {
    out.erase(std::remove(out.begin(), out.end(), 1u), out.end());
    if (out.empty()) out.push_back(1);
    return std::vector<Sizes>{out};
  }
  ASSIGN_OR_RETURN(const size_t axis, ReadAxis(context.node, out.size()));
  if (out[axis] != 1) return InvalidArgument("squeeze of axis ", axis, " of size ", out[axis]);
  if (out.size() > 1) out.erase(out.begin() + axis);
  return std::vector<Sizes>{out};
}

absl::StatusOr<std::vector<Sizes>> InferIdentity(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 1));
  if (!context.Output(0).sizes_known) return std::vector<Sizes>{context.Input(0)};
  if (Count(context.Output(0).sizes) != Count(context.Input(0))) {
    return InvalidArgument("copy of ", Count(context.Input(0)), " elements to ",
                           Count(context.Output(0).sizes));
  }
  return std::vector<Sizes>(1);
}

absl::StatusOr<std::vector<Sizes>> InferBroadcastTo(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 1));
  Sizes out = context.Output(0).sizes;
  if (!context.Output(0).sizes_known) {
    if (!context.HasInput(1)) return InvalidArgument("broadcast without sizes of the output");
    out = context.Input(1);
  }
  ASSIGN_OR_RETURN(const Sizes joined, BroadcastSizes(out, context.Input(0)));
  if (joined != out) return InvalidArgument("broadcast to sizes smaller than the input's");
  return std::vector<Sizes>{out};
}

absl::Status ImportBroadcast(Importer& im) {
  im.Bind(0, BroadcastView(im.Input(0), im.OutputShape(0)));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Sizes>> InferReinterpret(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 1));
  ASSIGN_OR_RETURN(const MemoryType from,
                   ToMemoryType(context.graph.tensors[context.node.inputs[0]].dtype));
  ASSIGN_OR_RETURN(const MemoryType to, ToMemoryType(context.Output(0).dtype));
  Sizes out = context.Input(0);
  if (out.empty()) out.push_back(1);
  const uint64_t bytes = out[0] * static_cast<uint64_t>(MemoryTypeSize(from));
  if (bytes % static_cast<uint64_t>(MemoryTypeSize(to)) != 0) {
    return InvalidArgument("reinterpret_cast of rows of ", bytes, " bytes to elements of ",
                           MemoryTypeSize(to));
  }
  out[0] = bytes / static_cast<uint64_t>(MemoryTypeSize(to));
  return std::vector<Sizes>{out};
}

absl::Status ImportReinterpret(Importer& im) {
  View view = im.Contiguous(im.Input(0));
  const int64_t from = MemoryTypeSize(view.type);
  const int64_t to = MemoryTypeSize(im.OutputType(0));
  if (view.offset * from % to != 0) {
    View copy = im.NewValue(view.type, view.shape);
    im.MapTo(copy, {view}, FirstArg);
    view = copy;
  }
  view.offset = view.offset * from / to;
  view.type = im.OutputType(0);
  view.shape = im.OutputShape(0);
  view.strides = RowMajorStrides(view.shape);
  im.Bind(0, view);
  return absl::OkStatus();
}

const GuidRow kMovementRows[] = {
    {"transpose", InferTranspose, ImportTranspose, true},
    {"reshape", InferReshape, ImportReshape},
    {"static_reshape", InferReshape, ImportReshape},
    {"flatten", InferFlatten, ImportReshape},
    {"expand_dims", InferExpandDims, ImportReshape},
    {"squeeze", InferSqueeze, ImportReshape},
    {"identity", InferIdentity, ImportReshape},
    {"memcpy", InferIdentity, ImportReshape},
    {"broadcast", InferBroadcastTo, ImportBroadcast},
    {"reinterpret_cast", InferReinterpret, ImportReinterpret},
};

}  // namespace

std::span<const GuidRow> MovementRows() { return kMovementRows; }

}  // namespace hpu::graph_compiler
