// Products that read A in dwords: pairs of bf16 (AVX512_BF16, AMX), or pairs or quads of 8-bit
// integers (int8.h). The elements of a dword follow each other along k.
#pragma once

#include "graph_compiler/codegen/module.h"
#include "graph_compiler/contraction/tiles/specs.h"

namespace hpu::graph_compiler {

// The least number of rows (for the other operand: columns) of a product that pays for staging an
// operand in dwords.
inline constexpr int64_t kRowsWorthStaging = 32;

// How a product with `k` elements of `per_dword` to the dword and `n` columns reads its A.
struct DwordsOfA {
  int64_t per_dword = 2;
  // Whether A lies in dwords and, where AMX is present, AMX cuts k into tiles without a remainder.
  // Otherwise A is staged.
  bool in_place = false;
  int amx_depth = 0;     // dwords that AMX tiles multiply at once; 0: vectors
  int64_t filled_k = 0;  // elements of k, with the zeros that fill up dwords and tiles
};
DwordsOfA ReadInDwords(const TargetInfo& target, const MatrixAccess& a, int64_t k, int64_t n,
                       int64_t per_dword);

// Lets the strides of A, which count elements, count dwords.
void CountDwords(MatrixAccess& a, int64_t per_dword);

}  // namespace hpu::graph_compiler
