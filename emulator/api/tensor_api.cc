// Tensors: creation, geometry, type, placement (reference 1.8, 4.5). tensor_data_api.cc has
// quantisation and host data.
#include <algorithm>
#include <cstring>

#include "emulator/api/lookup.h"
#include "synapse/include/synapse_api.h"
#include "synapse/include/synapse_emulator.h"

using namespace hpu::emulator;  // NOLINT

namespace {

synStatus NotSet(const Tensor& tensor, const char* what) {
  return Fail(synObjectNotInitialized, "tensor ", tensor.name, ": ", what, " was never set");
}

synStatus SetDataType(Tensor& tensor, synDataType type) {
  if (type == syn_type_na || type >= syn_type_max || (type & (type - 1)) != 0) {
    return Fail(synInvalidArgument, "no data type has the number ", type);
  }
  tensor.dtype = type;
  return synSuccess;
}

template <typename Layout>
synStatus SetLayout(synTensor handle, const Layout* layout) {
  return TensorSetCall(handle, [&](Tensor& tensor) -> synStatus {
    SYN_REQUIRE_ARGUMENT(layout != nullptr);
    if (std::any_of(std::begin(layout->strides), std::end(layout->strides),
                    [](uint32_t stride) { return stride != 0; })) {
      return Fail(synInvalidArgument, "tensor ", tensor.name, ": strides must be 0");
    }
    return SetDataType(tensor, layout->deviceDataType);
  });
}

template <typename Layout>
synStatus GetLayout(synTensor handle, Layout* layout) {
  return TensorCall(handle, [&](Tensor& tensor) -> synStatus {
    SYN_REQUIRE_ARGUMENT(layout != nullptr);
    if (tensor.dtype == syn_type_na) return NotSet(tensor, "the device layout");
    *layout = Layout{};
    layout->deviceDataType = tensor.dtype;
    return synSuccess;
  });
}

synStatus SetPermutation(Tensor& tensor, const synTensorPermutation& permutation) {
  // Clearing is legal on any tensor at any time, because clients do it on every node output.
  if (permutation.dims == 0) {
    if (!tensor.locked) tensor.permutation.clear();
    return synSuccess;
  }
  if (tensor.locked) {
    return Fail(synObjectAlreadyInitialized, "tensor ", tensor.name,
                " is used by a node: its properties are fixed");
  }
  uint32_t seen = 0;
  bool in_range = permutation.dims <= HABANA_DIM_MAX;
  for (uint32_t i = 0; in_range && i < permutation.dims; ++i) {
    in_range = permutation.permutation[i] < permutation.dims;
    if (in_range) seen |= 1u << permutation.permutation[i];
  }
  if (!in_range || seen != (1u << permutation.dims) - 1) {
    return Fail(synInvalidArgument, "tensor ", tensor.name, ": the permutation is not valid");
  }
  tensor.permutation.assign(permutation.permutation, permutation.permutation + permutation.dims);
  return synSuccess;
}

synStatus Assign(const std::shared_ptr<Tensor>& tensor, const std::shared_ptr<Section>& section,
                 uint64_t offset) {
  const std::shared_ptr<Graph> graph = tensor->graph.lock();
  if (graph != nullptr && section->graph.lock() != graph) {
    return Fail(synInvalidArgument, "the section belongs to another graph");
  }
  if (section->persistent && section->rmw) {
    return Fail(synUnsupported, "a section cannot be persistent and read-modify-write");
  }
  tensor->section = section;
  tensor->section_offset = offset;
  section->in_use = true;
  return synSuccess;
}

void SetRank(Tensor& tensor, uint32_t rank) {
  tensor.rank = rank;
  tensor.rank_set = true;
}

// The obsolete calls describe a tensor in one struct and name no graph. The tensor joins the graph
// of its section, or of the first node that uses it.
synStatus CreateFromDescriptor(synTensor* handle, const synTensorDescriptor* descriptor,
                               synSectionHandle section_handle, uint64_t offset, bool is_const) {
  return Call([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(handle != nullptr && descriptor != nullptr);
    SYN_REQUIRE_ARGUMENT(descriptor->m_dims >= 1 && descriptor->m_dims <= SYN_MAX_TENSOR_DIM);
    SYN_REQUIRE_ARGUMENT(!is_const || descriptor->m_ptr != nullptr);
    Library& library = Library::Get();
    auto tensor = std::make_shared<Tensor>();
    tensor->type = descriptor->m_tensorType;
    tensor->name = descriptor->m_name == nullptr ? "" : descriptor->m_name;
    SYN_RETURN_IF_FAILED(SetDataType(*tensor, descriptor->m_dataType));
    SetRank(*tensor, descriptor->m_dims);
    tensor->max_sizes.emplace(descriptor->m_sizes, descriptor->m_sizes + descriptor->m_dims);
    tensor->min_sizes = tensor->max_sizes;
    if (is_const) {
      uint64_t bytes = hpu::ElementSize(tensor->dtype);
      for (const uint64_t size : *tensor->max_sizes) bytes *= size;
      const auto* data = static_cast<const uint8_t*>(descriptor->m_ptr);
      tensor->host_data.emplace(data, data + bytes);
      tensor->host_type = tensor->dtype;
    }
    if (section_handle != nullptr) {
      const std::shared_ptr<Section> section = library.sections().Find(section_handle);
      SYN_REQUIRE_ARGUMENT(section != nullptr);
      SYN_RETURN_IF_FAILED(Assign(tensor, section, offset));
      if (const std::shared_ptr<Graph> graph = section->graph.lock()) {
        graph->AddTensor(tensor, graph);
      }
    }
    tensor->handle = library.tensors().Insert(tensor);
    *handle = tensor->handle;
    return synSuccess;
  });
}

}  // namespace

