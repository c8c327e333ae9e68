// Nodes (reference 1.10, 4.5).
#include <cstring>

#include "emulator/api/lookup.h"
#include "emulator/graph/compiler_library.h"
#include "emulator/graph/layouts.h"
#include "synapse/include/synapse_api.h"

using namespace hpu::emulator;  // NOLINT

namespace {

struct NodeArguments {
  const synTensor* inputs;
  const synTensor* outputs;
  uint32_t num_inputs;
  uint32_t num_outputs;
  const void* params;
  unsigned params_size;
  const char* guid;
  const char* name;
  const char** input_layouts;
  const char** output_layouts;
};

std::vector<std::string> Layouts(const char** layouts, uint32_t count) {
  std::vector<std::string> result;
  for (uint32_t i = 0; layouts != nullptr && i < count; ++i) {
    const char* layout = layouts[i] == nullptr ? "" : layouts[i];
    result.emplace_back(layout, strnlen(layout, MAX_LAYOUT_SIZE));
  }
  return result;
}

using TensorList = std::vector<std::shared_ptr<Tensor>>;

synStatus FindTensors(const synTensor* handles, uint32_t count, TensorList* tensors) {
  for (uint32_t i = 0; i < count; ++i) {
    if (handles[i] == nullptr) {
      tensors->push_back(nullptr);
      continue;
    }
    std::shared_ptr<Tensor> tensor = Library::Get().tensors().Find(handles[i]);
    if (tensor == nullptr) return Fail(synInvalidArgument, "operand ", i, " is not a tensor");
    tensors->push_back(std::move(tensor));
  }
  return synSuccess;
}

// Tensors of the obsolete creation calls join the first graph that uses them.
synStatus CheckMembership(const std::shared_ptr<Graph>& graph, const TensorList& tensors,
                          uint64_t max_const_bytes) {
  for (const std::shared_ptr<Tensor>& tensor : tensors) {
    if (tensor == nullptr) continue;
    const std::shared_ptr<Graph> owner = tensor->graph.lock();
    if (owner == nullptr) {
      graph->AddTensor(tensor, graph);
    } else if (owner != graph) {
      return Fail(synInvalidArgument, "tensor ", tensor->name, " belongs to another graph");
    }
    SYN_RETURN_IF_FAILED(CheckTensorProperties(*tensor, max_const_bytes));
  }
  return synSuccess;
}

synStatus CheckGuid(const Node& node, uint32_t params_size) {
  if (IsInternalGuid(node.guid)) {
    return Fail(synFail, "node ", node.name, ": guid ", node.guid,
                " is for the compiler's own use");
  }
  if (node.custom_version != 0) return CheckNode(node, params_size);
  SYN_RETURN_IF_FAILED(CheckNode(node, params_size));
  const absl::StatusOr<const CompilerDoor*> door = OpenCompiler();
  if (!door.ok()) return FailWith(synFail, hpu::ToText(door.status()));
  if (!(*door)->is_known_guid(node.guid)) {
    return Fail(synFail, "node ", node.name, ": guid ", node.guid, " is not known");
  }
  return synSuccess;
}

synStatus CreateNode(const std::shared_ptr<Graph>& graph, const NodeArguments& arguments,
                     synNodeId* id) {
  Node node;
  node.guid = arguments.guid;
  node.name = arguments.name == nullptr ? "" : arguments.name;
  const auto custom = graph->custom_kernels().find(node.guid);
  if (custom != graph->custom_kernels().end()) node.custom_version = custom->second;
  SYN_RETURN_IF_FAILED(FindTensors(arguments.inputs, arguments.num_inputs, &node.inputs));
  SYN_RETURN_IF_FAILED(FindTensors(arguments.outputs, arguments.num_outputs, &node.outputs));
  const uint64_t max_const_bytes =
      Library::Get().configuration().Number("MAX_CONST_TENSOR_SIZE_BYTES");
  SYN_RETURN_IF_FAILED(CheckMembership(graph, node.inputs, max_const_bytes));
  SYN_RETURN_IF_FAILED(CheckMembership(graph, node.outputs, max_const_bytes));
  // From here on the properties are fixed, even if the node is not created.
  for (const TensorList* list : {&node.inputs, &node.outputs}) {
    for (const std::shared_ptr<Tensor>& tensor : *list) {
      if (tensor != nullptr) tensor->locked = true;
    }
  }
  node.has_params = arguments.params != nullptr;
  if (node.has_params) {
    const auto* bytes = static_cast<const uint8_t*>(arguments.params);
    node.params.assign(bytes, bytes + arguments.params_size);
  }
  node.input_layouts = Layouts(arguments.input_layouts, arguments.num_inputs);
  node.output_layouts = Layouts(arguments.output_layouts, arguments.num_outputs);
  SYN_RETURN_IF_FAILED(CheckGuid(node, static_cast<uint32_t>(node.params.size())));
  SYN_RETURN_IF_FAILED(CheckLayouts(node));
  *id = graph->nodes().size();
  graph->nodes().push_back(std::move(node));
  return synSuccess;
}

synStatus CreateNodeChecked(synGraphHandle handle, const NodeArguments& arguments, synNodeId* id) {
  return Call([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(arguments.num_inputs == 0 || arguments.inputs != nullptr);
    SYN_REQUIRE_ARGUMENT(arguments.num_outputs == 0 || arguments.outputs != nullptr);
    SYN_REQUIRE_ARGUMENT(arguments.guid != nullptr && id != nullptr);
    const std::shared_ptr<Graph> graph = Library::Get().graphs().Find(handle);
    if (graph == nullptr) return Fail(synFail, "this is not a graph, or it was destroyed");
    if (graph->compiled()) return Fail(synFail, "the graph is compiled");
    return CreateNode(graph, arguments, id);
  });
}

// `body` is a synStatus(Node&).
template <typename Body>
synStatus NodeCall(synGraphHandle handle, synNodeId id, Body&& body) {
  return GraphCall(handle, [&](const std::shared_ptr<Graph>& graph) -> synStatus {
    if (id >= graph->nodes().size()) {
      return Fail(synInvalidArgument, "the graph has no node ", id);
    }
    return body(graph->nodes()[id]);
  });
}

}  // namespace

