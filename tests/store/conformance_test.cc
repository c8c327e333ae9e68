// What every store promises, run against every layer and stack. A layer that cannot hold a promise
// is listed in kUnsupported with the reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <set>
#include <thread>

#include "base/clock.h"
#include "recipe_store/error_recipe_store.h"
#include "recipe_store/factory.h"
#include "recipe_store/memory_recipe_store.h"
#include "recipe_store/metrics_recipe_store.h"
#include "recipe_store/read_caching_recipe_store.h"
#include "recipe_store/rocksdb_recipe_store.h"
#include "recipe_store/verifying_recipe_store.h"
#include "tests/store/fake_remote_cache.h"
#include "tests/store/redis_server.h"
#include "tests/store/store_testing.h"

namespace hpu::store {
namespace {

constexpr uint64_t kMaxBytes = 100'000;

struct Layer {
  std::string name;
  std::function<std::unique_ptr<RecipeStore>(const TemporaryFolder&)> make;
  bool lists = true;          // else List and ListAliases answer nothing
  std::string why_none = "";  // what to do where `make` gives null
};

std::unique_ptr<RecipeStore> MakeMemory() { return std::make_unique<MemoryRecipeStore>(kMaxBytes); }

std::unique_ptr<RecipeStore> MakeRocksDb(const TemporaryFolder& folder) {
  return RocksDbRecipeStore::Open(folder.path("db"), kMaxBytes).value();
}

std::unique_ptr<RecipeStore> MakeVerifying(std::unique_ptr<RecipeStore> inner) {
  return std::make_unique<VerifyingRecipeStore>(std::move(inner), &TestKeys());
}

// One server for all tests, a prefix for each. Null where none is installed.
std::unique_ptr<RecipeStore> MakeRedis() {
  if (!WhyNoRedis().empty()) return nullptr;
  static RedisServer server;
  static int count = 0;
  RedisOptions options;
  options.addresses = server.address();
  options.prefix = "store" + std::to_string(++count);
  options.max_entry_bytes = kMaxBytes;
  return StoreAt(options);
}

// A server and its client.
struct AtFakeCache : FakeRemoteCache, RemoteCacheRecipeStore {
  AtFakeCache() : RemoteCacheRecipeStore(ClientOf(address())) {}
  ~AtFakeCache() override { EXPECT_THAT(Violations(), testing::IsEmpty()); }
  static std::unique_ptr<RemoteCacheClient> ClientOf(const std::string& address,
                                                     const std::string& instance = "") {
    RemoteCacheOptions options;
    options.address = address;
    options.instance = instance;
    options.max_entry_bytes = kMaxBytes;
    return RemoteCacheClient::Make(options).value();
  }
};

// Null under ThreadSanitizer, which does not see the locks of gRPC's threads.
std::unique_ptr<RecipeStore> MakeAtFakeCache() {
#ifdef __SANITIZE_THREAD__
  return nullptr;
#else
  return std::make_unique<AtFakeCache>();
#endif
}

// The server that tests/store/buildgrid.py has started, an instance of it for each test.
std::unique_ptr<RecipeStore> MakeAtRealCache() {
  const char* const address = std::getenv("HPU_TEST_REMOTE_CACHE");
  if (address == nullptr) return nullptr;
  static int count = 0;
  return std::make_unique<RemoteCacheRecipeStore>(
      AtFakeCache::ClientOf(address, "store" + std::to_string(++count)));
}

const std::vector<Layer>& Layers() {
  static const auto* const layers = new std::vector<Layer>{
      {"memory", [](const TemporaryFolder&) { return MakeMemory(); }},
      {"rocksdb", MakeRocksDb},
      {"redis", [](const TemporaryFolder&) { return MakeRedis(); }, true, WhyNoRedis()},
      {"remote_cache", [](const TemporaryFolder&) { return MakeAtFakeCache(); }, false,
       "gRPC under ThreadSanitizer"},
      {"buildgrid", [](const TemporaryFolder&) { return MakeAtRealCache(); }, false,
       "run it by tests/store/buildgrid.py"},
      {"verifying", [](const TemporaryFolder&) { return MakeVerifying(MakeMemory()); }},
      {"metrics",
       [](const TemporaryFolder&) {
         return std::make_unique<MetricsRecipeStore>(MakeMemory(), "m");
       }},
      {"read_caching",
       [](const TemporaryFolder& folder) {
         return std::make_unique<ReadCachingRecipeStore>(MakeMemory(), MakeRocksDb(folder));
       }},
      {"read_caching_over_broken_cache",
       [](const TemporaryFolder& folder) {
         return std::make_unique<ReadCachingRecipeStore>(
             std::make_unique<ErrorRecipeStore>(absl::InternalError("broken")),
             MakeRocksDb(folder));
       }},
      {"full_stack",
       [](const TemporaryFolder& folder) {
         return std::make_unique<MetricsRecipeStore>(
             std::make_unique<ReadCachingRecipeStore>(MakeMemory(),
                                                      MakeVerifying(MakeRocksDb(folder))),
             "store");
       }},
  };
  return *layers;
}

struct Unsupported {
  const char* layer;
  const char* test;
  const char* reason;
};
constexpr Unsupported kUnsupported[] = {
    {"read_caching_over_broken_cache", "QuarantineTakesAnEntryOutOfService",
     "the broken cache's error is reported, although the entry is gone"},
    {"redis", "AliasesLiveAndDieWithTheirProgram", "its engine evicts, by limits of its own"},
    {"redis", "TheLeastRecentlyUsedGoFirst", "its engine evicts, by limits of its own"},
    {"remote_cache", "AliasesLiveAndDieWithTheirProgram", "its server evicts, by its own limits"},
    {"remote_cache", "TheLeastRecentlyUsedGoFirst", "its server evicts, by its own limits"},
    {"remote_cache", "ListIsNewestFirstAndBounded", "such a cache cannot list"},
    {"buildgrid", "AliasesLiveAndDieWithTheirProgram", "its server evicts, by its own limits"},
    {"buildgrid", "TheLeastRecentlyUsedGoFirst", "its server evicts, by its own limits"},
    {"buildgrid", "ListIsNewestFirstAndBounded", "such a cache cannot list"},
    {"read_caching_over_broken_cache", "FlushSucceeds", "the broken cache cannot be flushed"},
};

class StoreConformance : public testing::TestWithParam<Layer> {
 protected:
  void SetUp() override {
    const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
    for (const Unsupported& row : kUnsupported) {
      if (GetParam().name == row.layer && test.starts_with(std::string(row.test) + "/")) {
        GTEST_SKIP() << row.reason;
      }
    }
    store_ = GetParam().make(folder_);
    if (store_ == nullptr) GTEST_SKIP() << GetParam().why_none;
  }

