// Convolution with channels last in its iteration space. Its forms are:
//
//   gemm       1x1, stride 1, no padding, one group: pixels are rows
//   tiled      implicit GEMM: register tiles of output pixels x output channels, k runs over
//              (kernel row, kernel column, channel); weights in panels
//   depthwise  as many outputs as inputs per group, one or few: lanes are channels, and an output
//              meets the inputs of its group by shuffles
//   winograd   3x3, stride 1, f32, many channels: fewer multiplications (conv_winograd.h)
//
// All but gemm read the input through a *strip*: the input rows of a task's output pixels as dense
// f32 [rows][columns][channels] in scratch, with padding filled with zeros. Copying it costs one
// pass over data that is then used kernel_h * kernel_w * out_c times, and makes the inner loops
// free of branches whatever the padding, the layout and the type of x. The tiled form reads x in
// place where nothing is padded and x is f32 with contiguous channels.
//
// Where the machine multiplies pairs of bf16 and x and w are bf16, the tiled form takes two
// channels for one f32: "channels" and "floats" below are then pairs. Channels that are contiguous
// and even in number lie in pairs already. Few channels (as in the first convolution of most
// models) are joined by the copy into the strip, an odd one with a zero. Products of u8 by i8
// likewise take dwords of channels (int8.h); if the channels do not lie in dwords, a launch of its
// own makes them.
#pragma once

#include "graph_compiler/contraction/tiles/ir_emitter.h"
#include "graph_compiler/contraction/tiles/kernel_cache.h"
#include "graph_compiler/contraction/tiles/specs.h"
#include "graph_compiler/contraction/tiles/tiling.h"

namespace hpu::graph_compiler {

absl::StatusOr<EmittedKernels> EmitConvKernels(KernelCache& cache, const ConvSpec& spec);

// How a convolution is divided: a task computes tile_h x tile_w output pixels of one image and
// group for some panels of output channels.
struct ConvPlan {
  int64_t group_in = 0, group_out = 0;  // channels per group
  int64_t joined_channels = 0;          // bf16 channels that the strip joins in pairs; 0: none
  int64_t strip_channels = 0;           // channels that a strip holds
  int64_t lane_group = 0;               // depthwise: channels per group
  bool column_pairs = false;            // depthwise: neighbouring columns of bf16 are factors
  bool strip = true;                    // if false, x is read in place
  int64_t tile_h = 0, tile_w = 0;
  int64_t blocks_h = 0, blocks_w = 0;
  RowTiles tiles;              // of tile_h * tile_w pixels
  bool tiles_of_rows = false;  // depthwise: tiles cut the tile_w pixels of an output row instead
  int vectors = 0;
  int64_t panel_cols = 0, panels = 0;  // per group (depthwise: of all channels)
  int64_t panels_per_task = 0, panel_blocks = 0;
  int amx_depth = 0;     // k steps that AMX tiles multiply at once (amx_tiles.h); 0: vectors
  uint32_t padding = 0;  // the dword of a strip that stands for 0
  int amx_pixels = 0;    // pixels of an output row that one AMX tile takes; divides tile_w

