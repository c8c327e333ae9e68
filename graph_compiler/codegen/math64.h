// The less frequent functions of math.h, computed in f64 and rounded to f32 once.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <vector>

#include "graph_compiler/codegen/module.h"
#include "graph_compiler/ir/loop_ir.h"

namespace hpu::graph_compiler {

bool IsMath64Opcode(Opcode op);
// Arguments and result are f32.
llvm::Value* EmitMath64(llvm::IRBuilder<>& builder, const TargetInfo& target, Opcode op,
                        const std::vector<llvm::Value*>& args);

}  // namespace hpu::graph_compiler