  TemporaryFolder folder_;
  std::unique_ptr<RecipeStore> store_;
};

TEST_P(StoreConformance, AnUnknownKeyIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(1)).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->GetAlias(AliasIdOf(1)).status()));
}

TEST_P(StoreConformance, GetAnswersWhatWasPut) {
  for (const size_t recipes : {0, 1, 5}) {
    const Entry entry = EntryOf(recipes, recipes);
    ASSERT_TRUE(store_->Put(entry).ok());
    const absl::StatusOr<Entry> found = store_->Get(KeyOf(recipes));
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_TRUE(SameEntry(*found, entry));
    EXPECT_EQ(found->manifest, entry.manifest);
  }
}

TEST_P(StoreConformance, EmptyAndRepeatedBlobsAreKept) {
  const Bytes same = BytesOf(7, 500);
  const Entry entry = EntryOf(1, {BytesOf(1, 10), same, Bytes(), same});
  ASSERT_TRUE(store_->Put(entry).ok());
  EXPECT_TRUE(SameEntry(store_->Get(KeyOf(1)).value(), entry));
}

TEST_P(StoreConformance, PuttingAgainReplaces) {
  ASSERT_TRUE(store_->Put(EntryOf(1, {BytesOf(1, 10), BytesOf(2, 2000)})).ok());
  const Entry second = EntryOf(1, {BytesOf(3, 10)});
  ASSERT_TRUE(store_->Put(second).ok());
  EXPECT_TRUE(SameEntry(store_->Get(KeyOf(1)).value(), second));
}

