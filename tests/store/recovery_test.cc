// A writer ends without closing its store. These tests check what the next one finds and logs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "base/log.h"
#include "recipe_store/rocksdb/rocksdb_recipe_store.h"
#include "recipe_store/signing/build_id.h"
#include "tests/store/store_testing.h"

namespace hpu::store {
namespace {

constexpr uint64_t kMaxBytes = 10'000'000;
constexpr uint64_t kEntries = 10;

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A LogCapture holds what is logged while the object lives.
class LogCapture {
 public:
  explicit LogCapture(const TemporaryFolder& folder) : path_(folder.path("log")) {
    ConfigureLog("test", LogLevel::kWarning, path_);
  }
  ~LogCapture() { ConfigureLog("test", LogLevel::kOff, ""); }
  std::string text() const { return ReadAll(path_); }

 private:
  const std::string path_;
};

// Makes a database whose writer was lost after kEntries writes, and returns its write-ahead log.
std::string LoseWriter(const std::string& folder) {
  // Both processes sign with one key, so it is made before the fork.
  TestKey();
  const pid_t child = fork();
  if (child == 0) {
    auto store = RocksDbRecipeStore::Open(folder, kMaxBytes);
    for (uint64_t n = 0; n < kEntries; ++n) {
      if (!(*store)->Put(EntryOf(n, 1, 3000)).ok()) _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() == ".log" && file.file_size() > 1000) return file.path();
  }
  return "";
}

size_t EntriesIn(const std::string& folder) {
  return RocksDbRecipeStore::Open(folder, kMaxBytes).value()->List(0, {}).value().size();
}

TEST(Recovery, AWholeWriteAheadLogIsReadWithoutAWord) {
  const TemporaryFolder folder;
  ASSERT_NE(LoseWriter(folder.path("db")), "");
  const LogCapture log(folder);
  EXPECT_EQ(EntriesIn(folder.path("db")), kEntries);
  EXPECT_EQ(log.text(), "");
}

TEST(Recovery, WhatADamagedWriteAheadLogLosesIsLogged) {
  const TemporaryFolder folder;
  const std::string wal = LoseWriter(folder.path("db"));
  std::string bytes = ReadAll(wal);
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(wal, std::ios::binary) << bytes;
  const LogCapture log(folder);
  EXPECT_LT(EntriesIn(folder.path("db")), kEntries);
  EXPECT_THAT(log.text(), testing::ContainsRegex(
                              "warning the end of the store's write-ahead log is damaged or cut "
                              "off; these bytes and all that was written after them are dropped "
                              "and compiled again folder=[^ ]*/db dropped=[0-9]+[.]log: [0-9]+ "
                              "bytes \\(checksum mismatch\\)"));
}

TEST(Recovery, WhatATruncatedWriteAheadLogLosesIsLogged) {
  const TemporaryFolder folder;
  const std::string wal = LoseWriter(folder.path("db"));
  // The cut is within a record.
  std::filesystem::resize_file(wal, std::filesystem::file_size(wal) / 2 - 1000);
  const LogCapture log(folder);
  EXPECT_LT(EntriesIn(folder.path("db")), kEntries);
  EXPECT_THAT(log.text(),
              testing::ContainsRegex("dropped=[0-9]+[.]log: [0-9]+ bytes \\(truncated record"));
}

// Returns CRC-32C as RocksDB's log masks it.
uint32_t MaskedCrc(const std::string& text) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char c : text) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0);
  }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

TEST(Recovery, ALogThatCannotBeReadCostsWhatItHoldsAndNoMore) {
  const TemporaryFolder folder;
  const std::string db = folder.path("db");
  {
    auto store = RocksDbRecipeStore::Open(db, kMaxBytes).value();
    for (uint64_t n = 0; n < kEntries; ++n) ASSERT_TRUE(store->Put(EntryOf(n, 1, 3000)).ok());
  }
  {
    auto store = RocksDbRecipeStore::Open(db, kMaxBytes).value();
  }  // the entries go out of the log, into tables
  // The checksum of the record is right and its batch is nonsense: one Put of a key without end.
  std::string batch(12, '\0');
  batch[8] = 1;
  batch +=
      "\x01\x7f"
      "short";
  // The type says that it is a full record.
  std::string record = std::string(1, '\1') + batch;
  const uint32_t crc = MaskedCrc(record);
  std::string header(6, '\0');
  std::memcpy(header.data(), &crc, sizeof(crc));
  header[4] = static_cast<char>(batch.size());
  size_t logs = 0;
  for (const auto& file : std::filesystem::directory_iterator(db)) {
    if (file.path().extension() != ".log") continue;
    std::ofstream(file.path(), std::ios::binary) << header << record;
    ++logs;
  }
  ASSERT_GE(logs, 1u);
  const LogCapture log(folder);
  EXPECT_EQ(EntriesIn(db), kEntries);
  EXPECT_THAT(log.text(), testing::HasSubstr("write-ahead log cannot be read and is moved aside"));
  EXPECT_FALSE(std::filesystem::exists(db + ".damaged"));
  EXPECT_TRUE(std::filesystem::exists(db + ".damaged-log"));
}

