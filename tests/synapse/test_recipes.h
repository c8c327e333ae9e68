// Hand-built recipes whose kernels are the functions of kernels.c, so that the runtime is tested
// without the graph compiler.
#pragma once

#include <cstdint>
#include <string>

#include "recipe/recipe.h"

namespace hpu::emulator {

// An int32 vector in a section of its own.
RecipeTensor VectorTensor(const std::string& name, uint64_t elements, uint32_t section);

// Computes out = a + b over `elements` int32; the tensors are a, b, out in sections 0, 1, 2.
Recipe AddRecipe(uint64_t elements);
// Computes out = packed(a) + b: `a` goes through a packed copy.
Recipe PackedAddRecipe(uint64_t elements);
// Computes out = kept(a + b) + x: the prologue computes the sum of a and b. The tensors are a, b,
// x, out.
Recipe KeptAddRecipe(uint64_t elements);
// Waits until gate[0] is not 0, then computes out = a + b. The tensors are gate, a, b, out; out is
// external.
Recipe GatedAddRecipe(uint64_t elements);
// Computes visits[i] += 1 for every task, `kernels` times.
Recipe VisitRecipe(uint64_t tasks, uint64_t grain, int kernels);
// Computes out[i] = workspace[i].
Recipe WorkspaceRecipe(uint64_t elements);
// Computes out[i] = sum over k < 256 of i + k, in scratch.
Recipe ScratchRecipe(uint64_t tasks);

}  // namespace hpu::emulator
