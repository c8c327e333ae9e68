#include "graph_compiler/contraction/conv/conv_winograd.h"

#include <algorithm>

#include "graph_compiler/contraction/tiles/epilogue.h"
#include "graph_compiler/contraction/tiles/micro_kernel.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

constexpr int kTaps = 3;                    // per dimension
constexpr int kOutputs = 2;                 // of a tile, per dimension
constexpr int kInputs = 4;                  // of a tile, per dimension
constexpr int kPoints = kInputs * kInputs;  // products per tile and pair of channels

// The 16 matrices lie a little more than their size apart, so that no two share a cache set.
int64_t PointStride(int64_t matrix_bytes) { return RoundUp(matrix_bytes, 64) + 5 * 64; }

// Returns B^T d.
Values TransformInput(IrEmitter& e, const Values& d) {
  return {e.b.CreateFSub(d[0], d[2]), e.b.CreateFAdd(d[1], d[2]), e.b.CreateFSub(d[2], d[1]),
          e.b.CreateFSub(d[1], d[3])};
}

// Returns G g.
Values TransformTaps(IrEmitter& e, const Values& g) {
  Value* half = e.F32Const(0.5f, e.lanes());
  Value* ends = e.b.CreateFMul(e.b.CreateFAdd(g[0], g[2]), half);
  Value* middle = e.b.CreateFMul(g[1], half);
  return {g[0], e.b.CreateFAdd(ends, middle), e.b.CreateFSub(ends, middle), g[2]};
}

// Returns A^T m.
Values TransformOutput(IrEmitter& e, const Values& m) {
  return {e.b.CreateFAdd(e.b.CreateFAdd(m[0], m[1]), m[2]),
          e.b.CreateFSub(e.b.CreateFSub(m[1], m[2]), m[3])};
}

// Returns T x T^T for a square x (row-major), with T as one of the functions above.
template <typename T>
Values TransformSquare(IrEmitter& e, const Values& x, int size, T transform) {
  std::vector<Values> columns;
  for (int col = 0; col < size; ++col) {
    Values column;
    for (int row = 0; row < size; ++row) column.push_back(x[row * size + col]);
    columns.push_back(transform(e, column));
  }
  Values result;
  for (size_t row = 0; row < columns[0].size(); ++row) {
    Values across;
    for (const Values& column : columns) across.push_back(column[row]);
    for (Value* value : transform(e, across)) result.push_back(value);
  }
  return result;
}

// Scratch holds the scratch of ConvTask, then transformed weights, transformed input, products, and
// a tile for the epilogue.
class Scratch {
 public:
  Scratch(const ConvSpec& spec, const WinogradPlan& plan) {
    const ConvPlan& block = plan.block;
    weight_point_ = PointStride(spec.in_c * block.panel_cols * 4);
    input_point_ = PointStride(plan.tiles * spec.in_c * 4);
    product_point_ = PointStride(plan.tiles * block.panel_cols * 4);
    weights_ = ConvTask::ScratchBytes(spec, block);
    inputs_ = weights_ + block.panels_per_task * kPoints * weight_point_;
    products_ = inputs_ + kPoints * input_point_;
    output_tile_ = products_ + kPoints * product_point_;
    bytes_ = output_tile_ + kOutputs * block.panel_cols * 4;
  }

  int64_t weight_point() const { return weight_point_; }
  int64_t input_point() const { return input_point_; }
  int64_t product_point() const { return product_point_; }
  int64_t weights() const { return weights_; }
  int64_t inputs() const { return inputs_; }
  int64_t products() const { return products_; }
  int64_t output_tile() const { return output_tile_; }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t weight_point_, input_point_, product_point_;
  int64_t weights_, inputs_, products_, output_tile_, bytes_;
};

class WinogradConv {
 public:
  WinogradConv(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
               const ConvSpec& spec, const WinogradPlan& plan)
      : e_(builder, target),
        frame_(frame),
        spec_(spec),
        plan_(plan),
        block_(plan.block),
        scratch_(spec, plan),
        row_bytes_(block_.panel_cols * 4) {}

  // Neighbouring tasks share panels.
  void Emit(Value* task) {
    const Values index = e_.Decompose(task, {block_.panel_blocks, plan_.block_groups});
    first_panel_ = e_.Mul(index[0], block_.panels_per_task);
    end_panel_ = e_.Min(e_.Add(first_panel_, block_.panels_per_task), e_.Int(block_.panels));
    Value* first_block = e_.Mul(index[1], plan_.blocks_per_task);
    Value* end_block = e_.Min(e_.Add(first_block, plan_.blocks_per_task), e_.Int(plan_.blocks));
    e_.For(first_panel_, end_panel_, 1, [&](Value* panel) { Weights(panel); });
    e_.For(first_block, end_block, 1, [&](Value* block) { Block(block); });
  }

