// Concatenation, splitting, tiling, padding, flipping and triangles: the results consist of parts
// of the inputs.
#include <algorithm>

#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/import/importer.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::graph_compiler {
namespace {

// Shape tensors at the end of the list carry sizes, not data.
size_t NumDataInputs(const GraphDesc& graph, const NodeDesc& node) {
  size_t count = 0;
  for (const uint32_t input : node.inputs) {
    if (input == kNoTensor) continue;
    const synTensorType type = graph.tensors[input].type;
    if (type == DATA_TENSOR || type == DATA_TENSOR_DYNAMIC) ++count;
  }
  return count;
}

absl::StatusOr<std::vector<Sizes>> InferConcat(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 1));
  Sizes out = context.Input(0);
  ASSIGN_OR_RETURN(const size_t axis, ReadAxis(context.node, out.size()));
  for (size_t i = 1; i < NumDataInputs(context.graph, context.node); ++i) {
    Sizes other = context.Input(i);
    if (other.size() != out.size()) return InvalidArgument("concat of different ranks");
    const uint64_t size = other[axis];
    other[axis] = out[axis];
    if (other != out)
      return InvalidArgument("concat: sizes of input ", i, " differ beside axis ", axis);
    out[axis] += size;
  }
  return std::vector<Sizes>{out};
}

absl::Status ImportConcat(Importer& im) {
  synAxisParams params{};
  ReadParams(im.node(), &params);
  const View out = im.OutputValue(0);
  const size_t dim = FromFcdAxis(out.shape.size(), params.axis);
  int64_t begin = 0;
  for (size_t i = 0; i < im.num_inputs(); ++i) {
    if (!im.HasInput(i) || im.Input(i).shape.size() != out.shape.size()) continue;
    if (im.InputDesc(i).type != DATA_TENSOR && im.InputDesc(i).type != DATA_TENSOR_DYNAMIC)
      continue;
    const int64_t size = im.Input(i).shape[dim];
    im.MapTo(SliceView(out, dim, begin, size, 1), {im.Input(i)}, FirstArg);
    begin += size;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Sizes>> InferSplit(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 1));
  const Sizes& in = context.Input(0);
  ASSIGN_OR_RETURN(const size_t axis, ReadAxis(context.node, in.size()));
  const size_t parts = context.node.outputs.size();
  bool all_known = true;
  uint64_t sum = 0;
  for (size_t i = 0; i < parts; ++i) {
    all_known = all_known && context.Output(i).sizes_known;
    if (context.Output(i).sizes_known && axis < context.Output(i).sizes.size()) {
      sum += context.Output(i).sizes[axis];
    }
  }
  if (all_known && sum != in[axis]) {
    return InvalidArgument("split: outputs add up to ", sum, " along axis ", axis, " of ",
                           in[axis]);
  }
  if (!all_known && in[axis] % parts != 0) {
    return InvalidArgument("split of ", in[axis], " into ", parts, " parts without their sizes");
  }
  std::vector<Sizes> outs(parts, in);
  for (size_t i = 0; i < parts; ++i) {
    outs[i][axis] = all_known ? context.Output(i).sizes[axis] : in[axis] / parts;
  }
  return outs;
}

absl::Status ImportSplit(Importer& im) {
  synAxisParams params{};
  ReadParams(im.node(), &params);
  const View in = im.Input(0);
  const size_t dim = FromFcdAxis(in.shape.size(), params.axis);
  int64_t begin = 0;
  for (size_t i = 0; i < im.num_outputs(); ++i) {
    const int64_t size = im.OutputShape(i)[dim];
    im.Bind(i, SliceView(in, dim, begin, size, 1));
    begin += size;
  }
  return absl::OkStatus();
}

std::vector<int64_t> TileRepeats(const NodeDesc& node) {
  std::vector<int64_t> repeats;
  for (size_t i = 0; i + 4 <= node.params.size(); i += 4) {
    int32_t repeat = 1;
    std::memcpy(&repeat, node.params.data() + i, 4);
    repeats.push_back(std::max(repeat, 1));
  }
  return repeats;
}

