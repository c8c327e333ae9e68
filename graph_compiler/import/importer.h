// Translates the nodes of a GraphDesc, one by one, into loop nests (loop_graph.h). The functions of
// the guid table (guid_table.h) do so through this class.
#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph_compiler/import/expr.h"
#include "graph_compiler/import/phases.h"
#include "graph_compiler/ir/graph_desc.h"
#include "graph_compiler/ir/loop_graph.h"

namespace hpu::graph_compiler {

// Turns FCD-first sizes into an outermost-first shape.
Shape ToShape(const std::vector<uint64_t>& sizes);
// Converts an axis number from one order to the other.
inline size_t FromFcdAxis(size_t rank, int64_t axis) {
  return rank - 1 - static_cast<size_t>(axis);
}

// Reads the params of the wanted struct; returns false if the node's block is smaller. Longer
// blocks are newer versions that extend the struct.
template <typename T>
bool ReadParams(const NodeDesc& node, T* params) {
  if (node.params.size() < sizeof(T)) return false;
  std::memcpy(params, node.params.data(), sizeof(T));
  return true;
}

// Returns UNIMPLEMENTED unless the matrix engine multiplies elements of that type.
absl::Status CheckFactor(const View& view, const char* what);

class Importer {
 public:
  Importer(const GraphDesc& graph, const Phases& phases);
  absl::StatusOr<LoopGraph> Run();

  // The functions of the guid table use the following members. `node()` is the node being imported.
  const NodeDesc& node() const { return *node_; }
  const GraphDesc& graph() const { return graph_; }
  const std::string& guid_base() const { return guid_base_; }  // without the type suffix
  bool HasInput(size_t i) const;
  size_t num_inputs() const { return node_->inputs.size(); }
  size_t num_outputs() const { return node_->outputs.size(); }
  bool HasOutput(size_t i) const;
  const View& Input(size_t i) const { return views_[node_->inputs[i]]; }
  const TensorDesc& InputDesc(size_t i) const { return graph_.tensors[node_->inputs[i]]; }
  const TensorDesc& OutputDesc(size_t i) const { return graph_.tensors[node_->outputs[i]]; }
  Shape OutputShape(size_t i) const { return ToShape(OutputDesc(i).sizes); }
  // Returns whether a node, or the caller that launches the recipe, reads output i.
  bool IsRead(size_t i) const;
  MemoryType OutputType(size_t i) const { return output_types_[i]; }

  // Makes a new buffer. `order_of` gives the nesting of dimensions (null = row major).
  View NewValue(MemoryType type, const Shape& shape, const Shape* order_of = nullptr);
  // Returns the buffer that output i is computed into: the persistent tensor itself where possible.
  View OutputValue(size_t i, const Shape* order_of = nullptr);
  // Returns whether `output` lies where input i lies, element by element, and nothing in the graph
  // writes that input, so that the output already holds the content from before the launch. Notes
  // it (Value::content).
  bool TakeInPlace(size_t i, const View& output);
  // Makes this view output i. Copies it where a persistent tensor has to hold it.
  void Bind(size_t i, const View& view);

  // Returns an access over a domain of view.shape's rank (after broadcasting to `domain`).
  static Access AccessOf(const View& view, const Shape& domain);
  static Access Iota(const Shape& strides, int64_t offset = 0);

  // Computes elementwise an expression of the inputs, which are broadcast to `shape`.
  using MapFunction = std::function<E(BodyBuilder&, const Args&)>;
  View Map(MemoryType type, const Shape& shape, const std::vector<View>& inputs,
           const MapFunction& function);
  void MapTo(const View& destination, const std::vector<View>& inputs, const MapFunction& function);
  // Computes output i = function(inputs).
  void MapToOutput(size_t i, const std::vector<View>& inputs, const MapFunction& function);

  // Folds function(inputs), evaluated over `shape`, along `dims`; the result keeps these dimensions
  // with size 1.
  View Reduce(ReduceKind kind, MemoryType type, const Shape& shape, const std::vector<size_t>& dims,
              const std::vector<View>& inputs, const MapFunction& function);
  void ReduceTo(const View& destination, ReduceKind kind, const Shape& shape,
                const std::vector<size_t>& dims, const std::vector<View>& inputs,
                const MapFunction& function);

  // Returns the view as a row-major buffer (a copy if it is not one already).
  View Contiguous(const View& view);
  // Does the same, but nodes of one phase that ask for the same view share the copy.
  View SharedContiguous(const View& view);
  // Reshapes the view, by copy if no strides describe the result.
  View Reshape(const View& view, const Shape& shape);
  View CastTo(const View& view, MemoryType type);
  // Makes a constant of the recipe.
  View Constant(MemoryType type, const Shape& shape, const void* data, size_t bytes);

  void AddNode(Node node);
  // Adds a contraction that stores its sums unchanged.
  void AddContraction(decltype(Node::kind) kind, const View& out);
  LoopGraph& loop_graph() { return result_; }

 private:
  absl::Status AddTensor(uint32_t index);
  absl::Status ImportPhase(uint32_t phase);
  // Returns whether the view shows persistent memory that is written before the last reader of
  // output i runs.
  bool OutlivesMemory(size_t i, const View& view) const;
  absl::Status ImportNode(const NodeDesc& node);
  absl::Status ResolveOutputTypes();

  const GraphDesc& graph_;
  const Phases& phases_;
  LoopGraph result_;
  std::vector<View> views_;  // by tensor; for a persistent tensor its own memory until it is bound
  std::vector<View> homes_;  // by tensor: the persistent buffer itself
  struct SharedCopy {
    View view, copy;
  };
  std::vector<SharedCopy> shared_copies_;  // of this phase
  uint32_t phase_ = 0;
  std::vector<uint32_t> last_reading_phase_;  // by tensor
  std::vector<bool> read_;                    // by tensor: by some node
  std::vector<bool> written_;                 // by tensor: by some node
  const NodeDesc* node_ = nullptr;
  std::string guid_base_;
  std::vector<MemoryType> output_types_;
};

}  // namespace hpu::graph_compiler
