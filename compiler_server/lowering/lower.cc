#include "compiler_server/lowering/lower.h"

#include <algorithm>

#include "compiler_server/lowering/dims.h"

namespace hpu::compiler {
namespace {

using ir::AttrKey;
using ir::OpClass;
using ir::OpKind;

// Element types that a node works on.
enum class Types : uint8_t {
  kArithmetic,  // what the device calculates with
  kFloat,       // f32, bf16, f16
  kMoved,       // anything that has a size the device can move
};

// A shape that a family cannot hold: the reason, or nullptr.
using ShapeRefusal = const char* (*)(const ir::Node& node);

const char* Rank5(const ir::Node& node) {
  const bool fits =
      std::all_of(node.operands.begin(), node.operands.end(), [](const ir::Value* operand) {
        return operand == nullptr || operand->type.rank() <= kMaxKernelRank;
      });
  return fits ? nullptr : "more than 5 dimensions";
}

size_t MergedRank(const ir::Node& node) {
  std::vector<ir::Dims> sizes{node.type().sizes};
  for (const ir::Value* operand : node.operands) sizes.push_back(operand->type.sizes);
  return MergeBroadcastDims(sizes)[0].size();
}

const char* MergedRank5(const ir::Node& node) {
  return node.type().rank() <= kMaxKernelRank || MergedRank(node) <= kMaxKernelRank
             ? nullptr
             : "more than 5 dimensions that cannot be merged";
}

const char* Expandable(const ir::Node& node) {
  return node.type().rank() <= kMaxMovementRank || MergedRank(node) <= kMaxMovementRank
             ? nullptr
             : "more than 8 dimensions that cannot be merged";
}

const char* MovementRank(const ir::Node& node) {
  int rank = node.type().rank();
  for (const ir::Value* operand : node.operands) rank = std::max(rank, operand->type.rank());
  return rank <= kMaxMovementRank ? nullptr : "more than 8 dimensions";
}

const char* Permutable(const ir::Node& node) {
  const ir::TensorType& type = node.operands[0]->type;
  return MergePermutation(type.sizes, node.Ints(AttrKey::kPerm)).sizes.size() <= kMaxMovementRank
             ? nullptr
             : "more than 8 dimensions that cannot be merged";
}

const char* ReducibleRuns(const ir::Node& node) {
  int runs = 0;
  int last = -1;  // whether the previous dimension was reduced
  const ir::Dims& dims = node.Ints(AttrKey::kDims);
  const ir::Dims& sizes = node.operands[0]->type.sizes;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    const int reduced = std::count(dims.begin(), dims.end(), static_cast<int64_t>(d)) > 0 ? 1 : 0;
    if (reduced != last) ++runs;
    last = reduced;
  }
  return runs <= kMaxKernelRank ? nullptr : "more than 5 alternating dimensions";
}

const char* MatmulBatch(const ir::Node& node) {
  if (node.type().rank() <= kMaxKernelRank) return nullptr;
  std::vector<ir::Dims> batch;
  for (const ir::Dims& sizes :
       {node.type().sizes, node.operands[0]->type.sizes, node.operands[1]->type.sizes}) {
    batch.emplace_back(sizes.begin(), sizes.end() - 2);
  }
  return MergeBroadcastDims(batch)[0].size() <= kMaxKernelRank - 2
             ? nullptr
             : "more than 3 batch dimensions that cannot be merged";
}

const char* Window2d(const ir::Node& node) {
  return node.operands[0]->type.rank() == 4 ? nullptr : "only two spatial dimensions are supported";
}

const char* Any(const ir::Node&) { return nullptr; }

struct Rule {
  OpKind op;
  void (*lower)(const NodeLowering& at);
  Types types;
  ShapeRefusal refuses;
};

// All but the elementwise ops that share one row (kPointwise).
constexpr Rule kRules[] = {
    {OpKind::kAdaptiveAvgPool, LowerAdaptivePool, Types::kFloat, Window2d},
    {OpKind::kArgmax, LowerArgReduce, Types::kArithmetic, Any},
    {OpKind::kArgmin, LowerArgReduce, Types::kArithmetic, Any},
    {OpKind::kAsStrided, LowerAsStrided, Types::kMoved, MovementRank},
    {OpKind::kAsStridedScatter, LowerAsStridedScatter, Types::kMoved, MovementRank},
    {OpKind::kAvgPool, LowerPool, Types::kFloat, Window2d},
    {OpKind::kCast, LowerCast, Types::kArithmetic, MergedRank5},
    {OpKind::kConcat, LowerConcat, Types::kMoved, MovementRank},
    {OpKind::kConv, LowerConv, Types::kFloat, Any},
    {OpKind::kConvTranspose, LowerConv, Types::kFloat, Any},
    {OpKind::kCumprod, LowerScan, Types::kArithmetic, Any},
    {OpKind::kCumsum, LowerScan, Types::kArithmetic, Any},
    {OpKind::kExpand, LowerExpand, Types::kMoved, Expandable},
    {OpKind::kFull, LowerFull, Types::kArithmetic, MovementRank},
    {OpKind::kGather, LowerGather, Types::kMoved, Any},
    {OpKind::kGatherElements, LowerGatherElements, Types::kMoved, Rank5},
    {OpKind::kIota, LowerIota, Types::kArithmetic, Any},
    {OpKind::kLayerNorm, LowerLayerNorm, Types::kFloat, Any},
    {OpKind::kLogSoftmax, LowerSoftmax, Types::kFloat, Any},
    {OpKind::kMatmul, LowerMatmul, Types::kFloat, MatmulBatch},
    {OpKind::kMaxPool, LowerPool, Types::kFloat, Window2d},
    {OpKind::kPad, LowerPad, Types::kArithmetic, Rank5},
    {OpKind::kPermute, LowerPermute, Types::kMoved, Permutable},
    {OpKind::kReduceMax, LowerReduce, Types::kArithmetic, ReducibleRuns},
    {OpKind::kReduceMean, LowerReduce, Types::kFloat, ReducibleRuns},
    {OpKind::kReduceMin, LowerReduce, Types::kArithmetic, ReducibleRuns},
    {OpKind::kReduceProd, LowerReduce, Types::kArithmetic, ReducibleRuns},
    {OpKind::kReduceSum, LowerReduce, Types::kArithmetic, ReducibleRuns},
    {OpKind::kReshape, LowerReshape, Types::kMoved, MovementRank},
    {OpKind::kResize, LowerResize, Types::kFloat, Window2d},
    {OpKind::kRmsNorm, LowerRmsNorm, Types::kFloat, Any},
    {OpKind::kScatter, LowerScatter, Types::kMoved, Rank5},
    {OpKind::kSdpa, LowerSdpa, Types::kFloat, Any},
    {OpKind::kSlice, LowerSlice, Types::kMoved, MovementRank},
    {OpKind::kSoftmax, LowerSoftmax, Types::kFloat, Any},
    {OpKind::kTopk, LowerTopk, Types::kArithmetic, Rank5},
};

constexpr Rule kPointwise = {OpKind::kAten, LowerPointwise, Types::kArithmetic, MergedRank5};

const Rule* FindRule(OpKind op) {
  const Rule* found = std::find_if(std::begin(kRules), std::end(kRules),
                                   [&](const Rule& rule) { return rule.op == op; });
  if (found != std::end(kRules)) return found;
  const ir::OpTraits& traits = ir::Traits(op);
  return traits.op_class == OpClass::kElementwise && !traits.guid.empty() ? &kPointwise : nullptr;
}

bool Holds(Types types, DType dtype) {
  switch (types) {
    case Types::kFloat:
      return IsFloat(dtype) && MovedType(dtype) == dtype;
    case Types::kArithmetic:
      return dtype == DType::kBool || (IsInteger(dtype) && MovedType(dtype) == dtype) ||
             Holds(Types::kFloat, dtype);
    case Types::kMoved:
      return MovedType(dtype) != DType::kInvalid;
  }
  return false;
}

bool IsPresent(const ir::Value* value) { return value != nullptr && value->type.elements() > 0; }

// Whether the node can be emitted when some operand has no elements but its results have: an empty
// sum, product or mean, padding around nothing, parts of a concatenation, writes of nothing.
bool HoldsEmptyOperands(const ir::Node& node) {
  switch (node.op) {
    case OpKind::kConcat:
    case OpKind::kMatmul:
    case OpKind::kPad:
    case OpKind::kReduceMean:
    case OpKind::kReduceProd:
    case OpKind::kReduceSum:
      return true;
    case OpKind::kAsStridedScatter:
    case OpKind::kScatter:
      return IsPresent(node.operands[0]);
    default:
      return false;
  }
}

}  // namespace

