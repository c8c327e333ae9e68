// Makes panels of pairs of bf16 (panel_copy.h) out of a convolution's weight whose taps lie
// together in memory, as in PyTorch's (ko, c, r, s). Neither rows nor columns are contiguous there,
// but the run over the taps of every column and every k is.
#pragma once

#include "graph_compiler/contraction/tiles/panel_copy.h"

namespace hpu::graph_compiler {

// Needs AVX512_BF16's vectors. Taps may lie in reverse order (the weight of a transposed
// convolution).
bool HasTapsTogether(const TargetInfo& target, const PanelCopy& panel);

// Copies a panel with taps together, as EmitShortPanelCopy does. `cols` is null for a whole panel.
void EmitTapPanel(IrEmitter& e, const PanelCopy& panel, llvm::Value* from, llvm::Value* to,
                  llvm::Value* cols);

}  // namespace hpu::graph_compiler