TEST_P(StoreConformance, AnAliasNamesItsProgram) {
  EXPECT_TRUE(absl::IsNotFound(store_->PutAlias(AliasOf(1, 1)))) << "there is no program";
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(store_->Put(EntryOf(2)).ok());
  for (const uint64_t number : {3, 1, 2}) {  // two front ends, one program; and another program
    ASSERT_TRUE(store_->PutAlias(AliasOf(number, number == 2 ? 2 : 1)).ok());
  }
  EXPECT_EQ(store_->GetAlias(AliasIdOf(1)).value(), AliasOf(1, 1));
  EXPECT_EQ(store_->GetAlias(AliasIdOf(2)).value(), AliasOf(2, 2));
  EXPECT_EQ(store_->GetAlias(AliasIdOf(3)).value(), AliasOf(3, 1));
  std::vector<std::string> labels;
  const std::vector<Alias> aliases = store_->ListAliases().value();
  for (const Alias& alias : aliases) labels.push_back(alias.label);
  if (!GetParam().lists) {
    EXPECT_TRUE(labels.empty());
    return;
  }
  EXPECT_THAT(labels, testing::ElementsAre("graph_1", "graph_2", "graph_3"));
}

TEST_P(StoreConformance, TenantsHaveAliasesOfTheirOwn) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(store_->Put(EntryOf(2)).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(1, 1, "a")).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->GetAlias(AliasIdOf(1, "b")).status()));
  ASSERT_TRUE(store_->PutAlias(AliasOf(1, 2, "b")).ok());
  EXPECT_EQ(store_->GetAlias(AliasIdOf(1, "a")).value(), AliasOf(1, 1, "a"));
  EXPECT_EQ(store_->GetAlias(AliasIdOf(1, "b")).value(), AliasOf(1, 2, "b"));
}

TEST_P(StoreConformance, AnAliasIsReplacedAndDropped) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(store_->Put(EntryOf(2)).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(1, 1)).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(1, 2)).ok());
  EXPECT_EQ(store_->GetAlias(AliasIdOf(1)).value(), AliasOf(1, 2));
  EXPECT_EQ(store_->ListAliases().value().size(), GetParam().lists ? 1u : 0u);
  for (int i = 0; i < 2; ++i) {
    const absl::Status dropped = store_->DropAlias(AliasIdOf(1));
    EXPECT_TRUE(dropped.ok() || absl::IsInternal(dropped)) << dropped;
    EXPECT_TRUE(absl::IsNotFound(store_->GetAlias(AliasIdOf(1)).status()));
  }
}

TEST_P(StoreConformance, AliasesLiveAndDieWithTheirProgram) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(1, 1)).ok());
  ASSERT_TRUE(store_->Put(EntryOf(1, {BytesOf(3, 10)})).ok());
  EXPECT_TRUE(store_->GetAlias(AliasIdOf(1)).ok()) << "its program was made anew";
  for (uint64_t number = 2; number < 30; ++number) {
    ASSERT_TRUE(store_->Put(EntryOf(number, 1, 10'000)).ok());
  }
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(1)).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->GetAlias(AliasIdOf(1)).status()));
  EXPECT_TRUE(store_->ListAliases().value().empty());
}

TEST_P(StoreConformance, ListIsNewestFirstAndBounded) {
  for (const uint64_t number : {2, 5, 3}) ASSERT_TRUE(store_->Put(EntryOf(number)).ok());
  const auto created = [&](size_t limit) {
    std::vector<int64_t> times;
    const std::vector<Manifest> manifests = store_->List(limit).value();
    for (const Manifest& manifest : manifests) {
      times.push_back(manifest.created_unix_seconds);
    }
    return times;
  };
  EXPECT_THAT(created(0), testing::ElementsAre(5, 3, 2));
  EXPECT_THAT(created(2), testing::ElementsAre(5, 3));
}

