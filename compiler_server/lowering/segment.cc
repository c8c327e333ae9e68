#include "compiler_server/lowering/segment.h"

#include <algorithm>
#include <map>

#include "compiler_server/ir/collectives.h"
#include "compiler_server/lowering/dims.h"
#include "compiler_server/lowering/lower.h"
#include "compiler_server/lowering/parts.h"

namespace hpu::compiler {
namespace {

using ir::Dims;
using ir::Node;
using ir::OpKind;
using ir::Value;
using ir::ValueKind;

int64_t OperandBytes(const Node& node) {
  int64_t bytes = 0;
  for (const Value* operand : node.operands) bytes += operand->type.bytes();
  return bytes;
}

// Returns the value whose row-major memory contains the operand with these strides.
Value* CopyUnder(Value* operand, const Dims& strides) {
  const bool permuted = operand->kind == ValueKind::kResult &&
                        operand->producer->op == OpKind::kPermute &&
                        !ir::LiesAs(ir::Contiguous(operand->type), strides);
  return permuted ? operand->producer->operands[0] : operand;
}

}  // namespace

NodeKind SegmentPlan::KindOf(const Node& node) const {
  if (node.op != OpKind::kAten) return NodeKind::kRecipe;
  return node.results.empty() ? NodeKind::kEager : aten_kinds_[node.result()->id];
}

// A collective runs as a step of its own if all that happens to its results is that they are waited
// for.
void SegmentPlan::FindCollectives() {
  std::vector<uint32_t> other_uses = graph_->CountUses();
  for (const Node* node : graph_->nodes()) {
    if (!ir::IsCollectiveWait(*node)) continue;
    for (const Value* operand : node->operands) --other_uses[operand->id];
  }
  for (const Node* node : graph_->nodes()) {
    if (ir::IsCollectiveWait(*node)) {
      const bool after_steps =
          std::all_of(node->operands.begin(), node->operands.end(), [&](const Value* operand) {
            return operand->kind == ValueKind::kResult &&
                   KindOf(*operand->producer) == NodeKind::kCollective;
          });
      if (after_steps) aten_kinds_[node->result()->id] = NodeKind::kWait;
      continue;
    }
    const bool is_waited_for =
        std::all_of(node->results.begin(), node->results.end(),
                    [&](const Value* result) { return other_uses[result->id] == 0; });
    if (is_waited_for && CollectiveStepOf(*node).has_value()) {
      aten_kinds_[node->result()->id] = NodeKind::kCollective;
    }
  }
}

bool SegmentPlan::CanServeAsStorage(const ir::Storage& storage) const {
  return storage.value->kind == ValueKind::kResult &&
         KindOf(*storage.value->producer) != NodeKind::kRecipe &&
         storage.type == storage.value->type;
}

bool SegmentPlan::IsFree(const Node& node) const {
  return (ir::IsView(node) || ir::Traits(node.op).op_class == ir::OpClass::kSource) &&
         !pinned_[node.result()->id];
}

Value* SegmentPlan::Root(Value* value) const {
  while (value->kind == ValueKind::kResult && ir::IsView(*value->producer) &&
         IsFree(*value->producer)) {
    value = value->producer->operands[0];
  }
  return value;
}

std::optional<ir::RootView> SegmentPlan::FindRootView(Value* value) const {
  return ir::FindRootView(value,
                          [&](const Node& node) { return ir::IsView(node) && IsFree(node); });
}

SegmentPlan::Stage SegmentPlan::StageOf(const Node& node) const {
  return node.results.empty() ? effect_stage_.at(&node) : stage_[node.result()->id];
}

void SegmentPlan::FindUpdatedInputs() {
  std::vector<uint32_t> writes(graph_->inputs().size());
  for (const ir::Mutation& mutation : graph_->mutations()) ++writes[mutation.input];
  const std::vector<uint32_t> uses = graph_->CountUses();
  for (const ir::Mutation& mutation : graph_->mutations()) {
    const Value* input = graph_->inputs()[mutation.input].value;
    const Value* value = mutation.value;
    if (value->kind != ValueKind::kResult) continue;
    if (!ir::Has(value->producer->op, ir::OpFlag::kUpdates)) continue;
    if (value->producer->operands[0] != input || uses[input->id] != 1) continue;
    if (writes[mutation.input] != 1 || mutation.view != ir::View{input->type, 0}) continue;
    if (input->type.contiguous() && value->type.elements() != 0) {
      updated_input_[value->id] = mutation.input;
    }
  }
}

std::optional<uint32_t> SegmentPlan::UpdatedInput(const Value& value) const {
  const auto found = updated_input_.find(value.id);
  if (found == updated_input_.end()) return std::nullopt;
  return found->second;
}

// Steps outside recipes need their operands in memory, with the layout that the call was captured
// with. A source, a view that strides cannot express, or a copy into another layout (made by the
// pass eager-operands) is therefore calculated by a recipe like any other node.
void SegmentPlan::PinEagerOperands() {
  for (const Node* node : graph_->nodes()) {
    if (KindOf(*node) == NodeKind::kRecipe) continue;
    for (size_t i = 0; i < node->operands.size(); ++i) {
      Value* operand = node->operands[i];
      const std::optional<ir::RootView> view = FindRootView(operand);
      const Dims& strides = node->aten->strides[i];
      if (!view.has_value() || !ir::LiesAs(view->view.type, strides)) {
        pinned_[CopyUnder(operand, strides)->id] = true;
      }
      const Value* root = Root(operand);
      if (root->kind == ValueKind::kResult && IsFree(*root->producer)) pinned_[root->id] = true;
    }
  }
}

absl::Status SegmentPlan::CheckNodes() const {
  for (const Node* node : graph_->nodes()) {
    if (KindOf(*node) != NodeKind::kRecipe || IsFree(*node)) continue;
    const absl::Status status = CheckLowerable(*node);
    const std::string& source = graph_->source(*node);
    if (!status.ok()) return source.empty() ? status : Annotate(status, source);
  }
  return absl::OkStatus();
}

// Returns the earliest stage for a node of the kind that runs after `after`. The part of a recipe
// node is left to the caller.
SegmentPlan::Stage SegmentPlan::StageAfter(const Stage& after, NodeKind kind,
                                           int first_level) const {
  if (kind == NodeKind::kRecipe) return {std::max(after.level, 0), true};
  if (kind == NodeKind::kCollective) {
    if (after.recipe) return {after.level, true, after.part, true};
    return {std::max(after.level, 0), false};
  }
  return {std::max(after.level + (after.recipe ? 1 : 0), first_level), false};
}

// Steps of other kinds start at `first_level`: 0 is before the first recipe, and 1 is after it.
// Collectives start at once, and `first_level` is then that of their waits. Returns the number of
// levels that have a recipe.
int SegmentPlan::AssignStages(int first_level) {
  std::fill(stage_.begin(), stage_.end(), Stage());
  Stage last_draw, last_collective;
  std::map<int, uint32_t> cuts;  // by level: how many parts have ended for a collective
  for (size_t i = 0; i < graph_->nodes().size(); ++i) {
    const Node* node = graph_->nodes()[i];
    // Calls that draw random numbers must draw them in the order of the graph, and all ranks must
    // make collectives in the same order, though their graphs may differ otherwise.
    const bool draws = node->aten != nullptr && node->aten->draws_random;
    const bool communicates = ir::IsCollective(*node);
    Stage after = draws ? last_draw : Stage();
    if (communicates) after = std::max(after, last_collective);
    for (const Value* operand : node->operands) {
      if (operand != nullptr) after = std::max(after, stage_[operand->id]);
    }
    Stage stage = after;
    if (!IsFree(*node)) {
      const NodeKind kind = KindOf(*node);
      stage = StageAfter(after, kind, first_level);
      const auto part_at = [&] { return parts_[i] + cuts[stage.level]; };
      if (kind == NodeKind::kRecipe) stage.part = part_at();
      const bool is_large = stage.follows && OperandBytes(*node) >= least_part_bytes_;
      if (is_large && stage.part == part_at()) ++cuts[stage.level];
    }
    for (const Value* result : node->results) stage_[result->id] = stage;
    if (node->results.empty()) effect_stage_[node] = stage;
    if (draws) last_draw = stage;
    if (communicates) last_collective = stage;
  }
  PlaceWrites();
  std::vector<bool> used;
  const auto mark = [&](const Stage& stage) {
    if (!stage.known() || !stage.recipe || stage.follows) return;
    used.resize(std::max(used.size(), static_cast<size_t>(stage.level) + 1));
    used[static_cast<size_t>(stage.level)] = true;
  };
  for (const Node* node : graph_->nodes()) {
    if (!IsFree(*node)) mark(StageOf(*node));
  }
  for (const Stage& stage : storage_stage_) mark(stage);
  if (!graph_->mutations().empty()) mark(mutation_stage_);
  return static_cast<int>(std::count(used.begin(), used.end(), true));
}

// Writes are done by recipes, each by the earliest that has the value.
void SegmentPlan::PlaceWrites() {
  const auto recipe_after = [](const Stage& stage) {
    if (stage.follows) return Stage{stage.level + 1, true};
    return Stage{std::max(stage.level, 0), true, stage.recipe ? stage.part : 0};
  };
  storage_stage_.assign(graph_->storages().size(), Stage());
  std::vector<bool> taken(graph_->value_count());
  step_storage_.assign(graph_->storages().size(), false);
  for (size_t k = 0; k < storage_stage_.size(); ++k) {
    const ir::Storage& storage = graph_->storages()[k];
    const Value* value = storage.value;
    if (CanServeAsStorage(storage) && !taken[value->id]) {
      taken[value->id] = step_storage_[k] = true;
      continue;
    }
    if (value->type.elements() == 0) continue;
    storage_stage_[k] = recipe_after(stage_[value->id]);
  }
  // All mutations happen together, after every value exists and all readers of the mutated inputs
  // have run. (Within a recipe, control edges put them last.)
  mutation_stage_ = {0, true, 0};
  std::vector<bool> mutated(graph_->value_count());
  for (const ir::Mutation& mutation : graph_->mutations()) {
    mutated[graph_->inputs()[mutation.input].value->id] = true;
    mutation_stage_ = std::max(mutation_stage_, recipe_after(stage_[mutation.value->id]));
  }
  if (graph_->mutations().empty()) return;
  for (const Node* node : graph_->nodes()) {
    if (IsFree(*node)) continue;
    for (Value* operand : node->operands) {
      if (operand == nullptr || !mutated[Root(operand)->id]) continue;
      mutation_stage_ = std::max(mutation_stage_, recipe_after(StageOf(*node)));
    }
  }
  for (size_t k = 0; k < storage_stage_.size(); ++k) {
    if (mutated[Root(graph_->storages()[k].value)->id]) {
      mutation_stage_ = std::max(mutation_stage_, storage_stage_[k]);
    }
  }
}

void SegmentPlan::Collect() {
  std::map<Stage, Segment> by_stage;
  const auto at = [&](const Stage& stage) -> Segment& {
    Segment& segment = by_stage[stage];
    segment.recipe = stage.recipe && !stage.follows;
    return segment;
  };
  for (Node* node : graph_->nodes()) {
    if (!IsFree(*node)) at(StageOf(*node)).nodes.push_back(node);
  }
  for (uint32_t k = 0; k < storage_stage_.size(); ++k) {
    if (storage_stage_[k].known()) {
      at(storage_stage_[k]).writes.push_back({Write::Kind::kStorage, k});
    }
  }
  for (uint32_t k = 0; k < graph_->mutations().size(); ++k) {
    const Value& value = *graph_->mutations()[k].value;
    if (value.type.elements() == 0 || UpdatedInput(value).has_value()) continue;
    at(mutation_stage_).writes.push_back({Write::Kind::kMutation, k});
  }
  segment_of_value_.assign(graph_->value_count(), -1);
  for (auto& [stage, segment] : by_stage) {
    for (const Node* node : segment.nodes) {
      for (const Value* result : node->results) {
        segment_of_value_[result->id] = static_cast<int>(segments_.size());
      }
    }
    segments_.push_back(std::move(segment));
  }
}

absl::StatusOr<SegmentPlan> SegmentPlan::Create(const ir::Graph& graph, int64_t least_part_bytes) {
  SegmentPlan plan(graph, least_part_bytes);
  plan.pinned_.assign(graph.value_count(), false);
  plan.stage_.resize(graph.value_count());
  plan.aten_kinds_.assign(graph.value_count(), NodeKind::kEager);
  plan.FindCollectives();
  plan.FindUpdatedInputs();
  plan.PinEagerOperands();
  RETURN_IF_ERROR(plan.CheckNodes());
  plan.parts_ = PlanParts(graph, plan, least_part_bytes);
  // Starting with the other steps pays if recipes need their results, because then one recipe may
  // be enough.
  const int recipe_first = plan.AssignStages(1);
  const int others_first = plan.AssignStages(0);
  if (recipe_first <= others_first) plan.AssignStages(1);
  plan.Collect();
  return plan;
}

}  // namespace hpu::compiler
