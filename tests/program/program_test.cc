#include "program/program.h"

#include <gtest/gtest.h>

#include "tests/program/sample.h"

namespace hpu {
namespace {

using testing::SampleProgram;

TEST(Program, RoundTripsToEqualBytesAndText) {
  const Program program = SampleProgram();
  const Bytes bytes = EncodeProgram(program);
  const auto decoded = DecodeProgram(bytes);
  ASSERT_TRUE(decoded.ok()) << ToText(decoded.status());
  EXPECT_EQ(EncodeProgram(*decoded), bytes);
  EXPECT_EQ(PrintProgram(*decoded), PrintProgram(program));
}

TEST(Program, PrintsReadableListing) {
  EXPECT_EQ(PrintProgram(SampleProgram()),
            R"(program of 2 functions, deterministic
  constant 0: i64[1]{1}
  recipe 0: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 100 bytes
  recipe 1: 6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d 200 bytes
forward: 4 nodes, 2 eager
  input 0: f32[2,3]{3,1} mutated
  input 1: scalar
  input 2: f32[]{} cpu
  input 3: random seed i64[]{}
  input 4: random offset i64[]{} draws 4
  buffer 0: 64 bytes
  buffer 1: 96 bytes
  %0: f32[3,2]{1,3} in input 0
  %1: f32[2,3]{3,1}@4 in buffer 0
  %2: i64[1]{1} in constant 0
  %3: f32[2,3]{3,1} in eager
  %4: i64[]{} in input 4
  %5: f32[8,3]{3,1} in buffer 1
  %6: f32[1]{1} in eager
  launch recipe 0 (x=%0, offset=%4) -> (y=%1)
  collective all_gather(%1) -> (%5) in group "tp" of 4
  eager %3 = aten::lgamma.out(%1, 3, 2.5, True, "mean", bf16, channels_last, hpu, [1, None])  # no recipe kernel
  wait for step 1
  collective all_to_all(%1) -> (%1) rows in [2, 0] rows out [1, 1] in group "ep" of 2
  wait for step 4
  eager %6 = aten::flatten(%5)  # no recipe kernel
  collective all_reduce(%3) -> (%3) sum in group "dp"
  wait for step 7
  output 0: %1 requires_grad
  output 1: input 0
  output 2: view of input 0 f32[3]{1}@3 (detached)
  output 3: None
  output 4: 7
  output 5: True
  output 6: 1.5
  output 7: %3 saved only
  output 8: input 4 saved only
backward: 2 nodes, 0 eager
  input 0: f32[2,3]{3,1}
  input 1: f32[2,3]{0,0}
  input 2: random offset i64[]{}
  buffer 0: 24 bytes
  %0: f32[2,3]{3,1} in input 0
  %1: f32[2,3]{0,0} in input 1
  %2: f32[2,3]{3,1} in buffer 0
  launch recipe 1 (saved=%0, tangent=%1) -> (g=%2)
  output 0: %2
  output 1: None
saved output 7 -> backward's input 0 donated
saved output 8 -> backward's input 2
tangent of output 0 -> backward's input 1
gradient of input 0 <- backward's output 0
)");
}

TEST(Program, TensorsInUseAreThoseThatStepsNeedOrOutputsName) {
  const ProgramFunction forward = SampleProgram().functions[0];
  // Nothing reads %2, and %6 is made and dropped.
  EXPECT_EQ(TensorsInUse(forward), (std::vector<bool>{true, true, false, true, true, true, false}));
}

TEST(Program, StepsSayWhatTheyNeedAndWrite) {
  const ProgramFunction forward = SampleProgram().functions[0];
  const auto tensors = [&](size_t step) {
    std::string text;
    ForEachTensorNeeded(forward.steps[step],
                        [&](uint32_t tensor) { text += std::to_string(tensor) + " "; });
    text += "-> ";
    ForEachTensorWritten(forward.steps[step],
                         [&](uint32_t tensor) { text += std::to_string(tensor) + " "; });
    return text;
  };
  EXPECT_EQ(tensors(0), "0 4 1 -> 1 ");
  EXPECT_EQ(tensors(1), "1 5 -> 5 ");
  EXPECT_EQ(tensors(2), "1 -> 3 ");
  EXPECT_EQ(tensors(3), "-> ");
  EXPECT_EQ(tensors(6), "5 -> 6 ");
}

}  // namespace
}  // namespace hpu
