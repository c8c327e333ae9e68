// MetricsRecipeStore counts what the store below is asked, what it answers, and the time that it
// takes: "<name>.get_hits", "<name>.get_misses", "<name>.get_errors", "<name>.get_micros",
// "<name>.get_bytes", "<name>.puts", "<name>.put_errors", "<name>.put_micros",
// "<name>.saved_micros" (the compile time that hits saved), "<name>.alias_hits",
// "<name>.alias_misses", "<name>.alias_errors" (of reads), "<name>.alias_puts".
#pragma once

#include <atomic>

#include "recipe_store/layers/forwarding_recipe_store.h"

namespace hpu::store {

// Errors are those of the store below. Thread-safe.
class MetricsRecipeStore : public ForwardingRecipeStore {
 public:
  MetricsRecipeStore(std::unique_ptr<RecipeStore> inner, std::string name)
      : ForwardingRecipeStore(std::move(inner)), name_(std::move(name)) {}

  // Counts a read for use. Other reads are not counted.
  absl::StatusOr<Entry> Find(const Digest& key, Purpose purpose) override;
  absl::Status Put(const Entry& entry) override;
  absl::StatusOr<AliasRecord> GetAlias(const Digest& id) override;
  absl::Status PutAlias(const AliasRecord& alias) override;
  void AddCounters(std::map<std::string, uint64_t>& counters) const override;

 private:
  const std::string name_;
  std::atomic<uint64_t> get_hits_{0};
  std::atomic<uint64_t> get_misses_{0};
  std::atomic<uint64_t> get_errors_{0};
  std::atomic<uint64_t> get_micros_{0};
  std::atomic<uint64_t> get_bytes_{0};
  std::atomic<uint64_t> puts_{0};
  std::atomic<uint64_t> put_errors_{0};
  std::atomic<uint64_t> put_micros_{0};
  std::atomic<uint64_t> saved_micros_{0};
  std::atomic<uint64_t> alias_hits_{0};
  std::atomic<uint64_t> alias_misses_{0};
  std::atomic<uint64_t> alias_errors_{0};
  std::atomic<uint64_t> alias_puts_{0};
};

}  // namespace hpu::store
