#include "backend/runtime/bridge_log.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace hpu::runtime {
namespace {

TEST(ParseMask, IsHexadecimalWithOrWithoutPrefix) {
  uint64_t mask = 0;
  EXPECT_TRUE(ParseMask("80", &mask));
  EXPECT_EQ(mask, 0x80u);
  EXPECT_TRUE(ParseMask("0xfF", &mask));
  EXPECT_EQ(mask, 0xFFu);
  for (const char* wrong : {"", "0x", "80g", "-1", " 8", "11112222333344445"}) {
    EXPECT_FALSE(ParseMask(wrong, &mask)) << wrong;
  }
}

TEST(ParseBool, AnyLetterCase) {
  for (const char* yes : {"true", "True", "TRUE", "1", "on", "Yes"}) EXPECT_TRUE(ParseBool(yes));
  for (const char* no : {"", "false", "False", "0", "off", "2"}) EXPECT_FALSE(ParseBool(no));
}

// Changes the environment for one test.
class LogSettingsTest : public ::testing::Test {
 protected:
  void Set(const char* name, const char* value) { ::setenv(name, value, 1); }
  void TearDown() override {
    for (const char* name :
         {"PT_HPU_LOG_MOD_MASK", "PT_HPU_LOG_TYPE_MASK", "HABANA_LOGS", "ENABLE_CONSOLE", "ID"}) {
      ::unsetenv(name);
    }
    ReloadLogSettings();
  }
};

TEST_F(LogSettingsTest, DefaultsAreAllModulesFatalAndWarning) {
  ReloadLogSettings();
  EXPECT_TRUE(LogEnabled(LogModule::kDevice, LogKind::kFatal));
  EXPECT_TRUE(LogEnabled(LogModule::kFallback, LogKind::kWarning));
  EXPECT_FALSE(LogEnabled(LogModule::kFallback, LogKind::kDebug));
}

TEST_F(LogSettingsTest, BothMasksMustHaveTheirBit) {
  Set("PT_HPU_LOG_MOD_MASK", "80");
  Set("PT_HPU_LOG_TYPE_MASK", "0x8");
  ReloadLogSettings();
  EXPECT_TRUE(LogEnabled(LogModule::kFallback, LogKind::kDebug));
  EXPECT_FALSE(LogEnabled(LogModule::kFallback, LogKind::kFatal));
  EXPECT_FALSE(LogEnabled(LogModule::kPinnedMemory, LogKind::kDebug));
}

TEST_F(LogSettingsTest, LinesGoToTheFolderOfTheRank) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("bridge_log_test_" + std::to_string(::getpid()));
  Set("HABANA_LOGS", folder.c_str());
  Set("ID", "5");
  ReloadLogSettings();
  WriteLogLine("one line");
  BRIDGE_LOG(kDevice, kWarning, "memory=" << 7);
  BRIDGE_LOG(kDevice, kDebug, "hidden");
  std::ifstream file(folder / "5" / "pytorch_log.txt");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), "one line\nmemory=7\n");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace hpu::runtime