 private:
  Value* At(int64_t part) { return e_.Address(frame_.scratch, part); }

  Value* PanelWeights(Value* panel) {
    Value* number = e_.Sub(panel, first_panel_);
    return e_.Address(At(scratch_.weights()), e_.Mul(number, kPoints * scratch_.weight_point()));
  }

  // Panels hold (tap row, tap column, channel, output channel).
  void Weights(Value* panel) {
    const int64_t tap_bytes = spec_.in_c * row_bytes_;
    Value* from = e_.Address(frame_.Operand(e_.b, 1), e_.Mul(panel, kTaps * kTaps * tap_bytes));
    Value* to = PanelWeights(panel);
    e_.For(e_.Int(0), e_.Int(tap_bytes), e_.lanes() * 4, [&](Value* byte) {
      Values taps;
      for (int64_t tap = 0; tap < kTaps * kTaps; ++tap) {
        taps.push_back(e_.LoadF32(e_.Address(e_.Address(from, byte), tap * tap_bytes), e_.lanes()));
      }
      StorePoints(e_.Address(to, byte), scratch_.weight_point(),
                  TransformSquare(e_, taps, kTaps, TransformTaps));
    });
  }

  void StorePoints(Value* first, int64_t stride, const Values& points) {
    for (size_t p = 0; p < points.size(); ++p) {
      e_.StoreF32(e_.Address(first, static_cast<int64_t>(p) * stride), points[p]);
    }
  }

  void Block(Value* block) {
    const Values index = e_.Decompose(block, {plan_.blocks / (block_.blocks_h * block_.blocks_w),
                                              block_.blocks_h, block_.blocks_w});
    ConvTask position(e_, frame_, spec_, block_, index[0], index[1], index[2]);
    position_ = &position;
    tiles_h_ = e_.DivConst(e_.Add(position.rows(), kOutputs - 1), kOutputs);
    tiles_w_ = e_.DivConst(e_.Add(position.cols(), kOutputs - 1), kOutputs);
    position.FillStrip(e_.Int(0), e_.Int(spec_.in_c));
    ForEachTile([&](Value* tile, Value* h, Value* w) { Input(tile, h, w); });
    e_.For(first_panel_, end_panel_, 1, [&](Value* panel) {
      e_.For(e_.Int(0), e_.Int(kPoints), 1, [&](Value* point) { Products(panel, point); });
      ForEachTile([&](Value* tile, Value* h, Value* w) { Output(panel, tile, h, w); });
    });
  }

  // `h` and `w` count tiles within the block.
  void ForEachTile(const std::function<void(Value* tile, Value* h, Value* w)>& visit) {
    e_.For(e_.Int(0), tiles_h_, 1, [&](Value* h) {
      Value* first = e_.b.CreateMul(h, tiles_w_);
      e_.For(e_.Int(0), tiles_w_, 1, [&](Value* w) { visit(e_.Add(first, w), h, w); });
    });
  }

  void Input(Value* tile, Value* h, Value* w) {
    const int64_t col = spec_.in_c * 4, row = block_.strip_cols(spec_) * col;
    Value* from =
        e_.Address(frame_.scratch, e_.Add(e_.Mul(h, kOutputs * row), e_.Mul(w, kOutputs * col)));
    Value* to = e_.Address(At(scratch_.inputs()), e_.Mul(tile, spec_.in_c * 4));
    e_.For(e_.Int(0), e_.Int(spec_.in_c * 4), e_.lanes() * 4, [&](Value* byte) {
      Values pixels;
      for (int r = 0; r < kInputs; ++r) {
        for (int c = 0; c < kInputs; ++c) {
          pixels.push_back(
              e_.LoadF32(e_.Address(e_.Address(from, byte), r * row + c * col), e_.lanes()));
        }
      }
      StorePoints(e_.Address(to, byte), scratch_.input_point(),
                  TransformSquare(e_, pixels, kInputs, TransformInput));
    });
  }

  // Computes tiles x output channels of a panel at one point. Rows beyond the tiles that exist hold
  // whatever scratch holds.
  void Products(Value* panel, Value* point) {
    Value* inputs = e_.Address(At(scratch_.inputs()), e_.Mul(point, scratch_.input_point()));
    Value* products = e_.Address(At(scratch_.products()), e_.Mul(point, scratch_.product_point()));
    TileB b;
    b.k_stride = row_bytes_;
    b.base = e_.Address(PanelWeights(panel), e_.Mul(point, scratch_.weight_point()));
    const auto run = [&](int rows, int64_t first, int64_t end) {
      const TileShape shape{rows, block_.vectors};
      e_.For(e_.Int(first), e_.Min(e_.b.CreateMul(tiles_h_, tiles_w_), e_.Int(end)), rows,
             [&](Value* row) {
               TileA a;
               a.row_bases = {e_.Address(inputs, e_.Mul(row, spec_.in_c * 4))};
               for (int r = 0; r < rows; ++r) a.row_offsets.push_back(r * spec_.in_c * 4);
               StoreTile(e_, shape, e_.Address(products, e_.Mul(row, row_bytes_)), row_bytes_,
                         AccumulateTile(e_, shape, a, b, spec_.in_c, ZeroTile(e_, shape)));
             });
    };
    const RowTiles& tiles = block_.tiles;
    const int64_t main_end = tiles.main_rows * tiles.main_count;
    run(tiles.main_rows, 0, main_end);
    if (tiles.tail_count > 0) run(tiles.tail_rows, main_end, plan_.tiles);
  }

