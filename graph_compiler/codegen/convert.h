// Conversions between element types in memory and compute types in registers (loop_ir.h). All
// functions work on scalars and on vectors: the result has the shape of the argument.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "graph_compiler/codegen/module.h"
#include "graph_compiler/ir/loop_ir.h"

namespace hpu::graph_compiler {

// The scalar LLVM type of a value in memory (bf16 and fp8 are integers there) or in registers.
llvm::Type* ElementType(llvm::LLVMContext& context, MemoryType type);
llvm::Type* ElementType(llvm::LLVMContext& context, ScalarType type);
// Returns <lanes x element>, or the element itself when lanes == 1.
llvm::Type* WithLanes(llvm::Type* element, int lanes);
// Returns a type with as many lanes as `like` and another element type.
llvm::Type* WithLanesOf(llvm::Type* element, llvm::Type* like);

// Converts from the form in memory to ComputeType(type).
llvm::Value* Widen(llvm::IRBuilder<>& builder, const TargetInfo& target, llvm::Value* raw,
                   MemoryType type);
// Converts from the compute form of any ScalarType to the form in memory. Floats round to nearest
// even and overflow as IEEE says (fp8 e4m3: to NaN). Float to integer truncates, saturates at i32
// (i64 for kI64, kU32) and keeps the low bits.
llvm::Value* Narrow(llvm::IRBuilder<>& builder, const TargetInfo& target, llvm::Value* value,
                    ScalarType from, MemoryType type);
// Converts between compute types by the rules of kCast.
llvm::Value* ConvertScalar(llvm::IRBuilder<>& builder, llvm::Value* value, ScalarType from,
                           ScalarType to);

}  // namespace hpu::graph_compiler
