// The gradient of attention, from what the forward saved: its result and two numbers per row
// (AttentionSpec). No matrix of scores reaches memory. A task is a (batch, key head):
//
//   K, V to dense f32 rows, dK = dV = 0, once
//   for block of queries, of every head that shares the keys
//     Q, dO, O as rows, Q and dO also transposed in panels
//     D = sum over features of dO * O, per query
//     dQ = 0
//     for block of keys
//       P^T = exp(K Q^T * scale + mask - maximum) * inverse sum    rows are keys, lanes are queries
//       dS^T = P^T * (V dO^T - D) * scale
//       dV += P^T dO, dK += dS^T Q, dQ += dS K
//     dQ is stored
//   dK, dV are stored
//
// Each of the five products is computed once, as f32 or as pairs of bf16. Where that gives too few
// tasks, the blocks of queries of a key head are dealt to several tasks, and a second launch adds
// their dK and dV in order. The number of these tasks follows from shapes alone, so results do not
// depend on the number of threads.
#pragma once

#include "graph_compiler/contraction/attention/attention_mask.h"
#include "graph_compiler/contraction/tiles/kernel_cache.h"
#include "graph_compiler/contraction/tiles/specs.h"

namespace hpu::graph_compiler {

absl::StatusOr<EmittedKernels> EmitAttentionBackwardKernels(KernelCache& cache,
                                                            const AttentionBackwardSpec& spec);

namespace attention_backward {

inline constexpr int kRowsAtOnce = 4;  // rows whose exponentials are in flight together

// The operands of the launches.
enum Operand : uint32_t {
  kQ,
  kK,
  kV,
  kOut,
  kMask,
  kMaximum,
  kInverse,
  kOutGradient,
  kQGradient,
  kKGradient,
  kVGradient,
  kPartial,  // of every task, where key heads are split: dK, then dV
  kSeed,     // followed by offset and base, where weights are dropped
};

// Describes rows of features in panels of register tiles.
struct Features {
  Features(const TargetInfo& target, int64_t count, int most_vectors);
  int64_t size;
  int vectors;
  int rows;  // of a tile
  int64_t cols, panels;
  int64_t width;  // of a row in scratch, in floats
};

struct Plan {
  Plan(const TargetInfo& target, const AttentionBackwardSpec& spec);
  int64_t units;  // batch x key heads
  int64_t splits;
  int query_vectors;
  int64_t query_cols, query_block, query_blocks;
  int key_rows;      // of a tile of scores
  int64_t key_step;  // whole tiles of every kind, so that no tile reaches into the rows after them
  int64_t key_block;
  int64_t keys;  // n rounded up to whole blocks
  int64_t join_rows, join_blocks;
  Features d, dv;
  int64_t query_sums;  // floats of dQ while it is summed up
  AttentionMask mask;

  // The products are pairs of bf16 (attention_backward_pairs.cc), in AMX tiles or in vectors.
  bool pairs = false, amx = false;
  int64_t key_stride, value_stride;  // bytes from one staged row to the next
  int feature_rows = 0;              // of a tile of dQ^T
  int64_t column_stride = 0;         // elements of a row of K^T

  int64_t partial_floats() const { return keys * (d.width + dv.width); }
};

// Offsets of the parts of a task's scratch, in bytes.
struct Scratch {
  explicit Scratch(const Plan& plan);
  int64_t keys, values, key_gradients, value_gradients;
  int64_t query_rows, out_rows, result_rows, query_panels, out_panels, query_gradients, query_sums;
  int64_t weights, slopes, mask, maximum, inverse, dots;
  int64_t out_factors;               // dO as dV sums it up: `out_rows`, or pairs of queries
  int64_t key_columns, slope_pairs;  // only in the form of pairs
  int64_t total;
};

// Adds the partial sums of some rows of dK and dV.
void EmitJoin(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
              const AttentionBackwardSpec& spec, const Plan& plan, llvm::Value* task);

}  // namespace attention_backward
}  // namespace hpu::graph_compiler
