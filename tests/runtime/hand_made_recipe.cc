#include "tests/runtime/hand_made_recipe.h"

#include <span>

#include "backend/runtime/program_executor.h"
#include "recipe/recipe.h"
#include "tests/runtime/device_environment.h"

// Kernels get rdi = operands, rsi = first task, rdx = end of tasks. They are position independent.
asm(R"(
  .pushsection .text
add_begin:
  mov (%rdi), %r8
  mov 8(%rdi), %r9
  mov 16(%rdi), %r10
1: cmp %rdx, %rsi
  jge 2f
  mov (%r8,%rsi,4), %eax
  add (%r9,%rsi,4), %eax
  mov %eax, (%r10,%rsi,4)
  inc %rsi
  jmp 1b
2: ret
add_end:
gate_begin:
  mov (%rdi), %r8
1: mov (%r8), %eax
  pause
  test %eax, %eax
  jz 1b
  ret
gate_end:
  .popsection
)");
extern "C" const uint8_t add_begin[], add_end[], gate_begin[], gate_end[];

namespace hpu::runtime {
namespace {

Recipe Base(const char* name, std::span<const uint8_t> code) {
  Recipe recipe;
  recipe.name = name;
  recipe.isa = IsaLevel::kV2;
  recipe.code.assign(code.begin(), code.end());
  return recipe;
}

void AddTensor(Recipe& recipe, const char* name, uint64_t count, bool is_input) {
  RecipeTensor tensor;
  tensor.name = name;
  tensor.dtype = syn_type_int32;
  tensor.sizes = {count};
  tensor.section = static_cast<uint32_t>(recipe.tensors.size());
  tensor.is_input = is_input;
  tensor.is_written = !is_input;
  recipe.tensors.push_back(tensor);
}

OperandRef Persistent(uint32_t index) {
  return {.kind = OperandRef::Kind::kPersistent, .index = index, .offset = 0};
}

TensorSpec Integers(uint64_t count) { return {DType::kI32, {static_cast<int64_t>(count)}, {1}, 0}; }

}  // namespace

Bytes AddRecipe(uint64_t count, uint64_t workspace_bytes, bool with_const) {
  Recipe recipe = Base("add", {add_begin, add_end});
  recipe.workspace_bytes = workspace_bytes;
  AddTensor(recipe, "x", count, /*is_input=*/true);
  if (with_const) {
    AddTensor(recipe, "c", count, /*is_input=*/true);
    ConstSection section;
    section.section = 1;
    section.data.resize(count * sizeof(int32_t));
    for (uint64_t i = 0; i < count; ++i) section.data[i * sizeof(int32_t)] = 100;
    recipe.const_sections.push_back(section);
  }
  AddTensor(recipe, "y", count, /*is_input=*/false);
  KernelLaunch kernel;
  kernel.name = "add";
  kernel.tasks = count;
  kernel.operands = {Persistent(0), Persistent(with_const ? 1 : 0), Persistent(with_const ? 2 : 1)};
  recipe.kernels.push_back(kernel);
  return EncodeRecipe(recipe);
}

Program OneLaunch(uint64_t count, const Bytes& recipe) {
  Program program;
  program.recipes.push_back({Sha256(recipe), recipe.size()});
  ProgramFunction& forward = program.functions.emplace_back();
  forward.inputs = {{.spec = Integers(count)}};
  forward.buffer_bytes = {count * sizeof(int32_t)};
  forward.tensors = {{Placement::kInput, 0, Integers(count)},
                     {Placement::kBuffer, 0, Integers(count)}};
  forward.steps = {LaunchStep{0, {{"x", 0, false}, {"y", 1, true}}}};
  forward.outputs = {{.kind = ProgramOutput::Kind::kTensor, .index = 1}};
  return program;
}

struct Gate::State {
  DeviceBlock* block = nullptr;
  std::unique_ptr<ProgramExecutor> executor;
  std::atomic_ref<int32_t> word() {
    return std::atomic_ref<int32_t>(*reinterpret_cast<int32_t*>(block->address));
  }
};

Gate::Gate(Stream& stream) : stream_(stream), state_(new State) {
  Recipe recipe = Base("gate", {gate_begin, gate_end});
  AddTensor(recipe, "word", 1, /*is_input=*/true);
  KernelLaunch kernel;
  kernel.name = "gate";
  kernel.operands = {Persistent(0)};
  recipe.kernels.push_back(kernel);
  const Bytes bytes = EncodeRecipe(recipe);
  Program program;
  program.recipes.push_back({Sha256(bytes), bytes.size()});
  ProgramFunction& forward = program.functions.emplace_back();
  forward.inputs = {{.spec = Integers(1)}};
  forward.tensors = {{Placement::kInput, 0, Integers(1)}};
  forward.steps = {LaunchStep{0, {{"word", 0, false}}}};

  state_->block = *stream.device().allocator().Allocate(sizeof(int32_t), stream);
  state_->word().store(0);
  const std::span<const uint8_t> recipes[] = {bytes};
  state_->executor =
      std::move(ProgramExecutor::Create(EncodeProgram(program), recipes, "gate")->front());
  std::vector<uint64_t> slots(state_->executor->slot_count());
  slots[0] = state_->block->address;
  EXPECT_OK(state_->executor->Run(stream, slots));
}

void Gate::Open() { state_->word().store(1); }

Gate::~Gate() {
  Open();
  EXPECT_OK(stream_.Synchronize());
  state_->executor.reset();
  stream_.device().allocator().Free(state_->block);
  delete state_;
}

}  // namespace hpu::runtime
