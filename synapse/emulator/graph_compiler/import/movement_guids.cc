// Data movement: nearly all of it becomes views.
#include <algorithm>
#include <numeric>

#include "synapse/emulator/graph_compiler/import/guid_table.h"
#include "synapse/emulator/graph_compiler/import/importer.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::emulator {
namespace {

using Args = std::vector<E>;

uint64_t Count(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), uint64_t{1}, std::multiplies<>());
}

absl::Status NeedInput(const ShapeContext& context, size_t i) {
  if (context.HasInput(i)) return absl::OkStatus();
  return InvalidArgument("input ", i, " is missing");
}

absl::StatusOr<uint32_t> Axis(const NodeDesc& node, size_t rank) {
  synAxisParams params{};
  if (!ReadParams(node, &params)) return InvalidArgument("axis params are missing");
  if (params.axis >= rank) {
    return InvalidArgument("axis ", params.axis, " is outside rank ", rank);
  }
  return params.axis;
}

// ---- transpose ------------------------------------------------------------------------------

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
  RETURN_IF_ERROR(NeedInput(context, 0));
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

// ---- reshape and its kin --------------------------------------------------------------------

absl::StatusOr<std::vector<Sizes>> InferReshape(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInput(context, 0));
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
  RETURN_IF_ERROR(NeedInput(context, 0));
  const Sizes& in = context.Input(0);
  ASSIGN_OR_RETURN(const uint32_t axis, Axis(context.node, in.size()));
  const Sizes inner(in.begin(), in.begin() + axis + 1);
  const Sizes outer(in.begin() + axis + 1, in.end());
  return std::vector<Sizes>{{Count(inner), Count(outer)}};
}

absl::StatusOr<std::vector<Sizes>> InferExpandDims(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInput(context, 0));
  Sizes out = context.Input(0);
  ASSIGN_OR_RETURN(const uint32_t axis, Axis(context.node, out.size() + 1));
  out.insert(out.begin() + axis, 1);
  return std::vector<Sizes>{out};
}

absl::StatusOr<std::vector<Sizes>> InferSqueeze(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInput(context, 0));
  Sizes out = context.Input(0);
  if (context.node.params.empty()) {
    out.erase(std::remove(out.begin(), out.end(), 1u), out.end());
    if (out.empty()) out.push_back(1);
    return std::vector<Sizes>{out};
  }
  ASSIGN_OR_RETURN(const uint32_t axis, Axis(context.node, out.size()));
  if (out[axis] != 1) return InvalidArgument("squeeze of axis ", axis, " of size ", out[axis]);
  if (out.size() > 1) out.erase(out.begin() + axis);
  return std::vector<Sizes>{out};
}

absl::StatusOr<std::vector<Sizes>> InferIdentity(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInput(context, 0));
  if (!context.Output(0).sizes_known) return std::vector<Sizes>{context.Input(0)};
  if (Count(context.Output(0).sizes) != Count(context.Input(0))) {
    return InvalidArgument("copy of ", Count(context.Input(0)), " elements to ",
                           Count(context.Output(0).sizes));
  }
  return std::vector<Sizes>(1);
}

absl::StatusOr<std::vector<Sizes>> InferBroadcastTo(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInput(context, 0));
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
  RETURN_IF_ERROR(NeedInput(context, 0));
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
    im.MapTo(copy, {view}, [](BodyBuilder&, const Args& a) { return a[0]; });
    view = copy;
  }
  view.offset = view.offset * from / to;
  view.type = im.OutputType(0);
  view.shape = im.OutputShape(0);
  view.strides = RowMajorStrides(view.shape);
  im.Bind(0, view);
  return absl::OkStatus();
}

// ---- slices ---------------------------------------------------------------------------------

struct Window {
  std::vector<int64_t> begin, end, step;  // per FCD dimension
  int64_t SizeOf(size_t dim) const { return (end[dim] - begin[dim] + step[dim] - 1) / step[dim]; }
};

template <typename T>
void ReadWindow(const T& params, const Sizes& sizes, bool fcd_is_empty, Window* window) {
  for (size_t i = 0; i < sizes.size() && i < std::size(params.axes); ++i) {
    const size_t axis = params.axes[i];
    const bool unused = axis == 0 && params.starts[i] == 0 && params.ends[i] == 0;
    if ((unused && !fcd_is_empty) || axis >= sizes.size()) continue;
    const auto size = static_cast<int64_t>(sizes[axis]);
    window->begin[axis] = std::min(static_cast<int64_t>(params.starts[i]), size);
    window->end[axis] = std::clamp(static_cast<int64_t>(params.ends[i]), window->begin[axis], size);
    window->step[axis] = std::max<int64_t>(static_cast<int64_t>(params.steps[i]), 1);
  }
}

