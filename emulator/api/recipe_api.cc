// Recipes and their tables (reference 1.11, 4.6, 4.7).
#include <cstring>
#include <fstream>

#include "emulator/api/lookup.h"
#include "recipe/isa.h"
#include "synapse/include/synapse_api.h"
#include "synapse/include/synapse_emulator.h"

using namespace hpu::emulator;  // NOLINT

namespace {

synStatus LoadRecipe(std::span<const uint8_t> bytes, synRecipeHandle* handle) {
  Library& library = Library::Get();
  SYN_RETURN_IF_FAILED(library.faults().Check(FaultPoint::kDeserialize));
  absl::StatusOr<hpu::Recipe> recipe = hpu::DecodeRecipe(bytes);
  if (!recipe.ok()) return Fail(synWrongParamsFile, recipe.status().message());
  *handle = library.AddRecipe(std::move(recipe).value());
  return synSuccess;
}

void CopyName(const std::string& name, char* out) {
  std::memset(out, 0, ENQUEUE_TENSOR_NAME_MAX_SIZE);
  std::memcpy(out, name.data(), std::min<size_t>(name.size(), ENQUEUE_TENSOR_NAME_MAX_SIZE - 1));
}

void FillInfo(const LoadedRecipe& recipe, uint32_t index, synRetrievedLaunchTensorInfo* info) {
  const hpu::RecipeTensor& tensor = recipe.recipe().tensors[index];
  *info = synRetrievedLaunchTensorInfo{};
  CopyName(tensor.name, info->tensorName);
  info->tensorId = recipe.tensor_id(index);
  info->tensorType = tensor.type;
  info->tensorDataType = tensor.dtype;
  info->tensorDims = static_cast<uint32_t>(tensor.sizes.size());
  std::copy(tensor.sizes.begin(), tensor.sizes.end(), info->tensorMaxSize);
  std::copy(tensor.sizes.begin(), tensor.sizes.end(), info->tensorMinSize);
  for (uint8_t i = 0; i < HABANA_DIM_MAX; ++i) {
    info->tensorPermutation[i] = i < tensor.permutation.size() ? tensor.permutation[i] : i;
  }
  info->tensorSectionId = tensor.section;
  info->tensorOffsetInSection = tensor.section_offset;
  info->isInput = tensor.is_input ? 1 : 0;
}

void FillMetadata(const LoadedRecipe& recipe, uint32_t index, TensorMetadataInfo* info) {
  const hpu::RecipeTensor& tensor = recipe.recipe().tensors[index];
  const char* name = info->tensorName;
  *info = TensorMetadataInfo{};
  info->tensorName = name;
  info->elementType = tensor.dtype;
  info->scale = 1.0;
  info->dimensions = static_cast<uint32_t>(tensor.sizes.size());
  std::copy(tensor.sizes.begin(), tensor.sizes.end(), info->dimensionsSize);
  info->roiSizeInBytes = recipe.tensor_bytes(index);
  info->batchSize = 1;
  info->isInput = tensor.is_input ? 1 : 0;
  info->sectionId = tensor.section;
  info->offsetInSection = tensor.section_offset;
}

synStatus GetAttribute(LoadedRecipe& recipe, synRecipeAttribute attribute, uint64_t* value) {
  uint64_t const_bytes = 0;
  {
    std::lock_guard lock(recipe.const_mutex());
    for (const auto& [id, section] : recipe.const_sections()) const_bytes += section.size;
  }
  uint64_t persistent_bytes = 0;
  for (uint32_t i = 0; i < recipe.num_tensors(); ++i) persistent_bytes += recipe.tensor_bytes(i);
  const hpu::Recipe& content = recipe.recipe();
  switch (attribute) {
    case RECIPE_ATTRIBUTE_WORKSPACE_SIZE:
      *value = content.workspace_bytes;
      return synSuccess;
    case RECIPE_ATTRIBUTE_NUM_PERSISTENT_TENSORS:
      *value = recipe.num_tensors();
      return synSuccess;
    case RECIPE_ATTRIBUTE_HOST_MEM_SIZE:
      *value = content.code.size() + content.constants.size() + const_bytes;
      return synSuccess;
    case RECIPE_ATTRIBUTE_NUM_EXTERNAL_TENSORS:
      *value = recipe.external_tensors().size();
      return synSuccess;
    case RECIPE_ATTRIBUTE_PERSISTENT_TENSORS_SIZE:
      *value = persistent_bytes;
      return synSuccess;
    case RECIPE_ATTRIBUTE_CONST_SECTIONS_SIZE:
      *value = const_bytes;
      return synSuccess;
    case RECIPE_ATTRIBUTE_DEVICE_MEMORY_SIZE:
      *value = content.workspace_bytes + persistent_bytes;
      return synSuccess;
    case RECIPE_ATTRIBUTE_MAX:
      break;
  }
  return Fail(synInvalidArgument, "no recipe attribute has the number ", attribute);
}

}  // namespace

