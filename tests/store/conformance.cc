#include "tests/store/conformance.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "recipe_store/layers/error_recipe_store.h"
#include "recipe_store/layers/memory_recipe_store.h"
#include "recipe_store/layers/metrics_recipe_store.h"
#include "recipe_store/layers/read_caching_recipe_store.h"
#include "recipe_store/layers/verifying_recipe_store.h"
#include "recipe_store/rocksdb/rocksdb_recipe_store.h"
#include "tests/store/fake_remote_cache.h"
#include "tests/store/redis_server.h"

namespace hpu::store {
namespace {

constexpr uint64_t kMaxBytes = kConformanceBytes;

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

}  // namespace

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

void StoreConformance::SetUp() {
  const std::string test = testing::UnitTest::GetInstance()->current_test_info()->name();
  for (const Unsupported& row : kUnsupported) {
    if (GetParam().name == row.layer && test.starts_with(std::string(row.test) + "/")) {
      GTEST_SKIP() << row.reason;
    }
  }
  store_ = GetParam().make(folder_);
  if (store_ == nullptr) GTEST_SKIP() << GetParam().why_none;
}

}  // namespace hpu::store