absl::StatusOr<Window> SliceWindow(const NodeDesc& node, const Sizes& sizes,
                                   const TensorDesc* output) {
  Window window;
  window.begin.assign(sizes.size(), 0);
  window.end.assign(sizes.begin(), sizes.end());
  window.step.assign(sizes.size(), 1);
  const bool fcd_is_empty =
      output != nullptr && output->sizes_known && !output->sizes.empty() && output->sizes[0] == 0;
  synSliceParamsV2 v2{};
  synSliceParamsNDims wide{};
  synSliceParams narrow{};
  if (ReadParams(node, &v2)) {
    ReadWindow(v2, sizes, fcd_is_empty, &window);
  } else if (ReadParams(node, &wide)) {
    ReadWindow(wide, sizes, fcd_is_empty, &window);
  } else if (ReadParams(node, &narrow)) {
    ReadWindow(narrow, sizes, fcd_is_empty, &window);
  } else {
    return InvalidArgument("slice params are missing");
  }
  return window;
}

absl::StatusOr<Window> SliceAxisWindow(const NodeDesc& node, const Sizes& sizes) {
  synSliceAxisParamsV2 params{};
  synSliceAxisParams narrow{};
  if (!ReadParams(node, &params)) {
    if (!ReadParams(node, &narrow)) return InvalidArgument("slice_axis params are missing");
    params = {narrow.axis, 0, narrow.begin, narrow.end};
  }
  if (params.axis >= sizes.size()) return InvalidArgument("slice of axis ", params.axis);
  Window window;
  window.begin.assign(sizes.size(), 0);
  window.end.assign(sizes.begin(), sizes.end());
  window.step.assign(sizes.size(), 1);
  const auto size = static_cast<int64_t>(sizes[params.axis]);
  window.begin[params.axis] = std::min(static_cast<int64_t>(params.begin), size);
  window.end[params.axis] =
      std::clamp(static_cast<int64_t>(params.end), window.begin[params.axis], size);
  return window;
}

absl::StatusOr<Window> AnyWindow(const NodeDesc& node, const Sizes& sizes,
                                 const TensorDesc* output) {
  return node.guid == "slice_axis" ? SliceAxisWindow(node, sizes)
                                   : SliceWindow(node, sizes, output);
}

absl::StatusOr<std::vector<Sizes>> InferSlice(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInput(context, 0));
  const Sizes& in = context.Input(0);
  ASSIGN_OR_RETURN(const Window window, AnyWindow(context.node, in, &context.Output(0)));
  Sizes out;
  for (size_t i = 0; i < in.size(); ++i) out.push_back(static_cast<uint64_t>(window.SizeOf(i)));
  return std::vector<Sizes>{out};
}

View WindowOf(const View& view, const Window& window) {
  View result = view;
  const size_t rank = view.shape.size();
  for (size_t i = 0; i < rank; ++i) {
    result = SliceView(result, rank - 1 - i, window.begin[i], window.SizeOf(i), window.step[i]);
  }
  return result;
}

absl::Status ImportSlice(Importer& im) {
  ASSIGN_OR_RETURN(const Window window,
                   AnyWindow(im.node(), im.InputDesc(0).sizes, &im.OutputDesc(0)));
  im.Bind(0, WindowOf(im.Input(0), window));
  return absl::OkStatus();
}

E First(BodyBuilder&, const Args& a) { return a[0]; }

// Output = copy of `base` (or zeros) with `window(output)` overwritten by `inserted`.
void ImportOverlay(Importer& im, const View* base, const View& inserted,
                   const std::function<View(const View&)>& window) {
  const View out = im.OutputValue(0);
  if (base != nullptr) {
    im.MapTo(out, {*base}, First);
  } else {
    im.MapTo(out, {},
             [&](BodyBuilder& body, const Args&) { return body.Const(ComputeType(out.type), 0); });
  }
  im.MapTo(window(out), {inserted}, First);
  im.loop_graph().nodes.back().overwrites = true;
}

absl::Status ImportSliceInsert(Importer& im) {
  ASSIGN_OR_RETURN(const Window window, SliceWindow(im.node(), im.InputDesc(0).sizes, nullptr));
  const View base = im.Input(0);
  ImportOverlay(im, &base, im.Input(1), [&](const View& v) { return WindowOf(v, window); });
  return absl::OkStatus();
}

absl::Status ImportSliceGradient(Importer& im) {
  ASSIGN_OR_RETURN(const Window window, SliceWindow(im.node(), im.OutputDesc(0).sizes, nullptr));
  ImportOverlay(im, nullptr, im.Input(0), [&](const View& v) { return WindowOf(v, window); });
  return absl::OkStatus();
}

