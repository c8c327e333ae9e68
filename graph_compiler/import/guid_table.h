// One row per node kind describes how its output sizes follow and how it becomes loop nests. Guids
// are found by base name; type suffixes are cut off ("add_fwd_f32" is row "add_fwd").
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "graph_compiler/ir/graph_desc.h"

namespace hpu::graph_compiler {

class Importer;

// Sizes are FCD-first, as in GraphDesc.
using Sizes = std::vector<uint64_t>;

// The arguments of a shape function: the sizes of inputs (empty where absent) and the declared
// sizes of outputs.
struct ShapeContext {
  const GraphDesc& graph;
  const NodeDesc& node;
  bool HasInput(size_t i) const { return i < node.inputs.size() && node.inputs[i] != kNoTensor; }
  const Sizes& Input(size_t i) const { return graph.tensors[node.inputs[i]].sizes; }
  const TensorDesc& Output(size_t i) const { return graph.tensors[node.outputs[i]]; }
};

struct GuidRow {
  std::string_view name;
  // Returns the sizes of every output that follows from inputs and params, in order; an empty entry
  // means that the declared sizes are taken. Checks the inputs.
  absl::StatusOr<std::vector<Sizes>> (*infer)(const ShapeContext& context);
  absl::Status (*import_node)(Importer& importer);
  // If true, output 0 must be declared with exactly the inferred sizes. Otherwise it may be
  // declared with any sizes that have as many elements.
  bool exact_sizes = false;
};

// Returns the row of a full guid and its base name, or null if there is none.
const GuidRow* FindGuid(const std::string& guid, std::string* base);

// The row of every node that is a kernel of the caller's own (NodeDesc::custom_version).
const GuidRow& CustomKernelRow();

// Returns the row of a node and the base name of its guid, or null if the guid is not known.
const GuidRow* FindRow(const NodeDesc& node, std::string* base);

// The rows by area, which guid_table.cc joins.
std::span<const GuidRow> ElementwiseRows();
std::span<const GuidRow> ActivationRows();
std::span<const GuidRow> ArithmeticRows();
std::span<const GuidRow> SourceRows();
std::span<const GuidRow> MovementRows();
std::span<const GuidRow> SliceRows();
std::span<const GuidRow> AssemblyRows();
std::span<const GuidRow> IndexingRows();
std::span<const GuidRow> ScatterRows();
std::span<const GuidRow> ReductionRows();
std::span<const GuidRow> SoftmaxRows();
std::span<const GuidRow> NormalisationRows();
std::span<const GuidRow> MaxPoolRows();
std::span<const GuidRow> AveragePoolRows();
std::span<const GuidRow> ResizeRows();
std::span<const GuidRow> ContractionRows();
std::span<const GuidRow> AttentionRows();
std::span<const GuidRow> QuantizedRows();
std::span<const GuidRow> GroupedRows();

// Returns INVALID_ARGUMENT unless the first `count` inputs are present.
absl::Status NeedInputs(const ShapeContext& context, size_t count);
// Returns the axis (FCD-first) that the node's params start with.
absl::StatusOr<size_t> ReadAxis(const NodeDesc& node, size_t rank);

// Returns text such as "[4,3]".
std::string SizesText(const Sizes& sizes);

// Common shape functions.
absl::StatusOr<Sizes> BroadcastSizes(const Sizes& a, const Sizes& b);
absl::StatusOr<std::vector<Sizes>> InferSameAsFirst(const ShapeContext& context);
absl::StatusOr<std::vector<Sizes>> InferBroadcast(const ShapeContext& context);
absl::StatusOr<std::vector<Sizes>> InferDeclared(const ShapeContext& context);

}  // namespace hpu::graph_compiler
