// Transcendental functions as inline vector code on f32 (scalars or vectors).
//
// Largest error against the exact value, in units in the last place of f32, over all inputs
// (tests/graph_compiler/math_test.cc samples them):
//
//   exp 1, expm1 2, log 1, tanh 2, erf 2, sigmoid 2.5 (f32 arithmetic)
//   rsqrt 1.5, reciprocal 0.5 (sqrt and division are exact instructions)
//   log1p log2 log10 sin cos tan asin acos atan atan2 sinh cosh asinh acosh atanh pow
//     0.51 (computed in f64 and rounded once)
//
// NaN, infinities, -0 and denormals are treated as C's libm does. sin, cos and tan reduce their
// argument exactly over the whole range.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <vector>

#include "synapse/emulator/graph_compiler/codegen/module.h"
#include "synapse/emulator/graph_compiler/loop_ir.h"

namespace hpu::emulator {

bool IsMathOpcode(Opcode op);

// `args` are f32; may add basic blocks (sin, cos, tan).
llvm::Value* EmitMath(llvm::IRBuilder<>& builder, const TargetInfo& target, Opcode op,
                      const std::vector<llvm::Value*>& args);

}  // namespace hpu::emulator
