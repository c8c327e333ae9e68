#include "recipe_store/layers/metrics_recipe_store.h"

#include <chrono>

namespace hpu::store {
namespace {

class Stopwatch {
 public:
  uint64_t micros() const {
    const auto elapsed = std::chrono::steady_clock::now() - start_;
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(elapsed).count());
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

absl::StatusOr<Entry> MetricsRecipeStore::Find(const Digest& key, Purpose purpose) {
  const Stopwatch watch;
  absl::StatusOr<Entry> entry = ForwardingRecipeStore::Find(key, purpose);
  if (purpose != Purpose::kUse) return entry;
  const uint64_t micros = watch.micros();
  get_micros_ += micros;
  if (entry.ok()) {
    ++get_hits_;
    get_bytes_ += entry->size_bytes();
    if (entry->manifest.compile_micros > micros) {
      saved_micros_ += entry->manifest.compile_micros - micros;
    }
  } else {
    ++(absl::IsNotFound(entry.status()) ? get_misses_ : get_errors_);
  }
  return entry;
}

absl::Status MetricsRecipeStore::Put(const Entry& entry) {
  const Stopwatch watch;
  const absl::Status status = ForwardingRecipeStore::Put(entry);
  put_micros_ += watch.micros();
  ++(status.ok() ? puts_ : put_errors_);
  return status;
}

absl::StatusOr<AliasRecord> MetricsRecipeStore::GetAlias(const Digest& id) {
  absl::StatusOr<AliasRecord> alias = ForwardingRecipeStore::GetAlias(id);
  if (alias.ok()) {
    ++alias_hits_;
  } else {
    ++(absl::IsNotFound(alias.status()) ? alias_misses_ : alias_errors_);
  }
  return alias;
}

absl::Status MetricsRecipeStore::PutAlias(const AliasRecord& alias) {
  const absl::Status status = ForwardingRecipeStore::PutAlias(alias);
  if (status.ok()) ++alias_puts_;
  return status;
}

void MetricsRecipeStore::AddCounters(std::map<std::string, uint64_t>& counters) const {
  counters[name_ + ".get_hits"] += get_hits_;
  counters[name_ + ".get_misses"] += get_misses_;
  counters[name_ + ".get_errors"] += get_errors_;
  counters[name_ + ".get_micros"] += get_micros_;
  counters[name_ + ".get_bytes"] += get_bytes_;
  counters[name_ + ".puts"] += puts_;
  counters[name_ + ".put_errors"] += put_errors_;
  counters[name_ + ".put_micros"] += put_micros_;
  counters[name_ + ".saved_micros"] += saved_micros_;
  counters[name_ + ".alias_hits"] += alias_hits_;
  counters[name_ + ".alias_misses"] += alias_misses_;
  counters[name_ + ".alias_errors"] += alias_errors_;
  counters[name_ + ".alias_puts"] += alias_puts_;
  ForwardingRecipeStore::AddCounters(counters);
}

}  // namespace hpu::store
