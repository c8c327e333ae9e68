#include "compiler_server/lowering/syn_graph.h"

#include <algorithm>

#include "compiler_server/ir/host_tensor.h"
#include "compiler_server/lowering/dims.h"
#include "synapse/include/synapse_kernel_params.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::compiler {
namespace {

struct DeviceTypeRow {
  synDataType device = syn_type_na;
  std::string_view suffix;
};

constexpr DeviceTypeRow kDeviceTypes[kNumDTypes] = {
    {},
#define HPU_DTYPE(symbol, name, bytes, kind, host, torch_type, device, suffix, ...) \
  {device, suffix},
#include "base/dtypes.inc"
#undef HPU_DTYPE
};

synTensorGeometry FcdGeometry(const ir::Dims& sizes) {
  synTensorGeometry geometry = {};
  geometry.dims = std::max<uint32_t>(1, static_cast<uint32_t>(sizes.size()));
  geometry.sizes[0] = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    geometry.sizes[i] = static_cast<TSize>(sizes[sizes.size() - 1 - i]);
  }
  return geometry;
}

}  // namespace

synDataType DeviceType(DType dtype) { return kDeviceTypes[static_cast<size_t>(dtype)].device; }

std::string_view GuidSuffix(DType dtype) { return kDeviceTypes[static_cast<size_t>(dtype)].suffix; }

int FcdAxis(int64_t dim, int rank) {
  const int known = std::max(rank, 1);
  return static_cast<int>(known - 1 - (dim < 0 ? dim + known : dim));
}

SynGraph::SynGraph(const SynapseFunctions& functions, const SynGraphOptions& options)
    : functions_(functions), deterministic_(options.deterministic) {
  digest_.Number(options.device).Number(options.deterministic).Number(options.inference);
  if (!Check(functions_.synGraphCreate(&graph_, options.device), "synGraphCreate")) return;
  const synGraphAttribute inference = GRAPH_ATTRIBUTE_INFERENCE;
  const uint64_t value = options.inference ? 1 : 0;
  Check(functions_.synGraphSetAttribute(graph_, &inference, &value, 1), "synGraphSetAttribute");
}

SynGraph::~SynGraph() {
  for (synSectionHandle section : sections_) functions_.synSectionDestroy(section);
  if (graph_ != nullptr) functions_.synGraphDestroy(graph_);
}

void SynGraph::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

bool SynGraph::Check(synStatus status, const char* call) {
  if (!status_.ok()) return false;
  if (status == synSuccess) return true;
  Fail(Annotate(ToStatus(functions_, status, call), op_));
  return false;
}

synSectionHandle SynGraph::Section() {
  synSectionHandle section = nullptr;
  if (!status_.ok()) return section;
  if (Check(functions_.synSectionCreate(&section, 0, graph_), "synSectionCreate")) {
    sections_.push_back(section);
    Check(functions_.synSectionSetPersistent(section, true), "synSectionSetPersistent");
  }
  return section;
}

Tensor SynGraph::NewTensor(const std::string& name, DType dtype, const ir::Dims& sizes) {
  Tensor tensor{nullptr, dtype, sizes, ++tensors_};
  digest_.Field("tensor").Number(static_cast<int64_t>(dtype)).Number(tensor.rank());
  for (int64_t size : sizes) digest_.Number(size);
  if (!status_.ok()) return tensor;
  const synDataType type = DeviceType(dtype);
  if (type == syn_type_na) {
    Fail(Unimplemented(op_, ": the device has no type ", DTypeName(dtype)));
    return tensor;
  }
  const synTensorGeometry geometry = FcdGeometry(sizes);
  if (Check(functions_.synTensorHandleCreate(&tensor.handle, graph_, DATA_TENSOR, name.c_str()),
            "synTensorHandleCreate") &&
      Check(functions_.synTensorSetGeometry(tensor.handle, &geometry, synGeometryMaxSizes),
            "synTensorSetGeometry")) {
    Check(functions_.synTensorSetDeviceDataType(tensor.handle, type), "synTensorSetDeviceDataType");
  }
  return tensor;
}

Tensor SynGraph::Persistent(const std::string& name, DType dtype, const ir::Dims& sizes,
                            synSectionHandle section, uint64_t offset_bytes) {
  Tensor tensor = NewTensor(name, dtype, sizes);
  digest_.Field(name).Number(static_cast<int64_t>(offset_bytes));
  if (status_.ok()) {
    Check(functions_.synTensorAssignToSection(tensor.handle, section, offset_bytes),
          "synTensorAssignToSection");
  }
  return tensor;
}

