// Conversions between our bytes and RocksDB's, for the sources of RocksDbRecipeStore.
#pragma once

#include <rocksdb/slice.h>
#include <rocksdb/write_batch.h>

#include <cstring>
#include <span>

#include "base/hash.h"

namespace hpu::store {

inline rocksdb::Slice ToSlice(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline std::span<const uint8_t> ToSpan(const rocksdb::Slice& slice) {
  return {reinterpret_cast<const uint8_t*>(slice.data()), slice.size()};
}

// Returns false if it is not a key of ours.
inline bool ToKey(const rocksdb::Slice& slice, Digest* key) {
  if (slice.size() != key->size()) return false;
  std::memcpy(key->data(), slice.data(), slice.size());
  return true;
}

// An access record is the time of the last use in microseconds since the epoch, with this bit set
// if the entry is pinned. Builds that know no pins take it for a use in the far future, and so keep
// the entry.
inline constexpr uint64_t kPinned = uint64_t{1} << 63;

// Makes a batch whose records carry checksums until they are in the memtable.
inline rocksdb::WriteBatch ProtectedBatch() {
  return rocksdb::WriteBatch(/*reserved_bytes=*/0, /*max_bytes=*/0, /*protection_bytes_per_key=*/8,
                             /*default_cf_ts_sz=*/0);
}

}  // namespace hpu::store
