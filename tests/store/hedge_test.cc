#include "recipe_store/layers/hedge.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <thread>
#include <vector>

#include "tests/store/store_testing.h"

namespace hpu::store {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A time that no test reaches. A look-up that begins then cannot be late.
const Hedge::Time kFar = steady_clock::now() + std::chrono::hours(1);

// These look-ups are of numbers. Each waits until LetGo, so all of them are late.
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
    std::unique_lock<std::mutex> lock(mutex_);
    ++begun_;
    changed_.notify_all();
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

  // Waits until `event` is true of what the mutex guards.
  template <typename Event>
  void Await(const Event& event) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, event);
  }

  Hedge hedge_{"place", milliseconds(1)};
  HedgedLookUps<int> look_ups_{&hedge_, &KeyOf};
  std::mutex mutex_;
  std::condition_variable changed_;
  // The fields below are guarded by mutex_.
  int begun_ = 0;
  bool open_ = false;
  std::vector<Digest> arrived_;
};

TEST_F(HedgeTest, AnAnswerInTimeIsTheAnswer) {
  Hedge hedge("place", milliseconds(60'000));
  HedgedLookUps<int> look_ups(&hedge, &KeyOf);
  const auto answering = [](absl::StatusOr<int> answer) { return [answer] { return answer; }; };
  EXPECT_EQ(look_ups.Run(DigestOf(1), answering(7)).value_or(0), 7);
  EXPECT_TRUE(absl::IsNotFound(look_ups.Run(DigestOf(1), answering(NotFound("none"))).status()));
  std::map<std::string, uint64_t> counters;
  hedge.AddCounters(counters);
  EXPECT_EQ(counters.at("place.hedged"), 0u);
  hedge.Stop();
}

TEST_F(HedgeTest, ALateAnswerIsNotWaitedForAndIsTold) {
  EXPECT_TRUE(absl::IsDeadlineExceeded(Slow(1, 7).status()));
  LetGo();
  Await([this] { return !arrived_.empty(); });
  EXPECT_EQ(arrived_, std::vector<Digest>{DigestOf(7)});
  EXPECT_EQ(Counter("place.hedged"), 1u);
  EXPECT_EQ(Counter("place.late"), 1u);
}

TEST_F(HedgeTest, OfOneKeyOneIsUnderWay) {
  EXPECT_FALSE(Slow(1, 7).ok());
  EXPECT_FALSE(Slow(1, 7).ok());
  EXPECT_FALSE(Slow(2, 8).ok());
  // The first two share a look-up, so that of the second key is the second one.
  Await([this] { return begun_ >= 2; });
  LetGo();
  Await([this] { return arrived_.size() == 2; });
  hedge_.Stop();
  EXPECT_EQ(begun_, 2);
  EXPECT_EQ(Counter("place.hedged"), 3u);
}

TEST_F(HedgeTest, AfterALateLookUpNobodyWaitsUntilOneIsInTime) {
  EXPECT_EQ(hedge_.Deadline(kFar), kFar + milliseconds(1));
  EXPECT_FALSE(Slow(1, 7).ok());
  EXPECT_LT(hedge_.Deadline(kFar), kFar) << "the wait is over at once";
  hedge_.NoteEnd(steady_clock::now() - std::chrono::hours(1));
  EXPECT_LT(hedge_.Deadline(kFar), kFar) << "this one was late as well";
  hedge_.NoteEnd(kFar);
  EXPECT_EQ(hedge_.Deadline(kFar), kFar + milliseconds(1));
}

TEST_F(HedgeTest, APatientCallerRunsTheLookUpToItsEnd) {
  const PatientScope patient;
  const auto look_up = []() -> absl::StatusOr<std::thread::id> {
    return std::this_thread::get_id();
  };
  HedgedLookUps<std::thread::id> look_ups(&hedge_, [](const std::thread::id&) { return Digest(); });
  EXPECT_EQ(look_ups.Run(DigestOf(1), look_up).value(), std::this_thread::get_id());
  EXPECT_EQ(Counter("place.hedged"), 0u);
}

TEST_F(HedgeTest, TooManyUnderWayIsAMissAtOnce) {
  absl::Status last;
  for (uint64_t key = 0; key < 1000 && !absl::IsResourceExhausted(last); ++key) {
    last = Slow(key, 7).status();
  }
  EXPECT_TRUE(absl::IsResourceExhausted(last)) << last;
}

TEST_F(HedgeTest, WhatThrowsIsAnError) {
  Hedge hedge("place", milliseconds(60'000));
  HedgedLookUps<int> look_ups(&hedge, &KeyOf);
  const auto look_up = []() -> absl::StatusOr<int> { throw std::bad_alloc(); };
  EXPECT_TRUE(absl::IsInternal(look_ups.Run(DigestOf(1), look_up).status()));
  hedge.Stop();
}

}  // namespace
}  // namespace hpu::store
