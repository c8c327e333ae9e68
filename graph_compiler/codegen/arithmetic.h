// Emits the arithmetic, logic, comparisons and casts of loop_ir.h on scalars or vectors.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <vector>

#include "graph_compiler/codegen/module.h"
#include "graph_compiler/ir/loop_ir.h"

namespace hpu::graph_compiler {

// `type` is the type of the result, `arg_type` the type of the (last) argument. Integer division by
// zero gives 0; min and max propagate NaN; shifts by the width or more give 0 (or the sign). kRem
// on floats is exact (C fmod); kFloorDiv and kFloorMod follow Python's signs.
llvm::Value* EmitArithmetic(llvm::IRBuilder<>& builder, const TargetInfo& target, Opcode op,
                            ScalarType type, ScalarType arg_type,
                            const std::vector<llvm::Value*>& args);

// a * b + c, fused where the target has FMA.
llvm::Value* EmitFma(llvm::IRBuilder<>& builder, const TargetInfo& target, llvm::Value* a,
                     llvm::Value* b, llvm::Value* c);

}  // namespace hpu::graph_compiler
