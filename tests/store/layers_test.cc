// These tests check what single layers do beyond what every store promises.
#include <gtest/gtest.h>

#include "recipe_store/layers/memory_recipe_store.h"
#include "recipe_store/layers/metrics_recipe_store.h"
#include "recipe_store/layers/read_caching_recipe_store.h"
#include "recipe_store/layers/read_only_recipe_store.h"
#include "tests/store/store_testing.h"

namespace hpu::store {
namespace {

constexpr uint64_t kMaxBytes = 100'000;

std::unique_ptr<RecipeStore> MakeMemory() { return std::make_unique<MemoryRecipeStore>(kMaxBytes); }

TEST(ReadOnlyRecipeStore, WritesNothing) {
  auto owned = MakeMemory();
  RecipeStore& engine = *owned;
  ReadOnlyRecipeStore store(std::move(owned));
  ASSERT_TRUE(engine.Put(EntryOf(1)).ok());
  ASSERT_TRUE(engine.PutAlias(AliasOf(1, 1)).ok());
  EXPECT_TRUE(store.Put(EntryOf(1, {BytesOf(3, 10)})).ok());
  EXPECT_TRUE(store.Put(EntryOf(2)).ok());
  EXPECT_TRUE(store.PutAlias(AliasOf(2, 1)).ok());
  EXPECT_TRUE(store.DropAlias(AliasIdOf(1)).ok());
  EXPECT_TRUE(store.Quarantine(KeyOf(1), "test").ok());
  EXPECT_TRUE(SameEntry(engine.Get(KeyOf(1)).value(), EntryOf(1)));
  EXPECT_TRUE(absl::IsNotFound(engine.Get(KeyOf(2)).status()));
  EXPECT_TRUE(engine.GetAlias(AliasIdOf(1)).ok());
  EXPECT_TRUE(absl::IsNotFound(engine.GetAlias(AliasIdOf(2)).status()));
}

TEST(ReadCaching, AGarbageCollectionAndADamagedEntryReachTheCachedValue) {
  auto fast = std::make_shared<MemoryRecipeStore>(kMaxBytes);
  auto slow = MakeMemory();
  RecipeStore& below = *slow;
  const auto store = MakeReadCaching(fast, std::move(slow));
  for (const uint64_t number : {1, 2}) ASSERT_TRUE(store->Put(EntryOf(number)).ok());
  EXPECT_EQ(store->CollectGarbage(EntryOf(2).size_bytes(), 0).value(),
            std::vector<Digest>{KeyOf(1)});
  EXPECT_TRUE(absl::IsNotFound(fast->Get(KeyOf(1)).status()));
  EXPECT_TRUE(fast->Get(KeyOf(2)).ok());
  Entry damaged = EntryOf(2);
  damaged.blobs[1] = std::make_shared<const Bytes>(damaged.blobs[1]->size());
  // The equal blob goes with its entry, so that the damaged one takes its place.
  ASSERT_TRUE(below.Quarantine(KeyOf(2), "test").ok());
  ASSERT_TRUE(below.Put(damaged).ok());
  EXPECT_TRUE(absl::IsDataLoss(store->Verify(KeyOf(2))));
  EXPECT_TRUE(absl::IsNotFound(fast->Get(KeyOf(2)).status()));
}

TEST(ReadCaching, AFullDiskLeavesProgramsAndAliasesInTheCache) {
  auto fast = std::make_shared<MemoryRecipeStore>(kMaxBytes);
  const auto store = MakeReadCaching(fast, std::make_unique<MemoryRecipeStore>(/*max_bytes=*/500));
  EXPECT_TRUE(absl::IsResourceExhausted(store->Put(EntryOf(1))));
  EXPECT_TRUE(store->PutAlias(AliasOf(1, 1)).ok());
  EXPECT_TRUE(SameEntry(store->Get(KeyOf(1)).value(), EntryOf(1)));
  EXPECT_EQ(store->GetAlias(AliasIdOf(1)).value(), AliasOf(1, 1));
  EXPECT_EQ(store->List(0, {}).value(), std::vector<Manifest>{EntryOf(1).manifest});
  EXPECT_EQ(store->AliasesOf(KeyOf(1)).value(), std::vector<Alias>{AliasOf(1, 1).alias});
}

TEST(MetricsRecipeStore, CountsReadsForUseOnly) {
  MetricsRecipeStore store(MakeMemory(), "m");
  ASSERT_TRUE(store.Put(EntryOf(1)).ok());
  ASSERT_TRUE(store.Peek(KeyOf(1)).ok());
  ASSERT_TRUE(store.Verify(KeyOf(1)).ok());
  ASSERT_TRUE(absl::IsNotFound(store.Peek(KeyOf(2)).status()));
  std::map<std::string, uint64_t> counters;
  store.AddCounters(counters);
  EXPECT_EQ(counters["m.get_hits"], 0u);
  EXPECT_EQ(counters["m.get_misses"], 0u);
  EXPECT_EQ(counters["memory.hits"], 0u);
}

TEST(MetricsRecipeStore, CountsHitsMissesErrorsAndSavedTime) {
  MetricsRecipeStore store(MakeMemory(), "m");
  ASSERT_TRUE(store.Put(EntryOf(1)).ok());
  ASSERT_TRUE(store.Get(KeyOf(1)).ok());
  ASSERT_TRUE(store.Get(KeyOf(1)).ok());
  ASSERT_FALSE(store.Get(KeyOf(2)).ok());
  EXPECT_FALSE(store.Put(EntryOf(3, 1, kMaxBytes + 1)).ok());
  std::map<std::string, uint64_t> counters;
  store.AddCounters(counters);
  EXPECT_EQ(counters["m.get_hits"], 2u);
  EXPECT_EQ(counters["m.get_misses"], 1u);
  EXPECT_EQ(counters["m.puts"], 1u);
  EXPECT_EQ(counters["m.put_errors"], 1u);
  EXPECT_EQ(counters["m.get_bytes"], 2 * EntryOf(1).size_bytes());
  // Each hit saves the 5,000 us that compiling took, minus the time of the read.
  EXPECT_GT(counters["m.saved_micros"], 5000u);
  EXPECT_LE(counters["m.saved_micros"], 10'000u);
  EXPECT_EQ(counters["memory.entries"], 1u);
  EXPECT_EQ(counters["memory.hits"], 2u);
}

TEST(MetricsRecipeStore, CountsAliases) {
  MetricsRecipeStore store(MakeMemory(), "m");
  ASSERT_TRUE(store.Put(EntryOf(1)).ok());
  ASSERT_TRUE(store.PutAlias(AliasOf(1, 1)).ok());
  ASSERT_FALSE(store.PutAlias(AliasOf(2, 2)).ok());
  ASSERT_TRUE(store.GetAlias(AliasIdOf(1)).ok());
  ASSERT_FALSE(store.GetAlias(AliasIdOf(2)).ok());
  std::map<std::string, uint64_t> counters;
  store.AddCounters(counters);
  EXPECT_EQ(counters["m.alias_puts"], 1u);
  EXPECT_EQ(counters["m.alias_hits"], 1u);
  EXPECT_EQ(counters["m.alias_misses"], 1u);
  EXPECT_EQ(counters["memory.aliases"], 1u);
  EXPECT_EQ(counters["memory.bytes"], EntryOf(1).size_bytes() + AliasOf(1, 1).size_bytes());
}

}  // namespace
}  // namespace hpu::store
