// Graphs and sections (reference 1.7, 1.9, 4.5).
#include <filesystem>
#include <sstream>

#include "emulator/api/lookup.h"
#include "emulator/graph/compiler_library.h"
#include "recipe/isa.h"
#include "synapse/include/synapse_api.h"

using namespace hpu::emulator;  // NOLINT

namespace {

synStatus CreateGraph(synGraphHandle* handle, synDeviceType type, bool eager) {
  return Call([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(handle != nullptr);
    if (PropertiesOf(type) == nullptr || (eager && type == synDeviceGaudi)) {
      return Fail(synInvalidArgument, "device type ", type, " has no ", eager ? "eager " : "",
                  "graphs");
    }
    *handle = Library::Get().graphs().Insert(std::make_shared<Graph>(type, eager));
    return synSuccess;
  });
}

synGraphAttributeVal DefaultAttribute(synGraphAttribute attribute) {
  synGraphAttributeVal value{};
  if (attribute == GRAPH_ATTRIBUTE_BACKOFF_FACTOR) value.dAttrVal = 1.0;
  return value;
}

synStatus CheckAttributeCall(const Graph& graph, const synGraphAttribute* attributes,
                             const void* values, uint32_t size) {
  SYN_REQUIRE_ARGUMENT(attributes != nullptr && values != nullptr);
  if (size == 0 || size > GRAPH_ATTRIBUTE_MAX) {
    return Fail(synFail, size, " graph attributes; 1 to ", static_cast<int>(GRAPH_ATTRIBUTE_MAX),
                " are allowed");
  }
  if (graph.compiled()) return Fail(synFail, "the graph is compiled");
  for (uint32_t i = 0; i < size; ++i) {
    if (attributes[i] >= GRAPH_ATTRIBUTE_MAX) {
      return Fail(synFail, "no graph attribute has the number ", attributes[i]);
    }
  }
  return synSuccess;
}

synStatus SetAttribute(Graph& graph, synGraphAttribute attribute, synGraphAttributeVal value) {
  if (attribute == GRAPH_ATTRIBUTE_INFERENCE && !graph.nodes().empty()) {
    return Fail(synFail, "the inference attribute is fixed after the first node");
  }
  if (attribute == GRAPH_ATTRIBUTE_BACKOFF_FACTOR && !(value.dAttrVal > 0)) {
    return Fail(synFail, "the backoff factor must be above 0");
  }
  graph.attributes()[attribute] = value;
  return synSuccess;
}

synGraphAttributeVal GetAttribute(Graph& graph, synGraphAttribute attribute) {
  const auto found = graph.attributes().find(attribute);
  return found == graph.attributes().end() ? DefaultAttribute(attribute) : found->second;
}

absl::StatusOr<CompileOptions> OptionsFor(const std::string& name) {
  Configuration& configuration = Library::Get().configuration();
  CompileOptions options;
  const std::string level = configuration.Text("EMULATOR_ISA_LEVEL");
  const std::optional<hpu::IsaLevel> isa =
      level.empty() ? hpu::HostIsaLevel() : hpu::IsaLevelFromName(level);
  if (!isa.has_value()) {
    return hpu::Unimplemented("this CPU has less than x86-64-v2: no code can be generated for it");
  }
  options.isa = *isa;
  options.deterministic = configuration.Flag("DETERMINISTIC_MODE");
  std::istringstream disabled(configuration.Text("EMULATOR_DISABLED_PASSES"));
  for (std::string pass; std::getline(disabled, pass, ',');) options.disabled_passes.insert(pass);
  options.threads = static_cast<uint32_t>(configuration.Number("EMULATOR_COMPILE_THREADS"));
  if (configuration.Flag("GRAPH_VISUALIZATION")) {
    const std::filesystem::path folder =
        std::filesystem::path(configuration.Text("EMULATOR_DUMP_DIR")) / name;
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) {
      return hpu::NotFound("cannot create ", folder.string(),
                           " for GRAPH_VISUALIZATION: ", error.message());
    }
    options.dump_dir = folder.string();
  }
  return options;
}

