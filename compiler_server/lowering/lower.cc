#include "compiler_server/lowering/lower.h"

#include <algorithm>

#include "compiler_server/lowering/dims.h"

namespace hpu::compiler {
namespace {

using ir::OpClass;
using ir::OpFlag;
using ir::OpKind;

// The rows of all families except the elementwise ops, which share one row.
const std::vector<LoweringRule>& Rules() {
  static const auto* const rules = [] {
    auto* all = new std::vector<LoweringRule>;
    for (const auto rows : {ContractRules(), CustomRules(), IndexRules(), MovementRules(),
                            NormalizeRules(), PointwiseRules(), ReduceRules(), WindowRules()}) {
      all->insert(all->end(), rows.begin(), rows.end());
    }
    return all;
  }();
  return *rules;
}

const LoweringRule* FindRule(OpKind op) {
  const auto found = std::find_if(Rules().begin(), Rules().end(),
                                  [&](const LoweringRule& rule) { return rule.op == op; });
  if (found != Rules().end()) return &*found;
  const ir::OpTraits& traits = ir::Traits(op);
  return traits.op_class == OpClass::kElementwise && !traits.guid.empty() ? &ElementwiseRule()
                                                                          : nullptr;
}

bool Holds(LoweredTypes types, DType dtype) {
  switch (types) {
    case LoweredTypes::kFloat:
      return IsFloat(dtype) && MovedType(dtype) == dtype && DTypeSize(dtype) > 1;
    case LoweredTypes::kArithmetic:
      return dtype == DType::kBool || (IsInteger(dtype) && MovedType(dtype) == dtype) ||
             Holds(LoweredTypes::kFloat, dtype);
    case LoweredTypes::kConverted:
      return MovedType(dtype) == dtype;
    case LoweredTypes::kMoved:
      return MovedType(dtype) != DType::kInvalid;
  }
  return false;
}

bool IsPresent(const ir::Value* value) { return value != nullptr && value->type.elements() > 0; }

// Whether the node can be emitted if some operand has no elements and its results have some: an
// empty sum, product or mean, padding around nothing, empty parts of a concatenation, empty writes.
bool HoldsEmptyOperands(const ir::Node& node) {
  return ir::Has(node.op, OpFlag::kEmptyOperands) ||
         (ir::Has(node.op, OpFlag::kEmptyWrites) && IsPresent(node.operands[0]));
}

}  // namespace

size_t MergedRank(const ir::Node& node) {
  std::vector<ir::Dims> sizes{node.type().sizes};
  for (const ir::Value* operand : node.operands) sizes.push_back(operand->type.sizes);
  return MergeBroadcastDims(sizes)[0].size();
}

const char* Rank5(const ir::Node& node) {
  const bool fits =
      std::all_of(node.operands.begin(), node.operands.end(), [](const ir::Value* operand) {
        return operand == nullptr || operand->type.rank() <= kMaxKernelRank;
      });
  return fits ? nullptr : "more than 5 dimensions";
}

const char* MergedRank5(const ir::Node& node) {
  return node.type().rank() <= kMaxKernelRank || MergedRank(node) <= kMaxKernelRank
             ? nullptr
             : "more than 5 dimensions that cannot be merged";
}

const char* MovementRank(const ir::Node& node) {
  int rank = node.type().rank();
  for (const ir::Value* operand : node.operands) rank = std::max(rank, operand->type.rank());
  return rank <= kMaxMovementRank ? nullptr : "more than 8 dimensions";
}

const char* AnyShape(const ir::Node&) { return nullptr; }

absl::Status CheckLowerable(const ir::Node& node) {
  const std::string_view name = ir::OpName(node.op);
  const LoweringRule* rule = FindRule(node.op);
  if (rule == nullptr) {
    return Unimplemented(node.aten != nullptr ? std::string_view(node.aten->target) : name,
                         ": no recipe holds this op");
  }
  bool has_empty_operand = false;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (node.operands[i] == nullptr) continue;
    const DType dtype = node.operands[i]->type.dtype;
    const bool is_index = i == 1 && ir::Has(node.op, OpFlag::kTakesIndex);
    if (!Holds(is_index ? LoweredTypes::kArithmetic : rule->types, dtype)) {
      return Unimplemented(name, ": the device does not calculate with ", DTypeName(dtype));
    }
    has_empty_operand |= !IsPresent(node.operands[i]);
  }
  const bool gives_index = ir::Has(node.op, OpFlag::kGivesIndex);
  for (const ir::Value* result : node.results) {
    if (!Holds(rule->types, result->type.dtype) && !gives_index) {
      return Unimplemented(name, ": the device does not calculate with ",
                           DTypeName(result->type.dtype));
    }
  }
  if (std::ranges::none_of(node.results, IsPresent)) return absl::OkStatus();  // nothing to do
  if (has_empty_operand && !HoldsEmptyOperands(node)) {
    return Unimplemented(name, ": an operand without elements");
  }
  if (const char* reason = rule->refuses(node)) return Unimplemented(name, ": ", reason);
  return absl::OkStatus();
}

void Lower(const NodeLowering& at) {
  const LoweringRule* rule = FindRule(at.node.op);
  if (rule == nullptr) {
    at.graph.Fail(Internal(ir::OpName(at.node.op), " has no lowering"));
    return;
  }
  at.graph.SetOp(ir::OpName(at.node.op));
  rule->lower(at);
}

}  // namespace hpu::compiler
