#include "backend/runtime/recipe_cache.h"

#include <cstring>

#include "backend/runtime/bridge_log.h"
#include "backend/runtime/copy.h"
#include "backend/runtime/counters.h"
#include "backend/runtime/device.h"
#include "backend/runtime/syn_status.h"
#include "synapse/recipe_bytes.h"

namespace hpu::runtime {
namespace {

struct DigestHash {
  size_t operator()(const Digest& digest) const {
    size_t value = 0;
    std::memcpy(&value, digest.data(), sizeof(value));
    return value;
  }
};

struct Cache {
  std::mutex mutex;
  std::unordered_map<Digest, std::weak_ptr<LoadedRecipe>, DigestHash> recipes;
};

Cache& GetCache() {
  static Cache* cache = new Cache;  // outlives every program
  return *cache;
}

}  // namespace

absl::StatusOr<std::shared_ptr<LoadedRecipe>> LoadRecipe(const Digest& digest,
                                                         const std::string& name,
                                                         std::span<const uint8_t> bytes) {
  Cache& cache = GetCache();
  std::lock_guard lock(cache.mutex);
  if (auto found = cache.recipes.find(digest); found != cache.recipes.end()) {
    if (std::shared_ptr<LoadedRecipe> recipe = found->second.lock()) return recipe;
  }
  Device& device = Device::Get();
  RETURN_IF_ERROR(device.EnsureLibrary());
  absl::StatusOr<RecipeHandle> handle = DeserializeRecipe(device.api(), bytes);
  RETURN_IF_ERROR_AT(handle.status(), "recipe " + name);
  std::shared_ptr<LoadedRecipe> recipe(new LoadedRecipe(device, handle->Release(), name));
  ++GetCounters().recipes_alive;
  ++GetCounters().recipes_loaded;
  RETURN_IF_ERROR_AT(recipe->ReadTables(), "recipe " + name);
  BRIDGE_LOG(kSynapse, kDebug,
             "recipe loaded name=" << name << " bytes=" << bytes.size()
                                   << " tensors=" << recipe->tensors().size()
                                   << " workspace=" << recipe->workspace_bytes());
  std::erase_if(cache.recipes, [](const auto& entry) { return entry.second.expired(); });
  cache.recipes[digest] = recipe;
  return recipe;
}

LoadedRecipe::~LoadedRecipe() {
  --GetCounters().recipes_alive;
  if (device_.in_bad_fork()) return;
  if (device_.acquired()) {
    // The recipe must outlive its launches. An error here was or will be reported where that work
    // is waited for.
    if (const absl::Status status = device_.Synchronize(); !status.ok()) {
      BRIDGE_LOG(kSynapse, kWarning, "recipe " << name_ << ": " << ToText(status));
    }
    for (const auto& [section, block] : sections_) device_.allocator().Free(block);
  }
  device_.api().synRecipeDestroy(handle_);
}

absl::Status LoadedRecipe::ReadTables() {
  const SynapseFunctions& api = device_.api();
  RETURN_IF_SYN_ERROR(api, synWorkspaceGetSize, &workspace_bytes_, handle_);
  uint32_t count = 0;
  RETURN_IF_SYN_ERROR(api, synTensorRetrieveLaunchAmount, handle_, &count);
  if (count == 0) return absl::OkStatus();
  std::vector<uint64_t> ids(count);
  RETURN_IF_SYN_ERROR(api, synTensorRetrieveLaunchIds, handle_, ids.data(), count);
  std::vector<synRetrievedLaunchTensorInfo> infos(count);
  for (uint32_t i = 0; i < count; ++i) infos[i].tensorId = ids[i];
  RETURN_IF_SYN_ERROR(api, synTensorRetrieveLaunchInfoById, handle_, count, infos.data());
  tensors_.reserve(count);
  for (const synRetrievedLaunchTensorInfo& info : infos) {
    Tensor tensor;
    tensor.name.assign(info.tensorName, strnlen(info.tensorName, sizeof(info.tensorName)));
    tensor.id = info.tensorId;
    tensor.type = info.tensorType;
    tensor.section = info.tensorSectionId;
    tensor.section_offset = info.tensorOffsetInSection;
    uint64_t is_const = 0;
    if (info.tensorSectionId != INVALID_SECTION_ID &&
        api.synRecipeSectionGetProp(handle_, info.tensorSectionId, IS_CONST, &is_const) ==
            synSuccess) {
      tensor.is_const = is_const != 0;
      has_const_sections_ |= tensor.is_const;
    }
    tensors_.push_back(std::move(tensor));
  }
  return absl::OkStatus();
}

absl::Status LoadedRecipe::PlaceConstSections(Stream& stream) {
  if (!has_const_sections_) return absl::OkStatus();
  std::lock_guard lock(mutex_);
  for (const Tensor& tensor : tensors_) {
    if (!tensor.is_const || sections_.contains(tensor.section)) continue;
    RETURN_IF_ERROR_AT(PlaceSection(stream, tensor.section), "const section of recipe " + name_);
  }
  return absl::OkStatus();
}

absl::Status LoadedRecipe::PlaceSection(Stream& stream, uint32_t section) {
  uint64_t bytes = 0;
  uint64_t host_address = 0;
  RETURN_IF_SYN_ERROR(device_.api(), synRecipeSectionGetProp, handle_, section, SECTION_SIZE,
                      &bytes);
  RETURN_IF_SYN_ERROR(device_.api(), synRecipeSectionGetProp, handle_, section, SECTION_DATA,
                      &host_address);
  if (bytes == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(DeviceBlock* const block, device_.allocator().Allocate(bytes, stream));
  sections_.emplace(section, block);
  RETURN_IF_ERROR(
      CopyToDevice(stream, block->address, reinterpret_cast<const void*>(host_address), bytes));
  return stream.Synchronize();  // any stream may launch the recipe next
}

uint64_t LoadedRecipe::ConstAddress(const Tensor& tensor) const {
  const auto found = sections_.find(tensor.section);
  return found == sections_.end() ? 0 : found->second->address + tensor.section_offset;
}

}  // namespace hpu::runtime