absl::StatusOr<std::vector<Sizes>> InferTile(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 1));
  Sizes out = context.Input(0);
  const std::vector<int64_t> repeats = TileRepeats(context.node);
  for (size_t i = 0; i < out.size() && i < repeats.size(); ++i) {
    out[i] *= static_cast<uint64_t>(repeats[i]);
  }
  return std::vector<Sizes>{out};
}

// If y is viewed as (repeat, size) per dimension, it is x broadcast along the repeats.
absl::Status ImportTile(Importer& im) {
  const View in = im.Input(0);
  const std::vector<int64_t> repeats = TileRepeats(im.node());
  View wide = in;
  wide.shape.clear();
  wide.strides.clear();
  const size_t rank = in.shape.size();
  for (size_t d = 0; d < rank; ++d) {
    const size_t fcd = rank - 1 - d;
    const int64_t repeat = fcd < repeats.size() ? repeats[fcd] : 1;
    wide.shape.insert(wide.shape.end(), {repeat, in.shape[d]});
    wide.strides.insert(wide.strides.end(), {0, in.strides[d]});
  }
  im.Bind(0, im.Reshape(wide, im.OutputShape(0)));
  return absl::OkStatus();
}

struct Padding {
  ns_PadKernelEx_Params params{};
  int64_t Begin(size_t fcd) const { return static_cast<int32_t>(params.pads[fcd]); }
  int64_t End(size_t fcd, size_t rank) const {
    return static_cast<int32_t>(params.pads[fcd + rank]);
  }
};

absl::StatusOr<Padding> ReadPadding(const NodeDesc& node, size_t rank) {
  Padding padding;
  if (!ReadParams(node, &padding.params)) {
    ns_PadKernel_Params old{};
    if (!ReadParams(node, &old)) return InvalidArgument("pad params are missing");
    padding.params.value = old.value;
    std::copy(std::begin(old.pads), std::end(old.pads), std::begin(padding.params.pads));
  }
  if (rank > 5) return Unimplemented("pad of rank ", rank, ", at most 5");
  return padding;
}

absl::StatusOr<std::vector<Sizes>> InferPad(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 1));
  Sizes out = context.Input(0);
  ASSIGN_OR_RETURN(const Padding padding, ReadPadding(context.node, out.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t size =
        static_cast<int64_t>(out[i]) + padding.Begin(i) + padding.End(i, out.size());
    if (size < 0) return InvalidArgument("pad makes dimension ", i, " negative");
    out[i] = static_cast<uint64_t>(size);
  }
  return std::vector<Sizes>{out};
}

// Returns the source index along one dimension for output index `i`.
E PadSource(E i, int32_t mode, int64_t begin, int64_t size) {
  E source = i - static_cast<double>(begin);
  const auto last = static_cast<double>(size - 1);
  if (mode == NS_PAD_REFLECT) {
    source = Unary(Opcode::kAbs, source);
    source = last - Unary(Opcode::kAbs, last - source);
  } else if (mode == NS_PAD_SYMMETRIC) {
    source = Select(source < 0.0, -source - 1.0, source);
    source = Select(source > last, (2 * last + 1) - source, source);
  }
  return Min(Max(source, ConstLike(source, 0)), ConstLike(source, last));
}

