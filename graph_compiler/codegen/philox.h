// Random numbers in a recipe: base/philox.h as vector code. A number is a function of its place in
// the stream, so that it depends neither on threads nor on tiles.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <array>

namespace hpu::graph_compiler {

// Returns element `index` of the draw that begins at block `first` of the stream of `seed`, as f32
// in [0, 1). `seed` and `first` are i64; `index` is an i64 or a vector of them. `consecutive` means
// that the vector counts up by one; four lanes then share the work of a block if the vector starts
// at a block. May add basic blocks.
llvm::Value* EmitPhiloxUniform(llvm::IRBuilder<>& builder, llvm::Value* seed, llvm::Value* first,
                               llvm::Value* index, bool consecutive);

// Returns all four numbers of each of `blocks` (a vector of an even number of i64), as vectors of
// i32 whose upper 24 bits are the number. Lane i of a result belongs to lane j of `blocks` where
// PhiloxLane(j) == i: even lanes lie in the first half and odd ones in the second, as the machine
// multiplies them.
std::array<llvm::Value*, 4> EmitPhiloxBlocks(llvm::IRBuilder<>& builder, llvm::Value* seed,
                                             llvm::Value* blocks);
inline int PhiloxLane(int i, int lanes) { return i < lanes / 2 ? 2 * i : 2 * (i - lanes / 2) + 1; }

}  // namespace hpu::graph_compiler
