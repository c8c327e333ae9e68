// Random numbers in a recipe: base/philox.h as vector code. Numbers are functions of their place in
// the stream, so neither threads nor tiles show in them.
#pragma once

#include <llvm/IR/IRBuilder.h>

namespace hpu::graph_compiler {

// Element `index` of the draw that begins at block `first` of the stream of `seed`, as f32 of
// [0, 1). `seed` and `first` are i64; `index` is one, or a vector of them. `consecutive`: the
// vector counts up by one; then four lanes share the work of a block where it starts with one. May
// add basic blocks.
llvm::Value* EmitPhiloxUniform(llvm::IRBuilder<>& builder, llvm::Value* seed, llvm::Value* first,
                               llvm::Value* index, bool consecutive);

}  // namespace hpu::graph_compiler
