// A recipe behind a synRecipeHandle: the decoded container and the data that launches need
// precomputed, as well as the code image and constants, which are mapped when the first launch asks
// for them (a compile server never does).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "emulator/base/aligned_buffer.h"
#include "emulator/runtime/bound_table.h"
#include "emulator/runtime/code_image.h"
#include "emulator/runtime/custom_kernel.h"
#include "emulator/runtime/pack_cache.h"
#include "recipe/recipe.h"

namespace hpu::emulator {

// The tensors of one section share one base address.
struct RecipeSection {
  uint32_t id = 0;
  // Lowest byte, relative to the base, that a tensor covers; `end` is the highest.
  uint64_t begin = 0;
  uint64_t end = 0;
  std::vector<uint32_t> tensors;
};

// The client-visible bytes of a const section. Their owner frees them with delete[].
struct ConstSectionData {
  uint64_t size = 0;
  std::unique_ptr<uint8_t[]> data;  // null after synRecipeSectionHostBuffersClear
};

class LoadedRecipe {
 public:
  // Takes a valid recipe (from DecodeRecipe or the graph compiler).
  explicit LoadedRecipe(Recipe recipe);
  ~LoadedRecipe();

  const Recipe& recipe() const { return recipe_; }
  uint32_t num_tensors() const { return static_cast<uint32_t>(recipe_.tensors.size()); }
  uint64_t tensor_bytes(uint32_t index) const { return tensor_bytes_[index]; }
  // Returns the position in sections() of a tensor's section.
  uint32_t section_of(uint32_t tensor) const { return section_of_[tensor]; }
  const std::vector<RecipeSection>& sections() const { return sections_; }
  // Returns the index in the launch table by name, or nullopt if the name is unknown.
  std::optional<uint32_t> FindTensor(const std::string& name) const;
  uint64_t tensor_id(uint32_t index) const {
    return SYN_TENSOR_ID(index, recipe_.tensors[index].type);
  }
  // Returns nullopt unless index and kind both fit.
  std::optional<uint32_t> IndexOfId(uint64_t id) const;

  // These are the external tensors in the order in which they become ready and, aligned with it,
  // the number of kernels that must have run for each.
  const std::vector<uint32_t>& external_tensors() const { return external_; }
  const std::vector<uint32_t>& external_ready_after() const { return external_ready_after_; }
  // Returns the indices of tensors that some kernel writes.
  const std::vector<uint32_t>& written_tensors() const { return written_; }
  // Returns the indices of tensors that some kernel reads or writes in place, not in a packed copy.
  const std::vector<uint32_t>& direct_tensors() const { return direct_; }
  // Returns whether the packed operand's source may leave memory: its copy can restore it, no
  // kernel of this recipe needs it, and it is large enough.
  bool can_evict_source(uint32_t packed) const { return evictable_[packed]; }

  // Returns whether id, kind and address alone decide an entry of a launch table: there are no
  // sizes and no host memory.
  bool has_plain_tables() const { return plain_tables_; }
  BindingMemo& binding_memo() { return binding_memo_; }

  // Returns the indices of tensors that the prologue reads, packed or in place.
  const std::vector<uint32_t>& prologue_tensors() const { return prologue_tensors_; }

  uint64_t max_scratch_bytes() const { return max_scratch_bytes_; }
  // Returns the first operand of kernel `k` in a table of all operands, kernel after kernel.
  uint32_t first_operand(uint32_t kernel) const { return first_operand_[kernel]; }
  uint32_t num_operands() const { return first_operand_.back(); }
  // Returns whether the kernel is too small to be worth waking the other threads.
  bool runs_on_one_thread(uint32_t kernel) const { return one_thread_[kernel]; }

