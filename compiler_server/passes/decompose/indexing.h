// Sums into positions (index_backward.cc), for the families that have them.
#pragma once

#include "compiler_server/passes/decompose/call.h"

namespace hpu::compiler {

// x with each element of `source` added at the place that `index`, of the same sizes, names along
// the dimension.
Value* AddAt(Call& call, Value* x, int64_t dim, Value* index, Value* source);
// The same with one index for all that lies across the dimension; `source` expands.
Value* AddRows(Call& call, Value* x, int64_t dim, Value* index, Value* source);

// `x` between zeros along `dim`, whose size becomes `size`: elements at start, start + step, ...
Value* PlaceAlong(Call& call, Value* x, int64_t dim, int64_t start, int64_t step, int64_t size);

}  // namespace hpu::compiler
