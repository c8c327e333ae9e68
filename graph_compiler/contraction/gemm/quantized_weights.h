// Products of a few rows with weights of 8 or 4 bits. Reading the weights takes most of the time:
// every byte of them is read once from memory, in place, and widened in registers; sums are f32.
//
//   y[m, n] = sum over groups g of   scale[g, n] * (sum of x[m, k] * q[k, n] over k in g)
//                                  + zero[g, n]  * (sum of x[m, k] over k in g)
//
//   8 bits   columns of k contiguous i8: as many dot products as lanes, a few at a time
//   4 bits   blocks of 2 * half columns: per k `half` bytes, byte j with column j in its low bits
//            and column j + half in its high ones, both plus 8. Lanes are columns
//
// Rows beyond those that registers hold run in blocks; the caches hold the weights by then.
#pragma once

#include "graph_compiler/contraction/tiles/kernel_cache.h"
#include "graph_compiler/contraction/tiles/specs.h"

namespace hpu::graph_compiler {

absl::StatusOr<EmittedKernels> EmitQuantizedGemmKernels(KernelCache& cache,
                                                        const QuantizedGemmSpec& spec);

}  // namespace hpu::graph_compiler
