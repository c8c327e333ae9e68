// Damages text and captured graphs with seeded random changes. The result must be an answer or a
// refusal but never a crash, and whatever is accepted must print, parse and survive the
// interpreter's checks.
#include <gtest/gtest.h>

#include <random>

#include "base/container.h"
#include "compiler_server/ir/import.h"
#include "compiler_server/ir/text.h"
#include "tests/graph/sample_graphs.h"

namespace hpu::ir {
namespace {

constexpr int kRounds = 20'000;

constexpr std::string_view kText =
    R"(graph @g(%x: f32[2,3]{1,2}, %s: scalar, %y: i64[2] cpu) -> f32[2,3] {
  const %c : f32[2] = 0x0000803f00000040
  %0 = as_strided %x {offset = 0, strides = [1]} : f32[6]
  %1 = reshape %0 : f32[3,2]
  %2 = permute %1 {perm = [1,0]} : f32[2,3]
  %3 = gather %2, %y {dim = 0} : f32[2,3]
  %4 = reduce_sum %3 {dims = [1], keepdim = true} : f32[2,1]
  %5 = add %3, %4 : f32[2,3]
  %6, %7 = topk %5 {dim = 1, k = 2, largest = true} : f32[2,2], i64[2,2]
  %8 = aten "aten.foo.default"(a = %6, b = [1, 2.5, none], c = dtype f32, k = true) random : f32[2]
  mutate %x as f32[2] + 1 = %8
  return %5, %5 as f32[6], alias %x as f32[2] + 1, none, int 3
}
)";

// Replaces, inserts, deletes or copies a few characters.
std::string Damage(std::string text, std::mt19937& random) {
  constexpr std::string_view kAlphabet = "%@:,{}[]()=+-.0123456789abcdefx\"\\ \n\xff";
  const int edits = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < edits && !text.empty(); ++i) {
    const size_t at = random() % text.size();
    const size_t length = std::min<size_t>(random() % 12, text.size() - at);
    switch (random() % 4) {
      case 0:
        text[at] = kAlphabet[random() % kAlphabet.size()];
        break;
      case 1:
        text.insert(at, 1, kAlphabet[random() % kAlphabet.size()]);
        break;
      case 2:
        text.erase(at, length);
        break;
      default:
        text.insert(random() % text.size(), text.substr(at, length));
    }
  }
  return text;
}

TEST(Fuzz, DamagedText) {
  std::mt19937 random(20261121);
  int accepted = 0;
  for (int i = 0; i < kRounds; ++i) {
    const auto graph = Parse(Damage(std::string(kText), random));
    if (!graph.ok()) {
      EXPECT_EQ(graph.status().code(), absl::StatusCode::kInvalidArgument) << graph.status();
      continue;
    }
    ++accepted;
    const std::string printed = Print(*graph);
    const auto again = Parse(printed);
    ASSERT_TRUE(again.ok()) << again.status() << printed;
    EXPECT_EQ(Print(*again), printed);
  }
  EXPECT_GT(accepted, 100);
}

// These graphs are well-formed but mean nothing: some numbers in valid bytes are changed.
TEST(Fuzz, DamagedCapturedGraphs) {
  const Bytes bytes = EncodeGraph(sample_graphs::Everything());
  std::mt19937 random(7);
  int accepted = 0;
  for (int i = 0; i < kRounds; ++i) {
    Bytes damaged(bytes.begin(), bytes.end() - sizeof(Digest));
    for (uint32_t edit = 0; edit < 1 + random() % 2; ++edit) {
      damaged[kContainerHead + random() % (damaged.size() - kContainerHead)] =
          static_cast<uint8_t>(random() % 8);
    }
    const Digest digest = Sha256(damaged);
    damaged.insert(damaged.end(), digest.begin(), digest.end());
    const auto captured = DecodeGraph(damaged);
    if (!captured.ok()) continue;
    const auto graph = Import(*captured);
    if (!graph.ok()) continue;
    ++accepted;
    const std::string printed = Print(*graph);
    EXPECT_TRUE(Parse(printed).ok()) << Parse(printed).status() << printed;
  }
  EXPECT_GT(accepted, 100);
}

}  // namespace
}  // namespace hpu::ir
