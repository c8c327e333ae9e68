#include "compiler_server/lowering/segment.h"

#include <algorithm>
#include <map>

#include "compiler_server/lowering/dims.h"
#include "compiler_server/lowering/lower.h"

namespace hpu::compiler {
namespace {

using ir::Node;
using ir::OpKind;
using ir::Value;
using ir::ValueKind;

constexpr int kAnyStage = -1;

bool IsEager(const Node& node) { return node.op == OpKind::kAten; }
bool IsEagerStage(int stage) { return stage % 2 == 1; }

bool CanServeAsStorage(const ir::Storage& storage) {
  return storage.value->kind == ValueKind::kResult && IsEager(*storage.value->producer) &&
         storage.type == storage.value->type;
}

}  // namespace

bool SegmentPlan::IsFree(const Node& node) const {
  return (IsView(node) || ir::Traits(node.op).op_class == ir::OpClass::kSource) &&
         !pinned_[node.result()->id];
}

Value* SegmentPlan::Root(Value* value) const {
  while (value->kind == ValueKind::kResult && IsView(*value->producer) &&
         IsFree(*value->producer)) {
    value = value->producer->operands[0];
  }
  return value;
}

std::optional<RootView> SegmentPlan::FindRootView(Value* value) const {
  std::vector<const Node*> chain;
  while (value->kind == ValueKind::kResult && IsView(*value->producer) &&
         IsFree(*value->producer)) {
    chain.push_back(value->producer);
    value = value->producer->operands[0];
  }
  std::optional<ir::View> view = ir::View{value->type, 0};
  for (auto node = chain.rbegin(); node != chain.rend() && view.has_value(); ++node) {
    view = ApplyView(**node, *std::move(view));
  }
  if (!view.has_value()) return std::nullopt;
  return RootView{value, *std::move(view)};
}

void SegmentPlan::FindUpdatedInputs() {
  std::vector<uint32_t> writes(graph_->inputs().size());
  for (const ir::Mutation& mutation : graph_->mutations()) ++writes[mutation.input];
  const std::vector<uint32_t> uses = graph_->CountUses();
  for (const ir::Mutation& mutation : graph_->mutations()) {
    const Value* input = graph_->inputs()[mutation.input].value;
    const Value* value = mutation.value;
    if (value->kind != ValueKind::kResult || value->producer->op != OpKind::kScatter) continue;
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

// An eager op needs its operands in memory: a source, or a view that strides cannot express, is
// calculated by a recipe like any other node.
void SegmentPlan::PinEagerOperands() {
  for (const Node* node : graph_->nodes()) {
    if (!IsEager(*node)) continue;
    for (Value* operand : node->operands) {
      if (operand == nullptr) continue;
      if (!FindRootView(operand).has_value()) pinned_[operand->id] = true;
      const Value* root = Root(operand);
      if (root->kind == ValueKind::kResult && IsFree(*root->producer)) pinned_[root->id] = true;
    }
  }
}

absl::Status SegmentPlan::CheckNodes() const {
  for (const Node* node : graph_->nodes()) {
    if (IsEager(*node) || IsFree(*node)) continue;
    const absl::Status status = CheckLowerable(*node);
    const std::string& source = graph_->source(*node);
    if (!status.ok()) return source.empty() ? status : Annotate(status, source);
  }
  return absl::OkStatus();
}

// The earliest stage of a reader of something that is available at `stage`.
int SegmentPlan::Advance(int stage, bool eager, int first) const {
  if (stage < first) return first;
  return IsEagerStage(stage) == eager ? stage : stage + 1;
}

// Returns the number of recipes.
int SegmentPlan::AssignStages(bool eager_first) {
  const int first_recipe = eager_first ? 2 : 0;
  std::fill(stage_.begin(), stage_.end(), kAnyStage);
  for (const Node* node : graph_->nodes()) {
    int stage = kAnyStage;
    if (IsFree(*node)) {
      if (!node->operands.empty()) stage = stage_[node->operands[0]->id];
    } else {
      const bool eager = IsEager(*node);
      const int first = eager ? 1 : first_recipe;
      stage = first;
      for (const Value* operand : node->operands) {
        if (operand != nullptr) stage = std::max(stage, Advance(stage_[operand->id], eager, first));
      }
    }
    for (const Value* result : node->results) stage_[result->id] = stage;
  }
  PlaceWrites(first_recipe);
  std::vector<bool> used;
  const auto mark = [&](int stage) {
    if (stage < 0 || IsEagerStage(stage)) return;
    used.resize(std::max(used.size(), static_cast<size_t>(stage) + 1));
    used[stage] = true;
  };
  for (const Node* node : graph_->nodes()) {
    if (!IsFree(*node)) mark(stage_[node->result()->id]);
  }
  for (int stage : storage_stage_) mark(stage);
  if (!graph_->mutations().empty()) mark(mutation_stage_);
  return static_cast<int>(std::count(used.begin(), used.end(), true));
}

void SegmentPlan::PlaceWrites(int first_recipe) {
  storage_stage_.assign(graph_->storages().size(), kAnyStage);
  std::vector<bool> taken(graph_->value_count());
  eager_storage_.assign(graph_->storages().size(), false);
  for (size_t k = 0; k < storage_stage_.size(); ++k) {
    const ir::Storage& storage = graph_->storages()[k];
    const Value* value = storage.value;
    if (CanServeAsStorage(storage) && !taken[value->id]) {
      taken[value->id] = eager_storage_[k] = true;
      continue;
    }
    if (value->type.elements() == 0) continue;
    storage_stage_[k] = Advance(stage_[value->id], false, first_recipe);
  }
  // Mutations happen together, after every value is there and every reader of the mutated inputs is
  // done. (Within a recipe, control edges put them last.)
  mutation_stage_ = first_recipe;
  std::vector<bool> mutated(graph_->value_count());
  for (const ir::Mutation& mutation : graph_->mutations()) {
    mutated[graph_->inputs()[mutation.input].value->id] = true;
    mutation_stage_ =
        std::max(mutation_stage_, Advance(stage_[mutation.value->id], false, first_recipe));
  }
  if (graph_->mutations().empty()) return;
  for (const Node* node : graph_->nodes()) {
    if (IsFree(*node)) continue;
    for (Value* operand : node->operands) {
      if (operand == nullptr || !mutated[Root(operand)->id]) continue;
      mutation_stage_ =
          std::max(mutation_stage_, Advance(stage_[node->result()->id], false, first_recipe));
    }
  }
  for (size_t k = 0; k < storage_stage_.size(); ++k) {
    if (mutated[Root(graph_->storages()[k].value)->id]) {
      mutation_stage_ = std::max(mutation_stage_, storage_stage_[k]);
    }
  }
}

void SegmentPlan::Collect() {
  std::map<int, Segment> by_stage;
  const auto at = [&](int stage) -> Segment& {
    Segment& segment = by_stage[stage];
    segment.eager = IsEagerStage(stage);
    return segment;
  };
  for (Node* node : graph_->nodes()) {
    if (!IsFree(*node)) at(stage_[node->result()->id]).nodes.push_back(node);
  }
  for (uint32_t k = 0; k < storage_stage_.size(); ++k) {
    if (storage_stage_[k] != kAnyStage) {
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

absl::StatusOr<SegmentPlan> SegmentPlan::Create(const ir::Graph& graph) {
  SegmentPlan plan(graph);
  plan.pinned_.assign(graph.value_count(), false);
  plan.stage_.assign(graph.value_count(), kAnyStage);
  plan.FindUpdatedInputs();
  plan.PinEagerOperands();
  RETURN_IF_ERROR(plan.CheckNodes());
  // Starting with eager ops pays when recipes need their results: then one recipe may do.
  const int recipe_first = plan.AssignStages(false);
  const int eager_first = plan.AssignStages(true);
  if (recipe_first <= eager_first) plan.AssignStages(false);
  plan.Collect();
  return plan;
}

}  // namespace hpu::compiler