synStatus synTensorHandleCreate(synTensor* handle, synGraphHandle graph_handle, synTensorType type,
                                const char* name) {
  return GraphCall(graph_handle, [&](const std::shared_ptr<Graph>& graph) -> synStatus {
    SYN_REQUIRE_ARGUMENT(handle != nullptr && type < TENSOR_TYPE_MAX);
    const std::string text = name == nullptr ? "" : name;
    if (text.size() >= ENQUEUE_TENSOR_NAME_MAX_SIZE) {
      return Fail(synInvalidArgument, "a tensor name of ", text.size(), " bytes is too long");
    }
    if (const std::shared_ptr<Tensor> existing = text.empty() ? nullptr : graph->FindTensor(text)) {
      *handle = existing->handle;
      return Fail(synNameIsAlreadyUsed, "the graph has a tensor named ", text);
    }
    auto tensor = std::make_shared<Tensor>();
    tensor->type = type;
    tensor->name = text;
    graph->AddTensor(tensor, graph);
    tensor->handle = Library::Get().tensors().Insert(tensor);
    *handle = tensor->handle;
    return synSuccess;
  });
}

synStatus synTensorCreate(synTensor* tensor, const synTensorDescriptor* descriptor,
                          synSectionHandle section, uint64_t offset) {
  return CreateFromDescriptor(tensor, descriptor, section, offset, false);
}

synStatus synConstTensorCreate(synTensor* tensor, const synTensorDescriptor* descriptor) {
  return CreateFromDescriptor(tensor, descriptor, nullptr, 0, true);
}

synStatus synTensorDestroy(synTensor handle) {
  return Call([&]() -> synStatus {
    Library& library = Library::Get();
    const std::shared_ptr<Tensor> tensor = library.tensors().Find(handle);
    if (tensor == nullptr) return Fail(synInvalidArgument, "this is not a tensor");
    // Nodes keep the tensor alive, and its name as well. The handle is removed with the graph.
    if (!tensor->locked && tensor->graph.expired()) library.tensors().Remove(handle);
    return synSuccess;
  });
}

