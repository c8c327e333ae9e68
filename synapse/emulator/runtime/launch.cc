#include "synapse/emulator/runtime/launch.h"

#include <algorithm>
#include <optional>

#include "synapse/emulator/status.h"

namespace hpu::emulator {
namespace {

constexpr uint64_t kNoBase = ~uint64_t{0};

std::optional<uint32_t> FindEntryTensor(const LoadedRecipe& recipe,
                                        const synLaunchTensorInfo& entry, bool by_name) {
  if (!by_name) return recipe.IndexOfId(entry.tensorId);
  if (entry.tensorName == nullptr) return std::nullopt;
  return recipe.FindTensor(entry.tensorName);
}

// Sizes matter for tensors declared dynamic only; recipes are static, so they must be the recipe's.
synStatus CheckEntryShape(const RecipeTensor& tensor, const synLaunchTensorInfo& entry) {
  if (entry.tensorType != tensor.type) {
    return Fail(synInvalidTensorProperties, "tensor ", tensor.name, ": kind ", entry.tensorType,
                " given, recipe has ", tensor.type);
  }
  if (tensor.type != DATA_TENSOR_DYNAMIC) return synSuccess;
  for (size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (entry.tensorSize[i] != tensor.sizes[i]) {
      return Fail(synInvalidTensorProperties, "tensor ", tensor.name, ": size ",
                  entry.tensorSize[i], " in dim ", i, " given, recipe has ", tensor.sizes[i]);
    }
  }
  return synSuccess;
}

// Base address of every section from the entries; kNoBase where no entry gave one.
synStatus CollectBases(const LaunchContext& context, const LaunchTable& table,
                       const LoadedRecipe& recipe, std::vector<uint64_t>* bases,
                       std::vector<bool>* given) {
  const bool by_name = (table.flags & SYN_FLAGS_TENSOR_NAME) != 0;
  for (uint32_t i = 0; i < table.count; ++i) {
    const synLaunchTensorInfo& entry = table.entries[i];
    if (!by_name && entry.tensorId == TENSOR_INVALID_ID) continue;
    const std::optional<uint32_t> index = FindEntryTensor(recipe, entry, by_name);
    if (!index.has_value()) {
      return Fail(
          synFailedSectionValidation, "launch of ", recipe.recipe().name, ": entry ", i,
          by_name ? " names no tensor of the recipe" : " has an id that the recipe does not have");
    }
    const RecipeTensor& tensor = recipe.recipe().tensors[*index];
    SYN_RETURN_IF_FAILED(CheckEntryShape(tensor, entry));
    (*given)[*index] = true;
    if (tensor.type == HOST_TO_DEVICE_TENSOR &&
        !context.mappings->Contains(entry.pTensorAddress, 2 * recipe.tensor_bytes(*index))) {
      return Fail(synMappingNotFound, "tensor ", tensor.name, ": host memory is not mapped");
    }
    if (entry.pTensorAddress == 0) continue;
    if (entry.pTensorAddress < tensor.section_offset) {
      return Fail(synFail, "tensor ", tensor.name, ": address ", entry.pTensorAddress,
                  " lies below its section offset ", tensor.section_offset);
    }
    uint64_t& base = (*bases)[recipe.section_of(*index)];
    const uint64_t own_base = entry.pTensorAddress - tensor.section_offset;
    if (base != kNoBase && base != own_base) {
      return Fail(synFailedSectionValidation, "tensor ", tensor.name, ": section ", tensor.section,
                  " lies at ", base, " for other tensors, at ", own_base, " for this one");
    }
    base = own_base;
  }
  return synSuccess;
}

synStatus CheckPresence(const LoadedRecipe& recipe, const std::vector<uint64_t>& bases,
                        const std::vector<bool>& given) {
  for (uint32_t i = 0; i < recipe.num_tensors(); ++i) {
    const RecipeTensor& tensor = recipe.recipe().tensors[i];
    if (recipe.tensor_bytes(i) == 0) continue;
    if (!given[i]) {
      return Fail(synFailedSectionValidation, "launch of ", recipe.recipe().name, ": tensor ",
                  tensor.name, " is missing");
    }
    if (bases[recipe.section_of(i)] == kNoBase) {
      return Fail(synFailedSectionValidation, "tensor ", tensor.name, ": no tensor of section ",
                  tensor.section, " has an address");
    }
  }
  return synSuccess;
}

bool IsHostSection(const LoadedRecipe& recipe, const RecipeSection& section) {
  return recipe.recipe().tensors[section.tensors.front()].type == HOST_TO_DEVICE_TENSOR;
}

synStatus CheckSections(const LaunchContext& context, const LoadedRecipe& recipe,
                        const std::vector<uint64_t>& bases) {
  const std::vector<RecipeSection>& sections = recipe.sections();
  std::vector<uint32_t> order;
  for (uint32_t s = 0; s < sections.size(); ++s) {
    if (bases[s] == kNoBase || IsHostSection(recipe, sections[s])) continue;
    const uint64_t bytes = sections[s].end - sections[s].begin;
    if (bytes == 0) continue;
    if (!context.memory->Contains(bases[s] + sections[s].begin, bytes)) {
      return Fail(synFailedSectionValidation, "section ", sections[s].id, ": ", bytes, " bytes at ",
                  bases[s] + sections[s].begin, " do not lie in allocated device memory");
    }
    order.push_back(s);
  }
  if (!context.check_overlap) return synSuccess;
  const auto begin = [&](uint32_t s) { return bases[s] + sections[s].begin; };
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return begin(a) < begin(b); });
  for (size_t i = 1; i < order.size(); ++i) {
    if (bases[order[i - 1]] + sections[order[i - 1]].end > begin(order[i])) {
      return Fail(synFailedSectionValidation, "sections ", sections[order[i - 1]].id, " and ",
                  sections[order[i]].id, " overlap at address ", begin(order[i]));
    }
  }
  return synSuccess;
}

}  // namespace

