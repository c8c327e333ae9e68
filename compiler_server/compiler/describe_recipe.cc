#include "compiler_server/compiler/describe_recipe.h"

#include <algorithm>
#include <sstream>

#include "base/dtype.h"
#include "base/hash.h"
#include "compiler_server/lowering/syn_graph.h"
#include "synapse/recipe_bytes.h"

namespace hpu::compiler {
namespace {

std::string TypeName(synDataType type) {
  for (int i = 1; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    // Booleans are int8 on the device, and follow int8 in the list of types.
    if (DeviceType(dtype) == type) return std::string(DTypeName(dtype));
  }
  return std::to_string(static_cast<int>(type));
}

RecipeTensorInfo TensorInfo(const synRetrievedLaunchTensorInfo& raw) {
  RecipeTensorInfo info;
  info.name = raw.tensorName;
  info.dtype = TypeName(raw.tensorDataType);
  info.sizes.assign(raw.tensorMaxSize,
                    raw.tensorMaxSize + std::min<uint32_t>(raw.tensorDims, HABANA_DIM_MAX));
  std::reverse(info.sizes.begin(), info.sizes.end());
  info.section = raw.tensorSectionId;
  info.section_offset = raw.tensorOffsetInSection;
  info.is_input = raw.isInput != 0;
  return info;
}

absl::Status ReadTensors(const SynapseFunctions& functions, synRecipeHandle recipe,
                         RecipeInfo* info) {
  uint32_t count = 0;
  RETURN_IF_ERROR(ToStatus(functions, functions.synTensorRetrieveLaunchAmount(recipe, &count),
                           "synTensorRetrieveLaunchAmount"));
  std::vector<uint64_t> ids(count);
  RETURN_IF_ERROR(ToStatus(functions,
                           functions.synTensorRetrieveLaunchIds(recipe, ids.data(), count),
                           "synTensorRetrieveLaunchIds"));
  std::vector<synRetrievedLaunchTensorInfo> raw(count);
  for (uint32_t i = 0; i < count; ++i) raw[i].tensorId = ids[i];
  RETURN_IF_ERROR(ToStatus(functions,
                           functions.synTensorRetrieveLaunchInfoById(recipe, count, raw.data()),
                           "synTensorRetrieveLaunchInfoById"));
  for (const synRetrievedLaunchTensorInfo& tensor : raw)
    info->tensors.push_back(TensorInfo(tensor));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RecipeInfo> DescribeRecipe(const SynapseFunctions& functions,
                                          std::span<const uint8_t> recipe) {
  ASSIGN_OR_RETURN(const RecipeHandle handle, DeserializeRecipe(functions, recipe));
  RecipeInfo info;
  info.digest = ToHex(Sha256(recipe));
  info.size_bytes = recipe.size();
  constexpr synRecipeAttribute kAttributes[] = {RECIPE_ATTRIBUTE_WORKSPACE_SIZE,
                                                RECIPE_ATTRIBUTE_PERSISTENT_TENSORS_SIZE,
                                                RECIPE_ATTRIBUTE_HOST_MEM_SIZE};
  uint64_t values[std::size(kAttributes)] = {};
  RETURN_IF_ERROR(ToStatus(
      functions,
      functions.synRecipeGetAttribute(values, kAttributes, std::size(kAttributes), handle.get()),
      "synRecipeGetAttribute"));
  info.workspace_bytes = values[0];
  info.persistent_bytes = values[1];
  info.host_bytes = values[2];
  if (functions.is_emulator()) {
    char level[32] = "";
    RETURN_IF_ERROR(ToStatus(
        functions, functions.synEmulatorRecipeGetIsaLevel(handle.get(), level, sizeof(level)),
        "synEmulatorRecipeGetIsaLevel"));
    info.isa_level = level;
  }
  RETURN_IF_ERROR(ReadTensors(functions, handle.get(), &info));
  return info;
}

std::string PrintRecipe(const RecipeInfo& info) {
  std::ostringstream text;
  text << "recipe " << info.digest << ": " << info.size_bytes << " bytes, workspace "
       << info.workspace_bytes << " bytes";
  if (!info.isa_level.empty()) text << ", code for " << info.isa_level;
  text << "\n";
  for (const RecipeTensorInfo& tensor : info.tensors) {
    text << "  " << (tensor.is_input ? "in  " : "out ") << tensor.name << ": " << tensor.dtype
         << "[";
    for (size_t i = 0; i < tensor.sizes.size(); ++i) text << (i == 0 ? "" : ",") << tensor.sizes[i];
    text << "] in section " << tensor.section;
    if (tensor.section_offset != 0) text << " + " << tensor.section_offset << " bytes";
    text << "\n";
  }
  return text.str();
}

}  // namespace hpu::compiler
