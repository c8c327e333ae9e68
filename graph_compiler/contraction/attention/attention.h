// Attention in one pass over the keys. A few queries take another form (attention_rows.h). A task
// is a block of queries of one (batch, head):
//
//   Q^T in panels (d x queries), once
//   for block of keys
//     S^T = K Q^T     rows are keys, lanes are queries: the softmax over keys needs no shuffles,
//                     and K is read by broadcasts, in place
//     running maximum and sum per lane; P = exp(S - maximum)
//     O = O * exp(old maximum - new maximum) + P V
//   out = O / sum
//
// attention_forms.h says in which form the two products are computed.
//
// A row whose keys are all masked (every score -inf) gives 0, as in PyTorch's kernels. Causal means
// key j <= query i, both counted from 0 (PyTorch's top-left rule); tiles of scores above the
// diagonal are neither computed nor read. Where a few queries share a key head (decoding with
// grouped queries), the queries of all its heads form one block, so that keys and values are read
// once.
#pragma once

#include "graph_compiler/contraction/attention/attention_mask.h"
#include "graph_compiler/contraction/tiles/ir_emitter.h"
#include "graph_compiler/contraction/tiles/kernel_cache.h"
#include "graph_compiler/contraction/tiles/micro_kernel.h"
#include "graph_compiler/contraction/tiles/specs.h"

namespace hpu::graph_compiler {

absl::StatusOr<EmittedKernels> EmitAttentionKernels(KernelCache& cache, const AttentionSpec& spec);

// Fills in the operands (q, k, v, out, mask and, if they are wanted, maximum and inverse sum), the
// engine, the name and the work of the whole launch. The caller sets the tasks.
KernelLaunch AttentionLaunch(const AttentionSpec& spec);
absl::Status CheckAttention(const AttentionSpec& spec);
// Returns whether products of pairs of bf16 can read queries and keys, that is, features lie in
// pairs.
bool LiesInPairs(const TargetInfo& target, const AttentionSpec& spec);
// Moves the offsets of views to their operands.
AttentionSpec WithBoundOffsets(const AttentionSpec& spec);
void BindOffset(OperandRef& ref, int64_t& offset, MemoryType type);
// Adds everything that the generated code depends on in any form.
void AddToKey(KernelKey& key, const AttentionSpec& spec);

// The number of rows of scores whose exponentials are in flight together.
inline constexpr int kWeightsAtOnce = 4;

struct AttentionPlan {
  bool folds_heads = false;  // query rows are (head of the group, query)
  int64_t rows = 0;          // query rows of one unit: m, or kv_repeat * m
  int64_t query_block = 0;   // rows per task, a multiple of the query panel
  int64_t query_blocks = 0;
  int query_vectors = 0;  // of a panel of S^T
  int64_t query_cols = 0;
  int64_t key_block = 0;
  int key_rows = 0;       // of a tile of S^T
  int value_vectors = 0;  // of a panel of O
  int64_t value_cols = 0, value_panels = 0;
  int value_rows = 0;       // of a tile of O: queries, or features in the pairs form
  int64_t output_rows = 0;  // query_block rounded up to whole O tiles
  bool keys_in_place = false, values_in_place = false;
  AttentionMask mask = AttentionMask::kNone;

  // These belong to the pairs form (attention_forms.h).
  bool pairs = false;
  int score_depth = 0, value_depth = 0;  // pairs that an AMX tile multiplies; 0: vectors
  int64_t score_rows = 0;                // of a panel of scores
  int64_t output_features = 0;           // dv rounded up to whole tiles
  int64_t value_stride = 0;              // dwords from a row of V^T to the next
  // Returns the number of pairs that a block of `block_keys` keys is filled up to.
  int64_t FilledPairs(int64_t block_keys) const;
};
AttentionPlan PlanAttention(const TargetInfo& target, const AttentionSpec& spec);

// Offsets of the parts of a task's scratch, in bytes.
struct AttentionScratch {
  AttentionScratch(const AttentionSpec& spec, const AttentionPlan& plan);
  int64_t queries, scores, maximum, block_maximum, sum, correction, output_rows, output_panels,
      keys, values, mask;
  int64_t total;
};

}  // namespace hpu::graph_compiler