synStatus synRecipeSerialize(synRecipeHandle handle, const char* path) {
  return RecipeCall(handle, [&](LoadedRecipe& recipe) -> synStatus {
    SYN_REQUIRE_ARGUMENT(path != nullptr);
    const hpu::Bytes bytes = recipe.Encode();
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    file.close();
    if (!file) return Fail(synWrongParamsFile, "cannot write the recipe file ", path);
    return synSuccess;
  });
}

synStatus synRecipeDeSerialize(synRecipeHandle* handle, const char* path) {
  return Call([&]() -> synStatus {
    SYN_REQUIRE_ARGUMENT(handle != nullptr && path != nullptr);
    *handle = nullptr;
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    hpu::Bytes bytes(file ? static_cast<size_t>(file.tellg()) : 0);
    file.seekg(0);
    file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!file) {
      return Fail(synWrongParamsFile, "cannot read the recipe file ", path);
    }
    return LoadRecipe(bytes, handle);
  });
}

synStatus synEmulatorRecipeDeserialize(synRecipeHandle* handle, const void* bytes, size_t size) {
  return Call([&]() -> synStatus {
    SYN_RETURN_IF_FAILED(CheckNotStrict());
    SYN_REQUIRE_ARGUMENT(handle != nullptr && (bytes != nullptr || size == 0));
    *handle = nullptr;
    return LoadRecipe({static_cast<const uint8_t*>(bytes), size}, handle);
  });
}

synStatus synEmulatorRecipeGetIsaLevel(synRecipeHandle handle, char* buffer, size_t length) {
  return RecipeCall(handle, [&](LoadedRecipe& recipe) -> synStatus {
    const std::string_view name = IsaLevelName(recipe.recipe().isa);
    SYN_REQUIRE_ARGUMENT(buffer != nullptr && length > name.size());
    std::memcpy(buffer, name.data(), name.size());
    buffer[name.size()] = '\0';
    return synSuccess;
  });
}

synStatus synRecipeDestroy(synRecipeHandle handle) {
  return RecipeCall(handle, [&](LoadedRecipe& recipe) {
    if (Library::Get().strict() && recipe.queued() != 0) {
      return Fail(synBusy, "recipe ", recipe.recipe().name, " must outlive its launches, of which ",
                  recipe.queued(), " have not ended");
    }
    Library::Get().recipes().Remove(handle);
    return synSuccess;
  });
}

synStatus synRecipeGetAttribute(uint64_t* values, const synRecipeAttribute* attributes,
                                unsigned count, synRecipeHandle handle) {
  return RecipeCall(handle, [&](LoadedRecipe& recipe) -> synStatus {
    SYN_REQUIRE_ARGUMENT(values != nullptr && attributes != nullptr);
    for (unsigned i = 0; i < count; ++i) {
      SYN_RETURN_IF_FAILED(GetAttribute(recipe, attributes[i], &values[i]));
    }
    return synSuccess;
  });
}

