#include "base/status.h"

#include <gtest/gtest.h>

namespace hpu {
namespace {

absl::StatusOr<int> Parse(bool fail) {
  if (fail) return InvalidArgument("dims ", 64, " vs ", 32);
  return 5;
}

absl::Status Caller(bool fail, int* out) {
  ASSIGN_OR_RETURN(*out, Parse(fail));
  RETURN_IF_ERROR_AT(absl::OkStatus(), "never");
  return absl::OkStatus();
}

TEST(Status, MacrosPassValuesAndFailures) {
  int value = 0;
  EXPECT_TRUE(Caller(false, &value).ok());
  EXPECT_EQ(value, 5);
  EXPECT_EQ(ToText(Caller(true, &value)), "INVALID_ARGUMENT: dims 64 vs 32");
}

TEST(Status, AnnotateKeepsCodeAndChains) {
  const absl::Status status = Annotate(Annotate(DataLoss("bad digest"), "recipe 2"), "graph 8c1f");
  EXPECT_EQ(ToText(status), "DATA_LOSS: graph 8c1f: recipe 2: bad digest");
  EXPECT_TRUE(Annotate(absl::OkStatus(), "x").ok());
}

}  // namespace
}  // namespace hpu
