// Options in requests, and the table that is generated from proto/options.yaml.
#include "proto/option_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/options_generated.h"

namespace hpu {
namespace {

TEST(OptionValue, TakesWhatPythonWritesAndNothingElse) {
  bool flag = false;
  EXPECT_TRUE(ParseOption("flag", "true", &flag).ok());
  EXPECT_TRUE(flag);
  EXPECT_TRUE(ParseOption("flag", "false", &flag).ok());
  EXPECT_FALSE(flag);
  EXPECT_EQ(ToText(ParseOption("flag", "True", &flag)),
            "INVALID_ARGUMENT: option flag is 'True'; allowed: true, false");
  int64_t integer = 0;
  EXPECT_TRUE(ParseOption("count", "-12", &integer).ok());
  EXPECT_EQ(integer, -12);
  EXPECT_EQ(ToText(ParseOption("count", "12x", &integer)),
            "INVALID_ARGUMENT: option count is '12x'; allowed: an integer");
  double number = 0;
  EXPECT_TRUE(ParseOption("ratio", "1e-3", &number).ok());
  EXPECT_EQ(number, 1e-3);
  EXPECT_EQ(ToText(ParseOption("ratio", "", &number)),
            "INVALID_ARGUMENT: option ratio is ''; allowed: a number");
  std::string text;
  EXPECT_TRUE(ParseOption("mode", "b", {"a", "b"}, &text).ok());
  EXPECT_EQ(text, "b");
  EXPECT_EQ(ToText(ParseOption("mode", "c", {"a", "b"}, &text)),
            "INVALID_ARGUMENT: option mode is 'c'; allowed: a, b");
  EXPECT_TRUE(ParseOption("note", "anything", {}, &text).ok());
}

TEST(KeyOptions, AreTheRowsThatEnterTheKey) {
  KeyOptions options;
  EXPECT_FALSE(options.deterministic);
  EXPECT_TRUE(SetOption("deterministic", "true", &options).ok());
  EXPECT_TRUE(options.deterministic);
  EXPECT_THAT(ToText(SetOption("compile_timeout_s", "1", &options)),
              testing::MatchesRegex("INVALID_ARGUMENT: unknown compile option compile_timeout_s; "
                                    "there are: .*deterministic.*"));
}

}  // namespace
}  // namespace hpu
