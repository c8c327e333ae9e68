// What other processes read of a device: the file that /proc shows under its name.
#include "emulator/base/usage.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "emulator/base/clock.h"

namespace hpu::emulator {
namespace {

struct Numbers {
  uint64_t version, total_bytes, free_bytes, busy_ns, since_ns;
};

std::optional<std::filesystem::path> FindFile() {
  const std::string name = std::string("/memfd:") + Usage::kName;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (!error && target.starts_with(name)) return entry.path();
  }
  return std::nullopt;
}

Numbers Read() {
  Numbers numbers{};
  const auto path = FindFile();
  if (!path.has_value()) {
    ADD_FAILURE() << "there is no file";
    return numbers;
  }
  std::ifstream file(*path, std::ios::binary);
  file.read(reinterpret_cast<char*>(&numbers), sizeof(numbers));
  EXPECT_TRUE(file.good());
  return numbers;
}

TEST(UsageTest, TheFileSaysWhatIsFreeWhileTheDeviceExists) {
  ASSERT_FALSE(FindFile().has_value());
  {
    Usage usage(1000);
    EXPECT_EQ(Read().version, UsageNumbers::kVersion);
    EXPECT_EQ(Read().total_bytes, 1000u);
    EXPECT_EQ(Read().free_bytes, 1000u);
    usage.SetFree(300);
    EXPECT_EQ(Read().free_bytes, 300u);
  }
  EXPECT_FALSE(FindFile().has_value());
}

TEST(UsageTest, TimeInWorkIsSummedUp) {
  Usage usage(1000);
  EXPECT_EQ(Read().since_ns, 0u);
  const uint64_t first = usage.Begin();
  EXPECT_EQ(Read().since_ns, first);
  EXPECT_EQ(Read().busy_ns, 0u);
  const uint64_t second = usage.Begin();  // of another stream
  usage.End(first);
  EXPECT_EQ(Read().since_ns, second == first ? 0 : second);
  usage.End(second);
  const Numbers numbers = Read();
  EXPECT_EQ(numbers.since_ns, 0u);
  EXPECT_LE(numbers.busy_ns, 2 * (NowNanoseconds() - first));
}

}  // namespace
}  // namespace hpu::emulator
