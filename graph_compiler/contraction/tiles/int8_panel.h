// Panels of i8 for products of integers (int8.h): dwords of consecutive k, then the sums over k.
#pragma once

#include "graph_compiler/contraction/tiles/panel_copy.h"

namespace hpu::graph_compiler {

// Copies the panel at `from` to `to`; columns from `cols` on, and the filling of k, become 0.
void EmitIntegerPanel(IrEmitter& e, const PanelCopy& panel, llvm::Value* from, llvm::Value* to,
                      llvm::Value* cols);

}  // namespace hpu::graph_compiler
