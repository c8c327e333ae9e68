#include "recipe_store/rocksdb/rocksdb_open.h"

#include <fcntl.h>
#include <rocksdb/env.h>
#include <rocksdb/file_checksum.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <regex>
#include <thread>
#include <utility>

#include "base/log.h"

namespace hpu::store {
namespace {

using namespace std::chrono_literals;

constexpr auto kWriterPatience = 3000ms;
constexpr auto kWriterPoll = 50ms;
constexpr size_t kMemtableBytes = 16 << 20;
// Blobs from this size on live in blob files, so that compaction does not copy them.
constexpr uint64_t kMinBlobFileBytes = 4096;

// RocksDB's messages go to our log. Its own log file would also end the process when the disk is
// full: the packaged build has assertions on, and one forbids writing to a file that failed before.
class LogBridge : public rocksdb::Logger {
 public:
  LogBridge() : rocksdb::Logger(rocksdb::WARN_LEVEL) {}
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    char text[512];
    vsnprintf(text, sizeof(text), format, arguments);
    HPU_LOG(kDebug, "rocksdb: " << text);
    NoteDropped(text);
  }

  // Returns what recovery left out of the write-ahead log: "000004.log: 18699 bytes (checksum
  // mismatch)". Several are separated by "; ".
  std::string dropped() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return dropped_;
  }

 private:
  // RocksDB says it in this log line only: "[WARN] [db_impl_open.cc:982] /folder/000004.log:
  // dropping 18699 bytes; Corruption: checksum mismatch".
  void NoteDropped(const std::string& text) {
    static const std::regex kDropping(R"(([^/ ]+\.log): dropping (\d+) bytes; (?:\w+: )?(.*))");
    std::smatch found;
    if (!std::regex_search(text, found, kDropping)) return;
    std::lock_guard<std::mutex> lock(mutex_);
    dropped_ += (dropped_.empty() ? "" : "; ") + found.str(1) + ": " + found.str(2) + " bytes (" +
                found.str(3) + ")";
  }

  mutable std::mutex mutex_;
  std::string dropped_;  // guarded by mutex_
};

rocksdb::DBOptions DatabaseOptions(std::shared_ptr<LogBridge> log) {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.max_open_files = 256;
  options.max_background_jobs = 2;
  options.max_total_wal_size = 64 << 20;
  // wal_compression stays off, because this version cannot read back some logs that it has
  // compressed ("bad WriteBatch Put"; seen where a record's first fragment had 2 bytes).
  options.file_checksum_gen_factory = rocksdb::GetFileChecksumGenCrc32cFactory();
  options.info_log = std::move(log);
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  return options;
}

rocksdb::ColumnFamilyOptions SmallFamilyOptions() {
  rocksdb::ColumnFamilyOptions options;
  options.write_buffer_size = kMemtableBytes;
  options.memtable_protection_bytes_per_key = 8;
  options.compression = rocksdb::kZSTD;
  return options;
}

rocksdb::ColumnFamilyOptions BlobFamilyOptions() {
  rocksdb::ColumnFamilyOptions options = SmallFamilyOptions();
  options.enable_blob_files = true;
  options.min_blob_size = kMinBlobFileBytes;
  options.blob_compression_type = rocksdb::kZSTD;
  options.enable_blob_garbage_collection = true;
  options.blob_garbage_collection_age_cutoff = 0.5;
  return options;
}

// The order is that of Database's handles.
std::vector<rocksdb::ColumnFamilyDescriptor> Families() {
  return {{rocksdb::kDefaultColumnFamilyName, SmallFamilyOptions()},
          {"manifests", SmallFamilyOptions()},
          {"blobs", BlobFamilyOptions()},
          {"accesses", SmallFamilyOptions()},
          {"quarantine", SmallFamilyOptions()},
          {"aliases", SmallFamilyOptions()}};
}

// Returns the path of a file at which RocksDB would wait for good, such as a FIFO, or nothing.
std::string NotAFile(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, error)) {
    const fs::file_type type = file.status(error).type();
    if (type == fs::file_type::fifo || type == fs::file_type::socket ||
        type == fs::file_type::character || type == fs::file_type::block) {
      return file.path().string();
    }
  }
  return "";
}

rocksdb::Status TryOpen(const std::string& folder, bool writable, Database* database) {
  if (const std::string found = NotAFile(folder); !found.empty()) {
    return rocksdb::Status::Corruption(found, "no regular file");
  }
  rocksdb::DB* db = nullptr;
  const auto log = std::make_shared<LogBridge>();
  const rocksdb::DBOptions options = DatabaseOptions(log);
  const rocksdb::Status status =
      writable ? rocksdb::DB::Open(options, folder, Families(), &database->handles, &db)
               : rocksdb::DB::OpenForReadOnly(options, folder, Families(), &database->handles, &db);
  if (const std::string dropped = log->dropped(); !dropped.empty()) {
    HPU_LOG(kWarning,
            "the end of the store's write-ahead log is damaged or cut off; these bytes "
            "and all that was written after them are dropped and compiled again folder="
                << folder << " dropped=" << dropped);
  }
  if (!status.ok()) return status;
  database->db.reset(db);
  database->manifests = database->handles[1];
  database->blobs = database->handles[2];
  database->accesses = database->handles[3];
  database->quarantine = database->handles[4];
  database->aliases = database->handles[5];
  database->writable = writable;
  return status;
}

