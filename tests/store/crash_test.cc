// These tests kill a writer at random moments. After a restart every entry is whole or absent,
// every entry whose Put had returned is there, and so is its alias. No alias is there without its
// entry.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>

#include "recipe_store/layers/verifying_recipe_store.h"
#include "recipe_store/rocksdb/rocksdb_recipe_store.h"
#include "recipe_store/stack/factory.h"
#include "tests/store/store_testing.h"

namespace hpu::store {
namespace {

constexpr int kKills = 200;
constexpr uint64_t kMaxBytes = 200'000;  // old entries are evicted while new ones come
constexpr uint64_t kKeys = 40;

std::unique_ptr<RecipeStore> OpenAt(const std::string& folder) {
  return std::make_unique<VerifyingRecipeStore>(RocksDbRecipeStore::Open(folder, kMaxBytes).value(),
                                                &TestKeys());
}

// Makes an entry with two recipes. Every fifth entry shares one of them, and `generation` changes
// the contents.
Entry MakeGeneration(uint64_t number, uint32_t generation) {
  return EntryOf(number % kKeys,
                 {BytesOf(generation, 64), BytesOf(number % 5, 2000),
                  BytesOf(uint64_t{generation} * 100 + number, 3000 + number % 4000)},
                 generation);
}

// Writes until it is killed, and tells each finished Put through the pipe.
[[noreturn]] void WriteForEver(const std::string& folder, uint32_t generation, int pipe_end) {
  const std::unique_ptr<RecipeStore> store = OpenAt(folder);
  for (uint64_t number = 0;; ++number) {
    if (!store->Put(MakeGeneration(number, generation)).ok()) _exit(1);
    if (!store->PutAlias(AliasOf(number % kKeys, number % kKeys)).ok()) _exit(3);
    const uint32_t done = static_cast<uint32_t>(number);
    if (write(pipe_end, &done, sizeof(done)) != sizeof(done)) _exit(2);
  }
}

TEST(RocksDbRecipeStore, KilledAtAnyMomentShowsNoHalfEntry) {
  const TemporaryFolder folder;
  const std::string path = folder.path("db");
  // All processes sign with one key, so it is made before the forks.
  TestKey();
  std::mt19937 random(3);
  uint64_t whole = 0;
  uint64_t aliases = 0;
  for (uint32_t generation = 1; generation <= kKills; ++generation) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) WriteForEver(path, generation, ends[1]);
    close(ends[1]);
    // The test waits for a few finished writes, then for a random moment of the next one.
    uint32_t last = 0;
    for (uint32_t wanted = random() % 6; wanted > 0; --wanted) {
      ASSERT_EQ(read(ends[0], &last, sizeof(last)), static_cast<ssize_t>(sizeof(last)));
    }
    usleep(random() % 3000);
    kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer failed by itself: " << status;
    bool any = false;
    for (uint32_t done = 0; read(ends[0], &done, sizeof(done)) == sizeof(done);) {
      last = done;
      any = true;
    }
    close(ends[0]);

    const std::unique_ptr<RecipeStore> store = OpenAt(path);
    std::map<std::string, uint64_t> counters;
    for (uint64_t number = 0; number < kKeys; ++number) {
      const absl::StatusOr<Entry> found = store->Get(KeyOf(number));
      ASSERT_TRUE(found.ok() || absl::IsNotFound(found.status()))
          << "generation " << generation << ": " << found.status();
      if (found.ok()) ++whole;
      const absl::StatusOr<AliasRecord> alias = store->GetAlias(AliasIdOf(number));
      ASSERT_TRUE(alias.ok() || absl::IsNotFound(alias.status())) << alias.status();
      if (!alias.ok()) continue;
      ++aliases;
      EXPECT_EQ(*alias, AliasOf(number, number));
      EXPECT_TRUE(found.ok()) << "generation " << generation << ": an alias of nothing";
    }
    if (any) {
      const absl::StatusOr<Entry> newest = store->Get(KeyOf(last % kKeys));
      ASSERT_TRUE(newest.ok()) << "an acknowledged entry was lost";
      EXPECT_GE(newest->manifest.created_unix_seconds, generation);
      EXPECT_TRUE(store->GetAlias(AliasIdOf(last % kKeys)).ok())
          << "an acknowledged alias was lost";
    }
    store->AddCounters(counters);
    ASSERT_LE(counters.at("rocksdb.bytes"), kMaxBytes);
  }
  EXPECT_GT(whole, uint64_t{kKills});
  EXPECT_GT(aliases, uint64_t{kKills});
}

// Reading a database that another process writes is undefined.
TEST(OpenStore, AnotherProcessesDatabaseIsNotRead) {
  const TemporaryFolder folder;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const OpenedStore writer = OpenStore({.folder = folder.path("store")}).value();
    const bool told = write(ends[1], &writer.persistent, 1) == 1;
    pause();
    _exit(told ? 0 : 1);
  }
  bool child_has_it = false;
  ASSERT_EQ(read(ends[0], &child_has_it, 1), 1);
  EXPECT_TRUE(child_has_it);
  EXPECT_FALSE(OpenStore({.folder = folder.path("store")}).value().persistent);
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(OpenStore({.folder = folder.path("store")}).value().persistent);
}

}  // namespace
}  // namespace hpu::store
