// Attention of a few queries (decoding). Reading keys and values takes most of the time, so lanes
// run along the features, and every key is read once for all query rows that share it.
//
//   chunk of keys of one (batch, key head):
//     for block of `lanes` keys     scores by dot products; skipped where the mask hides them all
//     P = exp(scores - maximum)
//     O = P V
//
// Long sequences are cut into chunks of a fixed length, and a second kernel joins their results (O,
// maximum, sum), so that one sequence feeds all threads and results do not depend on their number.
#pragma once

#include "graph_compiler/contraction/attention/attention.h"

namespace hpu::graph_compiler {

// Returns whether the form fits: few rows, and contiguous features in keys and values.
bool FitsAttentionRows(const TargetInfo& target, const AttentionSpec& spec);

// `spec` holds no offsets (they are in the references). Appends one launch, or two launches and
// workspace.
void EmitAttentionRows(KernelCache& cache, const AttentionSpec& spec, EmittedKernels* out);

}  // namespace hpu::graph_compiler
