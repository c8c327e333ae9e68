// The shared tier: what the near store and the shared store are asked, and what is kept near.
#include "recipe_store/layers/shared_tier_recipe_store.h"

#include <gtest/gtest.h>

#include <thread>

#include "recipe_store/layers/memory_recipe_store.h"
#include "tests/store/failing_recipe_store.h"
#include "tests/store/store_testing.h"

namespace hpu::store {
namespace {

constexpr uint64_t kMaxBytes = 1 << 20;
constexpr uint64_t kNearBytes = 100'000;

class SharedTier : public testing::Test {
 protected:
  ~SharedTier() override { behind_.reset(); }

  void Open(std::shared_ptr<RecipeStore> engine, bool read_only = false,
            uint64_t tenant_bytes = 0) {
    engine_ = engine;
    auto near = std::make_unique<MemoryRecipeStore>(kNearBytes, tenant_bytes);
    near_ = near.get();
    // Look-ups wait to their end.
    auto hedge = std::make_shared<Hedge>("shared", std::chrono::milliseconds(0));
    store_ = std::make_unique<SharedTierRecipeStore>(std::move(near), std::move(engine),
                                                     behind_.get(), read_only, std::move(hedge));
  }
  void OpenOverMemory(bool read_only = false, uint64_t tenant_bytes = 0) {
    Open(std::make_shared<MemoryRecipeStore>(kMaxBytes), read_only, tenant_bytes);
  }
  uint64_t Counter(const std::string& name) const {
    std::map<std::string, uint64_t> counters;
    store_->AddCounters(counters);
    return counters.at("shared." + name);
  }

  std::unique_ptr<SharedTierRecipeStore> store_;
  MemoryRecipeStore* near_ = nullptr;
  std::shared_ptr<RecipeStore> engine_;
  // Its destructor comes first, because a queued write uses the store.
  std::unique_ptr<WriteBehind> behind_ = std::make_unique<WriteBehind>(kMaxBytes, 100);
};

TEST_F(SharedTier, TheNearStoreAnswersForWhatItHas) {
  OpenOverMemory();
  ASSERT_TRUE(near_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(near_->PutAlias(AliasOf(1, 1)).ok());
  EXPECT_TRUE(SameEntry(store_->Get(KeyOf(1)).value(), EntryOf(1)));
  EXPECT_EQ(store_->GetAlias(AliasIdOf(1)).value(), AliasOf(1, 1));
  EXPECT_EQ(Counter("hits") + Counter("misses"), 0u) << "the shared store was not asked";
}

TEST_F(SharedTier, AProgramOfTheSharedStoreIsKeptNear) {
  OpenOverMemory();
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(1)).status()));
  EXPECT_EQ(Counter("misses"), 1u);
  ASSERT_TRUE(engine_->Put(EntryOf(1)).ok());
  EXPECT_TRUE(SameEntry(store_->Get(KeyOf(1)).value(), EntryOf(1)));
  EXPECT_TRUE(near_->Get(KeyOf(1)).ok());
  EXPECT_TRUE(store_->Get(KeyOf(1)).ok());
  EXPECT_EQ(Counter("hits"), 1u) << "the second time the near store had it";
}

TEST_F(SharedTier, AnAliasOfTheSharedStoreBringsItsProgram) {
  OpenOverMemory();
  ASSERT_TRUE(engine_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(engine_->PutAlias(AliasOf(1, 1)).ok());
  EXPECT_EQ(store_->GetAlias(AliasIdOf(1)).value(), AliasOf(1, 1));
  EXPECT_EQ(near_->GetAlias(AliasIdOf(1)).value(), AliasOf(1, 1));
  EXPECT_TRUE(near_->Get(KeyOf(1)).ok());
}

TEST_F(SharedTier, AnAliasIsNotKeptIfItsProgramIsLargerThanTheTenantsShare) {
  OpenOverMemory(/*read_only=*/false, /*tenant_bytes=*/500);
  ASSERT_TRUE(engine_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(engine_->PutAlias(AliasOf(1, 1)).ok());
  EXPECT_EQ(store_->GetAlias(AliasIdOf(1)).value(), AliasOf(1, 1));
  EXPECT_TRUE(absl::IsNotFound(near_->Get(KeyOf(1)).status()));
  EXPECT_TRUE(absl::IsNotFound(near_->GetAlias(AliasIdOf(1)).status()));
}

TEST_F(SharedTier, AFaultOfTheSharedStoreIsAMiss) {
  Open(std::make_shared<FailingRecipeStore>(absl::UnavailableError("away")));
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(1)).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->GetAlias(AliasIdOf(1)).status()));
  EXPECT_EQ(Counter("read_failures"), 2u);
  EXPECT_EQ(Counter("misses"), 0u);
  EXPECT_TRUE(store_->Put(EntryOf(1)).ok());
  EXPECT_TRUE(store_->PutAlias(AliasOf(1, 1)).ok());
  ASSERT_TRUE(store_->Flush().ok());
  EXPECT_EQ(Counter("write_failures"), 2u);
  EXPECT_TRUE(store_->Get(KeyOf(1)).ok());
}

