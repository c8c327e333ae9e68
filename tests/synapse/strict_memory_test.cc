// Device memory in strict mode: apart from its addresses, and poisoned.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "emulator/memory/device_memory.h"

namespace hpu::emulator {
namespace {

constexpr uint64_t kMiB = 1 << 20;

std::unique_ptr<DeviceMemory> MakeStrictMemory(uint64_t bytes = 16 * kMiB) {
  auto memory = DeviceMemory::Create(bytes, /*strict=*/true);
  EXPECT_TRUE(memory.ok()) << memory.status();
  return std::move(memory).value();
}

uint8_t* DataOf(const DeviceMemory& memory, uint64_t address) {
  return static_cast<uint8_t*>(memory.view().At(address));
}

bool IsPoisoned(const DeviceMemory& memory, uint64_t address, uint64_t bytes) {
  const uint8_t* data = DataOf(memory, address);
  return std::all_of(data, data + bytes, [](uint8_t byte) { return byte == kPoison; });
}

TEST(StrictMemoryTest, MemoryIsPoisonedWhenFreshAndWhenFreed) {
  const auto memory = MakeStrictMemory();
  for (const uint64_t bytes : {uint64_t{128}, 3 * kMiB}) {
    const uint64_t block = memory->Allocate(bytes, 0).value();
    EXPECT_TRUE(IsPoisoned(*memory, block, bytes));
    std::fill_n(DataOf(*memory, block), bytes, uint8_t{7});
    ASSERT_TRUE(memory->Free(block).ok());
    EXPECT_TRUE(IsPoisoned(*memory, block, bytes));
    // A late write does not reach the next owner.
    std::fill_n(DataOf(*memory, block), bytes, uint8_t{7});
    EXPECT_EQ(memory->Allocate(bytes, block).value(), block);
    EXPECT_TRUE(IsPoisoned(*memory, block, bytes));
  }
}

TEST(StrictMemoryTest, PoisonIsNaN) {
  const auto memory = MakeStrictMemory();
  const uint64_t block = memory->Allocate(128, 0).value();
  const auto* floats = static_cast<const float*>(memory->view().At(block));
  const auto* doubles = static_cast<const double*>(memory->view().At(block));
  EXPECT_NE(floats[0], floats[0]);
  EXPECT_NE(doubles[0], doubles[0]);
}

TEST(StrictMemoryTest, OnlyAllocatedBlocksAreContained) {
  const auto memory = MakeStrictMemory();
  const uint64_t block = memory->Allocate(256, 0).value();
  const uint64_t other = memory->Allocate(256, block + 256).value();
  ASSERT_EQ(other, block + 256);
  EXPECT_TRUE(memory->Contains(block, 256));
  EXPECT_TRUE(memory->Contains(block + 128, 128));
  EXPECT_FALSE(memory->Contains(block, 257)) << "it is two blocks";
  EXPECT_FALSE(memory->Contains(other + 256, 1)) << "nobody has it";
  EXPECT_FALSE(memory->Contains(block, ~uint64_t{0}));
  ASSERT_TRUE(memory->Free(block).ok());
  EXPECT_FALSE(memory->Contains(block, 1)) << "it was freed";
}

// Each death test is a process of its own, in which nothing has installed a handler before.
class StrictMemoryDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  // Makes a strict memory and follows a device address that is `offset` behind a block of 256
  // bytes.
  static void Touch(uint64_t offset, bool write) {
    const auto memory = MakeStrictMemory();
    volatile auto* pointer =
        reinterpret_cast<volatile uint8_t*>(memory->Allocate(256, 0).value() + offset);
    if (write) {
      *pointer = 1;
    } else {
      [[maybe_unused]] const uint8_t value = *pointer;
    }
  }
  static void LeaveWith42(int) { _exit(42); }
};

TEST_F(StrictMemoryDeathTest, ATouchIsNamedAndEndsTheProcess) {
  EXPECT_DEATH(Touch(5, /*write=*/false),
               "EMULATOR_STRICT: address 0x[0-9a-f]*5, byte 5 of the allocation of 256 bytes at "
               "0x[0-9a-f]*0: the host touched device memory; a card would not allow it\n");
  EXPECT_DEATH(Touch(0, /*write=*/true), "byte 0 of the allocation of 256 bytes");
  EXPECT_DEATH(Touch(4096, /*write=*/true), "in no allocation: the host touched device memory");
}

TEST_F(StrictMemoryDeathTest, AnEarlierHandlerFollows) {
  const auto touch = [] {
    signal(SIGSEGV, &LeaveWith42);
    Touch(0, /*write=*/true);
  };
  EXPECT_EXIT(touch(), ::testing::ExitedWithCode(42), "the host touched device memory");
}

TEST_F(StrictMemoryDeathTest, OtherFaultsAreLeftAlone) {
  const auto fault = [] {
    signal(SIGSEGV, &LeaveWith42);
    const auto memory = MakeStrictMemory();
    raise(SIGSEGV);
  };
  EXPECT_EXIT(fault(), ::testing::ExitedWithCode(42), "^$");
}

TEST_F(StrictMemoryDeathTest, WithoutAHandlerTheSignalKills) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer has a handler of its own";
#endif
  EXPECT_EXIT(Touch(0, /*write=*/false), ::testing::KilledBySignal(SIGSEGV), "device memory");
  const auto fault = [] {
    const auto memory = MakeStrictMemory();
    raise(SIGSEGV);
  };
  EXPECT_EXIT(fault(), ::testing::KilledBySignal(SIGSEGV), "^$");
}

}  // namespace
}  // namespace hpu::emulator
