// The graph in the form in which the Synapse API hands it to the graph compiler. It is plain data,
// which the API layer has validated (ranks, dtypes, sections), but not yet by node kind. No LLVM
// type occurs here.
//
// Sizes are FCD-first (sizes[0] is the fastest-changing dimension, PyTorch's last).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "synapse/include/synapse_api_types.h"

namespace hpu::graph_compiler {

inline constexpr uint32_t kNoTensor = 0xFFFFFFFF;  // absent optional operand
inline constexpr uint32_t kNoSection = 0xFFFFFFFF;

enum class TensorPlacement : uint8_t {
  kWorkspace,   // intermediate: the compiler places it
  kPersistent,  // the launch supplies the address: base of its section + section_offset
  kConstant,    // host_data is its value
};

struct TensorDesc {
  std::string name;
  TensorPlacement placement = TensorPlacement::kWorkspace;
  synTensorType type = DATA_TENSOR;
  synDataType dtype = syn_type_na;
  std::vector<uint64_t> sizes;  // may be empty for an intermediate whose sizes are inferred
  bool sizes_known = false;
  uint32_t section = kNoSection;     // kPersistent: tensors of one section share one base address
  uint64_t section_offset = 0;       // bytes
  std::vector<uint8_t> host_data;    // kConstant (or H2D)
  std::vector<uint8_t> permutation;  // empty = identity; else memory order of a persistent tensor
  bool external = false;
  bool weight = false;  // kPersistent: mostly holds the same values in successive launches
};

struct NodeDesc {
  std::string guid;  // "gemm", "add_fwd_f32"
  std::string name;
  std::vector<uint32_t> inputs;  // tensor indices or kNoTensor
  std::vector<uint32_t> outputs;
  std::vector<uint8_t> params;  // the syn*/ns_* struct, recognised by size
  // Not 0: the guid is a kernel of the caller's own, of this version (hpu_custom_kernel.h).
  uint32_t custom_version = 0;
  bool deterministic = false;
  std::vector<uint32_t> blocked_by;  // control edges: indices of nodes that must run before
};

struct GraphDesc {
  std::string name;
  synDeviceType device_type = synDeviceGaudi2;
  // GRAPH_ATTRIBUTE_INFERENCE: memory that no node writes stays the same over many launches, so
  // that it pays to keep it packed. If false, such memory is a weight in training.
  bool inference = true;
  std::vector<TensorDesc> tensors;
  std::vector<NodeDesc> nodes;  // in creation order, which is a topological order for data edges
};

}  // namespace hpu::graph_compiler
