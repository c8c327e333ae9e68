// Conversions between element types in memory and compute types in registers (loop_ir.h). All
// functions work on scalars and on vectors: the shape is that of the argument.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "graph_compiler/codegen/module.h"
#include "graph_compiler/ir/loop_ir.h"

namespace hpu::graph_compiler {

// Scalar LLVM type of a value in memory (bf16 and fp8 are integers there) and in registers.
llvm::Type* ElementType(llvm::LLVMContext& context, MemoryType type);
llvm::Type* ElementType(llvm::LLVMContext& context, ScalarType type);
// <lanes x element>, or the element itself when lanes == 1.
llvm::Type* WithLanes(llvm::Type* element, int lanes);
// Same number of lanes as `like`, other element.
llvm::Type* WithLanesOf(llvm::Type* element, llvm::Type* like);

// Memory form -> ComputeType(type).
llvm::Value* Widen(llvm::IRBuilder<>& builder, const TargetInfo& target, llvm::Value* raw,
                   MemoryType type);
// Compute form of any ScalarType -> memory form. Floats round to nearest even, overflow as IEEE
// says (fp8 e4m3: to NaN); float to integer truncates, saturates at i32 (i64 for kI64, kU32) and
// keeps the low bits.
llvm::Value* Narrow(llvm::IRBuilder<>& builder, const TargetInfo& target, llvm::Value* value,
                    ScalarType from, MemoryType type);
// Between compute types, kCast's rules.
llvm::Value* ConvertScalar(llvm::IRBuilder<>& builder, llvm::Value* value, ScalarType from,
                           ScalarType to);

}  // namespace hpu::graph_compiler