bool IsDamage(const rocksdb::Status& status) {
  return status.IsCorruption() || status.IsInvalidArgument();
}

// RocksDB says why it could not have a file only in the text of its errors, by errno at the end.
bool EndsWithError(const rocksdb::Status& status, int error) {
  return status.ToString().ends_with(std::strerror(error));
}

// Returns the writer of the database: this process (ENOLCK), another one that we can see, or 0 for
// one that keeps us from the lock file by its permissions.
std::optional<pid_t> Writer(const std::string& folder, const rocksdb::Status& status) {
  if (EndsWithError(status, ENOLCK)) return getpid();
  const int fd = open((folder + "/LOCK").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? std::nullopt : std::optional<pid_t>(0);
  struct flock lock{};
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  const bool known = fcntl(fd, F_GETLK, &lock) == 0;
  // This would drop a lock of our own on the file. There is none, because RocksDB would have said
  // ENOLCK.
  close(fd);
  if (!known) return 0;
  return lock.l_type == F_UNLCK ? std::nullopt : std::optional<pid_t>(lock.l_pid);
}

}  // namespace

Database::Database(Database&& other) noexcept
    : db(std::move(other.db)),
      manifests(other.manifests),
      blobs(other.blobs),
      accesses(other.accesses),
      quarantine(other.quarantine),
      aliases(other.aliases),
      handles(std::exchange(other.handles, {})),
      writable(other.writable),
      was_damaged(other.was_damaged) {}

Database::~Database() {
  if (db == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* handle : handles) db->DestroyColumnFamilyHandle(handle);
  db->Close().PermitUncheckedError();
}

absl::Status MoveDatabaseAside(const std::string& folder, const std::string& reason) {
  std::error_code error;
  const std::string aside = folder + ".damaged";
  HPU_LOG(kError, "store damaged, moved aside, starting a new one folder="
                      << folder << " moved_to=" << aside << " error=" << reason);
  std::filesystem::remove_all(aside, error);
  std::filesystem::rename(folder, aside, error);
  if (!error) return absl::OkStatus();
  return Error(absl::StatusCode::kUnavailable, "moving the damaged database ", folder, " to ",
               aside, ": ", error.message());
}

namespace {

// Moves the write-ahead logs of a closed database to "<folder>.damaged-log", in place of what lay
// there. The other files hold whole entries without them, because an entry is one batch.
bool MoveLogsAside(const std::string& folder, const std::string& reason) {
  namespace fs = std::filesystem;
  const fs::path aside = folder + ".damaged-log";
  std::error_code error;
  std::vector<fs::path> logs;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, error)) {
    if (file.path().extension() == ".log") logs.push_back(file.path());
  }
  if (logs.empty()) return false;
  fs::remove_all(aside, error);
  fs::create_directory(aside, error);
  for (const fs::path& log : logs) {
    fs::rename(log, aside / log.filename(), error);
    if (error) return false;
  }
  HPU_LOG(kError,
          "the store's write-ahead log cannot be read and is moved aside; what was written "
          "last is compiled again folder="
              << folder << " moved_to=" << aside.string() << " error=" << reason);
  return true;
}

}  // namespace

absl::StatusOr<Database> OpenDatabase(const std::string& folder) {
  Database database;
  rocksdb::Status status = TryOpen(folder, /*writable=*/true, &database);
  std::optional<pid_t> writer;
  // A server that gave up its socket may still be closing the store.
  for (auto waited = 0ms; !status.ok() && waited < kWriterPatience; waited += kWriterPoll) {
    writer = Writer(folder, status);
    if (!writer.has_value() || *writer == getpid()) break;
    std::this_thread::sleep_for(kWriterPoll);
    status = TryOpen(folder, /*writable=*/true, &database);
  }
  database.was_damaged = IsDamage(status);
  if (IsDamage(status) && MoveLogsAside(folder, status.ToString())) {
    status = TryOpen(folder, /*writable=*/true, &database);
  }
  if (IsDamage(status)) {
    RETURN_IF_ERROR(MoveDatabaseAside(folder, status.ToString()));
    status = TryOpen(folder, /*writable=*/true, &database);
  }
  if (status.ok()) return database;
  const absl::Status failed = ToStatus(status, "opening the recipe store " + folder);
  writer = Writer(folder, status);
  if (writer.has_value()) {
    return Annotate(failed, "process " + std::to_string(*writer) + " writes to it");
  }
  // Reading beside a live writer would be undefined.
  if (!TryOpen(folder, /*writable=*/false, &database).ok()) return failed;
  HPU_LOG(kWarning,
          "store cannot be written, serving what it has; new programs are not kept folder="
              << folder << " error=" << status.ToString());
  return database;
}

absl::Status ToStatus(const rocksdb::Status& status, const std::string& what) {
  if (status.ok()) return absl::OkStatus();
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  if (status.IsNotFound()) code = absl::StatusCode::kNotFound;
  if (status.IsCorruption()) code = absl::StatusCode::kDataLoss;
  return Error(code, what, ": ", status.ToString());
}

}  // namespace hpu::store
