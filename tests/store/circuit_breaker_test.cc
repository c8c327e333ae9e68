// The circuit breaker is told the time, so these tests take none.
#include "recipe_store/circuit_breaker.h"

#include <gtest/gtest.h>

namespace hpu::store {
namespace {

using std::chrono::milliseconds;

class CircuitBreakerTest : public testing::Test {
 protected:
  static CircuitBreaker::Time At(int64_t millis) {
    return CircuitBreaker::Time(milliseconds(1'000'000 + millis));
  }

  CircuitBreaker breaker_{
      {.first = milliseconds(100), .longest = milliseconds(400), .trial = milliseconds(10)}};
};

TEST_F(CircuitBreakerTest, AClosedCircuitLetsAllThrough) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(breaker_.Allow(At(0)));
  EXPECT_FALSE(breaker_.open());
  EXPECT_FALSE(breaker_.Succeeded()) << "it was closed before";
}

TEST_F(CircuitBreakerTest, AFailureOpensItForTheFirstPause) {
  EXPECT_TRUE(breaker_.Failed(At(0), 0));
  EXPECT_TRUE(breaker_.open());
  EXPECT_FALSE(breaker_.Allow(At(0)));
  EXPECT_FALSE(breaker_.Allow(At(99)));
  EXPECT_TRUE(breaker_.Allow(At(100)));
}

TEST_F(CircuitBreakerTest, AfterThePauseOneCallerTriesPerTrialTime) {
  ASSERT_TRUE(breaker_.Failed(At(0), 0));
  EXPECT_TRUE(breaker_.Allow(At(100)));
  EXPECT_FALSE(breaker_.Allow(At(100)));
  EXPECT_FALSE(breaker_.Allow(At(109)));
  EXPECT_TRUE(breaker_.Allow(At(110))) << "the first trial takes too long";
}

TEST_F(CircuitBreakerTest, EachFailedTrialDoublesThePauseUpToTheLongest) {
  ASSERT_TRUE(breaker_.Failed(At(0), 0));
  int64_t now = 100;
  for (const int64_t pause : {200, 400, 400}) {
    ASSERT_TRUE(breaker_.Allow(At(now)));
    EXPECT_FALSE(breaker_.Failed(At(now), 0)) << "it was open before";
    EXPECT_FALSE(breaker_.Allow(At(now + pause - 1))) << pause;
    now += pause;
  }
  EXPECT_TRUE(breaker_.Allow(At(now)));
}

TEST_F(CircuitBreakerTest, CallsThatWereUnderWayWhenItOpenedAreTheSameFailure) {
  ASSERT_TRUE(breaker_.Failed(At(0), 0));
  EXPECT_FALSE(breaker_.Failed(At(50), 0));
  EXPECT_TRUE(breaker_.Allow(At(100))) << "the second failure did not prolong the pause";
}

TEST_F(CircuitBreakerTest, ASuccessClosesItAndTheNextPauseIsTheFirst) {
  ASSERT_TRUE(breaker_.Failed(At(0), 0));
  ASSERT_TRUE(breaker_.Allow(At(100)));
  ASSERT_FALSE(breaker_.Failed(At(100), 0));
  ASSERT_TRUE(breaker_.Allow(At(300)));
  EXPECT_TRUE(breaker_.Succeeded());
  EXPECT_FALSE(breaker_.open());
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(breaker_.Allow(At(301)));
  EXPECT_TRUE(breaker_.Failed(At(301), 0));
  EXPECT_FALSE(breaker_.Allow(At(400)));
  EXPECT_TRUE(breaker_.Allow(At(401)));
}

TEST_F(CircuitBreakerTest, RandomnessProlongsThePauseByUpToAQuarter) {
  ASSERT_TRUE(breaker_.Failed(At(0), 25));
  EXPECT_FALSE(breaker_.Allow(At(124)));
  EXPECT_TRUE(breaker_.Allow(At(125)));
  CircuitBreaker other(
      {.first = milliseconds(100), .longest = milliseconds(400), .trial = milliseconds(10)});
  ASSERT_TRUE(other.Failed(At(0), 26));
  EXPECT_TRUE(other.Allow(At(100))) << "26 is one more than a quarter and wraps around";
}

}  // namespace
}  // namespace hpu::store
