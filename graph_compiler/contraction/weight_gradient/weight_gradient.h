// The gradient of a convolution by its weight is a product whose sums run over the positions of all
// images. Its forms are:
//
//   tiled   register tiles of (tap column, channel) x output channels while positions run; one copy
//           of a block of x and of dy serves all taps
//   lanes   as many inputs as outputs per group, fewer than lanes: lanes are channels, and the
//           outputs of a group are read by shuffles of dy (depthwise: none)
//   pairs   bf16 with contiguous channels, where the CPU multiplies bf16 in pairs, by tiles or
//           vectors: 32 output channels x 32 input channels per tap, positions in pairs
//
// Positions are cut into chunks, which are rectangles of one image, or several small images. A task
// copies the pixels of a chunk that the taps see (a strip, conv.h) and dy, both as dense f32
// (pairs: as pairs of bf16). Then it adds to its sums, which lie in scratch and are held in
// registers while a chunk runs.
//
// Where a weight has too few blocks for many threads, chunks are split among tasks, and a second
// launch adds their partial sums in order. The number of splits depends on the shapes alone.
#pragma once

#include "graph_compiler/contraction/conv/conv.h"
#include "graph_compiler/contraction/tiles/ir_emitter.h"
#include "graph_compiler/contraction/tiles/kernel_cache.h"
#include "graph_compiler/contraction/tiles/specs.h"

namespace hpu::graph_compiler {

absl::StatusOr<EmittedKernels> EmitWeightGradientKernels(KernelCache& cache,
                                                         const WeightGradientSpec& spec);

// Sums are cut into units: the taps of some input channels x one panel of output channels. A unit
// lies as [kernel row][unit_rows][panel_cols]. A row is (kernel column, channel). In the form of
// lanes it is (kernel column, output of the group), and its columns are the input channels of all
// groups.
//
// In the form of pairs, dy of a chunk lies as rows of positions, one per output channel. For each
// column and channel, a strip holds the pixel and the one that the next position sees as a pair. So
// taps are places in the strip, whatever stride and dilation. A run is the range of one loop over
// positions: an output row, or, where the strip's rows are little longer, all rows of an image,
// whose positions beyond an output row have a dy of 0.
struct GradientRuns {
  int depth = 0;  // pairs per AMX tile; 0: vectors
  bool joined_rows = false;
  int64_t columns = 0;          // of a strip's row
  int64_t pairs = 0;            // of a run, filled up to whole tiles; 0 means another form
  int64_t row_positions = 0;    // from an output row to the next one in the copy of dy
  int64_t image_positions = 0;  // from an image to the next one in the copy of dy
  int64_t dy_row = 0;           // bf16 per output channel
  int64_t strip_dwords = 0;     // of an image, with the dwords that runs read beyond its end
};
struct WeightGradientPlan {
  bool lanes = false;
  GradientRuns runs;
  ConvPlan cut;  // the strip of a unit, tiles of positions
  int vectors = 0;
  int64_t panel_cols = 0, panels = 0;  // panels per group (lanes: of all channels)
  int64_t channel_tiles = 0;           // of cut.strip_channels input channels of a group
  int rows = 0;  // of a register tile (lanes: the number of sums held at once, in vectors)
  bool joined_columns = false;  // register tiles run through kernel columns
  int64_t tiles_per_row = 0;    // register tiles per kernel row
  int64_t unit_rows = 0;        // per kernel row
  int64_t group_size = 0;       // lanes: channels per group
  int64_t channel_tiles_per_task = 0, panels_per_task = 0;
  int64_t channel_blocks = 0, panel_blocks = 0;
  int64_t images = 0;  // per chunk
  int64_t image_blocks = 0;
  int64_t chunks = 0, chunks_per_split = 0, splits = 0;

  int64_t groups(const ConvSpec& conv) const { return lanes ? 1 : conv.groups; }
  int64_t units(const ConvSpec& conv) const { return groups(conv) * channel_tiles * panels; }
  int64_t unit_floats(const ConvSpec& conv) const { return conv.kernel_h * unit_rows * panel_cols; }
  int64_t tasks(const ConvSpec& conv) const {
    return groups(conv) * channel_blocks * panel_blocks * splits;
  }
  // Returns the channels of the weight that a unit holds per output channel, including those that
  // do not exist.
  int64_t unit_channels() const { return lanes ? group_size : cut.strip_channels; }
};
WeightGradientPlan PlanWeightGradient(const TargetInfo& target, const WeightGradientSpec& spec);

// A unit by number: output channels are fastest, then channel tiles, then groups.
struct GradientUnit {
  llvm::Value* group = nullptr;
  llvm::Value* channel_tile = nullptr;
  llvm::Value* panel = nullptr;
};

// The parts of a kernel that the forms share (tiled and lanes also share the copies of dy and x).
// The operands of a launch are x, dy and, where positions are split, partial sums:
// [unit][split][unit_floats]. Scratch holds the sums of the task where positions are not split, dy
// of a chunk, the strips of its images, and then what finishing units takes.
class GradientTask {
 public:
  GradientTask(IrEmitter& e, const KernelFrame& frame, const WeightGradientSpec& spec,
               const WeightGradientPlan& plan, llvm::Value* task);

