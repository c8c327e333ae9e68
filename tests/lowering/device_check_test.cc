// Single nodes about which the device is asked before they go into a recipe.
#include "compiler_server/lowering/device_check.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "compiler_server/ir/text.h"
#include "compiler_server/lowering/lower.h"

namespace hpu::compiler {
namespace {

class DeviceCheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::StatusOr<const SynapseFunctions*> loaded = LoadSynapse(HPU_TEST_SYNAPSE_LIBRARY);
    ASSERT_TRUE(loaded.ok()) << ToText(loaded.status());
    functions_ = **loaded;
    functions_.synInitialize();  // other tests in this process may have called it
  }

  static ir::Graph Parse(const std::string& text) {
    absl::StatusOr<ir::Graph> graph = ir::Parse(text);
    EXPECT_TRUE(graph.ok()) << ToText(graph.status()) << text;
    return *std::move(graph);
  }

  // Checks the only node.
  absl::Status CheckOne(const std::string& text) {
    const ir::Graph graph = Parse(text);
    return DeviceCheck(functions_, synDeviceGaudi2, false).Check(*graph.nodes().at(0));
  }

  SynapseFunctions functions_;
};

constexpr char kConv3d[] =
    "graph @g(%x: f32[1,4,5,6,2], %w: f32[1,2,3,2,8]) {\n"
    " %0 = conv %x, %w {dilation = [1,1,1], groups = 1, pads = [0,0,0,1,1,1], stride = [1,1,2]} : "
    "f32[1,4,5,3,8]\n return %0\n}\n";

// The text comes from the device and names node and reason.
TEST_F(DeviceCheckTest, TheDeviceRefusesWhatItLacks) {
  const absl::Status status = CheckOne(kConv3d);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_EQ(status.message().find("conv: "), 0U) << status;
  EXPECT_NE(status.message().find("spatial_convolution3d"), std::string::npos) << status;
}

// A library that cannot be asked is not the emulator, and it lacks the emulator's own nodes.
TEST_F(DeviceCheckTest, RandomNumbersAreTheEmulatorsOwn) {
  constexpr char kDraw[] =
      "graph @g(%s: i64[] seed, %o: i64[] offset draws 1) {\n"
      " %0 = random_uniform %s, %o {base = 0} : f32[4]\n return %0\n}\n";
  EXPECT_TRUE(CheckOne(kDraw).ok()) << CheckOne(kDraw);
  functions_.synEmulatorGraphCheck = nullptr;
  EXPECT_EQ(CheckOne(kDraw).code(), absl::StatusCode::kUnimplemented) << CheckOne(kDraw);
}

TEST_F(DeviceCheckTest, TheDeviceKeepsItsOwnLimits) {
  const auto conv = [](int stride) {
    const std::string s = std::to_string(stride), y = std::to_string(3 * stride - stride + 1);
    return "graph @g(%t: f32[1,3,3,4], %q: f32[1,1,2,4]) {\n %0 = conv_transpose %t, %q {dilation "
           "= "
           "[1,1], groups = 1, pads = [0,0,0,0], stride = [" +
           s + "," + s + "]} : f32[1," + y + "," + y + ",2]\n return %0\n}\n";
  };
  EXPECT_TRUE(CheckOne(conv(8)).ok()) << CheckOne(conv(8));
  const absl::Status status = CheckOne(conv(9));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("81 phases, at most 64"), std::string::npos) << status;
}

TEST_F(DeviceCheckTest, ALibraryThatCannotBeAskedDecidesWhenItCompiles) {
  functions_.synEmulatorGraphCheck = nullptr;
  EXPECT_TRUE(CheckOne(kConv3d).ok());
  const absl::Status status =
      CheckOne("graph @g(%x: f64[4]) {\n %0 = relu %x : f64[4]\n return %0\n}\n");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << "the lowering's own limit stands";
}

TEST_F(DeviceCheckTest, EqualNodesAreAskedForOnce) {
  std::string text = "graph @g(%x: f32[4,6]) {\n %0 = relu %x : f32[4,6]\n";
  for (int i = 1; i < 2000; ++i) {
    text += " %" + std::to_string(i) + " = relu %" + std::to_string(i - 1) + " : f32[4,6]\n";
  }
  text +=
      " %2000 = slice %1999 {limits = [4,3], starts = [0,0], steps = [1,1]} : f32[4,3]\n"
      " %2001 = slice %1999 {limits = [4,6], starts = [0,3], steps = [1,1]} : f32[4,3]\n"
      " %2002 = relu %2001 : f32[4,3]\n"
      " return %2000, %2002\n}\n";
  const ir::Graph graph = Parse(text);
  DeviceCheck check(functions_, synDeviceGaudi2, false);
  for (const ir::Node* node : graph.nodes()) EXPECT_TRUE(check.Check(*node).ok());
  EXPECT_EQ(check.asked(), 4U) << "two relu by size, two slices by start";
}

// Nodes that compile and run elsewhere in these tests are not refused.
TEST_F(DeviceCheckTest, TakesEveryNodeOfTheGoldens) {
  DeviceCheck check(functions_, synDeviceGaudi2, false);
  for (const auto& entry : std::filesystem::directory_iterator("tests/lowering/goldens")) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() != ".hir" || name == "device_convolution_3d") continue;
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const ir::Graph graph = Parse(text.str());
    for (const ir::Node* node : graph.nodes()) {
      if (!CheckLowerable(*node).ok()) continue;
      const absl::Status status = check.Check(*node);
      EXPECT_TRUE(status.ok()) << name << ": " << status;
    }
  }
  EXPECT_GT(check.asked(), 80U);
}

// The device is not asked about these: in recipes, positions and ranges are numbers of 32 bits.
TEST(CheckLowerableTest, RefusesPositionsAndRangesOf64Bits) {
  const auto check = [](const std::string& line) {
    absl::StatusOr<ir::Graph> graph =
        ir::Parse("graph @g(%x: i8[2147483656], %y: i8[64]) {\n" + line + "\n return\n}");
    EXPECT_TRUE(graph.ok()) << ToText(graph.status());
    return CheckLowerable(*graph->nodes().at(0));
  };
  for (const char* line :
       {"%r = argmax %x {dims = [0]} : i64[]", "%r = argmin %x {dims = [0]} : i64[]",
        "%r, %s = topk %x {k = 2, dim = 0, largest = true} : i8[2], i64[2]",
        "%r = iota {start = 0.0, step = 1.0} : i32[2147483656]",
        "%r = iota {start = 3e9, step = 1.0} : i64[5]",
        "%r = iota {start = -1e10, step = 1.0} : i64[5]",
        "%r = iota {start = 0.0, step = 4e9} : i64[2]"}) {
    const absl::Status status = check(line);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << line;
    EXPECT_NE(ToText(status).find("64 bits"), std::string::npos) << ToText(status);
  }
  for (const char* line : {"%r = argmax %y {dims = [0]} : i64[]",
                           "%r, %s = topk %y {k = 2, dim = 0, largest = true} : i8[2], i64[2]",
                           "%r = iota {start = 2147483640.0, step = 1.0} : i64[5]",
                           "%r = iota {start = 3e9, step = 1.0} : f32[5]"}) {
    EXPECT_TRUE(check(line).ok()) << line;
  }
}

}  // namespace
}  // namespace hpu::compiler
