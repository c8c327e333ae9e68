// The graphs, tensors, sections and nodes behind the handles of the C API: they hold the client's
// description, checked as far as reference 4.5 asks, and turn it into the graph compiler's
// GraphDesc. Only one thread changes a graph at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph_compiler/ir/graph_desc.h"
#include "recipe/recipe.h"
#include "synapse/include/synapse_api_types.h"

namespace hpu::emulator {

using graph_compiler::GraphDesc;
using graph_compiler::kNoSection;
using graph_compiler::kNoTensor;
using graph_compiler::NodeDesc;
using graph_compiler::TensorDesc;
using graph_compiler::TensorPlacement;

class Graph;

// A piece of memory that tensors are placed in. It may outlive its graph.
struct Section {
  synSectionHandle handle = nullptr;
  std::weak_ptr<Graph> graph;
  uint32_t id = 0;  // unique in the graph
  bool persistent = true;
  bool is_const = false;
  bool rmw = false;
  uint64_t group = 0;
  bool in_use = false;  // a tensor was assigned, so attributes are fixed
};

struct Quantization {
  std::map<synQuantizationProperty, std::vector<uint8_t>> plain;  // structs without pointers
  synDataType zp_scales_type = syn_type_na;
  std::vector<synQuantZPScale> zp_scales;
  synDataType fp_params_type = syn_type_na;
  std::vector<synFpQuantParam> fp_params;
  std::vector<synQuantDynamicRange> channel_ranges;
};

struct Tensor {
  synTensor handle = nullptr;
  std::weak_ptr<Graph> graph;  // for the obsolete creation calls it is empty until first use
  std::string name;
  synTensorType type = DATA_TENSOR;
  bool locked = false;  // a node uses the tensor, so its properties are fixed

  uint32_t rank = 0;
  bool rank_set = false;
  std::optional<std::vector<uint64_t>> max_sizes;
  std::optional<std::vector<uint64_t>> min_sizes;
  bool sizes_stale = false;  // in a duplicate: sizes are inferred unless the client sets them again
  synDataType dtype = syn_type_na;
  std::optional<std::vector<uint8_t>> host_data;
  synDataType host_type = syn_type_na;
  std::vector<uint8_t> permutation;
  std::optional<bool> allow_permutation;
  bool external = false;
  bool weight = false;  // synEmulatorTensorSetWeight
  std::optional<bool> minimal_latency;
  bool memory_reuse = false;
  std::shared_ptr<Section> section;
  uint64_t section_offset = 0;
  Quantization quantization;

  bool persistent() const { return section != nullptr && section->persistent; }
  bool is_const() const { return host_data.has_value() && type != HOST_TO_DEVICE_TENSOR; }
};

struct Node {
  std::string guid;
  std::string name;
  std::vector<std::shared_ptr<Tensor>> inputs;  // null = absent
  std::vector<std::shared_ptr<Tensor>> outputs;
  uint32_t custom_version = 0;  // not 0: a kernel of the caller's own
  std::vector<uint8_t> params;
  bool has_params = false;
  bool deterministic = false;
  synRoundingMode rounding = synRoundToNearest;
  std::vector<std::string> input_layouts;  // empty, or one per operand; "" specifies nothing
  std::vector<std::string> output_layouts;
  std::optional<synUserExecOrder> user_order;
  std::set<uint32_t> blocked_by;  // node ids
};

class Graph {
 public:
  Graph(synDeviceType type, bool eager) : type_(type), eager_(eager) {}

  synDeviceType type() const { return type_; }
  bool eager() const { return eager_; }
  bool compiled() const { return compiled_; }
  void set_compiled() { compiled_ = true; }
  bool duplicate() const { return duplicate_; }

  std::map<synGraphAttribute, synGraphAttributeVal>& attributes() { return attributes_; }
  std::vector<std::shared_ptr<Tensor>>& tensors() { return tensors_; }
  const std::vector<std::shared_ptr<Tensor>>& tensors() const { return tensors_; }
  std::vector<Node>& nodes() { return nodes_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  // The versions of the caller's own kernels by guid (synEmulatorGraphDeclareKernel).
  std::map<std::string, uint32_t>& custom_kernels() { return custom_kernels_; }
  uint32_t NextSectionId() { return next_section_id_++; }

  // Returns null if no tensor has the name.
  std::shared_ptr<Tensor> FindTensor(const std::string& name) const;
  // Adds a tensor of this graph; an empty name gets a fresh one.
  void AddTensor(const std::shared_ptr<Tensor>& tensor, const std::shared_ptr<Graph>& self);

  // Makes a deep copy. Tensors come in the order of tensors(), and nodes keep their ids.
  std::shared_ptr<Graph> Duplicate() const;

  // Returns the compiler's view: tensors that some node uses, and nodes in creation order.
  GraphDesc Describe(const std::string& name) const;
  // Takes the inferred sizes from a description that Describe made.
  void AdoptSizes(const GraphDesc& description);
  // Returns the const sections with the bytes of their tensors.
  std::vector<ConstSection> CollectConstSections() const;

 private:
  std::vector<std::shared_ptr<Tensor>> UsedTensors() const;

  const synDeviceType type_;
  const bool eager_;
  bool compiled_ = false;
  bool duplicate_ = false;
  uint32_t next_section_id_ = 0;
  uint64_t next_name_ = 0;
  std::map<synGraphAttribute, synGraphAttributeVal> attributes_;
  std::vector<std::shared_ptr<Tensor>> tensors_;
  std::map<std::string, std::shared_ptr<Tensor>> by_name_;
  std::vector<Node> nodes_;  // id = index
  std::map<std::string, uint32_t> custom_kernels_;
};

// Checks a tensor before a node takes it (reference 4.5): returns synInvalidArgument if its
// properties are incomplete or contradict each other.
synStatus CheckTensorProperties(const Tensor& tensor, uint64_t max_const_bytes);

// Checks guid, parameter size and ranks of a new node, as far as they are known without its kernel.
// Internal guids give synFail, a wrong size synInvalidArgument, and a rank that the node does not
// take synInvalidTensorDimensions.
synStatus CheckNode(const Node& node, uint32_t params_size);
// Returns whether only the compiler itself may create nodes with this guid.
bool IsInternalGuid(const std::string& guid);
bool IsMmeGuid(const std::string& guid);

}  // namespace hpu::emulator