TEST(Recovery, AStoreThatIsBeingClosedIsWaitedFor) {
  const TemporaryFolder folder;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto store = RocksDbRecipeStore::Open(folder.path("db"), kMaxBytes);
    const int opened = inotify_init1(IN_CLOEXEC);
    if (inotify_add_watch(opened, folder.path("db/LOCK").c_str(), IN_OPEN) < 0) _exit(2);
    if (write(ends[1], "x", 1) != 1) _exit(1);
    // The first opening of the lock's file finds the lock taken; the next one asks who has it.
    inotify_event event;
    for (int i = 0; i < 2; ++i) {
      if (read(opened, &event, sizeof(event)) != sizeof(event)) _exit(3);
    }
    _exit(store.ok() ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);
  const bool is_open = RocksDbRecipeStore::Open(folder.path("db"), kMaxBytes).ok();
  EXPECT_TRUE(is_open);
  if (!is_open) kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Recovery, TheProcessThatKeepsAStoreIsNamed) {
  const TemporaryFolder folder;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto store = RocksDbRecipeStore::Open(folder.path("db"), kMaxBytes);
    if (write(ends[1], "x", 1) != 1) _exit(1);
    pause();
    _exit(store.ok() ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);
  const absl::Status refused = RocksDbRecipeStore::Open(folder.path("db"), kMaxBytes).status();
  EXPECT_TRUE(absl::IsUnavailable(refused));
  EXPECT_THAT(ToText(refused),
              testing::HasSubstr("process " + std::to_string(child) + " writes to it"));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// RocksDB would open it and never come back.
TEST(Recovery, AFifoInPlaceOfAFileOfTheDatabaseIsDamage) {
  for (const std::string name : {"CURRENT", "IDENTITY", "MANIFEST", "OPTIONS", "LOCK", ".log"}) {
    const TemporaryFolder folder;
    LoseWriter(folder.path("db"));
    std::vector<std::string> found;
    for (const auto& file : std::filesystem::directory_iterator(folder.path("db"))) {
      const std::string text = file.path().filename().string();
      if (text.starts_with(name) || text.ends_with(name)) found.push_back(file.path());
    }
    ASSERT_FALSE(found.empty()) << name;
    for (const std::string& path : found) {
      ASSERT_EQ(unlink(path.c_str()), 0);
      ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    }
    const LogCapture log(folder);
    const auto store = RocksDbRecipeStore::Open(folder.path("db"), kMaxBytes);
    ASSERT_TRUE(store.ok()) << name << " " << store.status();
    EXPECT_NE(log.text().find("no regular file"), std::string::npos) << name << log.text();
    EXPECT_TRUE((*store)->Put(EntryOf(99, 1, 3000)).ok()) << name;
  }
}

mode_t ModeOf(const std::string& path) {
  struct stat info{};
  EXPECT_EQ(stat(path.c_str(), &info), 0);
  return info.st_mode & 07777;
}

TEST(BuildId, ItsCacheIsTheUsersAloneAndIsNotBelievedIfOthersCanWriteIt) {
  const TemporaryFolder folder;
  const std::string compiler = folder.path("compiler");
  const std::string cache = folder.path("build_id");
  std::ofstream(compiler) << "the compiler";
  const mode_t before = umask(0);
  const std::string id = BuildId({compiler}, cache).value();
  umask(before);
  EXPECT_EQ(ModeOf(cache), mode_t{0600});
  // The cache gives another digest for the same file.
  std::string text = ReadAll(cache);
  const size_t digest = text.find(' ') + 1;
  text[digest] = text[digest] == '0' ? '1' : '0';
  std::ofstream(cache) << text;
  EXPECT_NE(BuildId({compiler}, cache).value(), id) << "the user's own cache is believed";
  ASSERT_EQ(chmod(cache.c_str(), 0666), 0);
  EXPECT_EQ(BuildId({compiler}, cache).value(), id);
  EXPECT_EQ(ModeOf(cache), mode_t{0600}) << "and written anew";
  for (const char* there : {"fifo", "link"}) {
    ASSERT_EQ(unlink(cache.c_str()), 0);
    const bool fifo = there == std::string("fifo");
    ASSERT_EQ(fifo ? mkfifo(cache.c_str(), 0600) : symlink("/dev/zero", cache.c_str()), 0);
    EXPECT_EQ(BuildId({compiler}, cache).value(), id) << there;
    EXPECT_NE(ReadAll(cache).find(compiler), std::string::npos) << "written anew: " << there;
  }
  ASSERT_EQ(mkfifo(folder.path("no compiler").c_str(), 0600), 0);
  EXPECT_NE(ToText(BuildId({folder.path("no compiler")}, "").status()).find("it is a FIFO"),
            std::string::npos);
}

}  // namespace
}  // namespace hpu::store
