#include "compiler_server/ir/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hpu::ir {
namespace {

using testing::HasSubstr;

// Text in its printed form must come back unchanged.
void ExpectRoundTrip(const std::string& text) {
  auto graph = Parse(text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(Print(*graph), text);
}

TEST(Text, PrintsWhatItParsed) {
  ExpectRoundTrip(R"(graph @mlp(%x: f32[8,64], %w: f32[32,64]) -> f32[8,32] {
  %0 = matmul %x, %w {transpose_b = true} : f32[8,32]
  %1 = relu %0 : f32[8,32]
  return %1
}
)");
}

TEST(Text, StridesHostInputsScalarsAndAbsentOperands) {
  ExpectRoundTrip(
      R"(graph @g(%x: f32[2,3]{1,2}, %s: scalar, %b: f32[3] weight, %c: f32[] cpu) -> f32[2,3] {
  %0 = layer_norm %x, none, %b {axes = 1, eps = 1e-05} : f32[2,3]
  %1 = add %0, %c : f32[2,3]
  return %1
}
)");
}

TEST(Text, RandomState) {
  ExpectRoundTrip(
      R"(graph @g(%x: f32[6], %s: i64[] seed, %o: i64[] offset draws 4) -> f32[6] {
  %0 = random_uniform %s, %o {base = 2} : f32[6]
  %1 = mul %0, %x : f32[6]
  return %1
}
)");
}

TEST(Text, AtenCallsKeepTheirArguments) {
  ExpectRoundTrip(R"(graph @g(%x: f32[4]) -> f32[4], i64[4], none, int, float, bool {
  %0, %1 = aten "aten.foo.bar"(a = %x, b = [1, -2], c = [%x, none], d = 2.0, e = true, f = inf, g = "a\"b", h = dtype bf16, i = enum "strided", j = device "cpu", dim = -1) random : f32[4], i64[4]
  return %0, %1, none, int 3, float 0.5, bool true
}
)");
}

TEST(Text, SeveralResultsConstantsAndMutations) {
  ExpectRoundTrip(R"(graph @g(%x: f32[3,4]) -> f32[3,2], i64[3,2], f32[2]{4} {
  const %const0 : i32[2] = 0x01000000feffffff
  %0, %1 = topk %x {dim = 1, k = 2, largest = true} : f32[3,2], i64[3,2]
  %2 = gather %x, %const0 {dim = 0} : f32[2,4]
  mutate %x as f32[2,4] + 4 = %2
  return %0, %1, alias %x as f32[2]{4} + 1 form detached
}
)");
}

TEST(Text, StoragesSharedAndSeparate) {
  ExpectRoundTrip(
      R"(graph @g(%x: f32[2,3]) -> f32[2,3], f32[6], f32[2,3], f32[3,2]{1,3}, f32[2,3]{1,2} {
  %0 = relu %x : f32[2,3]
  return %0, %0 as f32[6], %0 buffer 1, %0 as f32[3,2]{1,3}, %0 in f32[2,3]{1,2}
}
)");
}

TEST(Text, CommentsAreSkipped) {
  EXPECT_TRUE(Parse("// a\ngraph @g(%x: f32[]) { // b\n return %x }").ok());
}

struct Bad {
  const char* text;
  const char* message;
};

class BadText : public testing::TestWithParam<Bad> {};

TEST_P(BadText, SaysWhatAndWhere) {
  const auto graph = Parse(GetParam().text);
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(graph.status().message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadText,
    testing::Values(Bad{"", "line 1, column 1: 'graph' is expected"},
                    Bad{"graph @g() {\n  %0 = foo\n}", "line 2, column 11: 'foo' is no op"},
                    Bad{"graph @g(%x: f99[2]) { return %x }", "'f99' is no element type"},
                    Bad{"graph @g(%x: f32[-2]) { return %x }", "bad sizes"},
                    Bad{"graph @g(%x: f32[2], %x: f32[2]) { return %x }", "%x is defined twice"},
                    Bad{"graph @g() { return %y }", "%y is not defined"},
                    Bad{"graph @g(%x: f32[2]) { %0 = relu %x {dim = 1} : f32[2] return %0 }",
                        "relu has no attribute 'dim'"},
                    Bad{"graph @g(%x: f32[2]) { %0 = relu %x : f32[2], f32[2] return %0 }",
                        "1 results but 2 types"},
                    Bad{"graph @g(%x: f32[2]) { return %x } x", "text behind the graph"},
                    Bad{"graph @g(%x: f32[2]) { const %c : f32[1] = 0x0 return %x }",
                        "bytes as 0x"},
                    Bad{"graph @g(%x: f32[2]) { return %x buffer 3 }", "buffer 3"},
                    Bad{"graph @g(%x: f32[2]{1,1}) { return %x }", "strides for 1 dimensions"},
                    Bad{"graph @g(%x: f32[2]) { %0 = aten \"a(%x) : f32[2] return %0 }", "no end"},
                    Bad{"graph @g(%x: f32[2]) { %0 = aten \"a\"(a = [[[[[[[[[[1]]]]]]]]]]) : "
                        "f32[2] return %0 }",
                        "nested too deep"}));

TEST(Text, DotNamesEveryNode) {
  auto graph = Parse("graph @g(%x: f32[2]) { %0 = relu %x : f32[2] return %0 }");
  ASSERT_TRUE(graph.ok());
  EXPECT_THAT(PrintDot(*graph), HasSubstr("\"%x\" -> n0"));
  EXPECT_THAT(PrintDot(*graph), HasSubstr("n0 -> \"buffer 0\""));
}

TEST(Text, ConstantsCanBeLeftOut) {
  auto graph = Parse("graph @g() { const %c : f32[2] = 0x0000000000000000 return %c }");
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_THAT(Print(*graph, {.max_constant_bytes = 4}), HasSubstr("= ..."));
  EXPECT_THAT(Print(*graph, {.max_constant_bytes = 8}), HasSubstr("= 0x0000"));
}

}  // namespace
}  // namespace hpu::ir
