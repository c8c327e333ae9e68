#include "compiler_server/ir/aliases.h"

#include <algorithm>
#include <iterator>

namespace hpu::ir {
namespace {

// Always views.
constexpr std::string_view kViews[] = {
    "aten.adjoint.default",
    "aten.alias.default",
    "aten.as_strided.default",
    "aten.broadcast_to.default",
    "aten.chunk.default",
    "aten.detach.default",
    "aten.diagonal.default",
    "aten.expand.default",
    "aten.expand_as.default",
    "aten.lift_fresh.default",
    "aten.mH.default",
    "aten.mT.default",
    "aten.movedim.int",
    "aten.movedim.intlist",
    "aten.narrow.default",
    "aten.numpy_T.default",
    "aten.permute.default",
    "aten.select.int",
    "aten.slice.Tensor",
    "aten.split.Tensor",
    "aten.split.sizes",
    "aten.split_with_sizes.default",
    "aten.squeeze.default",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.swapaxes.default",
    "aten.swapdims.default",
    "aten.t.default",
    "aten.tensor_split.sections",
    "aten.transpose.int",
    "aten.unbind.int",
    "aten.unflatten.int",
    "aten.unfold.default",
    "aten.unsqueeze.default",
    "aten.view.default",
    "aten.view_as.default",
};
static_assert(std::is_sorted(std::begin(kViews), std::end(kViews)));

// A view where strides allow it, else a copy.
constexpr std::string_view kReshapes[] = {
    "aten.flatten.using_ints",
    "aten.ravel.default",
    "aten.reshape.default",
    "aten.reshape_as.default",
};
static_assert(std::is_sorted(std::begin(kReshapes), std::end(kReshapes)));

// The operand itself if it already is what is asked for.
constexpr std::string_view kConversions[] = {
    "aten.contiguous.default", "aten.dropout.default", "aten.feature_dropout.default",
    "aten.to.device",          "aten.to.dtype",        "aten.to.dtype_layout",
    "aten.to.other",           "aten.type_as.default",
};
static_assert(std::is_sorted(std::begin(kConversions), std::end(kConversions)));

template <size_t N>
bool Among(const std::string_view (&names)[N], std::string_view name) {
  return std::binary_search(std::begin(names), std::end(names), name);
}

bool IsTrue(const Argument& argument) {
  const bool* flag = std::get_if<bool>(&argument.value);
  return flag != nullptr && *flag;
}

// dropout(x, p, train) while training draws numbers; `to(..., copy=True)` copies.
bool ForcesNewMemory(const AtenCall& call) {
  if (call.target.find("dropout") != std::string::npos) {
    return call.args.size() < 3 || IsTrue(call.args[2]);
  }
  for (const auto& [name, argument] : call.kwargs) {
    if (name == "copy" && IsTrue(argument)) return true;
  }
  // to.dtype(self, dtype, non_blocking, copy), to.device(self, device, dtype, non_blocking, copy)
  const size_t copy = call.target == "aten.to.device" ? 4 : 3;
  return call.target != "aten.contiguous.default" && call.args.size() > copy &&
         IsTrue(call.args[copy]);
}

}  // namespace

std::optional<Dims> ViewStrides(const TensorType& type, const Dims& sizes) {
  if (type.elements() != ElementCount(sizes)) return std::nullopt;
  if (type.elements() == 0) return ContiguousStrides(sizes);
  Dims strides(sizes.size(), 1);
  int64_t view = static_cast<int64_t>(sizes.size()) - 1;
  int64_t chunk_stride = type.sizes.empty() ? 1 : type.strides.back();
  int64_t chunk = 1;       // elements of the run of adjacent source dimensions
  int64_t view_chunk = 1;  // elements of the view's dimensions laid over that run
  for (int64_t dim = type.rank() - 1; dim >= 0; --dim) {
    chunk *= type.sizes[dim];
    const bool run_ends =
        dim == 0 || (type.sizes[dim - 1] != 1 && type.strides[dim - 1] != chunk * chunk_stride);
    if (!run_ends) continue;
    while (view >= 0 && (view_chunk < chunk || sizes[view] == 1)) {
      strides[view] = view_chunk * chunk_stride;
      view_chunk *= sizes[view];
      --view;
    }
    if (view_chunk != chunk) return std::nullopt;
    if (dim > 0) {
      chunk_stride = type.strides[dim - 1];
      chunk = 1;
      view_chunk = 1;
    }
  }
  if (type.sizes.empty()) return strides;
  return view < 0 ? std::optional<Dims>(strides) : std::nullopt;
}

bool AliasesFirstOperand(const AtenCall& call, const TensorType& operand,
                         const TensorType& result) {
  if (Among(kViews, call.target)) return true;
  if (Among(kReshapes, call.target)) {
    const std::optional<Dims> strides = ViewStrides(operand, result.sizes);
    return strides && *strides == result.strides;
  }
  if (Among(kConversions, call.target)) return operand == result && !ForcesNewMemory(call);
  return false;
}

}  // namespace hpu::ir