synStatus BindLaunch(const LaunchContext& context, const LaunchTable& table,
                     LaunchRequest* request) {
  const LoadedRecipe& recipe = *request->recipe;
  if (recipe.recipe().device_type != context.device_type) {
    return Fail(synInvalidArgument, "recipe ", recipe.recipe().name, " is for device type ",
                recipe.recipe().device_type, ", the device has type ", context.device_type);
  }
  const uint64_t workspace_bytes = recipe.recipe().workspace_bytes;
  if (workspace_bytes != 0 && !context.memory->Contains(table.workspace, workspace_bytes)) {
    return Fail(synFailedSectionValidation, "workspace: ", workspace_bytes, " bytes at ",
                table.workspace, " do not lie in allocated device memory");
  }
  if (table.workspace % DeviceMemory::kAlignment != 0) {
    return Fail(synInvalidArgument, "workspace address ", table.workspace, " is not a multiple of ",
                DeviceMemory::kAlignment);
  }
  std::vector<uint64_t> bases(recipe.sections().size(), kNoBase);
  std::vector<bool> given(recipe.num_tensors(), false);
  SYN_RETURN_IF_FAILED(CollectBases(context, table, recipe, &bases, &given));
  SYN_RETURN_IF_FAILED(CheckPresence(recipe, bases, given));
  SYN_RETURN_IF_FAILED(CheckSections(context, recipe, bases));
  request->workspace = table.workspace;
  request->addresses.resize(recipe.num_tensors());
  for (uint32_t i = 0; i < recipe.num_tensors(); ++i) {
    const uint64_t base = bases[recipe.section_of(i)];
    request->addresses[i] = base == kNoBase ? 0 : base + recipe.recipe().tensors[i].section_offset;
  }
  return synSuccess;
}

}  // namespace hpu::emulator
