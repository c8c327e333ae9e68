// Convolution of 3 x 3 taps at stride 1 by Winograd's F(2 x 2, 3 x 3): tiles of 2 x 2 output pixels
// with 16 products per pair of channels where the direct form has 36 (A. Lavin and S. Gray, "Fast
// Algorithms for Convolutional Neural Networks", arXiv:1509.09308, section 4.1):
//
//   Y = A^T [ (G g G^T) * (B^T d B) ] A      g: taps, d: 4 x 4 input pixels, *: elementwise
//
// Summed over input channels, each of the 16 elements ("points") is a matrix product of tiles x
// channels by channels x output channels. An output depends on exactly the pixels of its 3 x 3
// window, as in the direct form; sums and differences of pixels are rounded before they are
// multiplied, which docs/decisions/0009 weighs.
#pragma once

#include <optional>

#include "graph_compiler/contraction/conv/conv.h"

namespace hpu::graph_compiler {

struct WinogradPlan {
  ConvPlan block;      // tile_h x tile_w are even and may reach beyond the output
  int64_t tiles = 0;   // 2 x 2 tiles of a block; block.tiles cuts them into register tiles
  int64_t blocks = 0;  // of all images
  // A task transforms the weights of its panels once, for several blocks.
  int64_t blocks_per_task = 0;
  int64_t block_groups = 0;
};

// Returns nothing where the direct form is faster or this form does not fit.
std::optional<WinogradPlan> PlanWinogradConv(const TargetInfo& target, const ConvSpec& spec);

// Weights are panels of f32 as for the tiled form (with the width of plan.block).
KernelLaunch EmitWinogradConv(KernelCache& cache, const ConvSpec& spec, const WinogradPlan& plan);

}  // namespace hpu::graph_compiler
