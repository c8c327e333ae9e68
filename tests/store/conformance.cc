#include "tests/store/conformance.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "recipe_store/layers/memory_recipe_store.h"
#include "recipe_store/layers/metrics_recipe_store.h"
#include "recipe_store/layers/read_caching_recipe_store.h"
#include "recipe_store/layers/read_only_recipe_store.h"
#include "recipe_store/layers/shared_tier_recipe_store.h"
#include "recipe_store/layers/verifying_recipe_store.h"
#include "recipe_store/rocksdb/rocksdb_recipe_store.h"
#include "tests/store/failing_recipe_store.h"
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

// Returns a store at one server for all tests, with a prefix of its own, or null if no server is
// installed.
std::unique_ptr<RecipeStore> MakeRedis() {
  if (!WhyNoRedis().empty()) return nullptr;
  static RedisServer server;
  static int count = 0;
  RedisOptions options = TestOptions(server.address());
  options.prefix = "store" + std::to_string(++count);
  options.max_entry_bytes = kMaxBytes;
  return StoreAt(options);
}

// AtFakeCache is a server and its client.
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

// Returns null under ThreadSanitizer, which does not see the locks of gRPC's threads.
std::unique_ptr<RecipeStore> MakeAtFakeCache() {
#ifdef __SANITIZE_THREAD__
  return nullptr;
#else
  return std::make_unique<AtFakeCache>();
#endif
}

// Returns a store at the server that tests/store/buildgrid.py has started. Each test has an
// instance of the server to itself.
std::unique_ptr<RecipeStore> MakeAtRealCache() {
  const char* const address = std::getenv("HPU_TEST_REMOTE_CACHE");
  if (address == nullptr) return nullptr;
  static int count = 0;
  return std::make_unique<RemoteCacheRecipeStore>(
      AtFakeCache::ClientOf(address, "store" + std::to_string(++count)));
}

// Reads through a ReadOnlyRecipeStore and writes to the engine below it, so that the promises about
// reads are tested. layers_test.cc tests that the layer itself writes nothing.
class WrittenBelowReadOnly : public ForwardingRecipeStore {
 public:
  explicit WrittenBelowReadOnly(std::unique_ptr<RecipeStore> engine)
      : WrittenBelowReadOnly(engine.get(), std::move(engine)) {}

  absl::Status Put(const Entry& entry) override { return engine_->Put(entry); }
  absl::Status Quarantine(const Digest& key, const std::string& reason) override {
    return engine_->Quarantine(key, reason);
  }
  absl::Status PutAlias(const AliasRecord& alias) override { return engine_->PutAlias(alias); }
  absl::Status DropAlias(const Digest& id) override { return engine_->DropAlias(id); }

 private:
  WrittenBelowReadOnly(RecipeStore* engine, std::unique_ptr<RecipeStore>&& owned)
      : ForwardingRecipeStore(std::make_unique<ReadOnlyRecipeStore>(std::move(owned))),
        engine_(engine) {}

  RecipeStore* const engine_;
};

// A shared tier with its queue. A write returns when the queue is empty, so that a test finds in
// the shared store what it has put.
class DrainedSharedTier : public ForwardingRecipeStore {
 public:
  explicit DrainedSharedTier(std::shared_ptr<RecipeStore> shared)
      : DrainedSharedTier(std::move(shared),
                          std::make_unique<WriteBehind>(100 * kMaxBytes, /*max_tasks=*/1000)) {}

  absl::Status Put(const Entry& entry) override {
    return Drained(ForwardingRecipeStore::Put(entry));
  }
  absl::Status PutAlias(const AliasRecord& alias) override {
    return Drained(ForwardingRecipeStore::PutAlias(alias));
  }
  absl::Status DropAlias(const Digest& id) override {
    return Drained(ForwardingRecipeStore::DropAlias(id));
  }

 private:
  DrainedSharedTier(std::shared_ptr<RecipeStore> shared, std::unique_ptr<WriteBehind> behind)
      : ForwardingRecipeStore(std::make_unique<SharedTierRecipeStore>(
            MakeMemory(), std::move(shared), behind.get(), /*read_only=*/false,
            std::make_shared<Hedge>("shared", std::chrono::milliseconds(0)))),
        behind_(std::move(behind)) {}
  absl::Status Drained(absl::Status status) {
    EXPECT_TRUE(behind_->Drain(std::chrono::minutes(1)));
    return status;
  }

  const std::unique_ptr<WriteBehind> behind_;
};

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
    {"buildgrid", "AliasesLiveAndDieWithTheirProgram", "its server evicts, by its own limits"},
    {"buildgrid", "TheLeastRecentlyUsedGoFirst", "its server evicts, by its own limits"},
    {"shared_tier", "GarbageIsWhatWasNotUsedAndWhatIsTooMuch",
     "the shared store keeps what this server removes"},
};

}  // namespace

const std::vector<Layer>& Layers() {
  static const auto* const layers = new std::vector<Layer>{
      {"memory", [](const TemporaryFolder&) { return MakeMemory(); }},
      {"rocksdb", MakeRocksDb},
      {"redis", [](const TemporaryFolder&) { return MakeRedis(); }, false, WhyNoRedis()},
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
         return MakeReadCaching(MakeMemory(), MakeRocksDb(folder));
       }},
      {"read_caching_over_broken_cache",
       [](const TemporaryFolder& folder) {
         return MakeReadCaching(std::make_unique<FailingRecipeStore>(absl::InternalError("broken")),
                                MakeRocksDb(folder));
       }},
      {"read_only",
       [](const TemporaryFolder&) { return std::make_unique<WrittenBelowReadOnly>(MakeMemory()); }},
      {"shared_tier",
       [](const TemporaryFolder&) { return std::make_unique<DrainedSharedTier>(MakeMemory()); }},
      {"shared_tier_over_broken_engine",
       [](const TemporaryFolder&) {
         return std::make_unique<DrainedSharedTier>(
             std::make_shared<FailingRecipeStore>(absl::UnavailableError("broken")));
       }},
      {"full_stack",
       [](const TemporaryFolder& folder) {
         return std::make_unique<MetricsRecipeStore>(
             MakeReadCaching(MakeMemory(), MakeVerifying(MakeRocksDb(folder))), "store");
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
