#include "backend/runtime/program_executor.h"

#include <cstring>
#include <numeric>
#include <vector>

#include "backend/runtime/copy.h"
#include "backend/runtime/counters.h"
#include "tests/runtime/device_environment.h"
#include "tests/runtime/hand_made_recipe.h"

namespace hpu::runtime {
namespace {

constexpr uint64_t kCount = 1000;
constexpr uint64_t kBytes = kCount * sizeof(int32_t);

absl::StatusOr<std::unique_ptr<ProgramExecutor>> Load(const Program& program, const Bytes& recipe) {
  const std::span<const uint8_t> recipes[] = {recipe};
  ASSIGN_OR_RETURN(auto executors,
                   ProgramExecutor::Create(EncodeProgram(program), recipes, "test"));
  return std::move(executors.front());
}

// Runs a program of one input and one output buffer on 1, 2, 3...
std::vector<int32_t> RunOn(ProgramExecutor& executor, uint32_t stream_id = 0) {
  Stream& stream = TestStream(stream_id);
  DeviceBlock* x = *TestDevice().allocator().Allocate(kBytes, stream);
  DeviceBlock* y = *TestDevice().allocator().Allocate(kBytes, stream);
  std::vector<int32_t> values(kCount);
  std::iota(values.begin(), values.end(), 1);
  EXPECT_OK(CopyToDevice(stream, x->address, values.data(), kBytes));
  std::vector<uint64_t> slots(executor.slot_count());
  slots[executor.InputSlot(0)] = x->address;
  const auto& outputs = executor.function().outputs;
  slots[executor.SlotOf(outputs[0].index)] = y->address;
  EXPECT_OK(executor.Run(stream, slots));
  EXPECT_OK(CopyToHost(stream, values.data(), y->address, kBytes));
  TestDevice().allocator().Free(x);
  TestDevice().allocator().Free(y);
  return values;
}

TEST(ProgramExecutor, RunsALaunch) {
  const Bytes recipe = AddRecipe(kCount, /*workspace_bytes=*/256);
  auto executor = Load(OneLaunch(kCount, recipe), recipe);
  ASSERT_TRUE(executor.ok()) << ToText(executor.status());
  EXPECT_EQ((*executor)->launch_count(), 1u);
  EXPECT_EQ((*executor)->eager_count(), 0u);
  EXPECT_TRUE((*executor)->BufferIsVisible(0));
  const uint64_t launches = GetCounters().launches;
  for (const uint32_t stream : {0, 1, 0}) {
    const std::vector<int32_t> result = RunOn(**executor, stream);
    EXPECT_EQ(result[0], 2);
    EXPECT_EQ(result[kCount - 1], 2 * static_cast<int32_t>(kCount));
  }
  EXPECT_EQ(GetCounters().launches - launches, 3u);
}

TEST(ProgramExecutor, BuffersThatNobodySeesAreMadePerCall) {
  const Bytes recipe = AddRecipe(kCount);
  Program program = OneLaunch(kCount, recipe);
  ProgramFunction& forward = program.functions[0];
  forward.buffer_bytes.push_back(kBytes);
  forward.tensors.push_back(forward.tensors[1]);
  forward.tensors[2].index = 1;
  forward.steps.push_back(LaunchStep{0, {{"x", 1, false}, {"y", 2, true}}});
  forward.outputs[0].index = 2;
  auto executor = Load(program, recipe);
  ASSERT_TRUE(executor.ok()) << ToText(executor.status());
  EXPECT_FALSE((*executor)->BufferIsVisible(0));
  EXPECT_TRUE((*executor)->BufferIsVisible(1));
  const uint64_t in_use = TestDevice().allocator().stats().in_use;
  EXPECT_EQ(RunOn(**executor)[1], 8);
  EXPECT_EQ(TestDevice().allocator().stats().in_use, in_use);
}

// A chain of four launches over three hidden buffers: two of them live at any time.
TEST(ProgramExecutor, HiddenBuffersLiveFromTheirFirstStepToTheirLast) {
  const Bytes recipe = AddRecipe(kCount);
  Program program = OneLaunch(kCount, recipe);
  ProgramFunction& forward = program.functions[0];
  const ProgramTensor buffer = forward.tensors[1];
  for (uint32_t i = 1; i < 4; ++i) {
    forward.buffer_bytes.push_back(kBytes);
    forward.tensors.push_back(buffer);
    forward.tensors[i + 1].index = i;
    forward.steps.push_back(LaunchStep{0, {{"x", i, false}, {"y", i + 1, true}}});
  }
  forward.outputs[0].index = 4;
  auto executor = Load(program, recipe);
  ASSERT_TRUE(executor.ok()) << ToText(executor.status());
  EXPECT_EQ((*executor)->VisibleFrom(0), std::vector<uint32_t>{});
  EXPECT_EQ((*executor)->VisibleFrom(3), std::vector<uint32_t>{3});
  EXPECT_EQ((*executor)->LastStepOf(0), 0U);
  DeviceAllocator& allocator = TestDevice().allocator();
  allocator.ResetPeak();
  const uint64_t in_use = allocator.stats().in_use;
  EXPECT_EQ(RunOn(**executor)[1], 32);
  const uint64_t block = (kBytes + DeviceAllocator::kBlockAlignment - 1) /
                         DeviceAllocator::kBlockAlignment * DeviceAllocator::kBlockAlignment;
  EXPECT_EQ(allocator.stats().max_in_use - in_use, 4 * block);  // plus the caller's x and y
  EXPECT_EQ(allocator.stats().in_use, in_use);
}

// A collective reads the input and writes buffer 1, beside a launch that does not need it: both
// memories are its own until its wait.
TEST(ProgramExecutor, CollectivesHoldWhatTheyTouchUntilTheirWait) {
  const Bytes recipe = AddRecipe(kCount);
  Program program = OneLaunch(kCount, recipe);
  ProgramFunction& forward = program.functions[0];
  forward.buffer_bytes.push_back(kBytes);
  forward.tensors.push_back(forward.tensors[1]);
  forward.tensors[2].index = 1;
  const Step launch = forward.steps[0];
  forward.steps = {CollectiveStep{.op = CollectiveStep::Op::kAllReduce,
                                  .reduce_op = CollectiveStep::ReduceOp::kSum,
                                  .group = "g",
                                  .inputs = {0},
                                  .outputs = {2}},
                   launch, WaitStep{0}};
  auto executor = Load(program, recipe);
  ASSERT_TRUE(executor.ok()) << ToText(executor.status());
  EXPECT_EQ((*executor)->VisibleFrom(0), std::vector<uint32_t>{1});
  EXPECT_EQ((*executor)->VisibleFrom(1), std::vector<uint32_t>{0});
  EXPECT_EQ((*executor)->VisibleUntil(1), std::vector<uint32_t>{});  // buffer 0 is an output
  EXPECT_EQ((*executor)->VisibleUntil(2), std::vector<uint32_t>{1});
  EXPECT_EQ((*executor)->LastStepOf(0), 2U);
  std::vector<uint64_t> slots((*executor)->slot_count());
  EXPECT_EQ(ToText((*executor)->Run(TestStream(0), slots)),
            "INVALID_ARGUMENT: program test has collective steps; they need PyTorch");
}

TEST(ProgramExecutor, OffsetsReachInsideInputs) {
  const Bytes recipe = AddRecipe(kCount / 2);
  Program program = OneLaunch(kCount, recipe);
  ProgramFunction& forward = program.functions[0];
  for (ProgramTensor& tensor : forward.tensors) tensor.spec.sizes = {kCount / 2};
  forward.tensors[0].spec.storage_offset = 10;
  forward.tensors[1].spec.storage_offset = 3;
  auto executor = Load(program, recipe);
  ASSERT_TRUE(executor.ok()) << ToText(executor.status());
  EXPECT_EQ(RunOn(**executor)[3], 2 * 11);
}

TEST(ProgramExecutor, ConstantsGoToTheDeviceOnce) {
  const Bytes recipe = AddRecipe(kCount);
  Program program = OneLaunch(kCount, recipe);
  Bytes data(kBytes);
  const int32_t value = 21;
  std::memcpy(data.data() + 4, &value, sizeof(value));
  program.constants.push_back({program.functions[0].tensors[0].spec, data});
  program.functions[0].tensors[0].placement = Placement::kConstant;
  auto executor = Load(program, recipe);
  ASSERT_TRUE(executor.ok()) << ToText(executor.status());
  EXPECT_EQ((*executor)->ConstantAddress(0), 0u);
  EXPECT_EQ(RunOn(**executor)[1], 42);
  const uint64_t address = (*executor)->ConstantAddress(0);
  EXPECT_NE(address, 0u);
  EXPECT_EQ(RunOn(**executor)[1], 42);
  EXPECT_EQ((*executor)->ConstantAddress(0), address);
}

TEST(ProgramExecutor, ConstSectionsOfARecipeArePlaced) {
  const Bytes recipe = AddRecipe(kCount, 0, /*with_const=*/true);
  auto executor = Load(OneLaunch(kCount, recipe), recipe);
  ASSERT_TRUE(executor.ok()) << ToText(executor.status());
  EXPECT_EQ(RunOn(**executor)[4], 105);
  EXPECT_EQ(RunOn(**executor, 1)[4], 105);
}

TEST(ProgramExecutor, InputsMayOverlapEachOther) {
  const Bytes recipe = AddRecipe(kCount);
  Program program = OneLaunch(kCount, recipe);
  // This works in place: y lies where x does.
  program.functions[0].steps.push_back(LaunchStep{0, {{"x", 0, false}, {"y", 0, true}}});
  program.functions[0].inputs[0].mutated = true;
  auto executor = Load(program, recipe);
  ASSERT_TRUE(executor.ok()) << ToText(executor.status());
  EXPECT_EQ(RunOn(**executor)[0], 2);
}

TEST(ProgramExecutor, RecipesAreSharedByDigest) {
  const Bytes recipe = AddRecipe(kCount, 512);
  const uint64_t loaded = GetCounters().recipes_loaded;
  const uint64_t alive = GetCounters().recipes_alive;
  auto one = Load(OneLaunch(kCount, recipe), recipe);
  auto two = Load(OneLaunch(kCount, recipe), recipe);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(GetCounters().recipes_loaded - loaded, 1u);
  one->reset();
  EXPECT_EQ(RunOn(**two)[0], 2);
  two->reset();
  EXPECT_EQ(GetCounters().recipes_alive, alive);
}

TEST(ProgramExecutor, RefusesWhatDoesNotFit) {
  const Bytes recipe = AddRecipe(kCount);
  const Program good = OneLaunch(kCount, recipe);
  Program wrong_name = good;
  std::get<LaunchStep>(wrong_name.functions[0].steps[0]).bindings[0].tensor_name = "z";
  EXPECT_THAT(std::string(Load(wrong_name, recipe).status().message()),
              ::testing::HasSubstr("binds \"z\""));
  Program unbound = good;
  std::get<LaunchStep>(unbound.functions[0].steps[0]).bindings.pop_back();
  EXPECT_THAT(std::string(Load(unbound, recipe).status().message()),
              ::testing::HasSubstr("tensor \"y\" is not bound"));
  EXPECT_EQ(ProgramExecutor::Create(EncodeProgram(good), {}, "test").status().code(),
            absl::StatusCode::kInvalidArgument);
  Bytes damaged = recipe;
  damaged[damaged.size() / 2] ^= 1;
  Program other = good;
  other.recipes[0].digest = Sha256(damaged);
  const absl::Status status = Load(other, damaged).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << ToText(status);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("program test: recipe " + ToHex(Sha256(damaged)).substr(0, 8)));
  EXPECT_EQ(ProgramExecutor::Create(damaged, {}, "test").status().code(),
            absl::StatusCode::kDataLoss);
}

// A step that the format allows and nothing here can run is refused when a program is loaded.
TEST(ProgramExecutor, RefusesWhatItCannotRun) {
  using Kind = ProgramInput::Kind;
  struct Case {
    void (*change)(ProgramFunction&);
    const char* message;
  };
  const Case cases[] = {
      {[](ProgramFunction& f) {
         f.inputs.push_back({.kind = Kind::kSeed, .spec = {DType::kI64, {}, {}, 0}});
         f.inputs.push_back({.kind = Kind::kScalar});
       },
       "program test: this build takes random state behind all other inputs"},
  };
  const Bytes recipe = AddRecipe(kCount);
  for (const Case& row : cases) {
    Program program = OneLaunch(kCount, recipe);
    row.change(program.functions[0]);
    const absl::Status status = Load(program, recipe).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << ToText(status);
    EXPECT_EQ(std::string(status.message()), row.message);
  }
}

}  // namespace
}  // namespace hpu::runtime