synStatus synTensorSetGeometry(synTensor handle, const synTensorGeometry* geometry,
                               synGeometryType kind) {
  return TensorSetCall(handle, [&](Tensor& tensor) -> synStatus {
    SYN_REQUIRE_ARGUMENT(geometry != nullptr && kind <= synGeometryDims);
    SYN_REQUIRE_ARGUMENT(geometry->dims <= HABANA_DIM_MAX);
    SetRank(tensor, geometry->dims);
    if (kind == synGeometryDims) return synSuccess;
    std::vector<uint64_t> sizes(geometry->sizes, geometry->sizes + geometry->dims);
    auto& own = kind == synGeometryMinSizes ? tensor.min_sizes : tensor.max_sizes;
    auto& other = kind == synGeometryMinSizes ? tensor.max_sizes : tensor.min_sizes;
    if (!other.has_value() || other->size() != sizes.size()) other = sizes;
    own = std::move(sizes);
    // Data tensors are static, so the larger sizes count.
    if (kind == synGeometryMaxSizes && tensor.type != DATA_TENSOR_DYNAMIC) other = own;
    tensor.sizes_stale = false;
    return synSuccess;
  });
}

synStatus synTensorGetGeometry(synTensor handle, synTensorGeometry* geometry,
                               synGeometryType kind) {
  return TensorCall(handle, [&](Tensor& tensor) -> synStatus {
    SYN_REQUIRE_ARGUMENT(geometry != nullptr && kind <= synGeometryDims);
    if (!tensor.rank_set) return NotSet(tensor, "the geometry");
    synTensorGeometry result{};
    result.dims = tensor.rank;
    if (kind != synGeometryDims) {
      const auto& sizes = kind == synGeometryMinSizes ? tensor.min_sizes : tensor.max_sizes;
      if (!sizes.has_value()) return NotSet(tensor, "this geometry");
      std::copy(sizes->begin(), sizes->end(), result.sizes);
    }
    *geometry = result;
    return synSuccess;
  });
}

synStatus synTensorSetDeviceDataType(synTensor handle, synDataType type) {
  return TensorSetCall(handle, [&](Tensor& tensor) { return SetDataType(tensor, type); });
}

synStatus synTensorGetDeviceDataType(synTensor handle, synDataType* type) {
  return TensorCall(handle, [&](Tensor& tensor) -> synStatus {
    SYN_REQUIRE_ARGUMENT(type != nullptr);
    if (tensor.dtype == syn_type_na) return NotSet(tensor, "the device data type");
    *type = tensor.dtype;
    return synSuccess;
  });
}

synStatus synTensorSetDeviceFullLayout(synTensor handle, const synTensorDeviceFullLayout* layout) {
  return SetLayout(handle, layout);
}

synStatus synTensorGetDeviceFullLayout(synTensor handle, synTensorDeviceFullLayout* layout) {
  return GetLayout(handle, layout);
}

synStatus synTensorSetDeviceLayout(synTensor handle, const synTensorDeviceLayout* layout) {
  return SetLayout(handle, layout);
}

synStatus synTensorGetDeviceLayout(synTensor handle, synTensorDeviceLayout* layout) {
  return GetLayout(handle, layout);
}

synStatus synTensorSetPermutation(synTensor handle, const synTensorPermutation* permutation) {
  return TensorCall(handle, [&](Tensor& tensor) -> synStatus {
    SYN_REQUIRE_ARGUMENT(permutation != nullptr);
    return SetPermutation(tensor, *permutation);
  });
}

synStatus synTensorGetPermutation(synTensor handle, synTensorPermutation* permutation) {
  return TensorCall(handle, [&](Tensor& tensor) -> synStatus {
    SYN_REQUIRE_ARGUMENT(permutation != nullptr);
    if (tensor.permutation.empty()) return NotSet(tensor, "the permutation");
    *permutation = synTensorPermutation{};
    permutation->dims = static_cast<uint8_t>(tensor.permutation.size());
    std::copy(tensor.permutation.begin(), tensor.permutation.end(), permutation->permutation);
    return synSuccess;
  });
}