  void Output(Value* panel, Value* tile, Value* h, Value* w) {
    Value* from = e_.Address(At(scratch_.products()), e_.Mul(tile, row_bytes_));
    Values rows[kOutputs];
    for (Values& row : rows) row.resize(static_cast<size_t>(kOutputs) * block_.vectors);
    for (int v = 0; v < block_.vectors; ++v) {
      Values points;
      for (int64_t p = 0; p < kPoints; ++p) {
        const int64_t offset = p * scratch_.product_point() + v * e_.lanes() * 4;
        points.push_back(e_.LoadF32(e_.Address(from, offset), e_.lanes()));
      }
      const Values pixels = TransformSquare(e_, points, kInputs, TransformOutput);
      for (int i = 0; i < kOutputs * kOutputs; ++i) {
        rows[i / kOutputs][static_cast<size_t>(i % kOutputs) * block_.vectors + v] = pixels[i];
      }
    }
    Value* first_h = e_.Add(position_->first_h(), e_.Mul(h, kOutputs));
    Value* first_w = e_.Add(position_->first_w(), e_.Mul(w, kOutputs));
    for (int r = 0; r < kOutputs; ++r) {
      Value* out_h = e_.Add(first_h, r);
      const auto finish = [&] { Finish(panel, out_h, first_w, rows[r]); };
      if (r == 0 || spec_.out_h % kOutputs == 0) {
        finish();
      } else {
        e_.If(e_.b.CreateICmpSLT(out_h, e_.Int(spec_.out_h)), finish);
      }
    }
  }

  // Finishes two pixels of output row `h` from column `w` on.
  void Finish(Value* panel, Value* h, Value* w, const Values& pixels) {
    TilePlace place;
    place.prefix = {position_->image()};
    place.row = w;
    place.row_index = [h](Value* row) { return Values{h, row}; };
    place.col = e_.Mul(panel, block_.panel_cols);
    place.cols_total = spec_.out_c;
    place.tile_buffer = At(scratch_.output_tile());
    if (spec_.out_w % kOutputs != 0) place.rows_left = e_.Sub(e_.Int(spec_.out_w), w);
    EmitTileEpilogue(e_, frame_, spec_.epilogue, {kOutputs, block_.vectors}, pixels, place);
  }

  IrEmitter e_;
  const KernelFrame& frame_;
  const ConvSpec& spec_;
  const WinogradPlan& plan_;
  const ConvPlan& block_;
  const Scratch scratch_;
  const int64_t row_bytes_;  // of a panel
  ConvTask* position_ = nullptr;
  Value* first_panel_ = nullptr;
  Value* end_panel_ = nullptr;
  Value* tiles_h_ = nullptr;  // of the block
  Value* tiles_w_ = nullptr;
};

constexpr int64_t kInputBytes = 512 * 1024;  // transformed input of a block, in L2
// A product with fewer rows would end before its weights are read.
constexpr int64_t kFewestTiles = 6;
constexpr int64_t kTilesPerBlock = 64;        // their products stay in L2, too
constexpr int64_t kWeightBytes = 512 * 1024;  // transformed weights of a panel
constexpr int64_t kWinogradTasksWanted = 32;
// The number of tiles that pays for transforming a panel of weights.
constexpr int64_t kWinogradTilesPerTask = 48;
// The costs of transforming a vector of a tile's input, of its output, and of the weights (which
// may come from memory), in multiply-adds of vectors.
constexpr double kInputCost = 50;
constexpr double kOutputCost = 75;
constexpr double kWeightCost = 130;
constexpr double kWorthwhile = 0.85;  // as a share of the direct form's time

bool Fits(const TargetInfo& target, const ConvSpec& spec) {
  return spec.x_type == MemoryType::kF32 && spec.w_type == MemoryType::kF32 &&
         spec.kernel_h == kTaps && spec.kernel_w == kTaps && spec.stride_h == 1 &&
         spec.stride_w == 1 && spec.dilation_h == 1 && spec.dilation_w == 1 && spec.groups == 1 &&
         spec.in_c % target.f32_lanes == 0 && !spec.direct;
}

