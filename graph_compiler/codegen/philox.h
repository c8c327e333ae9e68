// Random numbers in a recipe: base/philox.h as vector code. Numbers are functions of their place in
// the stream, so neither threads nor tiles show in them.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <array>

namespace hpu::graph_compiler {

// Element `index` of the draw that begins at block `first` of the stream of `seed`, as f32 of
// [0, 1). `seed` and `first` are i64; `index` is one, or a vector of them. `consecutive`: the
// vector counts up by one; then four lanes share the work of a block where it starts with one. May
// add basic blocks.
llvm::Value* EmitPhiloxUniform(llvm::IRBuilder<>& builder, llvm::Value* seed, llvm::Value* first,
                               llvm::Value* index, bool consecutive);

// All four numbers of each of `blocks` (a vector of an even number of i64), as vectors of i32, the
// upper 24 bits of which are the number. Lane i of a result is of lane j of `blocks` where
// PhiloxLane(j) == i: even lanes lie in the first half, odd ones in the second, as the machine
// multiplies them.
std::array<llvm::Value*, 4> EmitPhiloxBlocks(llvm::IRBuilder<>& builder, llvm::Value* seed,
                                             llvm::Value* blocks);
inline int PhiloxLane(int i, int lanes) { return i < lanes / 2 ? 2 * i : 2 * (i - lanes / 2) + 1; }

}  // namespace hpu::graph_compiler