  // Maps code and constants, and finds custom kernels; later calls cost an atomic load. Returns
  // FAILED_PRECONDITION if the recipe needs a higher ISA level than this host has, and errors of
  // PreparedKernel::Prepare.
  absl::Status EnsureExecutable();
  // Returns the kernel of an entry of Recipe::custom_kernels, once the recipe is executable.
  const PreparedKernel& custom_kernel(uint32_t index) const { return custom_kernels_[index]; }
  KernelFunction function(uint32_t entry) const { return code_->function(entry); }
  const std::shared_ptr<CodeImage>& code() const { return code_; }
  const uint8_t* constants() const { return constants_.data(); }

  // Returns the const sections by id. Callers hold const_mutex().
  std::map<uint32_t, ConstSectionData>& const_sections() { return const_sections_; }
  std::mutex& const_mutex() { return const_mutex_; }

  // Returns the container as it would be written now (const sections that were handed over are
  // empty).
  Bytes Encode();

  // The packed copies that the last launch of this recipe used, as a shortcut past the cache's
  // table.
  struct PackMemo {
    uint64_t address = 0;
    std::weak_ptr<PackedCopy> copy;
  };
  std::vector<PackMemo>& pack_memo() { return pack_memo_; }
  // The results of the prologue in the last launch, and where its tensors lay at that time.
  struct KeptMemo {
    std::vector<uint64_t> addresses;
    std::weak_ptr<PackedCopy> copy;
  };
  KeptMemo& kept_memo() { return kept_memo_; }
  // The last table whose direct tensors were all found in memory, and the
  // PackCache::eviction_epoch() at that time.
  struct ResidentMemo {
    std::shared_ptr<const BoundTable> table;
    uint64_t epoch = 0;
  };
  ResidentMemo& resident_memo() { return resident_memo_; }
  // Guards the three memos.
  std::mutex& pack_mutex() { return pack_mutex_; }
  // Counts the launches that are queued or run, which the recipe must outlive.
  void CountQueued(int change) { queued_.fetch_add(change, std::memory_order_relaxed); }
  int queued() const { return queued_.load(std::memory_order_relaxed); }
  // The time that the last launch took; a guess before the first one has ended.
  std::chrono::nanoseconds launch_time() const {
    return std::chrono::nanoseconds(launch_ns_.load(std::memory_order_relaxed));
  }
  void set_launch_time(std::chrono::nanoseconds taken) {
    launch_ns_.store(taken.count(), std::memory_order_relaxed);
  }

  // Called with memory that goes away with the recipe: its constants, and the object itself, which
  // stands for all results of its prologue. The cache can then forget everything that was made from
  // them.
  std::function<void(uint64_t address, uint64_t bytes)> on_unload;

 private:
  void PlanSections();
  void PlanExternals();
  void PlanKernels();
  void PlanPacked();
  void PlanPrologue();
  absl::Status MapLocked();

  Recipe recipe_;
  std::vector<uint64_t> tensor_bytes_;
  std::vector<uint32_t> section_of_;
  std::vector<RecipeSection> sections_;
  std::unordered_map<std::string, uint32_t> by_name_;
  std::vector<uint32_t> external_;
  std::vector<uint32_t> external_ready_after_;
  std::vector<uint32_t> written_;
  std::vector<uint32_t> direct_;
  std::vector<bool> evictable_;  // by packed operand
  std::vector<uint32_t> prologue_tensors_;
  std::vector<uint32_t> first_operand_;
  std::vector<bool> one_thread_;
  bool plain_tables_ = true;
  uint64_t max_scratch_bytes_ = 0;

  std::mutex map_mutex_;
  std::atomic<bool> mapped_{false};
  const std::shared_ptr<CodeImage> code_ = std::make_shared<CodeImage>();
  AlignedBuffer constants_;
  std::vector<PreparedKernel> custom_kernels_;

  std::mutex const_mutex_;
  std::map<uint32_t, ConstSectionData> const_sections_;

  std::mutex pack_mutex_;
  std::vector<PackMemo> pack_memo_;
  KeptMemo kept_memo_;
  ResidentMemo resident_memo_;

  BindingMemo binding_memo_;
  std::atomic<int> queued_{0};
  std::atomic<int64_t> launch_ns_{50'000'000};
};

}  // namespace hpu::emulator
