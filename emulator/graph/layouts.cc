#include "emulator/graph/layouts.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>

#include "emulator/base/status.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::emulator {
namespace {

// The orders in which a kind computes, by rank. Operands beyond the lists have none.
struct NativeLayouts {
  std::string_view guid;                              // with or without a type suffix
  std::vector<std::vector<std::string_view>> inputs;  // by operand: one order per possible rank
  std::vector<std::vector<std::string_view>> outputs;
};

const std::vector<NativeLayouts>& NativeTable() {
  static const auto* table = [] {
    const std::vector<std::string_view> image = {"CN", "WCN", "WHCN", "WHDCN"};
    const std::vector<std::string_view> channels_first = {"CWHN"};
    const std::vector<std::string_view> filter = {"KCSR"};
    return new std::vector<NativeLayouts>{
        {"spatial_convolution", {channels_first, filter}, {channels_first}},
        {"pt_maxpool_2d_fwd", {image}, {image, image}},
        {"avg_pool_2d_fwd", {image}, {image}},
        {"adaptive_avg_pool_2d_fwd", {image}, {image}},
        {"resize_fwd", {image}, {image}},
        {"batch_norm_fwd", {image}, {image}},
        {"batch_norm_inf_reshape", {image}, {image}},
        {"batch_norm_inf", {image}, {image}},
        {"native_group_norm_fwd", {image}, {image}},
        {"instance_norm_fwd", {image}, {image}},
    };
  }();
  return *table;
}

const NativeLayouts* FindNative(std::string_view guid) {
  for (const NativeLayouts& row : NativeTable()) {
    const bool same = guid.substr(0, row.guid.size()) == row.guid;
    const std::string_view rest = same ? guid.substr(row.guid.size()) : "";
    const bool only_type = rest.empty() || (rest[0] == '_' && rest.find('_', 1) == rest.npos);
    if (same && only_type) return &row;
  }
  return nullptr;
}

std::string Sorted(std::string_view layout) {
  std::string letters(layout);
  std::sort(letters.begin(), letters.end());
  return letters;
}

// Returns null if the kind has no order for this operand.
const std::string_view* NativeOrder(const std::vector<std::vector<std::string_view>>& orders,
                                    size_t operand, size_t rank) {
  if (operand >= orders.size()) return nullptr;
  const auto found = std::find_if(orders[operand].begin(), orders[operand].end(),
                                  [&](std::string_view order) { return order.size() == rank; });
  return found == orders[operand].end() ? nullptr : &*found;
}

using Tensors = std::vector<std::shared_ptr<Tensor>>;
using Layouts = std::vector<std::string>;

synStatus CheckStrings(const Node& node, const char* side, const Tensors& tensors,
                       const Layouts& layouts) {
  for (size_t i = 0; i < layouts.size(); ++i) {
    const std::string& layout = layouts[i];
    if (layout.empty() || tensors[i] == nullptr) continue;
    if (layout.size() != tensors[i]->rank) {
      return Fail(synInvalidArgument, "node ", node.name, " (", node.guid, "): layout \"", layout,
                  "\" of ", side, " ", i, " has ", layout.size(), " letters, tensor ",
                  tensors[i]->name, " has rank ", tensors[i]->rank);
    }
    const std::string letters = Sorted(layout);
    if (std::adjacent_find(letters.begin(), letters.end()) != letters.end()) {
      return Fail(synInvalidArgument, "node ", node.name, " (", node.guid, "): layout \"", layout,
                  "\" of ", side, " ", i, " names a dimension twice");
    }
  }
  return synSuccess;
}

synStatus CheckNative(const Node& node, const char* side, const Tensors& tensors,
                      const Layouts& layouts,
                      const std::vector<std::vector<std::string_view>>& orders) {
  for (size_t i = 0; i < layouts.size(); ++i) {
    if (layouts[i].empty() || tensors[i] == nullptr) continue;
    const std::string_view* native = NativeOrder(orders, i, tensors[i]->rank);
    if (native != nullptr && Sorted(*native) != Sorted(layouts[i])) {
      return Fail(synFail, "node ", node.name, " (", node.guid, "): layout \"", layouts[i],
                  "\" of ", side, " ", i, " is not an order of \"", std::string(*native),
                  "\", the dimensions of this kind of node");
    }
  }
  return synSuccess;
}

// Operands of kinds without an order of their own are matched dimension by dimension.
synStatus CheckConsistent(const Node& node) {
  const std::string* first = nullptr;
  for (const Layouts* layouts : {&node.input_layouts, &node.output_layouts}) {
    for (const std::string& layout : *layouts) {
      if (layout.empty()) continue;
      if (first == nullptr) first = &layout;
      if (layout != *first && Sorted(layout) == Sorted(*first)) {
        return Fail(synUnsupported, "node ", node.name, " (", node.guid, "): layouts \"", *first,
                    "\" and \"", layout,
                    "\" name the same dimensions in different orders, and this kind of node has no "
                    "order of its own to bring them to; add a transpose node");
      }
    }
  }
  return synSuccess;
}

// permutation[i] is the dimension of `from` that becomes dimension i of `to`.
synTransposeParamsNDims PermutationBetween(std::string_view from, std::string_view to) {
  synTransposeParamsNDims params{};
  params.tensorDim = static_cast<uint32_t>(from.size());
  for (size_t i = 0; i < to.size(); ++i) {
    params.permutation[i] = static_cast<uint32_t>(from.find(to[i]));
  }
  return params;
}

NodeDesc Transpose(const NodeDesc& beside, uint32_t from, uint32_t to,
                   const synTransposeParamsNDims& params) {
  NodeDesc node;
  node.guid = "transpose";
  node.name = beside.name + "/layout";
  node.inputs = {from};
  node.outputs = {to};
  node.params.resize(sizeof(params));
  std::memcpy(node.params.data(), &params, sizeof(params));
  node.deterministic = beside.deterministic;
  node.blocked_by = beside.blocked_by;
  return node;
}

// Adds a temporary that holds `tensor` in the order that `params` gives.
uint32_t AddPermuted(const TensorDesc& tensor, const synTransposeParamsNDims& params,
                     GraphDesc* graph) {
  TensorDesc permuted;
  permuted.name = tensor.name + "/native";
  permuted.dtype = tensor.dtype;
  permuted.sizes_known = tensor.sizes_known;
  for (size_t i = 0; tensor.sizes_known && i < params.tensorDim; ++i) {
    permuted.sizes.push_back(tensor.sizes[params.permutation[i]]);
  }
  graph->tensors.push_back(std::move(permuted));
  return static_cast<uint32_t>(graph->tensors.size() - 1);
}

}  // namespace

