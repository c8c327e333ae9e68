// Has two int32 vectors of 1 and of 10, and one for results, for recipes built by hand.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/synapse/fixture.h"
#include "tests/synapse/test_recipes.h"

namespace hpu {

class LaunchTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!api_->is_emulator()) GTEST_SKIP() << "needs recipes built by hand";
    a_ = Allocate(kBytes);
    b_ = Allocate(kBytes);
    out_ = Allocate(kBytes);
    Upload(std::vector<int32_t>(kCount, 1), a_);
    Upload(std::vector<int32_t>(kCount, 10), b_);
  }
  // Returns the result of launching with a_, b_, out_.
  int32_t Run(synRecipeHandle recipe) {
    EXPECT_SUCCESS(Launch(recipe, {a_, b_, out_}));
    const auto values = Download(out_, kCount);
    for (const int32_t value : values) EXPECT_EQ(value, values[0]);
    return values[0];
  }
  static constexpr uint64_t kCount = 5000;
  static constexpr uint64_t kBytes = kCount * 4;
  uint64_t a_ = 0, b_ = 0, out_ = 0;
};

}  // namespace hpu