synStatus synNodeCreate(synGraphHandle graph, const synTensor* inputs, const synTensor* outputs,
                        uint32_t num_inputs, uint32_t num_outputs, const void* params,
                        unsigned params_size, const char* guid, const char* name,
                        const char** input_layouts, const char** output_layouts) {
  synNodeId id = 0;
  return synNodeCreateWithId(graph, inputs, outputs, num_inputs, num_outputs, params, params_size,
                             guid, name, &id, input_layouts, output_layouts);
}

synStatus synNodeCreateWithId(synGraphHandle graph, const synTensor* inputs,
                              const synTensor* outputs, uint32_t num_inputs, uint32_t num_outputs,
                              const void* params, unsigned params_size, const char* guid,
                              const char* name, synNodeId* id, const char** input_layouts,
                              const char** output_layouts) {
  return CreateNodeChecked(graph,
                           {inputs, outputs, num_inputs, num_outputs, params, params_size, guid,
                            name, input_layouts, output_layouts},
                           id);
}

synStatus synNodeSetUserParams(synGraphHandle graph, synNodeId id, const void* params,
                               unsigned params_size) {
  return NodeCall(graph, id, [&](Node& node) -> synStatus {
    const bool given = params != nullptr;
    if (given != node.has_params || (given && params_size != node.params.size())) {
      return Fail(synFail, "node ", node.name, " was created with ", node.params.size(),
                  " bytes of parameters, not ", given ? params_size : 0);
    }
    if (given) std::memcpy(node.params.data(), params, params_size);
    return synSuccess;
  });
}