// The names of recipes may include folders, where a real device writes its dumps; they are not part
// of the recipe's name.
std::string RecipeName(const char* name) {
  return name == nullptr ? "recipe" : std::filesystem::path(name).filename().string();
}

absl::StatusOr<hpu::Recipe> CompileToRecipe(const Graph& graph, const std::string& name) {
  ASSIGN_OR_RETURN(const CompilerDoor* door, OpenCompiler());
  ASSIGN_OR_RETURN(CompileOptions options, OptionsFor(name));
  ASSIGN_OR_RETURN(hpu::Recipe recipe, door->compile_graph(graph.Describe(name), options));
  recipe.const_sections = graph.CollectConstSections();
  RETURN_IF_ERROR_AT(ValidateRecipe(recipe), "the graph compiler's recipe");
  return recipe;
}

synStatus Compile(Graph& graph, const char* name, synRecipeHandle* handle) {
  Library& library = Library::Get();
  const HostInterval interval(&library.profiler(), "synGraphCompile");
  if (graph.compiled()) return Fail(synFail, "the graph is compiled already");
  SYN_RETURN_IF_FAILED(library.faults().Check(FaultPoint::kCompile));
  absl::StatusOr<hpu::Recipe> recipe = CompileToRecipe(graph, RecipeName(name));
  if (!recipe.ok()) {
    return FailWith(synFail, "compiling " + std::string(name == nullptr ? "a graph" : name) + ": " +
                                 hpu::ToText(recipe.status()));
  }
  graph.set_compiled();
  Count(library.counters().graphs_compiled);
  Count(library.counters().kernels_compiled, recipe->kernels.size());
  Count(library.counters().code_bytes_compiled, recipe->code.size());
  *handle = library.AddRecipe(std::move(recipe).value());
  return synSuccess;
}

// `body` is a synStatus(Section&).
template <typename Body>
synStatus SectionCall(synSectionHandle handle, Body&& body) {
  return Call([&]() -> synStatus {
    const std::shared_ptr<Section> section = Library::Get().sections().Find(handle);
    if (section == nullptr) return Fail(synFail, "this is not a section");
    return body(*section);
  });
}

template <typename Body>
synStatus SectionSetCall(synSectionHandle handle, Body&& body) {
  return SectionCall(handle, [&](Section& section) -> synStatus {
    if (section.in_use) {
      return Fail(synFail, "a tensor lies in the section: its attributes are fixed");
    }
    return body(section);
  });
}

template <typename T>
synStatus Read(const T& value, T* out) {
  SYN_REQUIRE_ARGUMENT(out != nullptr);
  *out = value;
  return synSuccess;
}

}  // namespace

synStatus synGraphCreate(synGraphHandle* graph, synDeviceType type) {
  return CreateGraph(graph, type, false);
}

synStatus synGraphCreateEager(synGraphHandle* graph, synDeviceType type) {
  return CreateGraph(graph, type, true);
}

synStatus synGraphDestroy(synGraphHandle handle) {
  return GraphCall(handle, [&](const std::shared_ptr<Graph>& graph) {
    Library& library = Library::Get();
    for (const std::shared_ptr<Tensor>& tensor : graph->tensors()) {
      library.tensors().Remove(tensor->handle);
    }
    library.graphs().Remove(handle);
    return synSuccess;
  });
}

synStatus synGraphGetDeviceType(synGraphHandle handle, synDeviceType* type) {
  return GraphCall(handle,
                   [&](const std::shared_ptr<Graph>& graph) { return Read(graph->type(), type); });
}

synStatus synGraphSetAttribute(synGraphHandle handle, const synGraphAttribute* attributes,
                               const uint64_t* values, uint32_t size) {
  return GraphCall(handle, [&](const std::shared_ptr<Graph>& graph) -> synStatus {
    SYN_RETURN_IF_FAILED(CheckAttributeCall(*graph, attributes, values, size));
    for (uint32_t i = 0; i < size; ++i) {
      synGraphAttributeVal value{};
      value.iAttrVal = values[i];
      if (attributes[i] == GRAPH_ATTRIBUTE_BACKOFF_FACTOR) {
        value.dAttrVal = static_cast<double>(values[i]);
      }
      SYN_RETURN_IF_FAILED(SetAttribute(*graph, attributes[i], value));
    }
    return synSuccess;
  });
}

