// Random numbers for rewrites that are made of more than a draw.
#pragma once

#include "compiler_server/passes/decompose/call.h"

namespace hpu::compiler {

// Draws numbers from [0, 1), one per element of a tensor of these sizes, in f32.
Value* Draw(Call& call, const Dims& sizes);
// Draws normal numbers in f32, one per element of the call's result: first the first numbers of all
// elements, then their second numbers.
Value* DrawNormal(Call& call);

}  // namespace hpu::compiler