void SynGraph::SetWeight(const Tensor& tensor) {
  if (functions_.synEmulatorTensorSetWeight == nullptr) return;
  digest_.Field("weight").Number(tensor.ordinal);
  if (!status_.ok()) return;
  Check(functions_.synEmulatorTensorSetWeight(tensor.handle, true), "synEmulatorTensorSetWeight");
}

Tensor SynGraph::Intermediate(DType dtype, const ir::Dims& sizes) {
  return NewTensor(AutoName('t'), dtype, sizes);
}

Tensor SynGraph::Constant(DType dtype, const ir::Dims& sizes, std::span<const uint8_t> data) {
  Tensor tensor = NewTensor(AutoName('c'), dtype, sizes);
  digest_.Number(static_cast<int64_t>(data.size())).Raw(data.data(), data.size());
  if (status_.ok()) {
    // The interface takes a mutable pointer but only copies from it.
    Check(functions_.synTensorSetHostPtr(tensor.handle, const_cast<uint8_t*>(data.data()),
                                         data.size(), DeviceType(dtype), true),
          "synTensorSetHostPtr");
  }
  return tensor;
}

Tensor SynGraph::Scalar(DType dtype, double value) {
  return Constant(dtype, {}, ir::ToBytes(ir::MakeHostTensor(dtype, {}, value)));
}

void SynGraph::Node(const std::string& guid, const std::vector<Tensor>& inputs,
                    const std::vector<Tensor>& outputs, Params params, const Layouts* layouts) {
  if (!status_.ok()) return;
  std::vector<synTensor> in, out;
  digest_.Field(guid).Number(params.size).Raw(params.data, params.size);
  digest_.Number(static_cast<int64_t>(inputs.size())).Number(static_cast<int64_t>(outputs.size()));
  for (const Tensor& tensor : inputs) {
    in.push_back(tensor.handle);
    digest_.Number(tensor.handle == nullptr ? 0 : tensor.ordinal);
  }
  for (const Tensor& tensor : outputs) {
    out.push_back(tensor.handle);
    digest_.Number(tensor.ordinal);
  }
  while (!in.empty() && in.back() == nullptr) in.pop_back();
  const std::string name = op_ + "/" + guid + "/" + std::to_string(nodes_.size());
  const char** in_layouts = nullptr;
  const char** out_layouts = nullptr;
  std::vector<const char*> in_copy, out_copy;
  if (layouts != nullptr) {
    in_copy = layouts->inputs;
    out_copy = layouts->outputs;
    in_copy.resize(in.size(), nullptr);
    out_copy.resize(out.size(), nullptr);
    in_layouts = in_copy.data();
    out_layouts = out_copy.data();
  }
  synNodeId id = 0;
  if (!Check(functions_.synNodeCreateWithId(
                 graph_, in.data(), out.data(), static_cast<uint32_t>(in.size()),
                 static_cast<uint32_t>(out.size()), params.data, params.size, guid.c_str(),
                 name.c_str(), &id, in_layouts, out_layouts),
             "synNodeCreateWithId")) {
    if (!status_.ok()) status_ = Annotate(status_, guid);
    return;
  }
  nodes_.push_back(id);
  if (deterministic_) {
    Check(functions_.synNodeSetDeterministic(graph_, id, true), "synNodeSetDeterministic");
  }
}

void SynGraph::DeclareKernel(const std::string& guid, uint32_t version) {
  digest_.Field("kernel").Field(guid).Number(version);
  if (!status_.ok() || functions_.synEmulatorGraphDeclareKernel == nullptr) return;
  Check(functions_.synEmulatorGraphDeclareKernel(graph_, guid.c_str(), version),
        "synEmulatorGraphDeclareKernel");
}

void SynGraph::TypedNode(std::string_view base, DType dtype, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& outputs, Params params) {
  Node(std::string(base) + "_" + std::string(GuidSuffix(dtype)), inputs, outputs, params);
}

void SynGraph::Reshape(const Tensor& from, const Tensor& to) { Node("reshape", {from}, {to}); }

void SynGraph::Transpose(const Tensor& from, const Tensor& to, const ir::Dims& perm) {
  synTransposeParamsNDims params = {};
  const auto rank = static_cast<uint32_t>(perm.size());
  params.tensorDim = rank;
  for (uint32_t i = 0; i < rank; ++i) {
    params.permutation[i] = rank - 1 - static_cast<uint32_t>(perm[rank - 1 - i]);
  }
  Node("transpose", {from}, {to}, Params(params));
}