synStatus synGraphGetAttribute(synGraphHandle handle, const synGraphAttribute* attributes,
                               uint64_t* values, uint32_t size) {
  return GraphCall(handle, [&](const std::shared_ptr<Graph>& graph) -> synStatus {
    SYN_RETURN_IF_FAILED(CheckAttributeCall(*graph, attributes, values, size));
    for (uint32_t i = 0; i < size; ++i) {
      const synGraphAttributeVal value = GetAttribute(*graph, attributes[i]);
      values[i] = attributes[i] == GRAPH_ATTRIBUTE_BACKOFF_FACTOR
                      ? static_cast<uint64_t>(value.dAttrVal)
                      : value.iAttrVal;
    }
    return synSuccess;
  });
}

synStatus synGraphSetAttributes(synGraphHandle handle, const synGraphAttribute* attributes,
                                const synGraphAttributeVal* values, uint32_t size) {
  return GraphCall(handle, [&](const std::shared_ptr<Graph>& graph) -> synStatus {
    SYN_RETURN_IF_FAILED(CheckAttributeCall(*graph, attributes, values, size));
    for (uint32_t i = 0; i < size; ++i) {
      SYN_RETURN_IF_FAILED(SetAttribute(*graph, attributes[i], values[i]));
    }
    return synSuccess;
  });
}

synStatus synGraphGetAttributes(synGraphHandle handle, const synGraphAttribute* attributes,
                                synGraphAttributeVal* values, uint32_t size) {
  return GraphCall(handle, [&](const std::shared_ptr<Graph>& graph) -> synStatus {
    SYN_RETURN_IF_FAILED(CheckAttributeCall(*graph, attributes, values, size));
    for (uint32_t i = 0; i < size; ++i) values[i] = GetAttribute(*graph, attributes[i]);
    return synSuccess;
  });
}

synStatus synGraphDuplicate(synGraphHandle handle, synGraphHandle* duplicate,
                            synTensorHandleMap* tensors, uint32_t* num_tensors,
                            synNodeHandleMap* nodes, uint32_t* num_nodes) {
  return GraphCall(handle, [&](const std::shared_ptr<Graph>& graph) -> synStatus {
    SYN_REQUIRE_ARGUMENT(num_tensors != nullptr && num_nodes != nullptr);
    const auto tensor_count = static_cast<uint32_t>(graph->tensors().size());
    const auto node_count = static_cast<uint32_t>(graph->nodes().size());
    if (graph->compiled()) return Fail(synFail, "the graph is compiled");
    if (tensors == nullptr || nodes == nullptr) {
      *num_tensors = tensor_count;
      *num_nodes = node_count;
      return synSuccess;
    }
    SYN_REQUIRE_ARGUMENT(duplicate != nullptr);
    if (*num_tensors != tensor_count || *num_nodes != node_count) {
      return Fail(synFail, "the graph has ", tensor_count, " tensors and ", node_count,
                  " nodes, the maps have ", *num_tensors, " and ", *num_nodes);
    }
    Library& library = Library::Get();
    const std::shared_ptr<Graph> copy = graph->Duplicate();
    for (uint32_t i = 0; i < tensor_count; ++i) {
      const std::shared_ptr<Tensor>& twin = copy->tensors()[i];
      twin->handle = library.tensors().Insert(twin);
      tensors[i] = {graph->tensors()[i]->handle, twin->handle};
    }
    for (uint32_t i = 0; i < node_count; ++i) nodes[i] = {i, i};
    *duplicate = library.graphs().Insert(copy);
    return synSuccess;
  });
}

