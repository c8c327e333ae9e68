// Dropout of attention's weights. Whether a weight is kept is a function of the generator's state
// and the weight's place in [batch, heads, queries, keys] (base/philox.h), so the forward and the
// gradient draw the same numbers, whatever their blocks are, and nothing is stored.
//
// Rows are keys and lanes are queries: the four numbers of a Philox block are four rows of a lane.
// A lane whose rows do not begin with a block (when the number of keys is not a multiple of 4)
// chooses from the block before and the next one. So each block is calculated only once in that
// case, too.
#pragma once

#include "graph_compiler/contraction/tiles/ir_emitter.h"
#include "graph_compiler/contraction/tiles/specs.h"

namespace hpu::graph_compiler {

class KeptWeights {
 public:
  static constexpr int kRows = 4;

  // Operands `seed`, `seed` + 1 and `seed` + 2 are the generator's seed, its offset and the draw's
  // base. Columns begin with keys that are a multiple of `key_step`.
  KeptWeights(IrEmitter& e, const KernelFrame& frame, const AttentionSpec& spec, uint32_t seed,
              int64_t key_step);

  void SetHead(llvm::Value* batch, llvm::Value* head);

  // A vector of queries against keys from some key on.
  struct Column {
    llvm::Value* first_block = nullptr;  // one per lane; even lanes first, then odd ones
    // The bits of the place within a block, for lanes that do not begin with a block.
    llvm::Value* odd = nullptr;
    llvm::Value* second_half = nullptr;
    Values state;  // the values that a walk over the rows carries
  };
  // `query` and `key` count from 0; lanes are the queries from `query` on.
  Column At(llvm::Value* query, llvm::Value* key);
  // Returns vectors of i1 for rows [row, row + kRows) of the column, which are true where the
  // weight is kept. `row` is a multiple of kRows, and `state` is the state that the rows before it
  // left.
  Values Next(const Column& column, llvm::Value* row, Values* state);

 private:
  Values Words(const Column& column, llvm::Value* block);
  llvm::Value* Kept(llvm::Value* word);

  IrEmitter& e_;
  const AttentionSpec& spec_;
  const bool aligned_;
  llvm::Value* seed_;
  llvm::Value* first_;  // the first block of the draw
  llvm::Value* head_ = nullptr;
};

}  // namespace hpu::graph_compiler
