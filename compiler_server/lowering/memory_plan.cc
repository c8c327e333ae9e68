#include "compiler_server/lowering/memory_plan.h"

#include <algorithm>

#include "compiler_server/lowering/collective_calls.h"
#include "compiler_server/lowering/lower.h"

namespace hpu::compiler {

using ir::Value;
using ir::ValueKind;

TensorSpec SpecOf(const ir::View& view) {
  return {view.type.dtype, view.type.sizes, view.type.strides, view.offset};
}

MemoryPlan::MemoryPlan(const ir::Graph& graph, const SegmentPlan& plan, Program& program,
                       ProgramFunction& function)
    : graph_(graph), program_(program), function_(function), homes_(graph.value_count()) {
  for (uint32_t i = 0; i < graph.inputs().size(); ++i) {
    const Value* value = graph.inputs()[i].value;
    if (value != nullptr) homes_[value->id] = InputMemory(i);
  }
  for (const Segment& segment : plan.segments()) {
    if (segment.recipe) continue;
    for (const ir::Node* node : segment.nodes) FindStepHomes(plan, *node);
  }
  for (const ir::Mutation& mutation : graph.mutations()) {
    const std::optional<uint32_t> input = plan.UpdatedInput(*mutation.value);
    if (input.has_value()) homes_[mutation.value->id] = InputMemory(*input);
  }
  for (uint32_t k = 0; k < graph.storages().size(); ++k) {
    const ir::Storage& storage = graph.storages()[k];
    const Value& value = *storage.value;
    if (plan.IsStepStorage(k)) {
      storages_.push_back(*homes_[value.id]);
    } else {
      storages_.push_back({Placement::kBuffer, NewBuffer(storage.type), {storage.type, 0}});
      if (!homes_[value.id].has_value() && value.kind == ValueKind::kResult) {
        homes_[value.id] = storages_.back();
      }
    }
  }
  WriteIntoCollectives(plan);
  FindHomes(plan);
}

void MemoryPlan::FindStepHomes(const SegmentPlan& plan, const ir::Node& node) {
  const NodeKind kind = plan.KindOf(node);
  for (size_t i = 0; i < node.results.size(); ++i) {
    const Value* result = node.results[i];
    if (kind == NodeKind::kWait) {
      homes_[result->id] = homes_[node.operands[i]->id];
      continue;
    }
    const bool eager = kind == NodeKind::kEager;
    const Placement placement = eager ? Placement::kEager : Placement::kBuffer;
    const uint32_t index = eager ? NewEagerTensor(result->type) : NewBuffer(result->type);
    homes_[result->id] = Memory{placement, index, {result->type, 0}};
  }
}

// A result of a recipe that only a collective reads, which may work in place, is written where the
// collective's result will be.
void MemoryPlan::WriteIntoCollectives(const SegmentPlan& plan) {
  const std::vector<uint32_t> uses = graph_.CountUses();
  for (const ir::Node* node : graph_.nodes()) {
    if (plan.KindOf(*node) != NodeKind::kCollective) continue;
    const CollectiveStep step = *CollectiveStepOf(*node);
    if (!kCollectives[static_cast<size_t>(step.op)].is_in_place) continue;
    for (size_t i = 0; i < node->operands.size(); ++i) {
      const Value& operand = *node->operands[i];
      if (operand.kind != ValueKind::kResult || uses[operand.id] != 1) continue;
      if (plan.IsFree(*operand.producer) || homes_[operand.id].has_value()) continue;
      homes_[operand.id] = homes_[node->results[i]->id];
    }
  }
}

// Finds results of recipes that another step reads.
void MemoryPlan::FindHomes(const SegmentPlan& plan) {
  const auto read = [&](Value* operand, int segment) {
    if (operand == nullptr) return;
    const Value* root = plan.Root(operand);
    if (homes_[root->id].has_value() || plan.SegmentOf(*root) < 0) return;
    if (plan.SegmentOf(*root) == segment) return;
    homes_[root->id] = Memory{Placement::kBuffer, NewBuffer(root->type), {root->type, 0}};
  };
  for (size_t s = 0; s < plan.segments().size(); ++s) {
    const Segment& segment = plan.segments()[s];
    for (const ir::Node* node : segment.nodes) {
      for (Value* operand : node->operands) read(operand, static_cast<int>(s));
    }
    for (const Write& write : segment.writes) {
      Value* value = write.kind == Write::Kind::kStorage ? graph_.storages()[write.index].value
                                                         : graph_.mutations()[write.index].value;
      read(value, static_cast<int>(s));
    }
  }
}

std::optional<Memory> MemoryPlan::HomeOf(const Value& value) {
  if (value.kind == ValueKind::kConstant && !homes_[value.id].has_value()) {
    homes_[value.id] = Memory{Placement::kConstant, ConstantIndex(value), {value.type, 0}};
  }
  return homes_[value.id];
}

Memory MemoryPlan::StorageMemory(uint32_t storage) { return storages_[storage]; }

Memory MemoryPlan::InputMemory(uint32_t input) const {
  return {Placement::kInput, input, {graph_.inputs()[input].value->type, 0}};
}

uint32_t MemoryPlan::Tensor(Placement placement, uint32_t index, const TensorSpec& spec) {
  const auto next = static_cast<uint32_t>(function_.tensors.size());
  const auto [known, is_new] = tensors_.try_emplace(
      Region(placement, index, spec.dtype, spec.sizes, spec.strides, spec.storage_offset), next);
  if (is_new) function_.tensors.push_back({placement, index, spec});
  return known->second;
}

uint32_t MemoryPlan::NewEagerTensor(const ir::TensorType& type) {
  function_.tensors.push_back({Placement::kEager, 0, SpecOf({type, 0})});
  return static_cast<uint32_t>(function_.tensors.size() - 1);
}

uint32_t MemoryPlan::NewBuffer(const ir::TensorType& type) {
  const int64_t elements = ir::SpanElements(type);
  function_.buffer_bytes.push_back(static_cast<uint64_t>(elements * DTypeSize(type.dtype)));
  return static_cast<uint32_t>(function_.buffer_bytes.size() - 1);
}

uint32_t MemoryPlan::ConstantIndex(const Value& value) {
  program_.constants.push_back({SpecOf({value.type, 0}), graph_.constants()[value.index].data});
  return static_cast<uint32_t>(program_.constants.size() - 1);
}

}  // namespace hpu::compiler
