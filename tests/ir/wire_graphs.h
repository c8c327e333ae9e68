// Captured graphs for tests, written by hand.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "graph.pb.h"

namespace hpu::ir::testing_graphs {

inline void SetType(wire::TensorType* type, const std::vector<int64_t>& sizes,
                    std::vector<int64_t> strides = {}, int64_t offset = 0,
                    DType dtype = DType::kF32) {
  type->set_dtype(static_cast<uint32_t>(dtype));
  if (strides.empty()) {
    strides.resize(sizes.size());
    int64_t stride = 1;
    for (size_t i = sizes.size(); i-- > 0;) {
      strides[i] = stride;
      stride *= sizes[i];
    }
  }
  for (int64_t size : sizes) type->add_sizes(size);
  for (int64_t stride : strides) type->add_strides(stride);
  type->set_storage_offset(offset);
}

inline void AddInput(wire::Graph& graph, uint32_t value, const std::string& name,
                     const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides = {},
                     int64_t offset = 0) {
  wire::GraphInput* input = graph.add_inputs();
  input->set_value(value);
  input->set_name(name);
  SetType(input->mutable_tensor(), sizes, strides, offset);
}

// A call on tensor values; further arguments are the caller's business.
inline wire::Node* AddNode(wire::Graph& graph, const std::string& target,
                           std::initializer_list<uint32_t> values) {
  wire::Node* node = graph.add_nodes();
  node->set_target(target);
  for (uint32_t value : values) node->add_args()->set_value(value);
  return node;
}

inline wire::Result* AddResult(wire::Node* node, uint32_t value, const std::vector<int64_t>& sizes,
                               const std::vector<int64_t>& strides = {}, int64_t offset = 0) {
  wire::Result* result = node->add_results();
  result->set_value(value);
  SetType(result->mutable_tensor(), sizes, strides, offset);
  return result;
}

inline wire::Graph EmptyGraph() {
  wire::Graph graph;
  graph.set_version(1);
  graph.set_name("g");
  return graph;
}

// relu(x) of [2, 3], returned.
inline wire::Graph ReluGraph() {
  wire::Graph graph = EmptyGraph();
  AddInput(graph, 0, "x", {2, 3});
  wire::Node* node = AddNode(graph, "aten.relu.default", {0});
  node->set_source("model.py:12 in forward");
  AddResult(node, 1, {2, 3});
  graph.add_outputs()->set_value(1);
  return graph;
}

}  // namespace hpu::ir::testing_graphs
