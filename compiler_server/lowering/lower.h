// Lowering of single IR nodes to Synapse nodes. One row per op says which function emits it and
// what the device accepts; functions and rows stand by family in lower_*.cc.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "compiler_server/ir/graph.h"
#include "compiler_server/lowering/syn_graph.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::compiler {

// A node and the tensors it reads and must write. Every result has elements; an operand without
// elements, or an optional one that is absent, has a null handle.
struct NodeLowering {
  SynGraph& graph;
  const ir::Node& node;
  std::vector<Tensor> in;
  std::vector<Tensor> out;

  bool has(size_t operand) const { return operand < in.size() && in[operand].handle != nullptr; }
};

// UNIMPLEMENTED, with the reason, if no recipe of any device can hold the node; else OK and Lower()
// knows it. What one device lacks: device_check.h.
absl::Status CheckLowerable(const ir::Node& node);

// Emits the node; failures stick to the graph.
void Lower(const NodeLowering& at);

// Parameters of strided_view and strided_insert; elements, PyTorch order.
synStridedOpParams StridedParams(const ir::Dims& strides, int64_t offset);

// Element types that a node works on.
enum class LoweredTypes : uint8_t {
  kArithmetic,  // what the device calculates with
  kFloat,       // f32, bf16, f16
  kMoved,       // anything that has a size the device can move
};

// How one op becomes Synapse nodes. `lower` expects what CheckLowerable accepted; `refuses` says
// why a shape cannot be held, or nullptr.
struct LoweringRule {
  ir::OpKind op;
  void (*lower)(const NodeLowering& at);
  LoweredTypes types;
  const char* (*refuses)(const ir::Node& node);
};

// Families, one lower_*.cc each: its functions and, at its end, its rows.
std::span<const LoweringRule> ContractRules();
std::span<const LoweringRule> IndexRules();
std::span<const LoweringRule> MovementRules();
std::span<const LoweringRule> NormalizeRules();
std::span<const LoweringRule> PointwiseRules();
std::span<const LoweringRule> ReduceRules();
std::span<const LoweringRule> WindowRules();

// The rule of every elementwise op without a row.
const LoweringRule& ElementwiseRule();

// Refusals that families share.
const char* AnyShape(const ir::Node& node);
const char* Rank5(const ir::Node& node);
const char* MergedRank5(const ir::Node& node);   // where dimensions that broadcast alike merge
const char* MovementRank(const ir::Node& node);  // 8

// The number of dimensions that are left of the node's when neighbours that broadcast alike merge.
size_t MergedRank(const ir::Node& node);

}  // namespace hpu::compiler