  static int64_t ScratchBytes(const WeightGradientSpec& spec, const WeightGradientPlan& plan);

  // The place of one chunk's positions.
  struct Chunk {
    llvm::Value* first_image;
    llvm::Value* images;
    llvm::Value* block_h;
    llvm::Value* block_w;
    llvm::Value* rows;  // of each image
    llvm::Value* cols;
  };
  // Sets the task's sums to 0, calls `add` for every chunk of the task and then `complete` for
  // every unit, and finishes the units.
  void Run(const std::function<void(const Chunk&)>& add,
           const std::function<void(llvm::Value* sums)>& complete = nullptr);

  // The channel tiles and panels of the task are [first, end).
  llvm::Value* group() const { return group_; }
  llvm::Value* first_tile() const { return first_tile_; }
  llvm::Value* end_tile() const { return end_tile_; }
  llvm::Value* first_panel() const { return first_panel_; }
  llvm::Value* end_panel() const { return end_panel_; }

  // Returns the address of the sums of a unit of the task.
  llvm::Value* Sums(llvm::Value* channel_tile, llvm::Value* panel);
  // Copies dy of `chunk` for the task's panels.
  void CopyDy(const Chunk& chunk);
  // Copies the strips of a channel tile (lanes: of a panel).
  void FillStrips(const Chunk& chunk, llvm::Value* tile);

  // In the form of pairs: return the copies of a panel of dy and of an image's strip.
  llvm::Value* DyPanel(llvm::Value* panel);
  llvm::Value* Strip(llvm::Value* image);

  // Return the first byte of an output row of an image of the chunk, in the strips and in the copy
  // of dy.
  llvm::Value* StripRow(llvm::Value* image, llvm::Value* row);
  llvm::Value* DyRow(llvm::Value* panel, llvm::Value* image, llvm::Value* row);
  // Runs `body` for every row of the chunk's images, with values carried through.
  Values ForEachRow(
      const Chunk& chunk, const Values& init,
      const std::function<Values(llvm::Value* image, llvm::Value* row, const Values&)>& body);
  // Return the bytes from a pixel to the next of its output row, to the next kernel row, and to the
  // next column.
  int64_t PixelBytes() const;
  int64_t KernelRowBytes() const;
  int64_t KernelColumnBytes() const;

 private:
  void ForEachUnit(const std::function<void(llvm::Value* tile, llvm::Value* panel)>& body);
  int64_t RowBytes() const;

  IrEmitter& e_;
  const KernelFrame& frame_;
  const WeightGradientSpec& spec_;
  const ConvSpec& conv_;
  const WeightGradientPlan& plan_;
  llvm::Value* split_;
  llvm::Value* group_;
  llvm::Value* first_tile_;
  llvm::Value* end_tile_;
  llvm::Value* first_panel_;
  llvm::Value* end_panel_;
};

// Turns finished sums into results. `sums` holds `splits` copies of the unit, one after the other,
// which are added first. `scratch` has FinishBytes.
void FinishUnit(IrEmitter& e, const KernelFrame& frame, const ConvSpec& conv,
                const WeightGradientPlan& plan, const GradientUnit& unit, llvm::Value* sums,
                int64_t splits, llvm::Value* scratch);
int64_t FinishBytes(const ConvSpec& conv, const WeightGradientPlan& plan);

void EmitTiledGradient(IrEmitter& e, GradientTask& task, const WeightGradientSpec& spec,
                       const WeightGradientPlan& plan);
void EmitLanesGradient(IrEmitter& e, GradientTask& task, const WeightGradientSpec& spec,
                       const WeightGradientPlan& plan);
void EmitPairsGradient(IrEmitter& e, const KernelFrame& frame, GradientTask& task,
                       const WeightGradientSpec& spec, const WeightGradientPlan& plan);

}  // namespace hpu::graph_compiler
