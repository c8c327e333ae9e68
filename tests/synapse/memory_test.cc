#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "emulator/memory/device_memory.h"
#include "emulator/memory/host_mappings.h"

namespace hpu::emulator {
namespace {

constexpr uint64_t kMiB = 1 << 20;

std::unique_ptr<DeviceMemory> MakeMemory(uint64_t bytes) {
  auto memory = DeviceMemory::Create(bytes);
  EXPECT_TRUE(memory.ok()) << memory.status();
  return std::move(memory).value();
}

TEST(DeviceMemoryTest, AccountsForRoundedSizesExactly) {
  const auto memory = MakeMemory(16 * kMiB);
  EXPECT_EQ(memory->total_bytes(), 16 * kMiB);
  EXPECT_EQ(memory->free_bytes(), 16 * kMiB);
  const uint64_t a = memory->Allocate(1, 0).value();
  const uint64_t b = memory->Allocate(129, 0).value();
  EXPECT_EQ(a % 128, 0u);
  EXPECT_EQ(b % 128, 0u);
  EXPECT_EQ(memory->free_bytes(), 16 * kMiB - 128 - 256);
  EXPECT_EQ(memory->Free(a).value(), 128u);
  EXPECT_EQ(memory->Free(b).value(), 256u);
  EXPECT_EQ(memory->free_bytes(), 16 * kMiB);
}

TEST(DeviceMemoryTest, ExhaustionNamesRequestFreeAndTotal) {
  const auto memory = MakeMemory(4 * kMiB);
  const auto refused = memory->Allocate(5 * kMiB, 0);
  ASSERT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  const std::string text(refused.status().message());
  EXPECT_NE(text.find("5242880 bytes requested, 4194304 free of 4194304"), std::string::npos)
      << text;
  EXPECT_EQ(memory->free_bytes(), 4 * kMiB);
}

TEST(DeviceMemoryTest, WholeMemoryCanBeUsedInOneBlockAndAgain) {
  const auto memory = MakeMemory(8 * kMiB);
  for (int i = 0; i < 3; ++i) {
    const uint64_t block = memory->Allocate(8 * kMiB, 0).value();
    std::memset(reinterpret_cast<void*>(block), i, 8 * kMiB);
    EXPECT_FALSE(memory->Allocate(1, 0).ok());
    EXPECT_TRUE(memory->Free(block).ok());
  }
}

TEST(DeviceMemoryTest, HintIsHonouredOnlyWhereFree) {
  const auto memory = MakeMemory(8 * kMiB);
  const uint64_t wanted = memory->base() + kMiB;
  EXPECT_EQ(memory->Allocate(4096, wanted).value(), wanted);
  EXPECT_NE(memory->Allocate(4096, wanted).value(), wanted);
  EXPECT_NE(memory->Allocate(128, wanted + 1).value(), wanted + 1);     // not aligned
  EXPECT_TRUE(memory->Allocate(128, memory->base() + 64 * kMiB).ok());  // outside
  EXPECT_TRUE(memory->Allocate(128, 128).ok());                         // below
}

TEST(DeviceMemoryTest, UnknownAndInnerAddressesAreNotFreed) {
  const auto memory = MakeMemory(8 * kMiB);
  const uint64_t block = memory->Allocate(4096, 0).value();
  EXPECT_EQ(memory->Free(block + 128).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(memory->Free(block).ok());
  EXPECT_EQ(memory->Free(block).status().code(), absl::StatusCode::kNotFound);
}

TEST(DeviceMemoryTest, ContainsOnlyWhatWasOnceAllocated) {
  const auto memory = MakeMemory(256 * kMiB);
  EXPECT_FALSE(memory->Contains(memory->base(), 1));
  const uint64_t block = memory->Allocate(4096, 0).value();
  EXPECT_TRUE(memory->Contains(block, 4096));
  EXPECT_FALSE(memory->Contains(block, 512 * kMiB));
  EXPECT_FALSE(memory->Contains(block, ~uint64_t{0}));
  EXPECT_FALSE(memory->Contains(memory->base() - 1, 1));
  EXPECT_FALSE(memory->Contains(memory->base() + 255 * kMiB, 1));
}

TEST(DeviceMemoryTest, RandomUseFromFourThreadsKeepsBlocksApart) {
  const auto memory = MakeMemory(64 * kMiB);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      std::vector<std::pair<uint64_t, uint64_t>> blocks;
      for (int i = 0; i < 2000; ++i) {
        if (blocks.size() > 20 || (random() % 3 == 0 && !blocks.empty())) {
          const size_t victim = random() % blocks.size();
          const auto [address, bytes] = blocks[victim];
          const auto* data = reinterpret_cast<const uint8_t*>(address);
          ASSERT_EQ(data[0], static_cast<uint8_t>(t));
          ASSERT_EQ(data[bytes - 1], static_cast<uint8_t>(t));
          ASSERT_TRUE(memory->Free(address).ok());
          blocks.erase(blocks.begin() + static_cast<long>(victim));
        } else {
          const uint64_t bytes = 1 + random() % (300 * 1024);
          const uint64_t address = memory->Allocate(bytes, 0).value();
          auto* data = reinterpret_cast<uint8_t*>(address);
          data[0] = data[bytes - 1] = static_cast<uint8_t>(t);
          blocks.push_back({address, bytes});
        }
      }
      for (const auto& [address, bytes] : blocks) ASSERT_TRUE(memory->Free(address).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory->free_bytes(), memory->total_bytes());
  // All parts are joined again.
  EXPECT_TRUE(memory->Allocate(64 * kMiB, 0).ok());
}

// Returns the device memory that a process gets of 96 GiB where its address space is limited; 0
// means none.
uint64_t TotalUnderLimit(uint64_t limit) {
  int channel[2];
  EXPECT_EQ(pipe(channel), 0);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit address_space = {limit, limit};
    uint64_t total = 0;
    if (setrlimit(RLIMIT_AS, &address_space) == 0) {
      const auto memory = DeviceMemory::Create(uint64_t{96} << 30);
      if (memory.ok()) {
        total = (*memory)->total_bytes();
        // All of it is usable, and nearly as much is left for the process.
        const auto address = (*memory)->Allocate(total, 0);
        if (!address.ok()) _exit(1);
        reinterpret_cast<uint8_t*>(*address)[total - 1] = 1;
        void* rest = std::malloc(total / 10 * 9);
        if (rest == nullptr) _exit(2);
        std::free(rest);
      }
    }
    if (write(channel[1], &total, sizeof(total)) != sizeof(total)) _exit(1);
    _exit(0);
  }
  close(channel[1]);  // a child that dies must end the read
  uint64_t total = 0;
  EXPECT_EQ(read(channel[0], &total, sizeof(total)), static_cast<ssize_t>(sizeof(total)));
  close(channel[0]);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return total;
}

TEST(DeviceMemoryTest, ReservesWhatALimitOfAddressSpaceLeaves) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer reserves terabytes of address space";
#endif
  constexpr uint64_t kGiB = uint64_t{1} << 30;
  for (const uint64_t limit : {6 * kGiB, 3 * kGiB}) {
    const uint64_t total = TotalUnderLimit(limit);
    EXPECT_GT(total, limit / 4);
    EXPECT_LE(total, limit / 2);
  }
  EXPECT_EQ(TotalUnderLimit(16 * kMiB), 0u) << "nothing can be had";
}

TEST(DeviceMemoryTest, SizeComesFromTheEnvironment) {
  setenv("HPU_EMULATOR_DRAM_BYTES", "0x100000", 1);
  EXPECT_EQ(DramBytes(1 << 30).value(), 0x100000u);
  setenv("HPU_EMULATOR_DRAM_BYTES", "lots", 1);
  EXPECT_EQ(DramBytes(1 << 30).status().code(), absl::StatusCode::kInvalidArgument);
  unsetenv("HPU_EMULATOR_DRAM_BYTES");
  EXPECT_EQ(DramBytes(4096).value(), 4096u);
  EXPECT_LT(DramBytes(~uint64_t{0}).value(), uint64_t{1} << 50);
}

TEST(HostMappingsTest, CountsNestedMappings) {
  HostMappings mappings;
  mappings.Map(1000, 100);
  mappings.Map(1000, 100);
  mappings.Unmap(1000);
  EXPECT_TRUE(mappings.Contains(1000, 100));
  mappings.Unmap(1000);
  EXPECT_FALSE(mappings.Contains(1000, 1));
  mappings.Unmap(1000);
}

TEST(HostMappingsTest, RangeMustLieInOneMapping) {
  HostMappings mappings;
  mappings.Map(1000, 1000);
  mappings.Map(1200, 10);  // inside the first
  EXPECT_TRUE(mappings.Contains(1205, 600));
  EXPECT_TRUE(mappings.Contains(2000, 0));
  EXPECT_FALSE(mappings.Contains(1500, 501));
  EXPECT_FALSE(mappings.Contains(999, 2));
}

}  // namespace
}  // namespace hpu::emulator