bool IsView(const ir::Node& node) {
  switch (node.op) {
    case OpKind::kAsStrided:
    case OpKind::kExpand:
    case OpKind::kPermute:
    case OpKind::kReshape:
    case OpKind::kSlice:
      return true;
    default:
      return false;
  }
}

absl::Status CheckLowerable(const ir::Node& node) {
  const std::string_view name = ir::OpName(node.op);
  const Rule* rule = FindRule(node.op);
  if (rule == nullptr) {
    return Unimplemented(node.aten != nullptr ? std::string_view(node.aten->target) : name,
                         ": no recipe holds this op");
  }
  bool has_empty_operand = false;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (node.operands[i] == nullptr) continue;
    const DType dtype = node.operands[i]->type.dtype;
    const bool is_index = i == 1 && ir::Traits(node.op).op_class == OpClass::kIndex;
    if (!Holds(is_index ? Types::kArithmetic : rule->types, dtype)) {
      return Unimplemented(name, ": the device does not calculate with ", DTypeName(dtype));
    }
    has_empty_operand |= !IsPresent(node.operands[i]);
  }
  for (const ir::Value* result : node.results) {
    if (!Holds(rule->types, result->type.dtype) && node.op != OpKind::kTopk) {
      return Unimplemented(name, ": the device does not calculate with ",
                           DTypeName(result->type.dtype));
    }
  }
  if (!IsPresent(node.result())) return absl::OkStatus();  // nothing to calculate
  if (has_empty_operand && !HoldsEmptyOperands(node)) {
    return Unimplemented(name, ": an operand without elements");
  }
  if (const char* reason = rule->refuses(node)) return Unimplemented(name, ": ", reason);
  return absl::OkStatus();
}

void Lower(const NodeLowering& at) {
  const Rule* rule = FindRule(at.node.op);
  if (rule == nullptr) {
    at.graph.Fail(Internal(ir::OpName(at.node.op), " has no lowering"));
    return;
  }
  at.graph.SetOp(ir::OpName(at.node.op));
  rule->lower(at);
}

}  // namespace hpu::compiler
