// Look-ups that are not waited for: recipe_store/layers/hedge.h.
#include "recipe_store/layers/hedge.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <vector>

#include "recipe_store/layers/forwarding_recipe_store.h"
#include "recipe_store/layers/memory_recipe_store.h"
#include "recipe_store/layers/shared_tier_recipe_store.h"
#include "tests/store/store_testing.h"

namespace hpu::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Look-ups of numbers, each of which answers when it is let go.
class HedgeTest : public testing::Test {
 protected:
  HedgeTest() {
    hedge_.OnArrival([this](const Digest& key) {
      std::lock_guard<std::mutex> lock(mutex_);
      arrived_.push_back(key);
      changed_.notify_all();
    });
  }
  ~HedgeTest() override {
    LetGo();
    hedge_.Stop();
  }

  absl::StatusOr<int> WhenLetGo(absl::StatusOr<int> answer) {
    ++begun_;
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
    return answer;
  }
  void LetGo() {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  absl::StatusOr<int> Slow(uint64_t key, absl::StatusOr<int> answer) {
    return look_ups_.Run(DigestOf(key), [this, answer] { return WhenLetGo(answer); });
  }
  uint64_t Counter(const std::string& name) const {
    std::map<std::string, uint64_t> counters;
    hedge_.AddCounters(counters);
    return counters.at(name);
  }
  static Digest KeyOf(const int& value) { return DigestOf(static_cast<uint64_t>(value)); }

  Hedge hedge_{"place", milliseconds(100)};
  HedgedLookUps<int> look_ups_{&hedge_, &KeyOf};
  std::atomic<int> begun_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  std::vector<Digest> arrived_;
};

TEST_F(HedgeTest, AnAnswerInTimeIsTheAnswer) {
  Hedge hedge("place", milliseconds(20'000));
  HedgedLookUps<int> look_ups(&hedge, &KeyOf);
  const auto after_a_moment = [](absl::StatusOr<int> answer) {
    return [answer] {
      std::this_thread::sleep_for(milliseconds(30));
      return answer;
    };
  };
  EXPECT_EQ(look_ups.Run(DigestOf(1), after_a_moment(7)).value_or(0), 7);
  EXPECT_TRUE(
      absl::IsNotFound(look_ups.Run(DigestOf(1), after_a_moment(NotFound("none"))).status()));
  std::map<std::string, uint64_t> counters;
  hedge.AddCounters(counters);
  EXPECT_EQ(counters.at("place.hedged"), 0u);
  hedge.Stop();
}

TEST_F(HedgeTest, ALateAnswerIsNotWaitedForAndIsTold) {
  const auto begin = steady_clock::now();
  EXPECT_TRUE(absl::IsDeadlineExceeded(Slow(1, 7).status()));
  EXPECT_GE(steady_clock::now() - begin, milliseconds(100));
  LetGo();
  std::unique_lock<std::mutex> lock(mutex_);
  ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(20), [&] { return !arrived_.empty(); }));
  EXPECT_EQ(arrived_, std::vector<Digest>{DigestOf(7)});
  EXPECT_EQ(Counter("place.hedged"), 1u);
  EXPECT_EQ(Counter("place.late"), 1u);
}

TEST_F(HedgeTest, OfOneKeyOneIsUnderWay) {
  EXPECT_FALSE(Slow(1, 7).ok());
  EXPECT_FALSE(Slow(1, 7).ok());
  EXPECT_EQ(begun_, 1);
  EXPECT_EQ(Counter("place.hedged"), 2u);
}

TEST_F(HedgeTest, WhileThePlaceIsSlowNobodyWaits) {
  EXPECT_FALSE(Slow(0, 7).ok());
  const auto begin = steady_clock::now();
  for (uint64_t key = 1; key <= 20; ++key) EXPECT_FALSE(Slow(key, 7).ok());
  EXPECT_LT(steady_clock::now() - begin, milliseconds(1000)) << "20 times 100 ms is more";
  LetGo();
  // It is asked all the time, so it is noticed when it is quick again, and waited for: no answer is
  // there at once, and hardly three of them by chance.
  const auto deadline = steady_clock::now() + std::chrono::seconds(20);
  const auto quick = [] {
    std::this_thread::sleep_for(milliseconds(30));
    return 1;
  };
  int in_a_row = 0;
  for (uint64_t key = 100; in_a_row < 3; ++key) {
    ASSERT_LT(steady_clock::now(), deadline);
    in_a_row = look_ups_.Run(DigestOf(key), quick).ok() ? in_a_row + 1 : 0;
    if (in_a_row == 0) std::this_thread::sleep_for(milliseconds(50));
  }
}

TEST_F(HedgeTest, WhoIsPatientWaitsToTheEnd) {
  std::thread later([this] {
    std::this_thread::sleep_for(milliseconds(300));
    LetGo();
  });
  const PatientScope patient;
  EXPECT_EQ(Slow(1, 7).value_or(0), 7);
  EXPECT_EQ(Counter("place.hedged"), 0u);
  later.join();
}

TEST_F(HedgeTest, TooManyUnderWayIsAMissAtOnce) {
  absl::Status last;
  for (uint64_t key = 0; key < 1000 && !absl::IsResourceExhausted(last); ++key) {
    last = Slow(key, 7).status();
  }
  EXPECT_TRUE(absl::IsResourceExhausted(last)) << last;
}

TEST_F(HedgeTest, WhatThrowsIsAnError) {
  const auto look_up = []() -> absl::StatusOr<int> { throw std::bad_alloc(); };
  EXPECT_TRUE(absl::IsInternal(look_ups_.Run(DigestOf(1), look_up).status()));
}

// Sets programs aside when it is let go.
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

TEST(SharedTier, WhatIsSetAsideIsNotFoundAgainWhereTheEngineIsSlow) {
  std::promise<void> let_go;
  const auto engine = std::make_shared<SlowlyQuarantining>(
      std::make_unique<MemoryRecipeStore>(1 << 20, 0), let_go.get_future().share());
  auto behind = std::make_unique<WriteBehind>(1 << 20, 100);
  SharedTierRecipeStore store(std::make_unique<MemoryRecipeStore>(1 << 20, 0), engine, behind.get(),
                              /*read_only=*/false,
                              std::make_shared<Hedge>("place", milliseconds(100)));
  const Entry old = EntryOf(1);
  ASSERT_TRUE(store.Put(old).ok());
  ASSERT_TRUE(behind->Drain(milliseconds(5000)));
  ASSERT_TRUE(engine->Get(KeyOf(1)).ok());

  const auto aside =
      std::async(std::launch::async, [&] { return store.Quarantine(KeyOf(1), "test"); });
  const bool in_time = aside.wait_for(milliseconds(5000)) == std::future_status::ready;
  EXPECT_TRUE(in_time) << "it waits for the engine";
  EXPECT_TRUE(engine->Get(KeyOf(1)).ok()) << "the engine has it still";
  EXPECT_TRUE(absl::IsNotFound(store.Get(KeyOf(1)).status()));
  // What comes in its place is not withdrawn with it.
  EXPECT_TRUE(store.Put(old).ok());
  let_go.set_value();
  ASSERT_TRUE(behind->Drain(milliseconds(5000)));
  EXPECT_TRUE(engine->Get(KeyOf(1)).ok());
  behind.reset();
}

TEST(SharedTier, WhatIsSetAsideIsWaitedForInAQuickEngine) {
  const auto engine = std::make_shared<MemoryRecipeStore>(1 << 20, 0);
  auto behind = std::make_unique<WriteBehind>(1 << 20, 100);
  SharedTierRecipeStore store(std::make_unique<MemoryRecipeStore>(1 << 20, 0), engine, behind.get(),
                              /*read_only=*/false,
                              std::make_shared<Hedge>("place", milliseconds(10'000)));
  for (uint64_t n = 1; n <= 100; ++n) {
    ASSERT_TRUE(store.Put(EntryOf(n)).ok());
    ASSERT_TRUE(store.Quarantine(KeyOf(n), "test").ok());
    ASSERT_TRUE(absl::IsNotFound(engine->Get(KeyOf(n)).status())) << n;
    ASSERT_TRUE(absl::IsNotFound(store.Get(KeyOf(n)).status())) << n;
  }
  // It can be found again when others put it there.
  ASSERT_TRUE(engine->Put(EntryOf(1)).ok());
  EXPECT_TRUE(store.Get(KeyOf(1)).ok());
  behind.reset();
}

// Sets nothing aside.
class Refusing : public ForwardingRecipeStore {
 public:
  using ForwardingRecipeStore::ForwardingRecipeStore;
  absl::Status Quarantine(const Digest&, const std::string&) override {
    return absl::UnavailableError("the engine is away");
  }
};

TEST(SharedTier, WhatTheEngineCouldNotSetAsideIsNotTakenFromItUntilItIsPutAnew) {
  const auto engine = std::make_shared<Refusing>(std::make_unique<MemoryRecipeStore>(1 << 20, 0));
  auto behind = std::make_unique<WriteBehind>(1 << 20, 100);
  SharedTierRecipeStore store(std::make_unique<MemoryRecipeStore>(1 << 20, 0), engine, behind.get(),
                              /*read_only=*/false,
                              std::make_shared<Hedge>("place", milliseconds(10'000)));
  ASSERT_TRUE(store.Put(EntryOf(1)).ok());
  ASSERT_TRUE(store.Quarantine(KeyOf(1), "test").ok());
  ASSERT_TRUE(behind->Drain(milliseconds(5000)));
  ASSERT_TRUE(engine->Get(KeyOf(1)).ok()) << "the engine has it still";
  EXPECT_TRUE(absl::IsNotFound(store.Get(KeyOf(1)).status()));
  ASSERT_TRUE(store.Put(EntryOf(1)).ok());
  ASSERT_TRUE(behind->Drain(milliseconds(5000)));
  EXPECT_TRUE(store.Get(KeyOf(1)).ok());
  behind.reset();
}

TEST(SharedTier, WhatIsSetAsideIsNotTakenFromAnEngineThatIsOnlyRead) {
  const auto engine = std::make_shared<MemoryRecipeStore>(1 << 20, 0);
  ASSERT_TRUE(engine->Put(EntryOf(1)).ok());
  auto behind = std::make_unique<WriteBehind>(1 << 20, 100);
  SharedTierRecipeStore store(std::make_unique<MemoryRecipeStore>(1 << 20, 0), engine, behind.get(),
                              /*read_only=*/true,
                              std::make_shared<Hedge>("place", milliseconds(10'000)));
  ASSERT_TRUE(store.Get(KeyOf(1)).ok());
  ASSERT_TRUE(store.Quarantine(KeyOf(1), "test").ok());
  EXPECT_TRUE(absl::IsNotFound(store.Get(KeyOf(1)).status()));
  ASSERT_TRUE(store.Put(EntryOf(1)).ok());
  EXPECT_TRUE(store.Get(KeyOf(1)).ok()) << "ours";
  behind.reset();
}

// Answers a look-up with what it had when it was asked, once it is let go.
class ReadingSlowly : public ForwardingRecipeStore {
 public:
  ReadingSlowly(std::unique_ptr<RecipeStore> inner, std::promise<void>* asked,
                std::shared_future<void> let_go)
      : ForwardingRecipeStore(std::move(inner)), asked_(asked), let_go_(std::move(let_go)) {}
  absl::StatusOr<Entry> Get(const Digest& key) override {
    absl::StatusOr<Entry> found = ForwardingRecipeStore::Get(key);
    asked_->set_value();
    let_go_.wait();
    return found;
  }

 private:
  std::promise<void>* const asked_;
  const std::shared_future<void> let_go_;
};

TEST(SharedTier, WhatWasReadBeforeItWasSetAsideIsNotFiledAfterwards) {
  std::promise<void> asked, let_go;
  const auto engine = std::make_shared<ReadingSlowly>(
      std::make_unique<MemoryRecipeStore>(1 << 20, 0), &asked, let_go.get_future().share());
  ASSERT_TRUE(engine->Put(EntryOf(1)).ok());
  auto behind = std::make_unique<WriteBehind>(1 << 20, 100);
  auto near = std::make_unique<MemoryRecipeStore>(1 << 20, 0);
  MemoryRecipeStore* const kept = near.get();
  SharedTierRecipeStore store(std::move(near), engine, behind.get(), /*read_only=*/false,
                              std::make_shared<Hedge>("place", milliseconds(10'000)));
  auto read = std::async(std::launch::async, [&] { return store.Get(KeyOf(1)); });
  asked.get_future().wait();
  ASSERT_TRUE(store.Quarantine(KeyOf(1), "test").ok());
  ASSERT_TRUE(behind->Drain(milliseconds(5000)));
  let_go.set_value();
  EXPECT_TRUE(absl::IsNotFound(read.get().status()));
  EXPECT_TRUE(absl::IsNotFound(kept->Get(KeyOf(1)).status()));
  behind.reset();
}

}  // namespace
}  // namespace hpu::store
