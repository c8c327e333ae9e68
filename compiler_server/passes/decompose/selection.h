// Declares searches (selection.cc) for the families that use them.
#pragma once

#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {

// Returns the number of edges before each value, in i32; with `right`, edges that are equal to it
// count. The edges are sorted along their last dimension, and their other dimensions, if there are
// any, are those of the values. A few edges are compared with every value, many are searched by
// halves.
Expr EdgesBefore(Expr edges, Expr values, bool right);

}  // namespace hpu::compiler
