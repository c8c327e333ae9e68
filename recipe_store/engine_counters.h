// EngineCounters counts what an engine that servers share was asked, and what it answered.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "base/status.h"

namespace hpu::store {

// Thread-safe.
struct EngineCounters {
  // These count the outcome of a call. A miss is no error, except for a Put.
  void CountFind(const absl::Status& status);
  void CountPut(const absl::Status& status);
  void CountGetAlias(const absl::Status& status);
  void CountPutAlias(const absl::Status& status);

  // Adds "<engine>.hits", "<engine>.misses" and so on.
  void AddTo(const std::string& engine, std::map<std::string, uint64_t>& counters) const;

  std::atomic<uint64_t> hits{0};
  std::atomic<uint64_t> misses{0};
  std::atomic<uint64_t> incomplete{0};  // misses where a part of the entry was gone
  std::atomic<uint64_t> puts{0};
  std::atomic<uint64_t> alias_hits{0};
  std::atomic<uint64_t> alias_misses{0};
  std::atomic<uint64_t> alias_puts{0};
  std::atomic<uint64_t> errors{0};
  std::atomic<uint64_t> blobs_written{0};
  std::atomic<uint64_t> blobs_known{0};  // blobs that the engine had, so Put did not write them
};

}  // namespace hpu::store
