#include "emulator/runtime/launch.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "emulator/base/status.h"

namespace hpu::emulator {
namespace {

constexpr uint64_t kNoBase = ~uint64_t{0};

std::optional<uint32_t> FindEntryTensor(const LoadedRecipe& recipe,
                                        const synLaunchTensorInfo& entry, bool by_name) {
  if (!by_name) return recipe.IndexOfId(entry.tensorId);
  if (entry.tensorName == nullptr) return std::nullopt;
  return recipe.FindTensor(entry.tensorName);
}

// Sizes matter only for tensors that are declared dynamic. Recipes are static, so the sizes must be
// the recipe's.
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

// Collects the base address of every section from the entries; it is kNoBase where no entry gives
// one.
synStatus CollectBases(const LaunchContext& context, const LaunchTable& table,
                       const LoadedRecipe& recipe, BindingMemo* memo) {
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
    memo->given[*index] = true;
    if (tensor.type == HOST_TO_DEVICE_TENSOR &&
        !context.mappings->Contains(entry.pTensorAddress, 2 * recipe.tensor_bytes(*index))) {
      return Fail(synMappingNotFound, "tensor ", tensor.name, ": host memory is not mapped");
    }
    if (entry.pTensorAddress == 0) continue;
    if (entry.pTensorAddress < tensor.section_offset) {
      return Fail(synFail, "tensor ", tensor.name, ": address ", entry.pTensorAddress,
                  " lies below its section offset ", tensor.section_offset);
    }
    uint64_t& base = memo->bases[recipe.section_of(*index)];
    const uint64_t own_base = entry.pTensorAddress - tensor.section_offset;
    if (base != kNoBase && base != own_base) {
      return Fail(synFailedSectionValidation, "tensor ", tensor.name, ": section ", tensor.section,
                  " lies at ", base, " for other tensors, at ", own_base, " for this one");
    }
    base = own_base;
  }
  return synSuccess;
}

synStatus CheckPresence(const LoadedRecipe& recipe, const BindingMemo& memo) {
  for (uint32_t i = 0; i < recipe.num_tensors(); ++i) {
    const RecipeTensor& tensor = recipe.recipe().tensors[i];
    if (recipe.tensor_bytes(i) == 0) continue;
    if (!memo.given[i]) {
      return Fail(synFailedSectionValidation, "launch of ", recipe.recipe().name, ": tensor ",
                  tensor.name, " is missing");
    }
    if (memo.bases[recipe.section_of(i)] == kNoBase) {
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
                        BindingMemo* memo) {
  const std::vector<RecipeSection>& sections = recipe.sections();
  memo->placements.clear();
  for (uint32_t s = 0; s < sections.size(); ++s) {
    if (memo->bases[s] == kNoBase || IsHostSection(recipe, sections[s])) continue;
    const uint64_t bytes = sections[s].end - sections[s].begin;
    if (bytes == 0) continue;
    const uint64_t first = memo->bases[s] + sections[s].begin;
    if (!context.memory->Contains(first, bytes)) {
      return Fail(synFailedSectionValidation, "section ", sections[s].id, ": ", bytes, " bytes at ",
                  first, " do not lie in allocated device memory");
    }
    memo->placements.emplace_back(first, s);
  }
  if (!context.check_overlap) return synSuccess;
  std::sort(memo->placements.begin(), memo->placements.end());
  for (size_t i = 1; i < memo->placements.size(); ++i) {
    const auto& [begin, section] = memo->placements[i];
    const RecipeSection& before = sections[memo->placements[i - 1].second];
    if (memo->bases[memo->placements[i - 1].second] + before.end > begin) {
      return Fail(synFailedSectionValidation, "sections ", before.id, " and ", sections[section].id,
                  " overlap at address ", begin);
    }
  }
  return synSuccess;
}

constexpr size_t kMostChanges = 16;  // with more changes the whole table is checked

// Returns whether everything except the addresses of memo->changed is as remembered.
bool FindChanges(const LaunchContext& context, const LaunchTable& table, BindingMemo* memo) {
  if (memo->bound == nullptr || table.flags != 0 || table.count != memo->entries.size() ||
      table.workspace != memo->bound->workspace || context.memory->epoch() != memo->memory_epoch ||
      context.device_type != memo->device_type || context.check_overlap != memo->check_overlap) {
    return false;
  }
  memo->changed.clear();
  for (uint32_t i = 0; i < table.count; ++i) {
    const BindingMemo::Entry& known = memo->entries[i];
    const synLaunchTensorInfo& entry = table.entries[i];
    if (entry.tensorId != known.id || entry.tensorType != known.type) return false;
    if (entry.pTensorAddress == known.address) continue;
    if (memo->entry_of.empty() || memo->changed.size() == kMostChanges) return false;
    memo->changed.push_back(i);
  }
  return true;
}

// Moves a section to the address that its tensors' entries give. Returns false if they do not agree
// or the section may not lie there; the memo must not be used any more in that case.
bool MoveSection(const LaunchContext& context, const LaunchTable& table, const LoadedRecipe& recipe,
                 uint32_t index, BindingMemo* memo, std::vector<uint64_t>* addresses) {
  const RecipeSection& section = recipe.sections()[index];
  uint64_t base = kNoBase;
  for (const uint32_t tensor : section.tensors) {
    const uint64_t address = table.entries[memo->entry_of[tensor]].pTensorAddress;
    const uint64_t offset = recipe.recipe().tensors[tensor].section_offset;
    if (address == 0 || address < offset) return false;
    if (base != kNoBase && base != address - offset) return false;
    base = address - offset;
    (*addresses)[tensor] = address;
  }
  const uint64_t old_first = memo->bases[index] + section.begin;
  const uint64_t first = base + section.begin;
  const uint64_t bytes = section.end - section.begin;
  memo->bases[index] = base;
  if (bytes == 0 || first == old_first) return true;
  if (!context.memory->Contains(first, bytes)) return false;
  if (!context.check_overlap) return true;
  auto& placements = memo->placements;
  placements.erase(
      std::lower_bound(placements.begin(), placements.end(), std::pair{old_first, index}));
  const auto place = placements.insert(
      std::lower_bound(placements.begin(), placements.end(), std::pair{first, index}),
      {first, index});
  const auto end_of = [&](uint32_t s) { return memo->bases[s] + recipe.sections()[s].end; };
  const auto next = std::next(place);
  return (place == placements.begin() || end_of(std::prev(place)->second) <= first) &&
         (next == placements.end() || first + bytes <= next->first);
}

// Returns the remembered table with those sections moved whose addresses changed. Returns null if
// some check failed; CheckTable then explains the failure.
std::shared_ptr<const BoundTable> ApplyChanges(const LaunchContext& context,
                                               const LaunchTable& table, const LoadedRecipe& recipe,
                                               BindingMemo* memo) {
  if (memo->changed.empty()) return memo->bound;
  auto bound = std::make_shared<BoundTable>(*memo->bound);
  // Sections move one after the other. One that moves to a place where another still is fails here;
  // the check of the whole table then accepts it.
  for (const uint32_t i : memo->changed) {
    const std::optional<uint32_t> tensor = recipe.IndexOfId(memo->entries[i].id);
    if (!MoveSection(context, table, recipe, recipe.section_of(*tensor), memo, &bound->addresses)) {
      return nullptr;
    }
    memo->entries[i].address = table.entries[i].pTensorAddress;
  }
  return bound;
}

void Remember(const LaunchContext& context, const LaunchTable& table, const LoadedRecipe& recipe,
              uint64_t memory_epoch, BindingMemo* memo) {
  memo->memory_epoch = memory_epoch;
  memo->device_type = context.device_type;
  memo->check_overlap = context.check_overlap;
  memo->entries.resize(table.count);
  memo->entry_of.clear();
  const bool one_each =
      table.count == recipe.num_tensors() &&
      std::all_of(memo->given.begin(), memo->given.end(), [](bool given) { return given; });
  if (one_each) memo->entry_of.resize(table.count);
  for (uint32_t i = 0; i < table.count; ++i) {
    const synLaunchTensorInfo& entry = table.entries[i];
    memo->entries[i] = {entry.tensorId, entry.pTensorAddress, entry.tensorType};
    if (one_each) memo->entry_of[*recipe.IndexOfId(entry.tensorId)] = i;
  }
}

synStatus CheckTable(const LaunchContext& context, const LaunchTable& table,
                     const LoadedRecipe& recipe, BindingMemo* memo) {
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
  memo->bases.assign(recipe.sections().size(), kNoBase);
  memo->given.assign(recipe.num_tensors(), false);
  SYN_RETURN_IF_FAILED(CollectBases(context, table, recipe, memo));
  SYN_RETURN_IF_FAILED(CheckPresence(recipe, *memo));
  return CheckSections(context, recipe, memo);
}

std::shared_ptr<const BoundTable> MakeBoundTable(const LoadedRecipe& recipe,
                                                 const LaunchTable& table,
                                                 const std::vector<uint64_t>& bases) {
  auto bound = std::make_shared<BoundTable>();
  bound->workspace = table.workspace;
  bound->addresses.resize(recipe.num_tensors());
  for (uint32_t i = 0; i < recipe.num_tensors(); ++i) {
    const uint64_t base = bases[recipe.section_of(i)];
    bound->addresses[i] = base == kNoBase ? 0 : base + recipe.recipe().tensors[i].section_offset;
  }
  return bound;
}

}  // namespace

synStatus BindLaunch(const LaunchContext& context, const LaunchTable& table,
                     LaunchRequest* request) {
  LoadedRecipe& recipe = *request->recipe;
  BindingMemo& memo = recipe.binding_memo();
  std::lock_guard lock(memo.mutex);
  if (FindChanges(context, table, &memo)) {
    request->table = ApplyChanges(context, table, recipe, &memo);
    if (request->table != nullptr) {
      memo.bound = request->table;
      return synSuccess;
    }
  }
  memo.bound = nullptr;
  const uint64_t memory_epoch = context.memory->epoch();
  SYN_RETURN_IF_FAILED(CheckTable(context, table, recipe, &memo));
  request->table = MakeBoundTable(recipe, table, memo.bases);
  if (table.flags == 0 && recipe.has_plain_tables()) {
    Remember(context, table, recipe, memory_epoch, &memo);
    memo.bound = request->table;
  }
  return synSuccess;
}

}  // namespace hpu::emulator