TEST_P(StoreConformance, TheLeastRecentlyUsedGoFirst) {
  // 100,000 bytes hold nine entries of about 10,300.
  for (uint64_t number = 0; number < 9; ++number) {
    ASSERT_TRUE(store_->Put(EntryOf(number, 1, 10'000)).ok());
  }
  ASSERT_TRUE(store_->Get(KeyOf(0)).ok());
  for (uint64_t number = 9; number < 12; ++number) {
    ASSERT_TRUE(store_->Put(EntryOf(number, 1, 10'000)).ok());
  }
  std::set<int64_t> found;
  const std::vector<Manifest> manifests = store_->List(0).value();
  for (const Manifest& manifest : manifests) found.insert(manifest.created_unix_seconds);
  EXPECT_TRUE(found.contains(0));
  for (const int64_t gone : {1, 2}) EXPECT_FALSE(found.contains(gone)) << gone;
  for (int64_t kept = 4; kept < 12; ++kept) EXPECT_TRUE(found.contains(kept)) << kept;
}

TEST_P(StoreConformance, AnEntryLargerThanTheStoreIsRefused) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(store_->Put(EntryOf(2, 1, kMaxBytes + 1))));
  EXPECT_TRUE(store_->Get(KeyOf(1)).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(2)).status()));
}

TEST_P(StoreConformance, SharedBlobsSurviveTheirFirstEntry) {
  const Bytes shared = BytesOf(9, 3000);
  ASSERT_TRUE(store_->Put(EntryOf(1, {BytesOf(1, 10), shared})).ok());
  const Entry second = EntryOf(2, {BytesOf(2, 10), shared});
  ASSERT_TRUE(store_->Put(second).ok());
  ASSERT_TRUE(store_->Put(EntryOf(1, {BytesOf(3, 10)})).ok());
  EXPECT_TRUE(SameEntry(store_->Get(KeyOf(2)).value(), second));
}

TEST_P(StoreConformance, QuarantineTakesAnEntryOutOfService) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(store_->Put(EntryOf(2)).ok());
  EXPECT_TRUE(store_->Quarantine(KeyOf(1), "test").ok());
  EXPECT_TRUE(store_->Quarantine(KeyOf(99), "unknown keys are fine").ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(1)).status()));
  EXPECT_TRUE(store_->Get(KeyOf(2)).ok());
  EXPECT_EQ(store_->List(0).value().size(), GetParam().lists ? 1u : 0u);
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  EXPECT_TRUE(SameEntry(store_->Get(KeyOf(1)).value(), EntryOf(1)));
}

// Engines that servers share look after their entries themselves.
#define HOUSEKEEPING_OR_SKIP() \
  if (absl::IsUnimplemented(store_->Pinned().status())) GTEST_SKIP() << "does none"

