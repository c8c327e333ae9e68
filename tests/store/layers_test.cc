// What single layers do beside what every store promises.
#include <gtest/gtest.h>

#include "recipe_store/layers/error_recipe_store.h"
#include "recipe_store/layers/memory_recipe_store.h"
#include "recipe_store/layers/metrics_recipe_store.h"
#include "tests/store/store_testing.h"

namespace hpu::store {
namespace {

constexpr uint64_t kMaxBytes = 100'000;

std::unique_ptr<RecipeStore> MakeMemory() { return std::make_unique<MemoryRecipeStore>(kMaxBytes); }

TEST(ErrorRecipeStore, AnswersEverythingWithItsError) {
  ErrorRecipeStore store(absl::UnavailableError("switched off"));
  EXPECT_TRUE(absl::IsUnavailable(store.Get(KeyOf(1)).status()));
  EXPECT_TRUE(absl::IsUnavailable(store.Put(EntryOf(1))));
  EXPECT_TRUE(absl::IsUnavailable(store.GetAlias(AliasIdOf(1)).status()));
  EXPECT_TRUE(absl::IsUnavailable(store.PutAlias(AliasOf(1, 1))));
  EXPECT_TRUE(absl::IsUnavailable(store.DropAlias(AliasIdOf(1))));
  EXPECT_TRUE(absl::IsUnavailable(store.AliasesOf(KeyOf(1)).status()));
  EXPECT_TRUE(absl::IsUnavailable(store.List(0, {}).status()));
  EXPECT_TRUE(absl::IsUnavailable(store.Quarantine(KeyOf(1), "")));
  EXPECT_TRUE(absl::IsUnavailable(store.Pin(KeyOf(1), true)));
  EXPECT_TRUE(absl::IsUnavailable(store.Pinned().status()));
  EXPECT_TRUE(absl::IsUnavailable(store.CollectGarbage(0, 0).status()));
  EXPECT_TRUE(absl::IsUnavailable(store.Verify(KeyOf(1))));
  EXPECT_TRUE(absl::IsUnavailable(store.Flush()));
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
  // Each hit saves the 5,000 us that compiling took, less the time of the read.
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