synStatus synGraphInferShapes(synGraphHandle handle) {
  return GraphCall(handle, [](const std::shared_ptr<Graph>& graph) -> synStatus {
    if (!graph->duplicate()) return Fail(synFail, "shapes are inferred on duplicated graphs only");
    const absl::StatusOr<const CompilerDoor*> door = OpenCompiler();
    if (!door.ok()) return FailWith(synFail, hpu::ToText(door.status()));
    GraphDesc description = graph->Describe("shapes");
    const absl::Status status = (*door)->infer_shapes(description);
    if (!status.ok()) return FailWith(synFail, hpu::ToText(status));
    graph->AdoptSizes(description);
    return synSuccess;
  });
}

synStatus synGraphCompile(synRecipeHandle* recipe, synGraphHandle handle, const char* name,
                          const char* /*log_file*/) {
  return GraphCall(handle, [&](const std::shared_ptr<Graph>& graph) -> synStatus {
    SYN_REQUIRE_ARGUMENT(recipe != nullptr);
    return Compile(*graph, name, recipe);
  });
}

synStatus synGraphCompileV2(synRecipeHandle* recipe, synGraphHandle handle, const char* name,
                            synErrorHandle* error) {
  return GraphCall(handle, [&](const std::shared_ptr<Graph>& graph) -> synStatus {
    SYN_REQUIRE_ARGUMENT(recipe != nullptr && error != nullptr);
    *error = nullptr;
    const synStatus status = Compile(*graph, name, recipe);
    if (status != synSuccess) {
      auto object = std::make_shared<ErrorObject>();
      object->status = status;
      object->message = ThreadLastError().message;
      *error = Library::Get().errors().Insert(std::move(object));
    }
    return status;
  });
}

synStatus synSectionCreate(synSectionHandle* section, uint64_t /*descriptor*/,
                           synGraphHandle handle) {
  return GraphCall(
      handle,
      [&](const std::shared_ptr<Graph>& graph) -> synStatus {
        SYN_REQUIRE_ARGUMENT(section != nullptr);
        auto object = std::make_shared<Section>();
        object->graph = graph;
        object->id = graph->NextSectionId();
        object->handle = Library::Get().sections().Insert(object);
        *section = object->handle;
        return synSuccess;
      },
      synFail);
}

synStatus synSectionDestroy(synSectionHandle handle) {
  return SectionCall(handle, [&](Section&) {
    Library::Get().sections().Remove(handle);
    return synSuccess;
  });
}

synStatus synSectionSetGroup(synSectionHandle handle, uint64_t group) {
  return SectionSetCall(handle, [&](Section& section) -> synStatus {
    if (group > 255) return Fail(synUnsupported, "section group ", group, "; 0 to 255 exist");
    section.group = group;
    return synSuccess;
  });
}

synStatus synSectionGetGroup(synSectionHandle handle, uint64_t* group) {
  return SectionCall(handle, [&](Section& section) { return Read(section.group, group); });
}

synStatus synSectionSetPersistent(synSectionHandle handle, bool value) {
  return SectionSetCall(handle, [&](Section& section) {
    section.persistent = value;
    return synSuccess;
  });
}

synStatus synSectionGetPersistent(synSectionHandle handle, bool* value) {
  return SectionCall(handle, [&](Section& section) { return Read(section.persistent, value); });
}

synStatus synSectionSetConst(synSectionHandle handle, bool value) {
  return SectionSetCall(handle, [&](Section& section) {
    section.is_const = value;
    return synSuccess;
  });
}

synStatus synSectionGetConst(synSectionHandle handle, bool* value) {
  return SectionCall(handle, [&](Section& section) { return Read(section.is_const, value); });
}

synStatus synSectionSetRMW(synSectionHandle handle, bool value) {
  return SectionSetCall(handle, [&](Section& section) {
    section.rmw = value;
    return synSuccess;
  });
}

synStatus synSectionGetRMW(synSectionHandle handle, bool* value) {
  return SectionCall(handle, [&](Section& section) { return Read(section.rmw, value); });
}
