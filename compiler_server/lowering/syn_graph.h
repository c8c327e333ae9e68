// Builds one Synapse node graph. The rest of the lowering uses PyTorch's order (outermost dimension
// first, 0-d tensors, named dtypes). Only this class translates that to FCD-first sizes, type
// suffixes and syn* calls.
//
// Errors stick: the first failing call is remembered, later calls do nothing, and status() or
// Compile() reports it. A lowering function is therefore a straight list of nodes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "base/hash.h"
#include "base/status.h"
#include "compiler_server/ir/types.h"
#include "synapse/loader.h"

namespace hpu::compiler {

// The device's element type for `dtype`; syn_type_na if it has none (f64, complex).
synDataType DeviceType(DType dtype);
// The last part of a GUID: "f32", "bf16", "i8" (also for bool) and so on. It is empty if the device
// has no such type.
std::string_view GuidSuffix(DType dtype);

// A tensor of the node graph. A null handle means that it is absent (an optional operand) or has no
// elements.
struct Tensor {
  synTensor handle = nullptr;
  DType dtype = DType::kInvalid;
  ir::Dims sizes;        // PyTorch order
  uint32_t ordinal = 0;  // number of its creation in the graph

  int rank() const { return static_cast<int>(sizes.size()); }
  int64_t elements() const { return NumElements(sizes); }
};

// A parameter struct filled field by field over zero bytes. A plain struct would have arbitrary
// padding, and equal nodes must have equal bytes.
template <typename T>
class ZeroedParams {
 public:
  T* operator->() { return reinterpret_cast<T*>(bytes_); }
  const unsigned char* bytes() const { return bytes_; }

 private:
  alignas(T) unsigned char bytes_[sizeof(T)] = {};
};

// The parameters of synNodeCreate. This refers to the struct and does not own it.
struct Params {
  Params() = default;
  // Only for structs without padding.
  template <typename T>
  explicit Params(const T& value) : data(&value), size(sizeof(T)) {}
  template <typename T>
  explicit Params(const ZeroedParams<T>& value) : data(value.bytes()), size(sizeof(T)) {}
  explicit Params(std::span<const uint8_t> bytes)
      : data(bytes.empty() ? nullptr : bytes.data()), size(static_cast<unsigned>(bytes.size())) {}
  const void* data = nullptr;
  unsigned size = 0;
};

// FCD-first names of the dimensions of inputs and outputs; nullptr = does not matter.
struct Layouts {
  std::vector<const char*> inputs;
  std::vector<const char*> outputs;
};

struct SynGraphOptions {
  synDeviceType device = synDeviceGaudi2;
  bool deterministic = false;  // set on every node
  bool inference = true;       // GRAPH_ATTRIBUTE_INFERENCE
};

class SynGraph {
 public:
  // `functions` must outlive the graph.
  SynGraph(const SynapseFunctions& functions, const SynGraphOptions& options);
  ~SynGraph();
  SynGraph(const SynGraph&) = delete;
  SynGraph& operator=(const SynGraph&) = delete;

  // The nodes that follow are named "<op>/<guid>/<n>".
  void SetOp(std::string_view op) { op_ = op; }

  // Memory that is given at launch. Tensors of one section share a base address.
  synSectionHandle Section();
  // Makes a row-major tensor at `offset_bytes` of the section. `name` appears in the launch table.
  Tensor Persistent(const std::string& name, DType dtype, const ir::Dims& sizes,
                    synSectionHandle section, uint64_t offset_bytes);
  // Marks the persistent tensor as a weight, if the device wants to know.
  void SetWeight(const Tensor& tensor);
  Tensor Intermediate(DType dtype, const ir::Dims& sizes);
  // Copies the data, which is row-major and little-endian.
  Tensor Constant(DType dtype, const ir::Dims& sizes, std::span<const uint8_t> data);
  // Makes a 0-d constant of `dtype`, which must be a type that the device calculates with.
  Tensor Scalar(DType dtype, double value);

  // `guid` is complete: "gemm", "add_fwd_f32".
  void Node(const std::string& guid, const std::vector<Tensor>& inputs,
            const std::vector<Tensor>& outputs, Params params = {},
            const Layouts* layouts = nullptr);
  // Declares that nodes of this guid are a kernel of the user's own. A card looks for it by itself.
  void DeclareKernel(const std::string& guid, uint32_t version);
  // Adds the suffix of `dtype` to `base`.
  void TypedNode(std::string_view base, DType dtype, const std::vector<Tensor>& inputs,
                 const std::vector<Tensor>& outputs, Params params = {});

  // Movement. Each function writes to `to`, whose sizes define the result.
  void Reshape(const Tensor& from, const Tensor& to);
  void Transpose(const Tensor& from, const Tensor& to, const ir::Dims& perm);
  void Broadcast(const Tensor& from, const Tensor& to);
  void Copy(const Tensor& from, const Tensor& to);
  // Converts as PyTorch does: towards zero for integers, to nearest even for floats, "not zero" for
  // bool.
  void Cast(const Tensor& from, const Tensor& to);
  // Converts from f32 to a narrower float, as that type's own kernels round their results. The
  // device may leave it out between kernels that it fuses.
  void CastResult(const Tensor& from, const Tensor& to);
  // These return a new intermediate, or `from` itself if there is nothing to do.
  Tensor Reshaped(const Tensor& from, const ir::Dims& sizes);
  Tensor Transposed(const Tensor& from, const ir::Dims& perm);
  Tensor Expanded(const Tensor& from, const ir::Dims& sizes);

  // The number of nodes so far; nodes are numbered from 0.
  size_t node_count() const { return nodes_.size(); }
  // Nodes [begin, end) run after nodes [first, begin).
  void RunAfter(size_t first, size_t begin, size_t end);

  // The digest of everything that was built so far. Graphs with equal digests compile to recipes
  // that are equal except for their names.
  Digest ContentDigest() const { return Hasher(digest_).Finish(); }

  const absl::Status& status() const { return status_; }
  void Fail(absl::Status status);
  // Returns OK if the device accepts what was built. The library must have synEmulatorGraphCheck.
  absl::Status CheckOnDevice();
  // Returns the graph's recipe, which the caller must destroy.
  absl::StatusOr<synRecipeHandle> Compile(const std::string& name);

 private:
  // Runs a kernel on rows of all elements if the tensors have more dimensions than kernels take;
  // otherwise returns false.
  bool RunsFlat(const Tensor& from, const Tensor& to,
                void (SynGraph::*kernel)(const Tensor& from, const Tensor& to));
  bool Check(synStatus status, const char* call);
  std::string AutoName(char prefix) {
    return std::string(1, prefix).append(std::to_string(unnamed_++));
  }
  Tensor NewTensor(const std::string& name, DType dtype, const ir::Dims& sizes);

  const SynapseFunctions& functions_;
  const bool deterministic_;
  synGraphHandle graph_ = nullptr;
  std::vector<synSectionHandle> sections_;
  std::vector<synNodeId> nodes_;
  std::string op_ = "graph";
  uint32_t unnamed_ = 0;
  uint32_t tensors_ = 0;
  Hasher digest_;
  absl::Status status_;
};

// PyTorch dimension `dim` of a tensor of `rank` as a Synapse axis. 0-d counts as rank 1.
int FcdAxis(int64_t dim, int rank);

}  // namespace hpu::compiler
