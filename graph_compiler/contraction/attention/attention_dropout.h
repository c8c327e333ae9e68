// Dropout of attention's weights. Which weights are kept is a function of the generator's state and
// the weight's place in [batch, heads, queries, keys] (base/philox.h), so the forward and the
// gradient draw the same, whatever their blocks are, and nothing of it is stored.
//
// Rows are keys, lanes are queries: the four numbers of a Philox block are four rows of a lane. A
// lane whose rows do not begin with a block (a number of keys that is no multiple of 4) chooses
// from the block before and the next one; so each block is calculated once, there too.
#pragma once

#include "graph_compiler/contraction/tiles/ir_emitter.h"
#include "graph_compiler/contraction/tiles/specs.h"

namespace hpu::graph_compiler {

class KeptWeights {
 public:
  static constexpr int kRows = 4;

  // Operands `seed`, `seed` + 1 and + 2 are the generator's seed, its offset and the draw's base.
  // Columns begin with keys that are a multiple of `key_step`.
  KeptWeights(IrEmitter& e, const KernelFrame& frame, const AttentionSpec& spec, uint32_t seed,
              int64_t key_step);

  void SetHead(llvm::Value* batch, llvm::Value* head);

  // A vector of queries against keys from some key on.
  struct Column {
    llvm::Value* first_block = nullptr;  // of each lane; even lanes, then odd ones
    llvm::Value* odd = nullptr;          // bits of the place within a block, where lanes have one
    llvm::Value* second_half = nullptr;
    Values state;  // what a walk over the rows carries
  };
  // `query` and `key` count from 0; lanes are the queries from `query` on.
  Column At(llvm::Value* query, llvm::Value* key);
  // For rows [row, row + kRows) of the column, `row` a multiple of kRows and `state` what the rows
  // before left: vectors of i1, true where the weight is kept.
  Values Next(const Column& column, llvm::Value* row, Values* state);

 private:
  Values Words(const Column& column, llvm::Value* block);
  llvm::Value* Kept(llvm::Value* word);

  IrEmitter& e_;
  const AttentionSpec& spec_;
  const bool aligned_;
  llvm::Value* seed_;
  llvm::Value* first_;  // block of the draw
  llvm::Value* head_ = nullptr;
};

}  // namespace hpu::graph_compiler
