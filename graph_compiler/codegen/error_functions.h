// The complementary error function and the inverse of the error function, in f64.
#pragma once

#include "graph_compiler/codegen/elementary64.h"

namespace hpu::graph_compiler {

// erfc(x), relative to the result also where it is small.
llvm::Value* Erfc(const Math64& m, llvm::Value* x);
// The y with erf(y) = x: infinite at -1 and 1, and NaN outside of them.
llvm::Value* Erfinv(const Math64& m, llvm::Value* x);

}  // namespace hpu::graph_compiler
