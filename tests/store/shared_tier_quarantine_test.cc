// Programs that are quarantined while several servers share them.
#include <gtest/gtest.h>

#include <future>

#include "recipe_store/layers/memory_recipe_store.h"
#include "recipe_store/layers/shared_tier_recipe_store.h"
#include "tests/store/store_testing.h"

namespace hpu::store {
namespace {

// No wait of a test that passes takes so long.
constexpr std::chrono::milliseconds kLong{60'000};

// Quarantines programs when it is let go.
class SlowlyQuarantining : public ForwardingRecipeStore {
 public:
  SlowlyQuarantining(std::unique_ptr<RecipeStore> inner, std::shared_future<void> let_go)
      : ForwardingRecipeStore(std::move(inner)), let_go_(std::move(let_go)) {}
  absl::Status Quarantine(const Digest& key, const std::string& reason) override {
    let_go_.wait();
    return ForwardingRecipeStore::Quarantine(key, reason);
  }

 private:
  const std::shared_future<void> let_go_;
};

TEST(SharedTierQuarantine, AQuarantinedProgramIsNotFoundAgainInASlowEngine) {
  std::promise<void> let_go;
  const auto engine = std::make_shared<SlowlyQuarantining>(
      std::make_unique<MemoryRecipeStore>(1 << 20, 0), let_go.get_future().share());
  auto behind = std::make_unique<WriteBehind>(1 << 20, 100);
  SharedTierRecipeStore store(std::make_unique<MemoryRecipeStore>(1 << 20, 0), engine, behind.get(),
                              /*read_only=*/false,
                              std::make_shared<Hedge>("place", std::chrono::milliseconds(1)));
  const Entry old = EntryOf(1);
  ASSERT_TRUE(store.Put(old).ok());
  ASSERT_TRUE(behind->Drain(kLong));
  ASSERT_TRUE(engine->Get(KeyOf(1)).ok());

  // The engine has not been let go, so this would not return if it waited for the engine.
  EXPECT_TRUE(store.Quarantine(KeyOf(1), "test").ok());
  EXPECT_TRUE(engine->Get(KeyOf(1)).ok()) << "the engine has it still";
  EXPECT_TRUE(absl::IsNotFound(store.Get(KeyOf(1)).status()));
  // A program that is put in its place is not withdrawn with it.
  EXPECT_TRUE(store.Put(old).ok());
  let_go.set_value();
  ASSERT_TRUE(behind->Drain(kLong));
  EXPECT_TRUE(engine->Get(KeyOf(1)).ok());
  behind.reset();
}

TEST(SharedTierQuarantine, QuarantineWaitsForAQuickEngine) {
  const auto engine = std::make_shared<MemoryRecipeStore>(1 << 20, 0);
  auto behind = std::make_unique<WriteBehind>(1 << 20, 100);
  SharedTierRecipeStore store(std::make_unique<MemoryRecipeStore>(1 << 20, 0), engine, behind.get(),
                              /*read_only=*/false, std::make_shared<Hedge>("place", kLong));
  for (uint64_t n = 1; n <= 100; ++n) {
    ASSERT_TRUE(store.Put(EntryOf(n)).ok());
    ASSERT_TRUE(store.Quarantine(KeyOf(n), "test").ok());
    ASSERT_TRUE(absl::IsNotFound(engine->Get(KeyOf(n)).status())) << n;
    ASSERT_TRUE(absl::IsNotFound(store.Get(KeyOf(n)).status())) << n;
  }
  // The program is found again when another server puts it there.
  ASSERT_TRUE(engine->Put(EntryOf(1)).ok());
  EXPECT_TRUE(store.Get(KeyOf(1)).ok());
  behind.reset();
}

// Refuses to quarantine anything.
class Refusing : public ForwardingRecipeStore {
 public:
  using ForwardingRecipeStore::ForwardingRecipeStore;
  absl::Status Quarantine(const Digest&, const std::string&) override {
    return absl::UnavailableError("the engine is away");
  }
};

TEST(SharedTierQuarantine, AProgramThatTheEngineCouldNotQuarantineIsAMissUntilItIsPutAgain) {
  const auto engine = std::make_shared<Refusing>(std::make_unique<MemoryRecipeStore>(1 << 20, 0));
  auto behind = std::make_unique<WriteBehind>(1 << 20, 100);
  SharedTierRecipeStore store(std::make_unique<MemoryRecipeStore>(1 << 20, 0), engine, behind.get(),
                              /*read_only=*/false, std::make_shared<Hedge>("place", kLong));
  ASSERT_TRUE(store.Put(EntryOf(1)).ok());
  ASSERT_TRUE(store.Quarantine(KeyOf(1), "test").ok());
  ASSERT_TRUE(behind->Drain(kLong));
  ASSERT_TRUE(engine->Get(KeyOf(1)).ok()) << "the engine has it still";
  EXPECT_TRUE(absl::IsNotFound(store.Get(KeyOf(1)).status()));
  ASSERT_TRUE(store.Put(EntryOf(1)).ok());
  ASSERT_TRUE(behind->Drain(kLong));
  EXPECT_TRUE(store.Get(KeyOf(1)).ok());
  behind.reset();
}

TEST(SharedTierQuarantine, AQuarantinedProgramIsNotTakenFromAnEngineThatIsOnlyRead) {
  const auto engine = std::make_shared<MemoryRecipeStore>(1 << 20, 0);
  ASSERT_TRUE(engine->Put(EntryOf(1)).ok());
  auto behind = std::make_unique<WriteBehind>(1 << 20, 100);
  SharedTierRecipeStore store(std::make_unique<MemoryRecipeStore>(1 << 20, 0), engine, behind.get(),
                              /*read_only=*/true, std::make_shared<Hedge>("place", kLong));
  ASSERT_TRUE(store.Get(KeyOf(1)).ok());
  ASSERT_TRUE(store.Quarantine(KeyOf(1), "test").ok());
  EXPECT_TRUE(absl::IsNotFound(store.Get(KeyOf(1)).status()));
  ASSERT_TRUE(store.Put(EntryOf(1)).ok());
  EXPECT_TRUE(store.Get(KeyOf(1)).ok()) << "ours";
  behind.reset();
}

// Reads at once and answers when it is let go.
class ReadingSlowly : public ForwardingRecipeStore {
 public:
  ReadingSlowly(std::unique_ptr<RecipeStore> inner, std::promise<void>* asked,
                std::shared_future<void> let_go)
      : ForwardingRecipeStore(std::move(inner)), asked_(asked), let_go_(std::move(let_go)) {}
  absl::StatusOr<Entry> Find(const Digest& key, Purpose purpose) override {
    absl::StatusOr<Entry> found = ForwardingRecipeStore::Find(key, purpose);
    asked_->set_value();
    let_go_.wait();
    return found;
  }

 private:
  std::promise<void>* const asked_;
  const std::shared_future<void> let_go_;
};

TEST(SharedTierQuarantine, AProgramThatWasReadBeforeItsQuarantineIsNotFiledAfterwards) {
  std::promise<void> asked, let_go;
  const auto engine = std::make_shared<ReadingSlowly>(
      std::make_unique<MemoryRecipeStore>(1 << 20, 0), &asked, let_go.get_future().share());
  ASSERT_TRUE(engine->Put(EntryOf(1)).ok());
  auto behind = std::make_unique<WriteBehind>(1 << 20, 100);
  auto near = std::make_unique<MemoryRecipeStore>(1 << 20, 0);
  MemoryRecipeStore* const kept = near.get();
  SharedTierRecipeStore store(std::move(near), engine, behind.get(), /*read_only=*/false,
                              std::make_shared<Hedge>("place", kLong));
  auto read = std::async(std::launch::async, [&] { return store.Get(KeyOf(1)); });
  asked.get_future().wait();
  ASSERT_TRUE(store.Quarantine(KeyOf(1), "test").ok());
  ASSERT_TRUE(behind->Drain(kLong));
  let_go.set_value();
  EXPECT_TRUE(absl::IsNotFound(read.get().status()));
  EXPECT_TRUE(absl::IsNotFound(kept->Get(KeyOf(1)).status()));
  behind.reset();
}

}  // namespace
}  // namespace hpu::store
