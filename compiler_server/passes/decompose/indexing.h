// Declares sums into positions (index_backward.cc) for the families that use them.
#pragma once

#include "compiler_server/passes/decompose/call.h"

namespace hpu::compiler {

// Returns x with each element of `source` added at the place along the dimension that `index`
// gives. `index` has the sizes of `source`.
Value* AddAt(Call& call, Value* x, int64_t dim, Value* index, Value* source);
// Does the same with one index for all elements across the dimension; `source` is expanded.
Value* AddRows(Call& call, Value* x, int64_t dim, Value* index, Value* source);

// Returns `x` placed between zeros along `dim`, whose size becomes `size`: the elements of x are at
// start, start + step, and so on.
Value* PlaceAlong(Call& call, Value* x, int64_t dim, int64_t start, int64_t step, int64_t size);

}  // namespace hpu::compiler
