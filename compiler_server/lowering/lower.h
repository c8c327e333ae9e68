// Lowers single IR nodes to Synapse nodes. One row per op says which function emits it and what the
// device accepts. The functions and rows are in lower_*.cc, by family.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "compiler_server/ir/graph.h"
#include "compiler_server/lowering/syn_graph.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::compiler {

// A node with the tensors that it reads and must write. Every result has elements. An operand that
// has no elements, or an optional one that is absent, has a null handle.
struct NodeLowering {
  SynGraph& graph;
  const ir::Node& node;
  std::vector<Tensor> in;
  std::vector<Tensor> out;

  bool has(size_t operand) const { return operand < in.size() && in[operand].handle != nullptr; }
};

// Returns UNIMPLEMENTED, with the reason, if no recipe of any device can hold the node. After OK,
// Lower() can emit it. device_check.h knows what one device lacks.
absl::Status CheckLowerable(const ir::Node& node);

// Emits the node. Failures stick to the graph.
void Lower(const NodeLowering& at);

// The parameters of strided_view and strided_insert, in elements and PyTorch order.
synStridedOpParams StridedParams(const ir::Dims& strides, int64_t offset);

// The element types that a node works on.
enum class LoweredTypes : uint8_t {
  kArithmetic,  // types that the device calculates with
  kFloat,       // f32, bf16, f16
  kConverted,   // types with a cast: those of kArithmetic, and floats of 8 bits
  kMoved,       // anything that has a size the device can move
};

// How one op becomes Synapse nodes. `lower` may assume what CheckLowerable accepted. `refuses`
// returns why a shape cannot be held, or nullptr.
struct LoweringRule {
  ir::OpKind op;
  void (*lower)(const NodeLowering& at);
  LoweredTypes types;
  const char* (*refuses)(const ir::Node& node);
};

// Each family has one lower_*.cc with its functions and, at its end, its rows.
std::span<const LoweringRule> ContractRules();
std::span<const LoweringRule> CustomRules();
std::span<const LoweringRule> IndexRules();
std::span<const LoweringRule> MovementRules();
std::span<const LoweringRule> NormalizeRules();
std::span<const LoweringRule> PointwiseRules();
std::span<const LoweringRule> ReduceRules();
std::span<const LoweringRule> WindowRules();

// The rule for every elementwise op without a row.
const LoweringRule& ElementwiseRule();

// The refusals that families share.
const char* AnyShape(const ir::Node& node);
const char* Rank5(const ir::Node& node);
// for ops where dimensions that broadcast alike are merged.
const char* MergedRank5(const ir::Node& node);
const char* MovementRank(const ir::Node& node);  // 8

// The number of dimensions of the node that remain when neighbours that broadcast alike are merged.
size_t MergedRank(const ir::Node& node);

}  // namespace hpu::compiler