// ---- strided views --------------------------------------------------------------------------

absl::StatusOr<View> StridedWindow(const NodeDesc& node, const View& base, const Shape& shape) {
  synStridedOpParams params{};
  if (!ReadParams(node, &params)) return InvalidArgument("strided params are missing");
  View view = base;
  view.shape = shape;
  view.strides.assign(shape.size(), 0);
  int64_t last = static_cast<int64_t>(params.baseOffset);
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto stride = static_cast<int64_t>(params.strides[shape.size() - 1 - i]);
    view.strides[i] = stride;
    last += stride * (shape[i] - 1);
  }
  view.offset = base.offset + static_cast<int64_t>(params.baseOffset);
  if (NumElements(shape) > 0 && last >= NumElements(base.shape)) {
    return InvalidArgument("strided window reaches element ", last, " of ",
                           NumElements(base.shape));
  }
  return view;
}

absl::Status ImportStridedView(Importer& im) {
  const View base = im.Contiguous(im.Input(0));
  ASSIGN_OR_RETURN(const View view, StridedWindow(im.node(), base, im.OutputShape(0)));
  im.Bind(0, view);
  return absl::OkStatus();
}

absl::Status ImportStridedInsert(Importer& im) {
  const View base = im.Input(0);
  const View inserted = im.Input(1);
  absl::Status status;
  ImportOverlay(im, &base, inserted, [&](const View& out) {
    auto view = StridedWindow(im.node(), out, inserted.shape);
    if (view.ok()) return *view;
    status = view.status();
    return SliceView(out, 0, 0, 0, 1);
  });
  return status;
}

// ---- concat, split, tile, pad, flip ---------------------------------------------------------

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
  RETURN_IF_ERROR(NeedInput(context, 0));
  Sizes out = context.Input(0);
  ASSIGN_OR_RETURN(const uint32_t axis, Axis(context.node, out.size()));
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
    im.MapTo(SliceView(out, dim, begin, size, 1), {im.Input(i)}, First);
    begin += size;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Sizes>> InferSplit(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInput(context, 0));
  const Sizes& in = context.Input(0);
  ASSIGN_OR_RETURN(const uint32_t axis, Axis(context.node, in.size()));
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
  RETURN_IF_ERROR(NeedInput(context, 0));
  Sizes out = context.Input(0);
  const std::vector<int64_t> repeats = TileRepeats(context.node);
  for (size_t i = 0; i < out.size() && i < repeats.size(); ++i) {
    out[i] *= static_cast<uint64_t>(repeats[i]);
  }
  return std::vector<Sizes>{out};
}

// y viewed as (repeat, size) per dimension is x broadcast along the repeats.
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
  RETURN_IF_ERROR(NeedInput(context, 0));
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

// Source index along one dimension for output index `i`.
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

// Along padded dimensions the input is found by computed index; a constant fill selects between
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

// Keeps -numLower <= column - row <= numUpper (a negative bound keeps all on its side).
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

const GuidRow kRows[] = {
    {"transpose", InferTranspose, ImportTranspose},
    {"reshape", InferReshape, ImportReshape},
    {"static_reshape", InferReshape, ImportReshape},
    {"flatten", InferFlatten, ImportReshape},
    {"expand_dims", InferExpandDims, ImportReshape},
    {"squeeze", InferSqueeze, ImportReshape},
    {"identity", InferIdentity, ImportReshape},
    {"memcpy", InferIdentity, ImportReshape},
    {"broadcast", InferBroadcastTo, ImportBroadcast},
    {"reinterpret_cast", InferReinterpret, ImportReinterpret},
    {"slice", InferSlice, ImportSlice},
    {"slice_axis", InferSlice, ImportSlice},
    {"slice_insert", InferSameAsFirst, ImportSliceInsert},
    {"strided_slice_grad", InferDeclared, ImportSliceGradient},
    {"slice_bwd", InferDeclared, ImportSliceGradient},
    {"strided_view", InferDeclared, ImportStridedView},
    {"strided_insert", InferSameAsFirst, ImportStridedInsert},
    {"concat", InferConcat, ImportConcat},
    {"split", InferSplit, ImportSplit},
    {"tile_fwd", InferTile, ImportTile},
    {"pad_fwd", InferPad, ImportPad},
    {"flip_fwd", InferSameAsFirst, ImportFlip},
    {"matrix_band_part_fwd", InferSameAsFirst, ImportMatrixBand},
};

}  // namespace

std::span<const GuidRow> MovementRows() { return kRows; }

}  // namespace hpu::emulator
