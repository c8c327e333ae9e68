#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace hpu {
namespace {

std::vector<std::string> LinesAfter(const std::string& text) {
  const std::string file = testing::TempDir() + "log_test_" + std::to_string(getpid()) + ".log";
  std::filesystem::remove(file);
  ConfigureLog("test", LogLevel::kInfo, file);
  HPU_LOG(kInfo, text);
  ConfigureLog("test", LogLevel::kOff, "");
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::filesystem::remove(file);
  return lines;
}

TEST(Log, QuotedTextStaysOnItsLine) {
  const std::vector<std::string> lines =
      LinesAfter("name=a\n2026-01-01 server[1] info forged \x1b[31m\ttab \u00e9");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], testing::ContainsRegex("^20[0-9-]+T[0-9:.]+ test\\[[0-9]+\\] info name=a"));
  EXPECT_THAT(lines[0],
              testing::EndsWith("a\\n2026-01-01 server[1] info forged \\x1b[31m\\x09tab \u00e9"));
}

TEST(Log, LinesAreBounded) {
  const std::vector<std::string> lines = LinesAfter(std::string(60 << 20, 'x'));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_LT(lines[0].size(), 20'000u);
  EXPECT_THAT(lines[0], testing::EndsWith("xxx... (62914560 bytes)"));
}

}  // namespace
}  // namespace hpu
