// Panels of pairs of bf16 (panel_copy.h) out of a convolution's weight whose taps lie together in
// memory, as PyTorch's (ko, c, r, s) do: neither rows nor columns are contiguous there, but a run
// over the taps is, of every column and every k.
#pragma once

#include "graph_compiler/contraction/tiles/panel_copy.h"

namespace hpu::graph_compiler {

// Needs AVX512_BF16's vectors. Taps may lie in reverse order (the weight of a transposed
// convolution).
bool HasTapsTogether(const TargetInfo& target, const PanelCopy& panel);

// Of a panel with taps together; as EmitShortPanelCopy, of a whole one `cols` is null.
void EmitTapPanel(IrEmitter& e, const PanelCopy& panel, llvm::Value* from, llvm::Value* to,
                  llvm::Value* cols);

}  // namespace hpu::graph_compiler
