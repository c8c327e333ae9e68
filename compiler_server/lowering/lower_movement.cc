// Lowers movement: permute, reshape, expand, slice, concat, pad, strided access and constants.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler_server/lowering/dims.h"
#include "compiler_server/lowering/lower.h"
#include "synapse/include/synapse_emulator.h"
#include "synapse/include/synapse_kernel_params.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::compiler {
namespace {

using ir::AttrKey;
using ir::Dims;
using ir::OpKind;

const Dims& StridesOf(const ir::Node& node) { return node.Ints(AttrKey::kStrides); }

void LowerPermute(const NodeLowering& at) {
  const Dims& perm = at.node.Ints(AttrKey::kPerm);
  if (static_cast<int>(perm.size()) <= kMaxMovementRank) {
    at.graph.Transpose(at.in[0], at.out[0], perm);
    return;
  }
  const MergedPermutation merged = MergePermutation(at.in[0].sizes, perm);
  const Tensor from = at.graph.Reshaped(at.in[0], merged.sizes);
  at.graph.Reshape(at.graph.Transposed(from, merged.perm), at.out[0]);
}

void LowerReshape(const NodeLowering& at) { at.graph.Reshape(at.in[0], at.out[0]); }

void LowerExpand(const NodeLowering& at) {
  if (at.out[0].rank() <= kMaxMovementRank) {
    at.graph.Broadcast(at.in[0], at.out[0]);
    return;
  }
  const std::vector<Dims> merged = MergeBroadcastDims({at.out[0].sizes, at.in[0].sizes});
  const Tensor from = at.graph.Reshaped(at.in[0], merged[1]);
  at.graph.Reshape(at.graph.Expanded(from, merged[0]), at.out[0]);
}

void LowerSlice(const NodeLowering& at) {
  synSliceParamsV2 params = {};
  const int rank = at.in[0].rank();
  for (int d = 0; d < rank; ++d) {
    const int axis = FcdAxis(d, rank);
    params.axes[axis] = static_cast<uint32_t>(axis);
    params.starts[axis] = static_cast<uint64_t>(at.node.Ints(AttrKey::kStarts)[d]);
    params.ends[axis] = static_cast<uint64_t>(at.node.Ints(AttrKey::kLimits)[d]);
    params.steps[axis] = static_cast<uint64_t>(at.node.Ints(AttrKey::kSteps)[d]);
  }
  at.graph.Node("slice", {at.in[0]}, {at.out[0]}, Params(params));
}

void LowerConcat(const NodeLowering& at) {
  std::vector<Tensor> parts;
  for (const Tensor& tensor : at.in) {
    if (tensor.handle != nullptr) parts.push_back(tensor);
  }
  if (parts.size() == 1) {
    at.graph.Copy(parts[0], at.out[0]);
    return;
  }
  const synConcatenateParams params{
      .axis = static_cast<uint32_t>(FcdAxis(at.node.Int(AttrKey::kDim), at.out[0].rank()))};
  at.graph.Node("concat", parts, at.out, Params(params));
}

void LowerPad(const NodeLowering& at) {
  const DType dtype = at.out[0].dtype;
  const double value = at.node.Float(AttrKey::kValue);
  if (!at.has(0)) {
    at.graph.Broadcast(at.graph.Scalar(dtype, value), at.out[0]);
    return;
  }
  ns_PadKernelEx_Params params = {};
  if (IsFloat(dtype)) {
    params.value.f = static_cast<float>(value);
  } else {
    params.value.i = static_cast<int32_t>(value);
  }
  const int rank = at.in[0].rank();
  for (int d = 0; d < rank; ++d) {
    const int axis = FcdAxis(d, rank);
    params.pads[axis] = static_cast<uint32_t>(at.node.Ints(AttrKey::kLow)[d]);
    params.pads[axis + rank] = static_cast<uint32_t>(at.node.Ints(AttrKey::kHigh)[d]);
  }
  params.mode = NS_PAD_CONSTANT;
  at.graph.TypedNode("pad_fwd", dtype, {at.in[0]}, at.out, Params(params));
}

void LowerAsStrided(const NodeLowering& at) {
  const synStridedOpParams params =
      StridedParams(StridesOf(at.node), at.node.Int(AttrKey::kOffset));
  at.graph.Node("strided_view", {at.in[0]}, at.out, Params(params));
}

void LowerAsStridedScatter(const NodeLowering& at) {
  if (!at.has(1)) {
    at.graph.Copy(at.in[0], at.out[0]);
    return;
  }
  const synStridedOpParams params =
      StridedParams(StridesOf(at.node), at.node.Int(AttrKey::kOffset));
  const ir::TensorType& type = at.node.operands[0]->type;
  if (type.contiguous()) {
    at.graph.Node("strided_insert", {at.in[0], at.in[1]}, at.out, Params(params));
    return;
  }
  // The operand is given in the order of its memory, and the result is row-major.
  const Tensor memory = at.graph.Intermediate(at.in[0].dtype, at.in[0].sizes);
  at.graph.Node("strided_insert", {at.in[0], at.in[1]}, {memory}, Params(params));
  const synStridedOpParams read = StridedParams(type.strides, 0);
  at.graph.Node("strided_view", {memory}, at.out, Params(read));
}

void LowerFull(const NodeLowering& at) {
  const Tensor value = at.graph.Scalar(at.out[0].dtype, at.node.Float(AttrKey::kValue));
  at.graph.Broadcast(value, at.out[0]);
}

// The kernel calculates integers in 32 bits.
const char* CountsIn32Bits(const ir::Node& node) {
  if (IsFloat(node.type().dtype)) return nullptr;
  const double start = node.Float(AttrKey::kStart);
  const double step = node.Float(AttrKey::kStep);
  const double limit = start + step * static_cast<double>(node.type().elements());
  for (const double value : {start, step, limit}) {
    if (std::abs(value) > std::numeric_limits<int32_t>::max()) return "integers of 64 bits";
  }
  return nullptr;
}

void LowerIota(const NodeLowering& at) {
  const double start = at.node.Float(AttrKey::kStart);
  const double step = at.node.Float(AttrKey::kStep);
  // The kernel counts in f32 or i32. Other types are cast from the one that can hold the values.
  const bool real = IsFloat(at.out[0].dtype);
  const DType dtype = real ? DType::kF32 : DType::kI32;
  ns_RangeKernel_Params params = {};
  const double limit = start + step * static_cast<double>(at.out[0].elements());
  if (real) {
    params.start.f = static_cast<float>(start);
    params.limit.f = static_cast<float>(limit);
    params.delta.f = static_cast<float>(step);
  } else {
    params.start.i = static_cast<int32_t>(start);
    params.limit.i = static_cast<int32_t>(limit);
    params.delta.i = static_cast<int32_t>(step);
  }
  if (at.out[0].dtype == dtype) {
    at.graph.TypedNode("range", dtype, {}, at.out, Params(params));
    return;
  }
  const Tensor counted = at.graph.Intermediate(dtype, at.out[0].sizes);
  at.graph.TypedNode("range", dtype, {}, {counted}, Params(params));
  at.graph.Cast(counted, at.out[0]);
}

// Emits numbers of the generator. The operands are its state, and the base is where the blocks of
// this draw begin.
void LowerRandomUniform(const NodeLowering& at) {
  const auto base = static_cast<uint64_t>(at.node.Int(AttrKey::kBase));
  synEmulatorPhiloxParams params = {};
  params.baseLow = static_cast<uint32_t>(base);
  params.baseHigh = static_cast<uint32_t>(base >> 32);
  // Numbers lie row by row, so a tensor of too many dimensions is filled as one row.
  const bool is_flat = at.out[0].rank() > kMaxKernelRank;
  const Dims sizes = is_flat ? Dims{NumElements(at.out[0].sizes)} : at.out[0].sizes;
  const Tensor numbers = is_flat ? at.graph.Intermediate(DType::kF32, sizes) : at.out[0];
  at.graph.TypedNode("philox_uniform_fwd", DType::kF32, at.in, {numbers}, Params(params));
  if (is_flat) at.graph.Reshape(numbers, at.out[0]);
}

const char* Expandable(const ir::Node& node) {
  return node.type().rank() <= kMaxMovementRank || MergedRank(node) <= kMaxMovementRank
             ? nullptr
             : "more than 8 dimensions that cannot be merged";
}

const char* Permutable(const ir::Node& node) {
  const ir::TensorType& type = node.operands[0]->type;
  return MergePermutation(type.sizes, node.Ints(AttrKey::kPerm)).sizes.size() <= kMaxMovementRank
             ? nullptr
             : "more than 8 dimensions that cannot be merged";
}

constexpr LoweringRule kMovementRules[] = {
    {OpKind::kAsStrided, LowerAsStrided, LoweredTypes::kMoved, MovementRank},
    {OpKind::kAsStridedScatter, LowerAsStridedScatter, LoweredTypes::kMoved, MovementRank},
    {OpKind::kConcat, LowerConcat, LoweredTypes::kMoved, MovementRank},
    {OpKind::kExpand, LowerExpand, LoweredTypes::kMoved, Expandable},
    {OpKind::kFull, LowerFull, LoweredTypes::kConverted, MovementRank},
    {OpKind::kIota, LowerIota, LoweredTypes::kArithmetic, CountsIn32Bits},
    {OpKind::kPad, LowerPad, LoweredTypes::kArithmetic, Rank5},
    {OpKind::kPermute, LowerPermute, LoweredTypes::kMoved, Permutable},
    {OpKind::kRandomUniform, LowerRandomUniform, LoweredTypes::kArithmetic, MovementRank},
    {OpKind::kReshape, LowerReshape, LoweredTypes::kMoved, MovementRank},
    {OpKind::kSlice, LowerSlice, LoweredTypes::kMoved, MovementRank},
};

}  // namespace

synStridedOpParams StridedParams(const Dims& strides, int64_t offset) {
  synStridedOpParams params = {};
  params.baseOffset = static_cast<uint64_t>(offset);
  for (size_t i = 0; i < strides.size(); ++i) {
    params.strides[i] = static_cast<uint64_t>(strides[strides.size() - 1 - i]);
  }
  return params;
}

std::span<const LoweringRule> MovementRules() { return kMovementRules; }

}  // namespace hpu::compiler