synStatus synWorkspaceGetSize(uint64_t* size, synRecipeHandle handle) {
  return RecipeCall(handle, [&](LoadedRecipe& recipe) -> synStatus {
    SYN_REQUIRE_ARGUMENT(size != nullptr);
    *size = recipe.recipe().workspace_bytes;
    return synSuccess;
  });
}

synStatus synRecipeSectionGetProp(synRecipeHandle handle, synSectionId id, synSectionProp property,
                                  uint64_t* value) {
  return RecipeCall(handle, [&](LoadedRecipe& recipe) -> synStatus {
    SYN_REQUIRE_ARGUMENT(value != nullptr && property <= IS_CONST);
    std::lock_guard lock(recipe.const_mutex());
    const auto found = recipe.const_sections().find(id);
    if (property == IS_CONST) {
      *value = found != recipe.const_sections().end() ? 1 : 0;
      return synSuccess;
    }
    if (found == recipe.const_sections().end()) {
      return Fail(synFail, "the recipe has no const section ", id);
    }
    if (property == SECTION_SIZE) {
      *value = found->second.size;
      return synSuccess;
    }
    if (found->second.data == nullptr) {
      *value = INVALID_CONST_SECTION_DATA;
      return Fail(synInvalidArgument, "the data of const section ", id, " was handed over");
    }
    *value = reinterpret_cast<uint64_t>(found->second.data.get());
    return synSuccess;
  });
}

synStatus synRecipeSectionHostBuffersClear(synRecipeHandle handle, const synSectionId* sections,
                                           size_t count) {
  return RecipeCall(handle, [&](LoadedRecipe& recipe) -> synStatus {
    SYN_REQUIRE_ARGUMENT(count == 0 || sections != nullptr);
    std::lock_guard lock(recipe.const_mutex());
    for (size_t i = 0; i < count; ++i) {
      if (recipe.const_sections().count(sections[i]) == 0) {
        return Fail(synFail, "the recipe has no const section ", sections[i]);
      }
    }
    for (size_t i = 0; i < count; ++i) {
      // The client has the address and frees it with delete[].
      static_cast<void>(recipe.const_sections()[sections[i]].data.release());
    }
    return synSuccess;
  });
}

synStatus synTensorRetrieveLaunchAmount(synRecipeHandle handle, uint32_t* count) {
  return RecipeCall(handle, [&](LoadedRecipe& recipe) -> synStatus {
    SYN_REQUIRE_ARGUMENT(count != nullptr);
    *count = recipe.num_tensors();
    return synSuccess;
  });
}

synStatus synTensorRetrieveLaunchIds(synRecipeHandle handle, uint64_t* ids, uint32_t count) {
  return RecipeCall(handle, [&](LoadedRecipe& recipe) -> synStatus {
    SYN_REQUIRE_ARGUMENT(count == 0 || ids != nullptr);
    if (count != recipe.num_tensors()) {
      return Fail(synFail, "the recipe has ", recipe.num_tensors(), " tensors, not ", count);
    }
    for (uint32_t i = 0; i < count; ++i) ids[i] = recipe.tensor_id(i);
    return synSuccess;
  });
}

synStatus synTensorRetrieveLaunchInfoById(synRecipeHandle handle, uint32_t count,
                                          synRetrievedLaunchTensorInfo* infos) {
  return RecipeCall(handle, [&](LoadedRecipe& recipe) -> synStatus {
    SYN_REQUIRE_ARGUMENT(count == 0 || infos != nullptr);
    for (uint32_t i = 0; i < count; ++i) {
      const std::optional<uint32_t> index = recipe.IndexOfId(infos[i].tensorId);
      if (index.has_value()) {
        FillInfo(recipe, *index, &infos[i]);
      } else {
        infos[i].tensorType = TENSOR_TYPE_INVALID;
      }
    }
    return synSuccess;
  });
}

synStatus synTensorRetrieveLaunchInfoByIdExt(synRecipeHandle recipe, uint32_t count,
                                             synRetrievedLaunchTensorInfoExt* infos) {
  return synTensorRetrieveLaunchInfoById(recipe, count, infos);
}