TEST_F(SharedTier, WritesReachBothStores) {
  OpenOverMemory();
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(1, 1)).ok());
  ASSERT_TRUE(store_->Flush().ok());
  EXPECT_TRUE(near_->Get(KeyOf(1)).ok());
  EXPECT_TRUE(SameEntry(engine_->Get(KeyOf(1)).value(), EntryOf(1)));
  EXPECT_EQ(engine_->GetAlias(AliasIdOf(1)).value(), AliasOf(1, 1));
  ASSERT_TRUE(store_->DropAlias(AliasIdOf(1)).ok());
  ASSERT_TRUE(store_->Flush().ok());
  EXPECT_TRUE(absl::IsNotFound(near_->GetAlias(AliasIdOf(1)).status()));
  EXPECT_TRUE(absl::IsNotFound(engine_->GetAlias(AliasIdOf(1)).status()));
}

TEST_F(SharedTier, TheAnswerOfTheNearStoreCountsAndTheSharedStoreIsWrittenAllTheSame) {
  OpenOverMemory();
  const Entry large = EntryOf(1, 1, kNearBytes);
  EXPECT_TRUE(absl::IsResourceExhausted(store_->Put(large)));
  ASSERT_TRUE(store_->Flush().ok());
  EXPECT_TRUE(engine_->Get(KeyOf(1)).ok());
}

TEST_F(SharedTier, AnEngineThatIsOnlyReadIsNotChanged) {
  OpenOverMemory(/*read_only=*/true);
  ASSERT_TRUE(engine_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(engine_->PutAlias(AliasOf(1, 1)).ok());
  ASSERT_TRUE(store_->Put(EntryOf(2)).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(2, 2)).ok());
  ASSERT_TRUE(store_->DropAlias(AliasIdOf(1)).ok());
  ASSERT_TRUE(store_->Quarantine(KeyOf(1), "test").ok());
  ASSERT_TRUE(store_->Flush().ok());
  EXPECT_TRUE(near_->Get(KeyOf(2)).ok());
  EXPECT_TRUE(engine_->Get(KeyOf(1)).ok());
  EXPECT_TRUE(engine_->GetAlias(AliasIdOf(1)).ok());
  EXPECT_TRUE(absl::IsNotFound(engine_->Get(KeyOf(2)).status()));
  EXPECT_TRUE(absl::IsNotFound(engine_->GetAlias(AliasIdOf(2)).status()));
}

TEST_F(SharedTier, APinBringsTheProgramFirst) {
  OpenOverMemory();
  EXPECT_TRUE(absl::IsNotFound(store_->Pin(KeyOf(1), true)));
  ASSERT_TRUE(engine_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(store_->Pin(KeyOf(1), true).ok());
  EXPECT_EQ(near_->Pinned().value(), std::vector<Digest>{KeyOf(1)});
}

TEST_F(SharedTier, ListsAndVerifyAreOfTheNearStore) {
  OpenOverMemory();
  ASSERT_TRUE(engine_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(engine_->PutAlias(AliasOf(1, 1)).ok());
  ASSERT_TRUE(near_->Put(EntryOf(2)).ok());
  EXPECT_EQ(store_->List(0, {}).value(), std::vector<Manifest>{EntryOf(2).manifest});
  EXPECT_EQ(store_->Positions(0, {}).value(),
            std::vector<ListPosition>{PositionOf(EntryOf(2).manifest)});
  EXPECT_TRUE(store_->AliasesOf(KeyOf(1)).value().empty());
  EXPECT_TRUE(absl::IsNotFound(store_->Verify(KeyOf(1))));
  EXPECT_TRUE(store_->Verify(KeyOf(2)).ok());
}

// Notes the thread of the last look-up.
class NotingThreads : public ForwardingRecipeStore {
 public:
  using ForwardingRecipeStore::ForwardingRecipeStore;
  absl::StatusOr<Entry> Find(const Digest& key, Purpose purpose) override {
    thread = std::this_thread::get_id();
    return ForwardingRecipeStore::Find(key, purpose);
  }

  std::thread::id thread;
};

// A look-up that is waited for to its end runs on the thread of the caller.
TEST_F(SharedTier, InspectingWaitsForTheSharedStoreToTheEnd) {
  auto engine = std::make_shared<NotingThreads>(std::make_unique<MemoryRecipeStore>(kMaxBytes));
  ASSERT_TRUE(engine->Put(EntryOf(1)).ok());
  ASSERT_TRUE(engine->Put(EntryOf(2)).ok());
  SharedTierRecipeStore store(std::make_unique<MemoryRecipeStore>(kMaxBytes), engine, behind_.get(),
                              /*read_only=*/false,
                              std::make_shared<Hedge>("shared", std::chrono::milliseconds(60'000)));
  EXPECT_TRUE(store.Peek(KeyOf(1)).ok());
  EXPECT_EQ(engine->thread, std::this_thread::get_id());
  EXPECT_TRUE(store.Get(KeyOf(2)).ok());
  EXPECT_NE(engine->thread, std::this_thread::get_id());
  behind_.reset();
}

}  // namespace
}  // namespace hpu::store