  // Returns whether (kernel column, channel) is one contiguous run of the input.
  bool fused_columns(const ConvSpec& spec) const {
    const bool adjoin = strip || spec.x_strides[2] == group_in || spec.kernel_w == 1;
    return spec.dilation_w == 1 && adjoin;
  }
  // Returns the number of k steps without a jump in the input.
  int64_t run(const ConvSpec& spec) const {
    return fused_columns(spec) ? spec.kernel_w * group_in : group_in;
  }
  int64_t pixels() const { return tile_h * tile_w; }
  int64_t strip_rows(const ConvSpec& spec) const {
    return (tile_h - 1) * spec.stride_h + (spec.kernel_h - 1) * spec.dilation_h + 1;
  }
  int64_t strip_cols(const ConvSpec& spec) const {
    return (tile_w - 1) * spec.stride_w + (spec.kernel_w - 1) * spec.dilation_w + 1;
  }
  int64_t strip_floats(const ConvSpec& spec) const {
    return strip ? strip_rows(spec) * strip_cols(spec) * strip_channels : 0;
  }
};
// `pairs` means that channels are pairs of bf16.
ConvPlan PlanTiledConv(const TargetInfo& target, const ConvSpec& spec, bool pairs);
// Returns whether the form pays: a shuffle issues half as often as a multiply-add, but without
// shuffles the multiply-adds leave lanes empty.
bool TakesDepthwise(const TargetInfo& target, const ConvSpec& spec);
ConvPlan PlanDepthwiseConv(const TargetInfo& target, const ConvSpec& spec);

// Makes tiles of nearly equal size, no larger than the plan's, and sets the numbers of blocks.
void CutEvenly(ConvPlan& plan, const ConvSpec& spec);

// Returns whether no tap of any output pixel falls outside the input.
bool ReadsNoPadding(const ConvSpec& spec);

// The parts of a kernel that the forms share: the position of the task, the strip and the table of
// pixels. Scratch holds the strip, then the table, then whatever the form adds (`end_of_scratch`).
class ConvTask {
 public:
  ConvTask(IrEmitter& e, const KernelFrame& frame, const ConvSpec& spec, const ConvPlan& plan,
           llvm::Value* image, llvm::Value* block_h, llvm::Value* block_w);

  static int64_t ScratchBytes(const ConvSpec& spec, const ConvPlan& plan);

  // Copies channels [first_channel, first_channel + channels) of the strip's pixels.
  void FillStrip(llvm::Value* first_channel, llvm::Value* channels);
  // Writes one entry per pixel of the tile: where its first tap lies, and its output row and
  // column. Entries beyond the pixels that exist repeat the last row.
  void FillPixelTable();

  // Returns the base of all pixel addresses for channel `first_channel` (in a strip: for channel
  // 0).
  llvm::Value* InputBase(llvm::Value* first_channel);
  // Returns the bytes from a pixel's first tap to tap (row, column).
  llvm::Value* TapOffset(llvm::Value* row, llvm::Value* col);
  llvm::Value* PixelOffset(llvm::Value* pixel);
  Values PixelIndex(llvm::Value* pixel);  // {ho, wo}
  // Returns the bytes from a pixel to the next one in its output row.
  int64_t PixelStride() const { return spec_.stride_w * ColBytes(); }
  // Returns the pixels of this task, or null when every task has plan.pixels().
  llvm::Value* pixel_count() const { return pixel_count_; }
  llvm::Value* image() const { return image_; }
  // These are the first output row and column of this task, and how many of each exist.
  llvm::Value* first_h() const { return first_h_; }
  llvm::Value* first_w() const { return first_w_; }
  llvm::Value* rows() const { return tile_h_; }
  llvm::Value* cols() const { return tile_w_; }
  llvm::Value* end_of_scratch();

 private:
  // Sets bytes [from, to) of the strip, and up to a vector more, to padding.
  void ZeroStrip(llvm::Value* from, llvm::Value* to);
  int64_t RowBytes() const;
  int64_t ColBytes() const;
  llvm::Value* TableEntry(llvm::Value* pixel, int field);

  IrEmitter& e_;
  const KernelFrame& frame_;
  const ConvSpec& spec_;
  const ConvPlan& plan_;
  llvm::Value* image_;
  llvm::Value* first_h_;  // of the output
  llvm::Value* first_w_;
  llvm::Value* tile_h_;  // output rows and columns that exist in this task
  llvm::Value* tile_w_;
  llvm::Value* pixel_count_ = nullptr;
};

KernelLaunch EmitTiledConv(KernelCache& cache, const ConvSpec& spec, const ConvPlan& plan,
                           PanelType packed_type);
KernelLaunch EmitDepthwiseConv(KernelCache& cache, const ConvSpec& spec, const ConvPlan& plan);

// Adds everything of spec and plan that the code depends on.
KernelKey ConvKey(const std::string& kind, const ConvSpec& spec, const ConvPlan& plan);
// `group_channels` is the number of requested channels that an output is computed from.
KernelLaunch MakeConvLaunch(const ConvSpec& spec, const ConvPlan& plan, int64_t groups,
                            int64_t group_channels);

}  // namespace hpu::graph_compiler
