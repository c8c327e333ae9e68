#include <algorithm>
#include <array>
#include <string_view>

#include "emulator/base/status.h"
#include "emulator/graph/graph.h"

namespace hpu::emulator {
namespace {

constexpr uint32_t kMaxKernelRank = MAX_DIMENSIONS_NUM;

// Nodes that the compiler itself implements, and the sizes that their parameters may have (0 = none
// given).
struct ParamSizes {
  std::string_view guid;
  std::array<uint32_t, 4> sizes;
  uint32_t count;
};
constexpr ParamSizes kParamSizes[] = {
    {"gemm", {0, 2}, 2},
    {"gemm_dedx", {0, 2}, 2},
    {"gemm_dedw", {0, 2}, 2},
    {"batch_gemm", {0, 2}, 2},
    {"batch_gemm_dedx", {0, 2}, 2},
    {"batch_gemm_dedw", {0, 2}, 2},
    {"masked_batch_gemm", {0, 2}, 2},
    {"spatial_convolution", {72, 112}, 2},
    {"dedx", {72, 112}, 2},
    {"dedw", {72, 112}, 2},
    {"spatial_convolution3d", {96, 136}, 2},
    {"dedx3d", {96, 136}, 2},
    {"dedw3d", {96, 136}, 2},
    {"transpose", {24, 104}, 2},
    {"concat", {4}, 1},
    {"split", {4}, 1},
    {"expand_dims", {4}, 1},
    {"squeeze", {0, 4}, 2},
    {"flatten", {4}, 1},
    {"slice", {0, 80, 400, 704}, 4},
    {"slice_insert", {0, 80, 400, 704}, 4},
    {"strided_slice_grad", {0, 80, 400, 704}, 4},
    {"slice_bwd", {0, 80, 400, 704}, 4},
    {"slice_axis", {12, 24}, 2},
    {"strided_view", {0, 208}, 2},
    {"strided_insert", {0, 208}, 2},
    {"einsum", {51}, 1},
};

constexpr std::string_view kInternalGuids[] = {
    "memcpy_dma",      "memset_dma",  "memset_tpc",   "transpose_dma", "transpose_mme",
    "transpose_logic", "reduction",   "wait",         "debug",         "concat_internal",
    "split_internal",  "tensor_view", "multi_insert",
};
constexpr std::string_view kInternalPrefixes[] = {"logical_",   "physical_", "dynamic_",
                                                  "serialize_", "cl_aware_", "transposed_dedx"};

// Data movement takes up to kMaxDims dimensions; MME and TPC nodes take five.
constexpr std::string_view kHighRankGuids[] = {"transpose",
                                               "broadcast",
                                               "concat",
                                               "split",
                                               "slice",
                                               "slice_axis",
                                               "reshape",
                                               "flatten",
                                               "static_reshape",
                                               "expand_dims",
                                               "squeeze",
                                               "identity",
                                               "memcpy",
                                               "memset",
                                               "strided_view",
                                               "strided_insert",
                                               "slice_insert",
                                               "slice_bwd",
                                               "strided_slice_grad",
                                               "reinterpret_cast"};

template <typename List>
bool ContainsText(const List& list, std::string_view text) {
  return std::find(std::begin(list), std::end(list), text) != std::end(list);
}

synStatus Incomplete(const Tensor& tensor, const char* what) {
  return Fail(synInvalidArgument, "tensor ", tensor.name, ": ", what);
}

}  // namespace

bool IsInternalGuid(const std::string& guid) {
  if (ContainsText(kInternalGuids, guid)) return true;
  return std::any_of(std::begin(kInternalPrefixes), std::end(kInternalPrefixes),
                     [&](std::string_view prefix) { return guid.rfind(prefix, 0) == 0; });
}

bool IsMmeGuid(const std::string& guid) {
  constexpr std::string_view kFamilies[] = {"gemm", "convolution", "dedx", "dedw"};
  return std::any_of(std::begin(kFamilies), std::end(kFamilies), [&](std::string_view family) {
    return guid.find(family) != std::string::npos;
  });
}

synStatus CheckTensorProperties(const Tensor& tensor, uint64_t max_const_bytes) {
  if (!tensor.rank_set || tensor.rank == 0) return Incomplete(tensor, "has no rank");
  if (tensor.dtype == syn_type_na) return Incomplete(tensor, "has no data type");
  const bool in_const_section = tensor.section != nullptr && tensor.section->is_const;
  if (tensor.persistent()) {
    if (!tensor.max_sizes.has_value()) return Incomplete(tensor, "is persistent without sizes");
  } else if (!tensor.permutation.empty() || tensor.external ||
             tensor.allow_permutation.value_or(false)) {
    return Incomplete(tensor, "permutation and external need a persistent section");
  }
  if (!tensor.permutation.empty() && tensor.permutation.size() != tensor.rank) {
    return Incomplete(tensor, "permutation has another rank");
  }
  if (tensor.is_const()) {
    if (!tensor.max_sizes.has_value()) return Incomplete(tensor, "is constant without sizes");
    if (tensor.host_type != tensor.dtype && tensor.host_type != syn_type_float) {
      return Incomplete(tensor, "constant data is neither of the device type nor float");
    }
    if (tensor.section != nullptr && !in_const_section) {
      return Incomplete(tensor, "constant data in a section that is not const");
    }
    if (tensor.section == nullptr && tensor.host_data->size() > max_const_bytes) {
      return Incomplete(tensor, "constant is too large for the graph: put it in a const section");
    }
  } else if (in_const_section) {
    return Incomplete(tensor, "const section without constant data");
  }
  return synSuccess;
}

synStatus CheckNode(const Node& node, uint32_t params_size) {
  for (const ParamSizes& known : kParamSizes) {
    if (known.guid != node.guid) continue;
    const auto* end = known.sizes.begin() + known.count;
    if (std::find(known.sizes.begin(), end, params_size) == end) {
      return Fail(synInvalidArgument, "node ", node.name, " (", node.guid, "): parameters of ",
                  params_size, " bytes");
    }
  }
  const uint32_t most =
      ContainsText(kHighRankGuids, node.guid) ? SYN_GAUDI_MAX_TENSOR_DIM : kMaxKernelRank;
  for (const auto* list : {&node.inputs, &node.outputs}) {
    for (const std::shared_ptr<Tensor>& tensor : *list) {
      if (tensor != nullptr && tensor->rank > most) {
        return Fail(synInvalidTensorDimensions, "node ", node.name, " (", node.guid, "): tensor ",
                    tensor->name, " has rank ", tensor->rank, ", at most ", most);
      }
    }
  }
  return synSuccess;
}

}  // namespace hpu::emulator
