// Many programs, and many writers at once, do not stall the persistent engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "recipe_store/rocksdb/rocksdb_recipe_store.h"
#include "tests/eventually.h"
#include "tests/store/store_testing.h"

namespace hpu::store {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kMaxBytes = 100'000'000;
constexpr milliseconds kNoPatience{0};

std::unique_ptr<RocksDbRecipeStore> OpenAt(const std::string& folder,
                                           milliseconds patience = milliseconds(60'000)) {
  return RocksDbRecipeStore::Open(folder, kMaxBytes, patience).value();
}

uint64_t Counter(const RecipeStore& store, const std::string& name) {
  std::map<std::string, uint64_t> counters;
  store.AddCounters(counters);
  return counters.at(name);
}

void Fill(RecipeStore& store, uint64_t count) {
  constexpr uint64_t kThreads = 16;
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t n = t; n < count; n += kThreads) {
        if (!store.Put(EntryOf(n)).ok() || !store.PutAlias(AliasOf(n, n)).ok()) ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(failed, 0);
}

TEST(RocksDbGrowth, WritersThatComeTogetherAreAllKept) {
  const TemporaryFolder folder;
  uint64_t bytes = 0;
  {
    auto store = OpenAt(folder.path("db"));
    Fill(*store, 600);
    // All threads write the same blob, key and alias at once.
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        for (uint64_t n = 0; n < 20; ++n) {
          EXPECT_TRUE(store->Put(EntryOf(1000 + n, {BytesOf(n, 10), BytesOf(7, 5000)})).ok());
          EXPECT_TRUE(store->PutAlias(AliasOf(1000 + n, 1000 + (n + t) % (n + 1))).ok());
          if (t == 0) {
            EXPECT_TRUE(store->Quarantine(KeyOf(n), "test").ok());
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(Counter(*store, "rocksdb.entries"), 600u);
    EXPECT_EQ(Counter(*store, "rocksdb.aliases"), 600u);
    bytes = Counter(*store, "rocksdb.bytes");
  }
  auto store = OpenAt(folder.path("db"));
  EXPECT_EQ(Counter(*store, "rocksdb.entries"), 600u);
  EXPECT_EQ(Counter(*store, "rocksdb.aliases"), 600u);
  EXPECT_EQ(Counter(*store, "rocksdb.bytes"), bytes);
  for (uint64_t n = 20; n < 600; ++n) {
    ASSERT_TRUE(SameEntry(store->Get(KeyOf(n)).value(), EntryOf(n))) << n;
    ASSERT_EQ(store->GetAlias(AliasIdOf(n)).value(), AliasOf(n, n));
  }
  for (uint64_t n = 0; n < 20; ++n) {
    EXPECT_TRUE(store->Get(KeyOf(1000 + n)).ok()) << "its blob is shared";
    EXPECT_TRUE(absl::IsNotFound(store->Get(KeyOf(n)).status()));
  }
}

TEST(RocksDbGrowth, ProgramsAreFoundWhileTheIndexIsRead) {
  const TemporaryFolder folder;
  {
    auto store = OpenAt(folder.path("db"));
    Fill(*store, 2000);
    ASSERT_TRUE(store->Pin(KeyOf(3), true).ok());
  }
  auto store = OpenAt(folder.path("db"), kNoPatience);
  EXPECT_TRUE(SameEntry(store->Get(KeyOf(5)).value(), EntryOf(5)));
  EXPECT_TRUE(store->Peek(KeyOf(6)).ok());
  EXPECT_EQ(store->GetAlias(AliasIdOf(5)).value(), AliasOf(5, 5));
  EXPECT_TRUE(absl::IsNotFound(store->Get(KeyOf(5000)).status()));
  EXPECT_TRUE(absl::IsNotFound(store->GetAlias(AliasIdOf(5000)).status()));
  // Writers and lists wait until the index is read.
  ASSERT_TRUE(store->Put(EntryOf(5000)).ok());
  EXPECT_EQ(Counter(*store, "rocksdb.entries"), 2001u);
  EXPECT_EQ(store->List(0, {}).value().size(), 2001u);
  EXPECT_THAT(store->Pinned().value(), testing::ElementsAre(KeyOf(3)));
  // Entries that were used meanwhile count as used, so all but these go.
  uint64_t kept = 0;
  for (const uint64_t n : {3, 5, 5000}) kept += EntryOf(n).size_bytes() + (n < 5000 ? 1000 : 0);
  ASSERT_TRUE(store->CollectGarbage(kept, 0).ok());
  for (const uint64_t n : {3, 5, 5000}) EXPECT_TRUE(store->Get(KeyOf(n)).ok()) << n;
}

TEST(RocksDbGrowth, AnIndexThatCannotBeReadInTheBackgroundBeginsANewStoreAtTheNextStart) {
  const TemporaryFolder folder;
  const std::string db = folder.path("db");
  {
    auto store = OpenAt(db);
    Fill(*store, 2000);
  }
  std::string table_name;
  {
    const Database database = OpenDatabase(db).value();
    ASSERT_TRUE(database.db->Flush({}, database.manifests).ok());
    ASSERT_TRUE(database.db->CompactRange({}, database.manifests, nullptr, nullptr).ok());
    std::vector<rocksdb::LiveFileMetaData> files;
    database.db->GetLiveFilesMetaData(&files);
    for (const rocksdb::LiveFileMetaData& file : files) {
      if (file.column_family_name == "manifests") table_name = db + file.name;
    }
  }
  {
    std::fstream table(table_name, std::ios::in | std::ios::out | std::ios::binary);
    table.seekp(static_cast<std::streamoff>(std::filesystem::file_size(table_name) / 2));
    table << "spoiled";
  }
  {
    auto store = OpenAt(db, kNoPatience);
    EXPECT_TRUE(absl::IsUnavailable(store->Put(EntryOf(5000)))) << "and does not wait for ever";
    EXPECT_TRUE(absl::IsUnavailable(store->List(0, {}).status()));
  }
  // Without the mark, this would find the damage too late again.
  auto store = OpenAt(db, kNoPatience);
  EXPECT_EQ(Counter(*store, "rocksdb.damaged_at_start"), 1u);
  EXPECT_TRUE(std::filesystem::exists(db + ".damaged"));
  EXPECT_TRUE(store->Put(EntryOf(5000)).ok());
  store.reset();
  EXPECT_EQ(Counter(*OpenAt(db), "rocksdb.damaged_at_start"), 0u);
}

TEST(RocksDbGrowth, RoomIsMadeAheadOfNeedAndForWhatIsLarge) {
  const TemporaryFolder folder;
  auto store = RocksDbRecipeStore::Open(folder.path("db"), 1'000'000).value();
  for (uint64_t n = 0; n < 1000; ++n) ASSERT_TRUE(store->Put(EntryOf(n)).ok());
  const auto bytes = [&] { return Counter(*store, "rocksdb.bytes"); };
  EXPECT_TRUE(Eventually([&] { return bytes() <= 1'000'000u - 1'000'000 / 128; }))
      << "nobody had to wait for it";
  EXPECT_GT(bytes(), 900'000u);
  // More than one slice has to go for it.
  ASSERT_TRUE(store->Put(EntryOf(5000, 1, 900'000)).ok());
  EXPECT_LE(bytes(), 1'000'000u);
  EXPECT_TRUE(store->Get(KeyOf(5000)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(store->Put(EntryOf(5001, 1, 1'100'000))));
  EXPECT_TRUE(store->Get(KeyOf(5000)).ok()) << "nothing goes for what does not fit";
}

}  // namespace
}  // namespace hpu::store
