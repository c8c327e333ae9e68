// Cuts a graph into steps: recipes, and ops that run eagerly between them.
//
// Recipe nodes and eager nodes get stages, even and odd, each as early as its operands allow, so
// the number of recipes is the length of the longest chain of alternations. All recipe nodes of a
// stage are one recipe: nothing in it depends on a later stage, hence it is convex.
//
// Views and sources (permute, full ...) are *free*: they belong to no stage and are repeated in
// every step that reads them, so that only values with memory of their own cross between steps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/status.h"
#include "compiler_server/ir/graph.h"

namespace hpu::compiler {

// A storage or a mutation of the graph that a recipe has to write.
struct Write {
  enum class Kind : uint8_t { kStorage, kMutation };
  Kind kind = Kind::kStorage;
  uint32_t index = 0;  // into Graph::storages() or mutations()
};

struct Segment {
  bool eager = false;
  std::vector<ir::Node*> nodes;  // in graph order, without free ones
  std::vector<Write> writes;     // of a recipe, in order; mutations last
};

// A value as a region of the memory of its root, the first value up the chain of free views.
struct RootView {
  ir::Value* root = nullptr;
  ir::View view;
};

class SegmentPlan {
 public:
  // UNIMPLEMENTED: a node that neither a recipe holds nor ATen can run.
  static absl::StatusOr<SegmentPlan> Create(const ir::Graph& graph);

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
  std::optional<RootView> FindRootView(ir::Value* value) const;

 private:
  explicit SegmentPlan(const ir::Graph& graph) : graph_(&graph) {}
  void FindUpdatedInputs();
  void PinEagerOperands();
  absl::Status CheckNodes() const;
  int AssignStages(bool eager_first);
  int Advance(int stage, bool eager, int first) const;
  void PlaceWrites(int first_recipe);
  void Collect();

  const ir::Graph* graph_;
  std::map<uint32_t, uint32_t> updated_input_;  // value id -> input written in place
  std::vector<bool> pinned_;         // by value id: views and sources that get a stage after all
  std::vector<int> stage_;           // by value id; kAnyStage = available from the start
  std::vector<bool> eager_storage_;  // by storage number
  std::vector<int> storage_stage_;   // kAnyStage = nothing to write
  int mutation_stage_ = 0;
  std::vector<Segment> segments_;
  std::vector<int> segment_of_value_;  // by value id
};

}  // namespace hpu::compiler
