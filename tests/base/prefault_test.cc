#include "base/prefault.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace hpu {
namespace {

class PrefaultTest : public ::testing::Test {
 protected:
  PrefaultTest() {
    void* memory =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, kBytes, MADV_NOHUGEPAGE);
    memory_ = static_cast<uint8_t*>(memory);
  }
  ~PrefaultTest() override { munmap(memory_, kBytes); }

  int64_t PagesPresent() const {
    std::vector<unsigned char> present(kBytes / page_);
    mincore(memory_, kBytes, present.data());
    return std::count_if(present.begin(), present.end(), [](auto p) { return (p & 1) != 0; });
  }

  static constexpr uint64_t kBytes = 1 << 20;
  const uint64_t page_ = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  uint8_t* memory_ = nullptr;
};

TEST_F(PrefaultTest, OnlyWholePagesOfTheRangeGetThere) {
  Prefault(memory_ + 1, kBytes / 2);
  const auto wanted = static_cast<int64_t>(kBytes / 2 / page_) - 1;
  if (PagesPresent() == 0) GTEST_SKIP() << "this system does not know MADV_POPULATE_WRITE";
  EXPECT_EQ(PagesPresent(), wanted);
}

TEST_F(PrefaultTest, WhatIsThereStaysAsItIs) {
  memory_[0] = 7;
  Prefault(memory_, kBytes);
  EXPECT_EQ(memory_[0], 7);
  EXPECT_EQ(PagesPresent(), 1);
}

TEST_F(PrefaultTest, FewPagesAreLeftToFaults) {
  Prefault(memory_, 4 * page_);
  EXPECT_EQ(PagesPresent(), 0);
}

}  // namespace
}  // namespace hpu
