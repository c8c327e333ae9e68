// The less frequent functions of math.h: computed in f64, rounded to f32 once.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <vector>

#include "graph_compiler/codegen/module.h"
#include "graph_compiler/ir/loop_ir.h"

namespace hpu::graph_compiler {

bool IsMath64Opcode(Opcode op);
// f32 in, f32 out.
llvm::Value* EmitMath64(llvm::IRBuilder<>& builder, const TargetInfo& target, Opcode op,
                        const std::vector<llvm::Value*>& args);

}  // namespace hpu::graph_compiler