// Returns how many multiply-adds would take as long as the arithmetic of this form.
double Cost(const ConvSpec& spec, const WinogradPlan& plan) {
  const ConvPlan& block = plan.block;
  const auto in = static_cast<double>(spec.in_c);
  const auto out = static_cast<double>(block.panels * block.panel_cols);
  const auto tiles = static_cast<double>(spec.batch * CeilDiv(spec.out_h, kOutputs) *
                                         CeilDiv(spec.out_w, kOutputs));
  return tiles * (kPoints * in * out + kOutputCost * out +
                  kInputCost * in * static_cast<double>(block.panel_blocks)) +
         kWeightCost * in * out * static_cast<double>(plan.block_groups);
}

}  // namespace

std::optional<WinogradPlan> PlanWinogradConv(const TargetInfo& target, const ConvSpec& spec) {
  if (!Fits(target, spec)) return std::nullopt;
  WinogradPlan plan;
  ConvPlan& block = plan.block;
  block.group_in = block.strip_channels = spec.in_c;
  block.group_out = spec.out_c;
  const auto weight_bytes = [&](int vectors) {
    return kPoints * spec.in_c * vectors * target.f32_lanes * 4;
  };
  int most_vectors = 4;
  while (most_vectors > 2 && weight_bytes(most_vectors) > kWeightBytes) --most_vectors;
  block.vectors = ChoosePanelVectors(target, spec.out_c, most_vectors);
  block.panel_cols = static_cast<int64_t>(block.vectors) * target.f32_lanes;
  block.panels = CeilDiv(spec.out_c, block.panel_cols);

  const int64_t all_h = CeilDiv(spec.out_h, kOutputs), all_w = CeilDiv(spec.out_w, kOutputs);
  const int64_t most_tiles =
      std::clamp<int64_t>(kInputBytes / (kPoints * spec.in_c * 4), 1, kTilesPerBlock);
  block.blocks_w = CeilDiv(all_w, most_tiles);
  const int64_t tiles_w = CeilDiv(all_w, block.blocks_w);
  block.blocks_h = CeilDiv(all_h, std::min(all_h, most_tiles / tiles_w));
  const int64_t tiles_h = CeilDiv(all_h, block.blocks_h);
  block.blocks_h = CeilDiv(all_h, tiles_h);
  block.blocks_w = CeilDiv(all_w, tiles_w);
  block.tile_h = tiles_h * kOutputs;
  block.tile_w = tiles_w * kOutputs;
  plan.tiles = tiles_h * tiles_w;
  if (plan.tiles < kFewestTiles) return std::nullopt;
  block.tiles = ChooseRowTiles(plan.tiles, MaxTileRows(target, block.vectors));

  plan.blocks = spec.batch * block.blocks_h * block.blocks_w;
  plan.block_groups = CeilDiv(plan.blocks, CeilDiv(kWinogradTilesPerTask, plan.tiles));
  plan.blocks_per_task = CeilDiv(plan.blocks, plan.block_groups);
  plan.block_groups = CeilDiv(plan.blocks, plan.blocks_per_task);
  block.panels_per_task =
      std::clamp<int64_t>(kWeightBytes / weight_bytes(block.vectors), 1, block.panels);
  const auto panel_blocks = [&] { return CeilDiv(block.panels, block.panels_per_task); };
  while (block.panels_per_task > 1 && plan.block_groups * panel_blocks() < kWinogradTasksWanted) {
    --block.panels_per_task;
  }
  block.panel_blocks = panel_blocks();

  const double direct = static_cast<double>(spec.batch * spec.out_h * spec.out_w) * kTaps * kTaps *
                        static_cast<double>(spec.in_c * spec.out_c);
  if (Cost(spec, plan) > kWorthwhile * direct) return std::nullopt;
  return plan;
}

KernelLaunch EmitWinogradConv(KernelCache& cache, const ConvSpec& spec, const WinogradPlan& plan) {
  KernelLaunch launch = MakeConvLaunch(spec, plan.block, 1, spec.in_c);
  launch.tasks = static_cast<uint64_t>(plan.block.panel_blocks * plan.block_groups);
  launch.grain = ChooseGrain(launch.tasks, launch.flops);
  launch.scratch_bytes = static_cast<uint64_t>(Scratch(spec, plan).bytes());
  const KernelKey key =
      ConvKey("winograd", spec, plan.block).Add(plan.blocks).Add(plan.blocks_per_task);
  launch.entry = cache.GetOrAdd(
      key, "winograd", [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, Value* task) {
        WinogradConv(builder, cache.module().target(), frame, spec, plan).Emit(task);
      });
  return launch;
}

}  // namespace hpu::graph_compiler
