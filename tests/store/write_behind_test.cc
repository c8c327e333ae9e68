// The queue of writes that nobody waits for.
#include "recipe_store/layers/write_behind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <stdexcept>
#include <vector>

namespace hpu::store {
namespace {

using testing::ElementsAre;

// No wait of a test that passes takes so long.
constexpr std::chrono::milliseconds kLong{60'000};

class WriteBehindTest : public testing::Test {
 protected:
  ~WriteBehindTest() override { LetGo(); }

  // Adds a task that runs until LetGo, and returns when it runs.
  void Block(uint64_t bytes) {
    std::promise<void> runs;
    behind_->Add(bytes, [&runs, gate = gate_.get_future().share()] {
      runs.set_value();
      gate.wait();
    });
    runs.get_future().wait();
  }
  void LetGo() {
    if (!std::exchange(open_, true)) gate_.set_value();
  }
  // Adds a task that notes its number. One thread runs all tasks, and Drain or the destructor ends
  // before a test reads `ran_`.
  void Add(int number, uint64_t bytes = 1) {
    behind_->Add(bytes, [this, number] { ran_.push_back(number); });
  }
  uint64_t Counter(const std::string& name) const {
    std::map<std::string, uint64_t> counters;
    behind_->AddCounters(counters);
    return counters.at("shared." + name);
  }

  std::vector<int> ran_;
  std::promise<void> gate_;
  bool open_ = false;
  std::unique_ptr<WriteBehind> behind_ = std::make_unique<WriteBehind>(/*max_bytes=*/100,
                                                                       /*max_tasks=*/3);
};

TEST_F(WriteBehindTest, TasksRunInTheOrderInWhichTheyCame) {
  Block(1);
  for (const int number : {1, 2, 3}) Add(number);
  EXPECT_EQ(Counter("waiting_writes"), 4u) << "the one that runs is not done yet";
  LetGo();
  ASSERT_TRUE(behind_->Drain(kLong));
  EXPECT_THAT(ran_, ElementsAre(1, 2, 3));
  EXPECT_EQ(Counter("waiting_writes"), 0u);
  EXPECT_EQ(Counter("dropped_writes"), 0u);
}

TEST_F(WriteBehindTest, ATaskThatDoesNotFitIntoTheBytesIsDropped) {
  Block(60);
  Add(1, 41);
  Add(2, 40);
  EXPECT_EQ(Counter("dropped_writes"), 1u);
  LetGo();
  ASSERT_TRUE(behind_->Drain(kLong));
  EXPECT_THAT(ran_, ElementsAre(2));
  Add(3, 100);
  ASSERT_TRUE(behind_->Drain(kLong));
  EXPECT_THAT(ran_, ElementsAre(2, 3)) << "what has run takes no room";
}

TEST_F(WriteBehindTest, ATaskTooManyIsDropped) {
  Block(1);
  for (const int number : {1, 2, 3, 4}) Add(number);
  EXPECT_EQ(Counter("dropped_writes"), 1u);
  LetGo();
  ASSERT_TRUE(behind_->Drain(kLong));
  EXPECT_THAT(ran_, ElementsAre(1, 2, 3));
}

TEST_F(WriteBehindTest, ATaskWithoutBytesIsAlwaysTaken) {
  Block(100);
  for (const int number : {1, 2, 3, 4, 5}) Add(number, 0);
  EXPECT_EQ(Counter("dropped_writes"), 0u);
  LetGo();
  ASSERT_TRUE(behind_->Drain(kLong));
  EXPECT_THAT(ran_, ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(WriteBehindTest, ATaskThatThrowsIsNotTheEndOfTheOthers) {
  behind_->Add(1, [] { throw std::runtime_error("broken"); });
  Add(1);
  ASSERT_TRUE(behind_->Drain(kLong));
  EXPECT_THAT(ran_, ElementsAre(1));
  EXPECT_EQ(Counter("waiting_writes"), 0u);
}

TEST_F(WriteBehindTest, DrainGivesUpWhenItsPatienceIsOver) {
  Block(1);
  EXPECT_FALSE(behind_->Drain(std::chrono::milliseconds(0)));
  LetGo();
  EXPECT_TRUE(behind_->Drain(kLong));
}

TEST_F(WriteBehindTest, ATaskFreesWhatItKeptBeforeItCountsAsDone) {
  uint64_t waiting_when_freed = 0;
  std::shared_ptr<int> kept(new int(7), [&](const int* number) {
    waiting_when_freed = Counter("waiting_writes");
    delete number;
  });
  behind_->Add(1, [kept = std::move(kept)] {});
  ASSERT_TRUE(behind_->Drain(kLong));
  EXPECT_EQ(waiting_when_freed, 1u);
}

TEST_F(WriteBehindTest, TheDestructorRunsWhatIsLeft) {
  Block(1);
  for (const int number : {1, 2, 3}) Add(number);
  LetGo();
  behind_.reset();
  EXPECT_THAT(ran_, ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace hpu::store