synStatus CheckLayouts(const Node& node) {
  SYN_RETURN_IF_FAILED(CheckStrings(node, "input", node.inputs, node.input_layouts));
  SYN_RETURN_IF_FAILED(CheckStrings(node, "output", node.outputs, node.output_layouts));
  const NativeLayouts* native = FindNative(node.guid);
  if (native == nullptr) return CheckConsistent(node);
  SYN_RETURN_IF_FAILED(CheckNative(node, "input", node.inputs, node.input_layouts, native->inputs));
  return CheckNative(node, "output", node.outputs, node.output_layouts, native->outputs);
}

void AddInNativeLayout(const Node& node, NodeDesc described, GraphDesc* graph) {
  const NativeLayouts* native = FindNative(node.guid);
  std::vector<NodeDesc> after;
  if (native != nullptr) {
    const auto native_of = [](const auto& orders, const Layouts& layouts, size_t i,
                              const std::shared_ptr<Tensor>& tensor) -> std::string_view {
      if (i >= layouts.size() || layouts[i].empty() || tensor == nullptr) return {};
      const std::string_view* order = NativeOrder(orders, i, tensor->rank);
      return order == nullptr || *order == layouts[i] ? std::string_view() : *order;
    };
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto order = native_of(native->inputs, node.input_layouts, i, node.inputs[i]);
      if (order.empty()) continue;
      const auto params = PermutationBetween(node.input_layouts[i], order);
      const uint32_t given = described.inputs[i];
      described.inputs[i] = AddPermuted(graph->tensors[given], params, graph);
      graph->nodes.push_back(Transpose(described, given, described.inputs[i], params));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const auto order = native_of(native->outputs, node.output_layouts, i, node.outputs[i]);
      if (order.empty()) continue;
      const uint32_t wanted = described.outputs[i];
      described.outputs[i] = AddPermuted(graph->tensors[wanted],
                                         PermutationBetween(node.output_layouts[i], order), graph);
      after.push_back(Transpose(described, described.outputs[i], wanted,
                                PermutationBetween(order, node.output_layouts[i])));
    }
  }
  graph->nodes.push_back(std::move(described));
  std::move(after.begin(), after.end(), std::back_inserter(graph->nodes));
}

}  // namespace hpu::emulator
