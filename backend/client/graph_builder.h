// Builds hpu.wire.Graph from Python calls. Python hands plain values and the marker classes below;
// everything is checked and encoded here.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>

#include "graph.pb.h"

namespace hpu::client {

// Tell arguments apart that Python cannot: a value id from a number, an enum from a string.
struct Value {
  uint32_t id = 0;
};
struct DTypeMarker {
  uint32_t number = 0;
};
struct MemoryFormatMarker {
  std::string name;
};
struct LayoutMarker {
  std::string name;
};
struct DeviceMarker {
  std::string name;
};

// Value ids are dense over inputs, constants and results, in the order of the calls. Wrong
// arguments raise TypeError or ValueError that name the node and the argument.
class GraphBuilder {
 public:
  explicit GraphBuilder(const std::string& name);

  uint32_t AddTensorInput(uint32_t dtype, pybind11::handle sizes, pybind11::handle strides,
                          bool on_cpu, const std::string& name);
  uint32_t AddScalarInput(const std::string& name);
  uint32_t AddConstant(uint32_t dtype, pybind11::handle sizes, const pybind11::buffer& data);
  // `results`: (dtype, sizes, strides, storage_offset) each. The id of the first result.
  uint32_t AddNode(const std::string& target, const pybind11::tuple& args,
                   const pybind11::dict& kwargs, pybind11::handle results,
                   const std::string& source);
  void SetOutputs(pybind11::handle outputs);

  pybind11::bytes Serialize() const;
  int node_count() const { return graph_.nodes_size(); }

 private:
  void FillArgument(pybind11::handle value, int depth, wire::Argument* argument) const;
  void FillType(uint32_t dtype, pybind11::handle sizes, pybind11::handle strides,
                wire::TensorType* type) const;

  wire::Graph graph_;
  uint32_t next_value_ = 0;
};

// Adds GraphBuilder and the marker classes to the module.
void BindGraphBuilder(pybind11::module_& module);

}  // namespace hpu::client
