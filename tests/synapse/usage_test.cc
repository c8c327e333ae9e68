// Other processes read the file that /proc shows under its name.
#include "emulator/base/usage.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace hpu::emulator {
namespace {

struct Numbers {
  uint64_t version, total_bytes, free_bytes, running, module;
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
    Usage usage(1000, 3);
    EXPECT_EQ(Read().version, UsageNumbers::kVersion);
    EXPECT_EQ(Read().total_bytes, 1000u);
    EXPECT_EQ(Read().free_bytes, 1000u);
    EXPECT_EQ(Read().module, 3u);
    usage.SetFree(300);
    EXPECT_EQ(Read().free_bytes, 300u);
  }
  EXPECT_FALSE(FindFile().has_value());
}

TEST(UsageTest, WorkIsCountedWhileItRuns) {
  Usage usage(1000, 3);
  EXPECT_EQ(Read().running, 0u);
  usage.Begin();
  usage.Begin();  // of another stream
  EXPECT_EQ(Read().running, 2u);
  usage.End();
  EXPECT_EQ(Read().running, 1u);
  usage.End();
  EXPECT_EQ(Read().running, 0u);
}

}  // namespace
}  // namespace hpu::emulator
