// Slices and strided windows: views on a part of a tensor, and tensors with a part overwritten.
#include <algorithm>

#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/import/importer.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::graph_compiler {
namespace {

struct SliceBounds {
  std::vector<int64_t> begin, end, step;  // per FCD dimension
  int64_t SizeOf(size_t dim) const { return (end[dim] - begin[dim] + step[dim] - 1) / step[dim]; }
};

template <typename T>
void ReadWindow(const T& params, const Sizes& sizes, bool fcd_is_empty, SliceBounds* window) {
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

absl::StatusOr<SliceBounds> SliceWindow(const NodeDesc& node, const Sizes& sizes,
                                        const TensorDesc* output) {
  SliceBounds window;
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

absl::StatusOr<SliceBounds> SliceAxisWindow(const NodeDesc& node, const Sizes& sizes) {
  synSliceAxisParamsV2 params{};
  synSliceAxisParams narrow{};
  if (!ReadParams(node, &params)) {
    if (!ReadParams(node, &narrow)) return InvalidArgument("slice_axis params are missing");
    params = {narrow.axis, 0, narrow.begin, narrow.end};
  }
  if (params.axis >= sizes.size()) return InvalidArgument("slice of axis ", params.axis);
  SliceBounds window;
  window.begin.assign(sizes.size(), 0);
  window.end.assign(sizes.begin(), sizes.end());
  window.step.assign(sizes.size(), 1);
  const auto size = static_cast<int64_t>(sizes[params.axis]);
  window.begin[params.axis] = std::min(static_cast<int64_t>(params.begin), size);
  window.end[params.axis] =
      std::clamp(static_cast<int64_t>(params.end), window.begin[params.axis], size);
  return window;
}

absl::StatusOr<SliceBounds> AnyWindow(const NodeDesc& node, const Sizes& sizes,
                                      const TensorDesc* output) {
  return node.guid == "slice_axis" ? SliceAxisWindow(node, sizes)
                                   : SliceWindow(node, sizes, output);
}

absl::StatusOr<std::vector<Sizes>> InferSlice(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 1));
  const Sizes& in = context.Input(0);
  ASSIGN_OR_RETURN(const SliceBounds window, AnyWindow(context.node, in, &context.Output(0)));
  Sizes out;
  for (size_t i = 0; i < in.size(); ++i) out.push_back(static_cast<uint64_t>(window.SizeOf(i)));
  return std::vector<Sizes>{out};
}

View WindowOf(const View& view, const SliceBounds& window) {
  View result = view;
  const size_t rank = view.shape.size();
  for (size_t i = 0; i < rank; ++i) {
    result = SliceView(result, rank - 1 - i, window.begin[i], window.SizeOf(i), window.step[i]);
  }
  return result;
}

absl::Status ImportSlice(Importer& im) {
  ASSIGN_OR_RETURN(const SliceBounds window,
                   AnyWindow(im.node(), im.InputDesc(0).sizes, &im.OutputDesc(0)));
  im.Bind(0, WindowOf(im.Input(0), window));
  return absl::OkStatus();
}

// The output is a copy of `base`, the first input (or zeros), in which `window(output)` is
// overwritten by `inserted`. Nothing is copied if the output lies where `base` does: the elements
// beside the window are then neither read nor written.
void ImportOverlay(Importer& im, const View* base, const View& inserted,
                   const std::function<View(const View&)>& window) {
  const View out = im.OutputValue(0);
  if (base != nullptr) {
    if (!im.TakeInPlace(0, out)) im.MapTo(out, {*base}, FirstArg);
  } else {
    im.MapTo(out, {},
             [&](BodyBuilder& body, const Args&) { return body.Const(ComputeType(out.type), 0); });
  }
  im.MapTo(window(out), {inserted}, FirstArg);
  im.loop_graph().nodes.back().overwrites = true;
}

absl::Status ImportSliceInsert(Importer& im) {
  ASSIGN_OR_RETURN(const SliceBounds window,
                   SliceWindow(im.node(), im.InputDesc(0).sizes, nullptr));
  const View base = im.Input(0);
  ImportOverlay(im, &base, im.Input(1), [&](const View& v) { return WindowOf(v, window); });
  return absl::OkStatus();
}

absl::Status ImportSliceGradient(Importer& im) {
  ASSIGN_OR_RETURN(const SliceBounds window,
                   SliceWindow(im.node(), im.OutputDesc(0).sizes, nullptr));
  ImportOverlay(im, nullptr, im.Input(0), [&](const View& v) { return WindowOf(v, window); });
  return absl::OkStatus();
}

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

const GuidRow kSliceRows[] = {
    {"slice", InferSlice, ImportSlice},
    {"slice_axis", InferSlice, ImportSlice},
    {"slice_insert", InferSameAsFirst, ImportSliceInsert},
    {"strided_slice_grad", InferDeclared, ImportSliceGradient},
    {"slice_bwd", InferDeclared, ImportSliceGradient},
    {"strided_view", InferDeclared, ImportStridedView},
    {"strided_insert", InferSameAsFirst, ImportStridedInsert},
};

}  // namespace

std::span<const GuidRow> SliceRows() { return kSliceRows; }

}  // namespace hpu::graph_compiler