synStatus synNodeGetUserParams(synGraphHandle graph, synNodeId id, void* params,
                               unsigned* params_size) {
  return NodeCall(graph, id, [&](Node& node) -> synStatus {
    SYN_REQUIRE_ARGUMENT(params_size != nullptr);
    if (params == nullptr) {
      *params_size = static_cast<unsigned>(node.params.size());
      return synSuccess;
    }
    SYN_REQUIRE_ARGUMENT(*params_size == node.params.size());
    std::memcpy(params, node.params.data(), node.params.size());
    return synSuccess;
  });
}

synStatus synNodeDependencySet(synGraphHandle handle, const synNodeId* blocking,
                               const synNodeId* blocked, uint32_t num_blocking,
                               uint32_t num_blocked) {
  return GraphCall(handle, [&](const std::shared_ptr<Graph>& graph) -> synStatus {
    SYN_REQUIRE_ARGUMENT(blocking != nullptr && blocked != nullptr);
    SYN_REQUIRE_ARGUMENT(num_blocking > 0 && num_blocked > 0);
    const std::set<synNodeId> first(blocking, blocking + num_blocking);
    const std::set<synNodeId> later(blocked, blocked + num_blocked);
    for (const synNodeId id : first) {
      SYN_REQUIRE_ARGUMENT(id < graph->nodes().size() && later.count(id) == 0);
    }
    for (const synNodeId id : later) SYN_REQUIRE_ARGUMENT(id < graph->nodes().size());
    for (const synNodeId id : later) {
      std::set<uint32_t>& edges = graph->nodes()[id].blocked_by;
      for (const synNodeId before : first) edges.insert(static_cast<uint32_t>(before));
    }
    return synSuccess;
  });
}

synStatus synNodeSetDeterministic(synGraphHandle graph, synNodeId id, bool value) {
  return NodeCall(graph, id, [&](Node& node) {
    node.deterministic = value;
    return synSuccess;
  });
}

synStatus synNodeGetDeterministic(synGraphHandle graph, synNodeId id, bool* value) {
  return NodeCall(graph, id, [&](Node& node) -> synStatus {
    SYN_REQUIRE_ARGUMENT(value != nullptr);
    *value = node.deterministic;
    return synSuccess;
  });
}

synStatus synNodeSetRoundingMode(synGraphHandle graph, synNodeId id, synRoundingMode mode) {
  return NodeCall(graph, id, [&](Node& node) -> synStatus {
    if (!IsMmeGuid(node.guid)) {
      return Fail(synFail, "node ", node.name, " (", node.guid, ") has no rounding mode");
    }
    SYN_REQUIRE_ARGUMENT(mode <= synStochasticRoundingAndNearest);
    node.rounding = mode;
    return synSuccess;
  });
}

synStatus synNodeGetRoundingMode(synGraphHandle graph, synNodeId id, synRoundingMode* mode) {
  return NodeCall(graph, id, [&](Node& node) -> synStatus {
    SYN_REQUIRE_ARGUMENT(mode != nullptr);
    *mode = node.rounding;
    return synSuccess;
  });
}

synStatus synNodeSetUserProgrammability(synGraphHandle graph, synNodeId id,
                                        const synUserProgrammability* config) {
  return NodeCall(graph, id, [&](Node& node) -> synStatus {
    SYN_REQUIRE_ARGUMENT(config != nullptr && config->userExecOrder != nullptr);
    node.user_order = *config->userExecOrder;
    return synSuccess;
  });
}

synStatus synNodeTypeSetPrecision(synGraphHandle graph, const char* guid,
                                  synDataType /*precision*/) {
  // Tensors keep their declared types: a precision is a permission, which the emulator does not
  // use.
  return GraphCall(graph, [&](const std::shared_ptr<Graph>&) -> synStatus {
    SYN_REQUIRE_ARGUMENT(guid != nullptr);
    return synSuccess;
  });
}
