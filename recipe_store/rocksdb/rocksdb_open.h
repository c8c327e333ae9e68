// Opens the database of RocksDbRecipeStore, with its options and column families.
#pragma once

#include <rocksdb/db.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace hpu::store {

// A Database is open with its column families. The destructor closes it.
struct Database {
  std::unique_ptr<rocksdb::DB> db;
  rocksdb::ColumnFamilyHandle* manifests = nullptr;   // content key -> encoded SignedRecord
  rocksdb::ColumnFamilyHandle* blobs = nullptr;       // digest -> bytes
  rocksdb::ColumnFamilyHandle* accesses = nullptr;    // key -> u64 microseconds of the last use
  rocksdb::ColumnFamilyHandle* quarantine = nullptr;  // key -> reason, line feed, SignedRecord
  rocksdb::ColumnFamilyHandle* aliases = nullptr;     // AliasId -> encoded SignedRecord
  std::vector<rocksdb::ColumnFamilyHandle*> handles;  // owns all of them
  bool writable = false;
  // It was damaged when it was opened, and a part of it was moved aside.
  bool was_damaged = false;

  Database() = default;
  Database(Database&& other) noexcept;
  Database& operator=(Database&&) = delete;
  ~Database();
};

// Opens or creates the database in `folder`. If it cannot be written (read-only or full file
// system), it is opened for reading only. If RocksDB finds it damaged, its write-ahead logs are
// moved aside to "<folder>.damaged-log"; if that does not cure it, the whole database is moved to
// "<folder>.damaged" and a new one is begun. What is dropped from a damaged write-ahead log is
// logged. UNAVAILABLE: the database is unreadable, or another process has kept it for
// kWriterPatience (3 s).
absl::StatusOr<Database> OpenDatabase(const std::string& folder);

// Moves a closed database to "<folder>.damaged", in place of one that lay there, and logs why.
// UNAVAILABLE: it cannot be moved.
absl::Status MoveDatabaseAside(const std::string& folder, const std::string& reason);

// Returns NOT_FOUND, DATA_LOSS (corruption) or UNAVAILABLE (everything else), annotated with
// `what`.
absl::Status ToStatus(const rocksdb::Status& status, const std::string& what);

}  // namespace hpu::store