synStatus synTensorSetAllowPermutation(synTensor handle, int8_t value) {
  return TensorSetCall(handle, [&](Tensor& tensor) {
    tensor.allow_permutation = value != 0;
    return synSuccess;
  });
}

synStatus synTensorGetAllowPermutation(synTensor handle, int8_t* value) {
  return TensorCall(handle, [&](Tensor& tensor) -> synStatus {
    SYN_REQUIRE_ARGUMENT(value != nullptr);
    *value = tensor.allow_permutation.value_or(false) ? 1 : 0;
    return synSuccess;
  });
}

synStatus synTensorSetExternal(synTensor handle, bool value) {
  return TensorSetCall(handle, [&](Tensor& tensor) {
    // Gaudi1 accepts this without effect.
    const std::shared_ptr<Graph> graph = tensor.graph.lock();
    tensor.external = value && (graph == nullptr || graph->type() != synDeviceGaudi);
    return synSuccess;
  });
}

synStatus synEmulatorTensorSetWeight(synTensor handle, bool value) {
  return TensorSetCall(handle, [&](Tensor& tensor) {
    tensor.weight = value;
    return synSuccess;
  });
}

synStatus synTensorGetExternal(synTensor handle, bool* value) {
  return TensorCall(handle, [&](Tensor& tensor) -> synStatus {
    SYN_REQUIRE_ARGUMENT(value != nullptr);
    *value = tensor.external;
    return synSuccess;
  });
}

synStatus synTensorSetMemoryReuse(synTensor handle, bool value) {
  return TensorSetCall(handle, [&](Tensor& tensor) {
    tensor.memory_reuse = value;
    return synSuccess;
  });
}

synStatus synTensorSetMinimalLatency(synTensor handle, bool value) {
  return TensorSetCall(handle, [&](Tensor& tensor) {
    tensor.minimal_latency = value;
    return synSuccess;
  });
}

synStatus synTensorGetMinimalLatency(synTensor handle, bool* value) {
  return TensorCall(handle, [&](Tensor& tensor) -> synStatus {
    SYN_REQUIRE_ARGUMENT(value != nullptr);
    *value = tensor.minimal_latency.value_or(false);
    return synSuccess;
  });
}

synStatus synTensorAssignToSection(synTensor handle, synSectionHandle section_handle,
                                   uint64_t offset) {
  return TensorSetCall(handle, [&](Tensor&) -> synStatus {
    Library& library = Library::Get();
    const std::shared_ptr<Section> section = library.sections().Find(section_handle);
    if (section == nullptr) return Fail(synInvalidArgument, "this is not a section");
    return Assign(library.tensors().Find(handle), section, offset);
  });
}

synStatus synTensorSetSectionOffset(synTensor handle, uint64_t offset) {
  return TensorSetCall(handle, [&](Tensor& tensor) -> synStatus {
    if (tensor.section == nullptr) return NotSet(tensor, "the section");
    tensor.section_offset = offset;
    return synSuccess;
  });
}

synStatus synTensorGetSection(synTensor handle, synSectionHandle* section, uint64_t* offset) {
  return TensorCall(handle, [&](Tensor& tensor) -> synStatus {
    SYN_REQUIRE_ARGUMENT(section != nullptr && offset != nullptr);
    *section = tensor.section == nullptr ? nullptr : tensor.section->handle;
    *offset = tensor.section == nullptr ? 0 : tensor.section_offset;
    return synSuccess;
  });
}

synStatus synTensorGetName(synTensor handle, uint64_t size, char* buffer) {
  return TensorCall(handle, [&](Tensor& tensor) -> synStatus {
    SYN_REQUIRE_ARGUMENT(buffer != nullptr && size >= tensor.name.size() + 1);
    std::memcpy(buffer, tensor.name.c_str(), tensor.name.size() + 1);
    return synSuccess;
  });
}

synStatus synTensorGetType(synTensor handle, synTensorType* type) {
  return TensorCall(handle, [&](Tensor& tensor) -> synStatus {
    SYN_REQUIRE_ARGUMENT(type != nullptr);
    *type = tensor.type;
    return synSuccess;
  });
}