synStatus synTensorRetrieveMultiLaunchInfosById(synRecipeHandle handle, uint64_t id,
                                                synRetrievedLaunchTensorInfo* infos,
                                                uint32_t* count) {
  return RecipeCall(handle, [&](LoadedRecipe& recipe) -> synStatus {
    SYN_REQUIRE_ARGUMENT(count != nullptr);
    const std::optional<uint32_t> index = recipe.IndexOfId(id);
    const uint32_t found = index.has_value() ? 1 : 0;
    if (infos != nullptr && found != 0) {
      SYN_REQUIRE_ARGUMENT(*count >= found);
      FillInfo(recipe, *index, infos);
    }
    *count = found;
    return synSuccess;
  });
}

synStatus synTensorRetrieveIds(synRecipeHandle handle, const char** names, uint64_t* ids,
                               uint32_t count) {
  return RecipeCall(handle, [&](LoadedRecipe& recipe) -> synStatus {
    SYN_REQUIRE_ARGUMENT(count == 0 || (names != nullptr && ids != nullptr));
    for (uint32_t i = 0; i < count; ++i) {
      const std::optional<uint32_t> index =
          names[i] == nullptr ? std::nullopt : recipe.FindTensor(names[i]);
      ids[i] = index.has_value() ? recipe.tensor_id(*index) : TENSOR_INVALID_ID;
    }
    return synSuccess;
  });
}

synStatus synTensorRetrievePersistentAmount(synRecipeHandle recipe, uint32_t* count) {
  return synTensorRetrieveLaunchAmount(recipe, count);
}

synStatus synTensorRetrieveNames(synRecipeHandle handle, char names[][ENQUEUE_TENSOR_NAME_MAX_SIZE],
                                 uint32_t count) {
  return RecipeCall(handle, [&](LoadedRecipe& recipe) -> synStatus {
    SYN_REQUIRE_ARGUMENT(count == 0 || names != nullptr);
    if (count != recipe.num_tensors()) {
      return Fail(synFail, "the recipe has ", recipe.num_tensors(), " tensors, not ", count);
    }
    for (uint32_t i = 0; i < count; ++i) CopyName(recipe.recipe().tensors[i].name, names[i]);
    return synSuccess;
  });
}

synStatus synTensorRetrieveInfosByName(synRecipeHandle handle, uint32_t count,
                                       TensorMetadataInfo* infos) {
  return RecipeCall(handle, [&](LoadedRecipe& recipe) -> synStatus {
    SYN_REQUIRE_ARGUMENT(count == 0 || infos != nullptr);
    for (uint32_t i = 0; i < count; ++i) {
      SYN_REQUIRE_ARGUMENT(infos[i].tensorName != nullptr);
      const std::optional<uint32_t> index = recipe.FindTensor(infos[i].tensorName);
      if (!index.has_value()) {
        return Fail(synInvalidArgument, "the recipe has no tensor ", infos[i].tensorName);
      }
      FillMetadata(recipe, *index, &infos[i]);
    }
    return synSuccess;
  });
}

synStatus synTensorRetrieveInfosByNameExt(synRecipeHandle recipe, uint32_t count,
                                          TensorMetadataInfoExt* infos) {
  return synTensorRetrieveInfosByName(recipe, count, infos);
}

synStatus synTensorExtExtractExecutionOrder(synRecipeHandle handle, uint32_t count, uint64_t* ids) {
  return RecipeCall(handle, [&](LoadedRecipe& recipe) -> synStatus {
    SYN_REQUIRE_ARGUMENT(count == 0 || ids != nullptr);
    const std::vector<uint32_t>& external = recipe.external_tensors();
    for (uint32_t i = 0; i < count; ++i) {
      ids[i] = i < external.size() ? recipe.tensor_id(external[i]) : uint64_t{0xFFFFFFFF};
    }
    return synSuccess;
  });
}
