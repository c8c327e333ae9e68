// Transcendental functions as inline vector code on f32 (scalars or vectors).
//
// Error bounds are in docs/numerics.md, whose table tests/graph_compiler/accuracy_test.cc checks.
// rsqrt and reciprocal use exact sqrt and division. The functions of math64.h are computed in f64
// and rounded once.
//
// NaN, infinities, -0 and denormals are treated as C's libm treats them. sin, cos and tan reduce
// their argument exactly over the whole range.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <vector>

#include "graph_compiler/codegen/module.h"
#include "graph_compiler/ir/loop_ir.h"

namespace hpu::graph_compiler {

bool IsMathOpcode(Opcode op);

// `args` are f32. sin, cos and tan may add basic blocks.
llvm::Value* EmitMath(llvm::IRBuilder<>& builder, const TargetInfo& target, Opcode op,
                      const std::vector<llvm::Value*>& args);

// Returns e^x with the error of kExp where the result is a normal number (x from -87 to 88).
// Elsewhere the result is wrong.
llvm::Value* EmitExpInRange(llvm::IRBuilder<>& builder, const TargetInfo& target, llvm::Value* x);

}  // namespace hpu::graph_compiler
