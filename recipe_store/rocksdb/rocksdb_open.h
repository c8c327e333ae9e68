// Opening the database of RocksDbRecipeStore: options, column families, status conversion.
#pragma once

#include <rocksdb/db.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace hpu::store {

// An open database with its column families. Closed by the destructor.
struct Database {
  std::unique_ptr<rocksdb::DB> db;
  rocksdb::ColumnFamilyHandle* manifests = nullptr;   // content key -> encoded SignedRecord
  rocksdb::ColumnFamilyHandle* blobs = nullptr;       // digest -> bytes
  rocksdb::ColumnFamilyHandle* accesses = nullptr;    // key -> u64 microseconds of the last use
  rocksdb::ColumnFamilyHandle* quarantine = nullptr;  // key -> reason, line feed, SignedRecord
  rocksdb::ColumnFamilyHandle* aliases = nullptr;     // AliasId -> encoded SignedRecord
  std::vector<rocksdb::ColumnFamilyHandle*> handles;  // all of them, owned
  bool writable = false;
  bool was_damaged = false;  // when it was opened; something of it was moved aside

  Database() = default;
  Database(Database&& other) noexcept;
  Database& operator=(Database&&) = delete;
  ~Database();
};

// Opens or creates the database in `folder`. If it cannot be written (read-only or full file
// system) it is opened for reading only. Of a database that RocksDB finds damaged the
// write-ahead logs are moved aside to "<folder>.damaged-log"; if that does not cure it, all of it
// to
// "<folder>.damaged", and a new one is begun; what is dropped from a damaged write-ahead log is
// logged. UNAVAILABLE: unreadable, or another process has kept it for kWriterPatience (3 s).
absl::StatusOr<Database> OpenDatabase(const std::string& folder);

// Moves a closed database to "<folder>.damaged", in place of one that lay there, and logs why.
absl::Status MoveDatabaseAside(const std::string& folder, const std::string& reason);

// NOT_FOUND, DATA_LOSS (corruption), UNAVAILABLE (everything else), annotated with `what`.
absl::Status ToStatus(const rocksdb::Status& status, const std::string& what);

}  // namespace hpu::store
