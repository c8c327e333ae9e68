// Hand-built recipes whose kernels are the functions of kernels.c: the runtime is tested without
// the graph compiler.
#pragma once

#include <cstdint>
#include <string>

#include "recipe/recipe.h"

namespace hpu::emulator {

// An int32 vector in a section of its own.
RecipeTensor VectorTensor(const std::string& name, uint64_t elements, uint32_t section);

// out = a + b over `elements` int32; tensors a, b, out in sections 0, 1, 2.
Recipe AddRecipe(uint64_t elements);
// out = packed(a) + b: `a` goes through a packed copy.
Recipe PackedAddRecipe(uint64_t elements);
// out = kept(a + b) + x: the sum of a and b is the prologue's; tensors a, b, x, out.
Recipe KeptAddRecipe(uint64_t elements);
// Waits until gate[0] is not 0, then out = a + b; tensors gate, a, b, out; out is external.
Recipe GatedAddRecipe(uint64_t elements);
// visits[i] += 1 for every task; `kernels` times.
Recipe VisitRecipe(uint64_t tasks, uint64_t grain, int kernels);
// out[i] = sum over k < 256 of i + k, computed in scratch.
Recipe ScratchRecipe(uint64_t tasks);

}  // namespace hpu::emulator
