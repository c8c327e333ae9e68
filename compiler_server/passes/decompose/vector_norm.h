// Declares the norm of vectors (reduce.cc) for the families that use it.
#pragma once

#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {

// Returns (sum |x|^p)^(1/p) along the dimensions, for p = `order`; for p = inf and -inf it is the
// largest and the smallest |x|, and for p = 0 the number of elements that are not 0.
Expr VectorNorm(Expr x, double order, const Dims& dims, bool keepdim);

}  // namespace hpu::compiler