TEST_P(StoreConformance, PinnedEntriesAreNotEvicted) {
  HOUSEKEEPING_OR_SKIP();
  EXPECT_TRUE(absl::IsNotFound(store_->Pin(KeyOf(1), true)));
  ASSERT_TRUE(store_->Put(EntryOf(0, 1, 10'000)).ok());
  ASSERT_TRUE(store_->Pin(KeyOf(0), true).ok());
  for (uint64_t number = 1; number < 30; ++number) {
    ASSERT_TRUE(store_->Put(EntryOf(number, 1, 10'000)).ok());
  }
  EXPECT_TRUE(SameEntry(store_->Get(KeyOf(0)).value(), EntryOf(0, 1, 10'000)));
  EXPECT_THAT(store_->Pinned().value(), testing::ElementsAre(KeyOf(0)));
  // What comes anew under its key stays pinned.
  ASSERT_TRUE(store_->Put(EntryOf(0, 1, 10'000)).ok());
  EXPECT_THAT(store_->Pinned().value(), testing::ElementsAre(KeyOf(0)));
  ASSERT_TRUE(store_->Pin(KeyOf(0), false).ok());
  EXPECT_TRUE(store_->Pinned().value().empty());
}

TEST_P(StoreConformance, AStoreFullOfPinnedEntriesTakesNoMore) {
  HOUSEKEEPING_OR_SKIP();
  for (uint64_t number = 0; number < 9; ++number) {
    ASSERT_TRUE(store_->Put(EntryOf(number, 1, 10'000)).ok());
    ASSERT_TRUE(store_->Pin(KeyOf(number), true).ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(store_->Put(EntryOf(9, 1, 10'000))));
  for (uint64_t number = 0; number < 9; ++number) EXPECT_TRUE(store_->Get(KeyOf(number)).ok());
}

TEST_P(StoreConformance, GarbageIsWhatWasNotUsedAndWhatIsTooMuch) {
  HOUSEKEEPING_OR_SKIP();
  for (uint64_t number = 0; number < 6; ++number) {
    ASSERT_TRUE(store_->Put(EntryOf(number, 1, 10'000)).ok());
  }
  ASSERT_TRUE(store_->Pin(KeyOf(1), true).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(2, 2)).ok());
  const uint64_t now = MicrosOfEpoch() + 1;
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  ASSERT_TRUE(store_->Get(KeyOf(0)).ok());
  EXPECT_TRUE(store_->CollectGarbage(kMaxBytes, 0).value().empty());
  // 1 is pinned, 0 was used since; of the others two fit beside them.
  EXPECT_THAT(store_->CollectGarbage(45'000, 0).value(),
              testing::UnorderedElementsAre(KeyOf(2), KeyOf(3)));
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(2)).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->GetAlias(AliasIdOf(2)).status()));
  EXPECT_THAT(store_->CollectGarbage(kMaxBytes, now).value(),
              testing::UnorderedElementsAre(KeyOf(4), KeyOf(5)));
  EXPECT_TRUE(store_->Get(KeyOf(0)).ok());
  EXPECT_TRUE(store_->Get(KeyOf(1)).ok());
}

TEST_P(StoreConformance, VerifyReadsWhatIsThere) {
  HOUSEKEEPING_OR_SKIP();
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  EXPECT_TRUE(store_->Verify(KeyOf(1)).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Verify(KeyOf(2))));
}

TEST_P(StoreConformance, FlushSucceeds) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(store_->Get(KeyOf(1)).ok());
  EXPECT_TRUE(store_->Flush().ok());
}

TEST_P(StoreConformance, ManyThreadsSeeWholeEntries) {
  constexpr int kThreads = 4;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 50; ++i) {
        const uint64_t number = (i * 7 + static_cast<uint64_t>(t)) % 20;
        if (i % 2 == 0) {
          if (!store_->Put(EntryOf(number, 2, 3000)).ok()) ++wrong;
        }
        const absl::StatusOr<Entry> found = store_->Get(KeyOf(number));
        if (!found.ok() && !absl::IsNotFound(found.status())) ++wrong;
        if (found.ok() && !SameEntry(*found, EntryOf(number, 2, 3000))) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Layers, StoreConformance, testing::ValuesIn(Layers()),
                         [](const auto& row) { return row.param.name; });

TEST(ErrorRecipeStore, AnswersEverythingWithItsError) {
  ErrorRecipeStore store(absl::UnavailableError("switched off"));
  EXPECT_TRUE(absl::IsUnavailable(store.Get(KeyOf(1)).status()));
  EXPECT_TRUE(absl::IsUnavailable(store.Put(EntryOf(1))));
  EXPECT_TRUE(absl::IsUnavailable(store.GetAlias(AliasIdOf(1)).status()));
  EXPECT_TRUE(absl::IsUnavailable(store.PutAlias(AliasOf(1, 1))));
  EXPECT_TRUE(absl::IsUnavailable(store.DropAlias(AliasIdOf(1))));
  EXPECT_TRUE(absl::IsUnavailable(store.ListAliases().status()));
  EXPECT_TRUE(absl::IsUnavailable(store.List(0).status()));
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