// Along padded dimensions the input is loaded at a computed index; a constant fill selects between
// the element and the value.
absl::Status ImportPad(Importer& im) {
  const View in = im.Input(0);
  const size_t rank = in.shape.size();
  ASSIGN_OR_RETURN(const Padding padding, ReadPadding(im.node(), rank));
  const Shape shape = im.OutputShape(0);
  const bool empty = NumElements(in.shape) == 0;
  im.MapToOutput(0, {}, [&](BodyBuilder& body, const Args&) {
    const ScalarType type = ComputeType(im.OutputType(0));
    const E fill = type == ScalarType::kF32 ? body.Const(type, padding.params.value.f)
                                            : body.ConstInt(type, padding.params.value.i);
    if (empty) return fill;
    Access access{in.value, in.type, in.strides, in.offset};
    E element = body.ConstInt(ScalarType::kI64, 0);
    E inside = body.ConstInt(ScalarType::kBool, 1);
    int64_t limit = 1;
    for (size_t d = 0; d < rank; ++d) {
      const int64_t begin = padding.Begin(rank - 1 - d);
      if (begin == 0 && shape[d] == in.shape[d]) continue;
      access.strides[d] = 0;
      Shape unit(rank, 0);
      unit[d] = 1;
      const E index = body.Load(Importer::Iota(unit));
      const E source = PadSource(index, padding.params.mode, begin, in.shape[d]);
      element = element + source * static_cast<double>(in.strides[d]);
      limit += (in.shape[d] - 1) * in.strides[d];
      const E shifted = index - static_cast<double>(begin);
      inside = And(inside, And(shifted >= ConstLike(shifted, 0),
                               shifted < static_cast<double>(in.shape[d])));
    }
    const E value = body.LoadIndirect(access, element, 1, limit);
    return padding.params.mode == NS_PAD_CONSTANT ? Select(inside, value, fill) : value;
  });
  return absl::OkStatus();
}

absl::Status ImportFlip(Importer& im) {
  View view = im.Input(0);
  const size_t rank = view.shape.size();
  std::vector<int32_t> axes;
  ns_FlipKernel_ParamsV2 v2{};
  int32_t axis = 0;
  if (ReadParams(im.node(), &v2)) {
    axes.assign(v2.dims, v2.dims + std::min<uint32_t>(v2.num_dims, 5));
  } else if (ReadParams(im.node(), &axis)) {
    axes.push_back(axis);
  }
  for (const int32_t fcd : axes) {
    if (fcd < 0 || static_cast<size_t>(fcd) >= rank) return InvalidArgument("flip of axis ", fcd);
    const size_t d = FromFcdAxis(rank, fcd);
    view.offset += (view.shape[d] - 1) * view.strides[d];
    view.strides[d] = -view.strides[d];
  }
  im.Bind(0, view);
  return absl::OkStatus();
}

// Keeps the elements with -numLower <= column - row <= numUpper (a negative bound keeps all
// elements on its side).
absl::Status ImportMatrixBand(Importer& im) {
  ns_MatrixBandPartKernel_TriParams params{};
  if (!ReadParams(im.node(), &params)) {
    if (im.node().params.size() < 8) return InvalidArgument("params are missing");
    std::memcpy(&params, im.node().params.data(), 8);
  }
  const size_t rank = im.Input(0).shape.size();
  if (rank < 2) return InvalidArgument("band part of a tensor of rank ", rank);
  im.MapToOutput(0, {im.Input(0)}, [&](BodyBuilder& body, const Args& a) {
    Shape difference(rank, 0);
    difference[rank - 1] = 1;
    difference[rank - 2] = -1;
    const E distance = body.Load(Importer::Iota(difference));
    E keep = body.ConstInt(ScalarType::kBool, 1);
    if (params.numLower >= 0) keep = And(keep, distance >= ConstLike(distance, -params.numLower));
    if (params.numUpper >= 0) keep = And(keep, distance <= ConstLike(distance, params.numUpper));
    if (params.excludeDiag != 0) keep = And(keep, Not(EqualTo(distance, ConstLike(distance, 0))));
    return Select(keep, a[0], ConstLike(a[0], 0));
  });
  return absl::OkStatus();
}

const GuidRow kAssemblyRows[] = {
    {"concat", InferConcat, ImportConcat},
    {"split", InferSplit, ImportSplit},
    {"tile_fwd", InferTile, ImportTile},
    {"pad_fwd", InferPad, ImportPad},
    {"flip_fwd", InferSameAsFirst, ImportFlip},
    {"matrix_band_part_fwd", InferSameAsFirst, ImportMatrixBand},
};

}  // namespace

std::span<const GuidRow> AssemblyRows() { return kAssemblyRows; }

}  // namespace hpu::graph_compiler
