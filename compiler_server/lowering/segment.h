// Cuts a graph into steps: recipes, and nodes between them that are steps of their own (eager ops).
//
// Every node has a kind. Each gets a stage as early as its operands allow: so many recipes run
// before it. Hence the number of recipes is the length of the longest chain of recipes with a step
// of another kind between each two. All recipe nodes of a stage are one recipe: nothing in it
// depends on a later stage, hence it is convex. The others run in the graph's order. Of a function
// with donated inputs a stage's nodes are cut further, into parts (parts.h), a recipe each.
//
// Views and sources (permute, full ...) are *free*: they belong to no stage and are repeated in
// every step that reads them, so that only values with memory of their own cross between steps.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/status.h"
#include "compiler_server/ir/graph.h"
#include "compiler_server/ir/views.h"

namespace hpu::compiler {

// A storage or a mutation of the graph that a recipe has to write.
struct Write {
  enum class Kind : uint8_t { kStorage, kMutation };
  Kind kind = Kind::kStorage;
  uint32_t index = 0;  // into Graph::storages() or mutations()
};

// What becomes of a node.
enum class NodeKind : uint8_t {
  kRecipe,  // one step with the other recipe nodes of its segment
  kEager,   // an EagerStep
};
NodeKind KindOf(const ir::Node& node);

struct Segment {
  bool recipe = false;           // its nodes are one recipe; else each is a step, by its kind
  std::vector<ir::Node*> nodes;  // in graph order, without free ones
  std::vector<Write> writes;     // of a recipe, in order; mutations last
};

class SegmentPlan {
 public:
  // `least_part_bytes`: see PlanParts. UNIMPLEMENTED: a node that neither a recipe holds nor ATen
  // can run.
  static absl::StatusOr<SegmentPlan> Create(const ir::Graph& graph, int64_t least_part_bytes);

  // In execution order; none is empty.
  const std::vector<Segment>& segments() const { return segments_; }
  // Segment that produces the value; -1 for inputs, constants and free nodes' results.
  int SegmentOf(const ir::Value& value) const { return segment_of_value_[value.id]; }
  bool IsFree(const ir::Node& node) const;
  // True if the memory that an eager op allocates for its result serves as the storage; each result
  // serves as one.
  bool IsEagerStorage(uint32_t storage) const { return eager_storage_[storage]; }
  // Follows free views to the value that has memory: an input, a constant, or a node's result that
  // is not free (a free source ends the chain too).
  ir::Value* Root(ir::Value* value) const;
  // The input that the value is the new content of, if its node writes that input's memory in
  // place: a scatter into an input that nothing else reads and that the graph is to overwrite with
  // the result. One position of a key/value cache then costs a position, not the cache.
  std::optional<uint32_t> UpdatedInput(const ir::Value& value) const;
  // nullopt if strides cannot express the chain.
  std::optional<ir::RootView> FindRootView(ir::Value* value) const;

 private:
  // When a node runs. At one level, steps of other kinds come before the recipe.
  struct Stage {
    int level = -1;  // stages of recipes before it; -1: there before the first step
    bool recipe = false;
    uint32_t part = 0;  // of the recipe nodes of a level
    bool known() const { return level >= 0; }
    auto operator<=>(const Stage&) const = default;
  };

  explicit SegmentPlan(const ir::Graph& graph) : graph_(&graph) {}
  void FindUpdatedInputs();
  void PinEagerOperands();
  absl::Status CheckNodes() const;
  int AssignStages(int first_level);
  void PlaceWrites();
  void Collect();

  const ir::Graph* graph_;
  std::map<uint32_t, uint32_t> updated_input_;  // value id -> input written in place
  std::vector<uint32_t> parts_;                 // by position in the graph's order
  std::vector<bool> pinned_;          // by value id: views and sources that get a stage after all
  std::vector<Stage> stage_;          // by value id
  std::vector<bool> eager_storage_;   // by storage number
  std::vector<Stage> storage_stage_;  // not known = nothing to write
  Stage mutation_stage_;
  std::vector<Segment> segments_;
  std::vector<int> segment_of_value_;  // by value id
};

}  // namespace hpu::compiler
