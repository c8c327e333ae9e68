// Cuts a graph into steps: recipes, and nodes between them that are steps of their own (eager ops).
//
// Every node has a kind, and gets a stage that is as early as its operands allow. The level of a
// stage is the number of recipes that run before it. The number of recipes is therefore the length
// of the longest chain of recipes in which every two are separated by a step of another kind. All
// recipe nodes of a stage form one recipe: nothing in it depends on a later stage, so it is convex.
// The other nodes run in the order of the graph. In a function with donated inputs the nodes of a
// stage are cut further, into parts (parts.h), each of which is a recipe.
//
// A collective starts as soon as it has its operands. A stage that makes the operands of a large
// one is therefore cut where the collective stands in the graph, and its further nodes are a recipe
// that runs beside the collective.
//
// Views and sources (permute, full ...) are *free*: they belong to no stage and are repeated in
// every step that reads them, so that only values with memory of their own cross between steps.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "compiler_server/ir/graph.h"
#include "compiler_server/ir/views.h"

namespace hpu::compiler {

// A storage or a mutation of the graph that a recipe must write.
struct Write {
  enum class Kind : uint8_t { kStorage, kMutation };
  Kind kind = Kind::kStorage;
  uint32_t index = 0;  // into Graph::storages() or mutations()
};

// How a node is executed.
enum class NodeKind : uint8_t {
  kRecipe,      // one step with the other recipe nodes of its segment
  kEager,       // an EagerStep
  kCollective,  // a CollectiveStep; only nodes of the next kind read its results
  kWait,        // no step: where a result is read, the collective of its operand has ended
};

struct Segment {
  bool recipe = false;           // its nodes form one recipe; else each is a step of its kind
  std::vector<ir::Node*> nodes;  // in graph order, without free nodes
  std::vector<Write> writes;     // for a recipe, in order; mutations last
};

class SegmentPlan {
 public:
  // `least_part_bytes` is that of PlanParts, and a collective with at least so many bytes is large.
  // Returns UNIMPLEMENTED for a node that neither a recipe can hold nor ATen can run.
  static absl::StatusOr<SegmentPlan> Create(const ir::Graph& graph, int64_t least_part_bytes);

  NodeKind KindOf(const ir::Node& node) const;
  // The segments in execution order; none is empty.
  const std::vector<Segment>& segments() const { return segments_; }
  // The segment that produces the value; -1 for inputs, constants and results of free nodes.
  int SegmentOf(const ir::Value& value) const { return segment_of_value_[value.id]; }
  bool IsFree(const ir::Node& node) const;
  // True if the memory that a step of another kind than a recipe makes its result in serves as the
  // storage. Each result can serve as one storage.
  bool IsStepStorage(uint32_t storage) const { return step_storage_[storage]; }
  // Follows free views to the value that has memory: an input, a constant, or the result of a node
  // that is not free (or of a free source, which also ends the chain).
  ir::Value* Root(ir::Value* value) const;
  // The input whose new content the value is, if the node of the value writes the input's memory in
  // place: a scatter into an input that nothing else reads and that the graph overwrites with the
  // result. Updating one position of a key/value cache then costs one position and not the whole
  // cache.
  std::optional<uint32_t> UpdatedInput(const ir::Value& value) const;
  // Returns nullopt if strides cannot express the chain.
  std::optional<ir::RootView> FindRootView(ir::Value* value) const;

 private:
  // The time when a node runs. At one level, steps of other kinds come before the recipe.
  struct Stage {
    int level = -1;  // levels of recipes before it; -1: exists before the first step
    bool recipe = false;
    uint32_t part = 0;     // for the recipe nodes of a level
    bool follows = false;  // a collective that starts when the recipe of the part has been queued
    bool known() const { return level >= 0; }
    auto operator<=>(const Stage&) const = default;
  };

  SegmentPlan(const ir::Graph& graph, int64_t least_part_bytes)
      : graph_(&graph), least_part_bytes_(least_part_bytes) {}
  void FindCollectives();
  Stage StageOf(const ir::Node& node) const;
  void FindUpdatedInputs();
  bool CanServeAsStorage(const ir::Storage& storage) const;
  void PinEagerOperands();
  absl::Status CheckNodes() const;
  int AssignStages(int first_level);
  Stage StageAfter(const Stage& after, NodeKind kind, int first_level) const;
  void PlaceWrites();
  void Collect();

  const ir::Graph* graph_;
  int64_t least_part_bytes_;
  std::vector<NodeKind> aten_kinds_;            // of nodes with a call, by id of the first result
  std::map<uint32_t, uint32_t> updated_input_;  // value id -> input written in place
  std::vector<uint32_t> parts_;                 // by position in the graph's order
  std::vector<bool> pinned_;  // views and sources that get a stage anyway, by value id
  std::vector<Stage> stage_;  // by value id
  // The stages of nodes without results; these are checks.
  std::unordered_map<const ir::Node*, Stage> effect_stage_;
  std::vector<bool> step_storage_;    // by storage number
  std::vector<Stage> storage_stage_;  // unknown = nothing to write
  Stage mutation_stage_;
  std::vector<Segment> segments_;
  std::vector<int> segment_of_value_;  // by value id
};

}  // namespace hpu::compiler