void SynGraph::Broadcast(const Tensor& from, const Tensor& to) { Node("broadcast", {from}, {to}); }

void SynGraph::Copy(const Tensor& from, const Tensor& to) { Node("identity", {from}, {to}); }

bool SynGraph::RunsFlat(const Tensor& from, const Tensor& to,
                        void (SynGraph::*kernel)(const Tensor& from, const Tensor& to)) {
  if (from.rank() <= kMaxKernelRank) return false;
  const ir::Dims flat{NumElements(from.sizes)};
  const Tensor result = Intermediate(to.dtype, flat);
  (this->*kernel)(Reshaped(from, flat), result);
  Reshape(result, to);
  return true;
}

void SynGraph::Cast(const Tensor& from, const Tensor& to) {
  if (from.dtype == to.dtype) return Copy(from, to);
  if (RunsFlat(from, to, &SynGraph::Cast)) return;
  if (to.dtype == DType::kBool) {
    // True means "not equal to zero", also for NaN.
    const Tensor is_zero = Intermediate(DType::kBool, from.sizes);
    TypedNode("equal_fwd", from.dtype, {from, Scalar(from.dtype, 0)}, {is_zero});
    TypedNode("not_fwd", DType::kBool, {is_zero}, {to});
  } else if (GuidSuffix(from.dtype) == GuidSuffix(to.dtype)) {
    Copy(from, to);  // bool to int8: the same bytes
  } else {
    const bool truncates = IsFloat(from.dtype) && !IsFloat(to.dtype);
    const ns_CastKernel_Params params{.round_mode = truncates ? NS_CAST_ROUND_TOWARD_ZERO
                                                              : NS_CAST_ROUND_HALF_TO_EVEN};
    Node("cast_" + std::string(GuidSuffix(from.dtype)) + "_to_" + std::string(GuidSuffix(to.dtype)),
         {from}, {to}, Params(params));
  }
}

void SynGraph::CastResult(const Tensor& from, const Tensor& to) {
  if (RunsFlat(from, to, &SynGraph::CastResult)) return;
  const ns_CastKernel_Params params{.round_mode = NS_CAST_ROUND_DEFAULT};
  Node("cast_" + std::string(GuidSuffix(from.dtype)) + "_to_" + std::string(GuidSuffix(to.dtype)),
       {from}, {to}, Params(params));
}

Tensor SynGraph::Reshaped(const Tensor& from, const ir::Dims& sizes) {
  if (from.sizes == sizes) return from;
  Tensor to = Intermediate(from.dtype, sizes);
  Reshape(from, to);
  return to;
}

Tensor SynGraph::Transposed(const Tensor& from, const ir::Dims& perm) {
  if (std::is_sorted(perm.begin(), perm.end())) return from;
  ir::Dims sizes;
  for (int64_t p : perm) sizes.push_back(from.sizes[p]);
  Tensor to = Intermediate(from.dtype, sizes);
  Transpose(from, to, perm);
  return to;
}

Tensor SynGraph::Expanded(const Tensor& from, const ir::Dims& sizes) {
  if (from.sizes == sizes) return from;
  Tensor to = Intermediate(from.dtype, sizes);
  Broadcast(from, to);
  return to;
}

void SynGraph::RunAfter(size_t first, size_t begin, size_t end) {
  if (!status_.ok() || first == begin || begin == end) return;
  digest_.Field("order").Number(static_cast<int64_t>(first));
  digest_.Number(static_cast<int64_t>(begin)).Number(static_cast<int64_t>(end));
  Check(functions_.synNodeDependencySet(graph_, nodes_.data() + first, nodes_.data() + begin,
                                        static_cast<uint32_t>(begin - first),
                                        static_cast<uint32_t>(end - begin)),
        "synNodeDependencySet");
}

absl::Status SynGraph::CheckOnDevice() {
  Check(status_.ok() ? functions_.synEmulatorGraphCheck(graph_) : synSuccess,
        "synEmulatorGraphCheck");
  return status_;
}

absl::StatusOr<synRecipeHandle> SynGraph::Compile(const std::string& name) {
  RETURN_IF_ERROR(status_);
  op_ = "recipe " + name;
  synRecipeHandle recipe = nullptr;
  Check(functions_.synGraphCompile(&recipe, graph_, name.c_str(), nullptr), "synGraphCompile");
  RETURN_IF_ERROR(status_);
  return recipe;
}

}  // namespace hpu::compiler
