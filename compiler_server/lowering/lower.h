// Lowering of single IR nodes to Synapse nodes. One row per op says which function emits it and
// what the device accepts; the functions are grouped by family in lower_*.cc.
#pragma once

#include <string_view>
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

// True for ops whose result is a rearrangement of the operand that needs no arithmetic and can be
// repeated wherever it is read: permute, slice, expand, reshape, as_strided.
bool IsView(const ir::Node& node);

// Parameters of strided_view and strided_insert; elements, PyTorch order.
synStridedOpParams StridedParams(const ir::Dims& strides, int64_t offset);

// Families. Each expects what CheckLowerable accepted.
void LowerPointwise(const NodeLowering& at);
void LowerCast(const NodeLowering& at);
void LowerMatmul(const NodeLowering& at);
void LowerConv(const NodeLowering& at);
void LowerSdpa(const NodeLowering& at);
void LowerSoftmax(const NodeLowering& at);
void LowerLayerNorm(const NodeLowering& at);
void LowerRmsNorm(const NodeLowering& at);
void LowerReduce(const NodeLowering& at);
void LowerArgReduce(const NodeLowering& at);
void LowerScan(const NodeLowering& at);
void LowerTopk(const NodeLowering& at);
void LowerPermute(const NodeLowering& at);
void LowerReshape(const NodeLowering& at);
void LowerExpand(const NodeLowering& at);
void LowerSlice(const NodeLowering& at);
void LowerConcat(const NodeLowering& at);
void LowerPad(const NodeLowering& at);
void LowerAsStrided(const NodeLowering& at);
void LowerAsStridedScatter(const NodeLowering& at);
void LowerGather(const NodeLowering& at);
void LowerGatherElements(const NodeLowering& at);
void LowerScatter(const NodeLowering& at);
void LowerPool(const NodeLowering& at);
void LowerAdaptivePool(const NodeLowering& at);
void LowerResize(const NodeLowering& at);
void LowerFull(const NodeLowering& at);
void LowerIota(const NodeLowering& at);

}  // namespace hpu::compiler
