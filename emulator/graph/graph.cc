#include "emulator/graph/graph.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "emulator/graph/layouts.h"

namespace hpu::emulator {
namespace {

TensorDesc DescribeTensor(const Tensor& tensor) {
  TensorDesc desc;
  desc.name = tensor.name;
  desc.type = tensor.type;
  desc.dtype = tensor.dtype;
  desc.external = tensor.external;
  desc.weight = tensor.weight;
  desc.permutation = tensor.permutation;
  desc.sizes_known = tensor.max_sizes.has_value() && !tensor.sizes_stale;
  if (desc.sizes_known) desc.sizes = *tensor.max_sizes;
  if (tensor.section != nullptr) {
    desc.section = tensor.section->id;
    desc.section_offset = tensor.section_offset;
  }
  if (tensor.persistent()) {
    // The bytes of a const section are stored beside the code (CollectConstSections).
    desc.placement = TensorPlacement::kPersistent;
  } else if (tensor.type == HOST_TO_DEVICE_TENSOR && tensor.host_data.has_value()) {
    // Recipes are static, so the half for the maximal shape is the value.
    desc.placement = TensorPlacement::kConstant;
    const auto half = static_cast<std::ptrdiff_t>(tensor.host_data->size() / 2);
    desc.host_data.assign(tensor.host_data->begin(), tensor.host_data->begin() + half);
  } else if (tensor.is_const()) {
    desc.placement = TensorPlacement::kConstant;
    desc.host_data = *tensor.host_data;
  }
  return desc;
}

std::shared_ptr<Section> CopySection(const std::shared_ptr<Section>& section,
                                     const std::shared_ptr<Graph>& graph) {
  auto copy = std::make_shared<Section>(*section);
  copy->handle = nullptr;
  copy->graph = graph;
  return copy;
}

}  // namespace

std::shared_ptr<Tensor> Graph::FindTensor(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

void Graph::AddTensor(const std::shared_ptr<Tensor>& tensor, const std::shared_ptr<Graph>& self) {
  while (tensor->name.empty() || by_name_.count(tensor->name) != 0) {
    tensor->name = "tensor_" + std::to_string(next_name_++);
  }
  tensor->graph = self;
  by_name_.emplace(tensor->name, tensor);
  tensors_.push_back(tensor);
}

std::shared_ptr<Graph> Graph::Duplicate() const {
  auto copy = std::make_shared<Graph>(type_, eager_);
  copy->duplicate_ = true;
  copy->next_section_id_ = next_section_id_;
  copy->next_name_ = next_name_;
  copy->attributes_ = attributes_;
  copy->custom_kernels_ = custom_kernels_;
  std::unordered_map<const Section*, std::shared_ptr<Section>> sections;
  std::unordered_map<const Tensor*, std::shared_ptr<Tensor>> tensors;
  for (const std::shared_ptr<Tensor>& tensor : tensors_) {
    auto twin = std::make_shared<Tensor>(*tensor);
    twin->handle = nullptr;
    twin->graph = copy;
    twin->locked = false;
    if (tensor->section != nullptr) {
      std::shared_ptr<Section>& section = sections[tensor->section.get()];
      if (section == nullptr) section = CopySection(tensor->section, copy);
      twin->section = section;
    }
    tensors[tensor.get()] = twin;
    copy->by_name_.emplace(twin->name, twin);
    copy->tensors_.push_back(std::move(twin));
  }
  const auto translate = [&](std::vector<std::shared_ptr<Tensor>>& list) {
    for (std::shared_ptr<Tensor>& tensor : list) {
      if (tensor != nullptr) tensor = tensors[tensor.get()];
    }
  };
  copy->nodes_ = nodes_;
  for (Node& node : copy->nodes_) {
    translate(node.inputs);
    translate(node.outputs);
    for (const std::shared_ptr<Tensor>& output : node.outputs) {
      if (output != nullptr) output->sizes_stale = true;
    }
  }
  return copy;
}

std::vector<std::shared_ptr<Tensor>> Graph::UsedTensors() const {
  std::set<const Tensor*> used;
  for (const Node& node : nodes_) {
    for (const auto& tensor : node.inputs) used.insert(tensor.get());
    for (const auto& tensor : node.outputs) used.insert(tensor.get());
  }
  std::vector<std::shared_ptr<Tensor>> tensors;
  std::copy_if(tensors_.begin(), tensors_.end(), std::back_inserter(tensors),
               [&](const auto& tensor) { return used.count(tensor.get()) != 0; });
  return tensors;
}

GraphDesc Graph::Describe(const std::string& name) const {
  GraphDesc desc;
  desc.name = name;
  desc.device_type = type_;
  const auto inference = attributes_.find(GRAPH_ATTRIBUTE_INFERENCE);
  desc.inference = inference != attributes_.end() && inference->second.iAttrVal != 0;
  std::unordered_map<const Tensor*, uint32_t> index;
  for (const std::shared_ptr<Tensor>& tensor : UsedTensors()) {
    index.emplace(tensor.get(), static_cast<uint32_t>(desc.tensors.size()));
    desc.tensors.push_back(DescribeTensor(*tensor));
  }
  const auto indices = [&](const std::vector<std::shared_ptr<Tensor>>& tensors) {
    std::vector<uint32_t> result;
    for (const auto& tensor : tensors) {
      result.push_back(tensor == nullptr ? kNoTensor : index.at(tensor.get()));
    }
    return result;
  };
  std::vector<std::vector<uint32_t>> described(nodes_.size());  // node id -> indices in desc.nodes
  for (size_t id = 0; id < nodes_.size(); ++id) {
    const Node& node = nodes_[id];
    NodeDesc out;
    out.guid = node.guid;
    out.name = node.name;
    out.inputs = indices(node.inputs);
    out.outputs = indices(node.outputs);
    out.params = node.params;
    out.custom_version = node.custom_version;
    out.deterministic = node.deterministic;
    const size_t first = desc.nodes.size();
    AddInNativeLayout(node, std::move(out), &desc);
    for (size_t i = first; i < desc.nodes.size(); ++i) {
      described[id].push_back(static_cast<uint32_t>(i));
    }
  }
  for (size_t id = 0; id < nodes_.size(); ++id) {
    for (const uint32_t node : described[id]) {
      std::vector<uint32_t>& blocked_by = desc.nodes[node].blocked_by;
      for (const uint32_t blocking : nodes_[id].blocked_by) {
        blocked_by.insert(blocked_by.end(), described[blocking].begin(), described[blocking].end());
      }
    }
  }
  return desc;
}

void Graph::AdoptSizes(const GraphDesc& description) {
  const std::vector<std::shared_ptr<Tensor>> used = UsedTensors();
  for (size_t i = 0; i < used.size() && i < description.tensors.size(); ++i) {
    const TensorDesc& desc = description.tensors[i];
    if (!desc.sizes_known) continue;
    Tensor& tensor = *used[i];
    tensor.rank = static_cast<uint32_t>(desc.sizes.size());
    tensor.rank_set = true;
    tensor.max_sizes = desc.sizes;
    tensor.min_sizes = desc.sizes;
    tensor.sizes_stale = false;
  }
}

std::vector<ConstSection> Graph::CollectConstSections() const {
  std::map<uint32_t, Bytes> data;
  for (const std::shared_ptr<Tensor>& tensor : UsedTensors()) {
    if (tensor->section == nullptr || !tensor->section->is_const || !tensor->is_const()) continue;
    Bytes& bytes = data[tensor->section->id];
    const uint64_t end = tensor->section_offset + tensor->host_data->size();
    if (bytes.size() < end) bytes.resize(end);
    if (!tensor->host_data->empty()) {
      std::memcpy(bytes.data() + tensor->section_offset, tensor->host_data->data(),
                  tensor->host_data->size());
    }
  }
  std::vector<ConstSection> sections;
  for (auto& [id, bytes] : data) sections.push_back({id, std::move(bytes)});
  return sections;
}

}  // namespace hpu::emulator
