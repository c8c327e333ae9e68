// Everything that attention and its gradient do to a product of query and key before the softmax.
#pragma once

#include "graph_compiler/contraction/tiles/ir_emitter.h"
#include "graph_compiler/contraction/tiles/specs.h"

namespace hpu::graph_compiler {

enum class AttentionMask : uint8_t { kNone, kPerKey, kPerQuery };  // kPerKey: same for all queries
AttentionMask MaskOf(const AttentionSpec& spec);

// A block of scores, whose rows are keys and whose lanes are queries.
struct ScoreBlock {
  AttentionMask mask = AttentionMask::kNone;
  // kPerKey: the first key's element of the mask; kPerQuery: the mask as f32, with keys `stride`
  // bytes apart.
  llvm::Value* mask_base = nullptr;
  int64_t stride = 0;
  llvm::Value* first_key = nullptr;
  llvm::Value* first_query = nullptr;
  int64_t queries_per_head = 0;  // set where lanes run through heads as well; 0: they do not
};

// Returns score * scale + mask, or -inf where the causal rule hides the key. `key` and `query`
// (that of lane 0) count from the first of the block.
llvm::Value* EmitMaskedScore(IrEmitter& e, const AttentionSpec& spec, const ScoreBlock& block,
                             llvm::Value* score, llvm::Value* key, llvm::Value* query);

}  // namespace hpu::graph_compiler
