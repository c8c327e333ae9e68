// Computes register tiles of (kernel column, channel) x output channels. A strip holds the channels
// of one tile only, so that its pixels and a panel of dy stay in L1 while all taps pass. If there
// are few channels, they are a strip of their own, and tiles run through kernel columns.
#include "graph_compiler/contraction/tiles/micro_kernel.h"
#include "graph_compiler/contraction/weight_gradient/weight_gradient.h"

namespace hpu::graph_compiler {

using llvm::Value;

void EmitTiledGradient(IrEmitter& e, GradientTask& task, const WeightGradientSpec& spec,
                       const WeightGradientPlan& plan) {
  const TileShape shape{plan.rows, plan.vectors};
  const int64_t row_bytes = plan.panel_cols * 4;
  const int64_t tile_step = plan.joined_columns ? plan.rows * 4 : task.KernelColumnBytes();
  // Adds a chunk to one register tile: tile `t` of kernel row `r`.
  const auto add_tile = [&](const GradientTask::Chunk& chunk, Value* sums, Value* panel, Value* r,
                            Value* t) {
    Value* number = e.Add(e.Mul(r, plan.tiles_per_row), t);
    Value* place = e.Address(sums, e.Mul(number, plan.rows * row_bytes));
    Value* tap = e.Add(e.Mul(r, task.KernelRowBytes()), e.Mul(t, tile_step));
    const Values held = task.ForEachRow(
        chunk, LoadTile(e, shape, place, row_bytes),
        [&](Value* image, Value* row, const Values& carried) {
          TileA a;
          a.row_bases = {e.Address(task.StripRow(image, row), tap)};
          for (int i = 0; i < plan.rows; ++i) a.row_offsets.push_back(i * 4);
          a.k_stride = task.PixelBytes();
          TileB b;
          b.base = task.DyRow(panel, image, row);
          b.k_stride = row_bytes;
          const auto* fixed = llvm::dyn_cast<llvm::ConstantInt>(chunk.cols);
          return fixed != nullptr ? AccumulateTile(e, shape, a, b, fixed->getSExtValue(), carried)
                                  : AccumulateTile(e, shape, a, b, chunk.cols, carried);
        });
    StoreTile(e, shape, place, row_bytes, held);
  };
  task.Run([&](const GradientTask::Chunk& chunk) {
    task.CopyDy(chunk);
    e.For(task.first_tile(), task.end_tile(), 1, [&](Value* tile) {
      task.FillStrips(chunk, tile);
      e.For(task.first_panel(), task.end_panel(), 1, [&](Value* panel) {
        Value* sums = task.Sums(tile, panel);
        e.For(e.Int(0), e.Int(spec.conv.kernel_h), 1, [&](Value* r) {
          e.For(e.Int(0), e.Int(plan.tiles_per_row), 1,
                [&](Value* t) { add_tile(chunk, sums, panel, r, t); });
        });
      });
    });
  });
}

}  // namespace hpu::graph_compiler
