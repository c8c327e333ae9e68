#include "tests/synapse/test_recipes.h"

#include <span>

#include "kernel_blobs.h"

namespace hpu::emulator {
namespace {

OperandRef Persistent(uint32_t index) {
  return {.kind = OperandRef::Kind::kPersistent, .index = index, .offset = 0};
}

// Appends a function to the code and returns its entry.
uint32_t AddCode(Recipe& recipe, std::span<const uint8_t> function) {
  while (recipe.code.size() % 16 != 0) recipe.code.push_back(0xCC);
  const auto entry = static_cast<uint32_t>(recipe.code.size());
  recipe.code.insert(recipe.code.end(), function.begin(), function.end());
  return entry;
}

KernelLaunch MakeKernel(uint32_t entry, std::vector<OperandRef> operands, uint64_t tasks,
                        const std::string& name) {
  KernelLaunch kernel;
  kernel.entry = entry;
  kernel.operands = std::move(operands);
  kernel.tasks = tasks;
  kernel.grain = 16;
  kernel.name = name;
  kernel.bytes = 1 << 20;  // large enough for all threads
  return kernel;
}

Recipe EmptyRecipe(const std::string& name) {
  Recipe recipe;
  recipe.name = name;
  recipe.isa = IsaLevel::kV2;
  return recipe;
}

RecipeTensor Input(const std::string& name, uint64_t elements, uint32_t section) {
  RecipeTensor tensor = VectorTensor(name, elements, section);
  tensor.is_input = true;
  return tensor;
}

RecipeTensor Output(const std::string& name, uint64_t elements, uint32_t section) {
  RecipeTensor tensor = VectorTensor(name, elements, section);
  tensor.is_written = true;
  return tensor;
}

}  // namespace

RecipeTensor VectorTensor(const std::string& name, uint64_t elements, uint32_t section) {
  RecipeTensor tensor;
  tensor.name = name;
  tensor.dtype = syn_type_int32;
  tensor.sizes = {elements};
  tensor.section = section;
  return tensor;
}

Recipe AddRecipe(uint64_t elements) {
  Recipe recipe = EmptyRecipe("add");
  recipe.tensors = {Input("a", elements, 0), Input("b", elements, 1), Output("out", elements, 2)};
  recipe.workspace_bytes = 256;
  recipe.kernels = {MakeKernel(AddCode(recipe, k_add),
                               {Persistent(0), Persistent(1), Persistent(2)}, elements, "add")};
  return recipe;
}

Recipe PackedAddRecipe(uint64_t elements) {
  Recipe recipe = EmptyRecipe("packed_add");
  recipe.tensors = {Input("a", elements, 0), Input("b", elements, 1), Output("out", elements, 2)};
  PackedOperand packed;
  packed.source = Persistent(0);
  packed.source_bytes = elements * sizeof(int32_t);
  packed.packed_bytes = elements * sizeof(int32_t);
  packed.format = "test copy " + std::to_string(elements);
  packed.kernel = MakeKernel(AddCode(recipe, k_copy), {}, elements, "pack a");
  packed.restore_entry = packed.kernel.entry;
  recipe.packed = {packed};
  const OperandRef packed_operand{.kind = OperandRef::Kind::kPacked, .index = 0, .offset = 0};
  recipe.kernels = {MakeKernel(AddCode(recipe, k_add),
                               {packed_operand, Persistent(1), Persistent(2)}, elements, "add")};
  return recipe;
}

Recipe KeptAddRecipe(uint64_t elements) {
  Recipe recipe = EmptyRecipe("kept_add");
  recipe.tensors = {Input("a", elements, 0), Input("b", elements, 1), Input("x", elements, 2),
                    Output("out", elements, 3)};
  recipe.prologue = 1;
  recipe.kept_bytes = (elements * sizeof(int32_t) + 127) / 128 * 128;
  const OperandRef kept{.kind = OperandRef::Kind::kKept};
  const uint32_t add = AddCode(recipe, k_add);
  recipe.kernels = {MakeKernel(add, {Persistent(0), Persistent(1), kept}, elements, "of weights"),
                    MakeKernel(add, {kept, Persistent(2), Persistent(3)}, elements, "add")};
  return recipe;
}

Recipe GatedAddRecipe(uint64_t elements) {
  Recipe recipe = EmptyRecipe("gated_add");
  recipe.tensors = {Input("gate", 1, 0), Input("a", elements, 1), Input("b", elements, 2),
                    Output("out", elements, 3)};
  recipe.tensors[3].external = true;
  const uint32_t gate = AddCode(recipe, k_wait_gate);
  const uint32_t add = AddCode(recipe, k_add);
  recipe.kernels = {
      MakeKernel(gate, {Persistent(0)}, 1, "gate"),
      MakeKernel(add, {Persistent(1), Persistent(2), Persistent(3)}, elements, "add")};
  return recipe;
}

Recipe VisitRecipe(uint64_t tasks, uint64_t grain, int kernels) {
  Recipe recipe = EmptyRecipe("visit");
  recipe.tensors = {Output("visits", tasks, 0)};
  recipe.tensors[0].is_input = true;
  const uint32_t entry = AddCode(recipe, k_visit);
  for (int i = 0; i < kernels; ++i) {
    recipe.kernels.push_back(MakeKernel(entry, {Persistent(0)}, tasks, "visit"));
    recipe.kernels.back().grain = grain;
  }
  return recipe;
}

Recipe WorkspaceRecipe(uint64_t elements) {
  Recipe recipe = EmptyRecipe("workspace");
  recipe.tensors = {Output("out", elements, 0)};
  recipe.workspace_bytes = (elements * sizeof(int32_t) + 127) / 128 * 128;
  const OperandRef workspace{.kind = OperandRef::Kind::kWorkspace};
  recipe.kernels = {
      MakeKernel(AddCode(recipe, k_copy), {workspace, Persistent(0)}, elements, "copy")};
  return recipe;
}

Recipe ScratchRecipe(uint64_t tasks) {
  Recipe recipe = EmptyRecipe("scratch");
  recipe.tensors = {Output("out", tasks, 0)};
  recipe.kernels = {MakeKernel(AddCode(recipe, k_use_scratch), {Persistent(0)}, tasks, "scratch")};
  recipe.kernels[0].scratch_bytes = 256 * sizeof(int32_t);
  return recipe;
}

}  // namespace hpu::emulator
