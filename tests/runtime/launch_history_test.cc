#include "backend/runtime/launch_history.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>
#include <thread>

namespace hpu::runtime {
namespace {

int token = 0;

std::string Named(uint64_t number, const void* stream) {
  std::ostringstream text;
  text << "the launch of r (launch " << number << " of stream " << stream << "): reason";
  return text.str();
}

class LaunchHistoryTest : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("PT_HPU_SOURCE_LINES");
    ReloadSourceLines();
  }
  void Add(const std::string& purpose) { history_.Add(NumberOfText(purpose)); }

  LaunchHistory history_{&token};
};

TEST_F(LaunchHistoryTest, TextsHaveNumbers) {
  EXPECT_EQ(NumberOfText(""), 0);
  const uint32_t number = NumberOfText("a text");
  EXPECT_NE(number, 0);
  EXPECT_EQ(NumberOfText(std::string("a ") + "text"), number);
  EXPECT_EQ(TextOfNumber(number), "a text");
  EXPECT_EQ(TextOfNumber(~uint32_t{0}), "");
}

TEST_F(LaunchHistoryTest, NothingToSuspect) {
  EXPECT_EQ(history_.Suspects("reason"), "");
  Add("relu");
  history_.Settle(1);
  EXPECT_EQ(history_.Suspects("reason"), "");
}

TEST_F(LaunchHistoryTest, ACardDoesNotSayWhich) {
  for (const char* purpose : {"relu", "add", "relu"}) Add(purpose);
  EXPECT_EQ(history_.Suspects("reason"),
            "it was queued by one of relu, add; launches since the last synchronization: 3 "
            "(PT_HPU_SOURCE_LINES=1 adds the lines that called)");
}

TEST_F(LaunchHistoryTest, TheEmulatorSaysWhich) {
  for (const char* purpose : {"relu", "add", "mul"}) Add(purpose);
  history_.Settle(1);
  EXPECT_EQ(history_.Suspects(Named(2, &token)).substr(0, 24), "it was queued by add; la");
  // Another stream's launches are not this one's.
  EXPECT_EQ(history_.Suspects(Named(2, &history_)), "");
  EXPECT_EQ(history_.Suspects(Named(1, &token)), "");
}

TEST_F(LaunchHistoryTest, SettlingNeverGoesBack) {
  for (const char* purpose : {"relu", "add"}) Add(purpose);
  history_.Settle(2);
  history_.Settle(1);
  EXPECT_EQ(history_.Suspects("reason"), "");
}

TEST_F(LaunchHistoryTest, OldLaunchesAreForgottenAndLongListsAreCut) {
  for (int i = 0; i < 300; ++i) Add("op" + std::to_string(i));
  const std::string told = history_.Suspects("reason");
  EXPECT_EQ(told.find("op43,"), std::string::npos) << told;
  EXPECT_NE(told.find("one of op44, op45, "), std::string::npos) << told;
  EXPECT_NE(told.find("op51 and 248 others; launches since the last synchronization: 300"),
            std::string::npos)
      << told;
}

TEST_F(LaunchHistoryTest, NoHintWhereLinesAreWanted) {
  setenv("PT_HPU_SOURCE_LINES", "1", 1);
  ReloadSourceLines();
  EXPECT_TRUE(WantsSourceLines());
  Add("relu at model.py:3");
  EXPECT_EQ(history_.Suspects("reason"),
            "it was queued by relu at model.py:3; launches since the last synchronization: 1");
}

TEST(LaunchPurpose, IsTheThreadsAndNests) {
  const LaunchPurpose outer(7);
  {
    const LaunchPurpose inner(8);
    EXPECT_EQ(LaunchPurpose::Present(), 8);
  }
  EXPECT_EQ(LaunchPurpose::Present(), 7);
  std::thread([] { EXPECT_EQ(LaunchPurpose::Present(), 0); }).join();
}

}  // namespace
}  // namespace hpu::runtime
