#include "recipe_store/engine_counters.h"

namespace hpu::store {

void EngineCounters::CountFind(const absl::Status& status) {
  ++(status.ok() ? hits : absl::IsNotFound(status) ? misses : errors);
}

void EngineCounters::CountPut(const absl::Status& status) { ++(status.ok() ? puts : errors); }

void EngineCounters::CountGetAlias(const absl::Status& status) {
  ++(status.ok() ? alias_hits : absl::IsNotFound(status) ? alias_misses : errors);
}

void EngineCounters::CountPutAlias(const absl::Status& status) {
  if (status.ok()) ++alias_puts;
  if (!status.ok() && !absl::IsNotFound(status)) ++errors;
}

void EngineCounters::AddTo(const std::string& engine,
                           std::map<std::string, uint64_t>& counters) const {
  counters[engine + ".hits"] += hits;
  counters[engine + ".misses"] += misses;
  counters[engine + ".incomplete"] += incomplete;
  counters[engine + ".puts"] += puts;
  counters[engine + ".alias_hits"] += alias_hits;
  counters[engine + ".alias_misses"] += alias_misses;
  counters[engine + ".alias_puts"] += alias_puts;
  counters[engine + ".errors"] += errors;
  counters[engine + ".blobs_written"] += blobs_written;
  counters[engine + ".blobs_known"] += blobs_known;
}

}  // namespace hpu::store
