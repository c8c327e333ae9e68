// Convolution of one channel per group, or few: lanes are channels. A task walks over blocks of
// channels; for each it copies the strip and computes tiles of a few pixels, whose sums stay in
// registers over all taps.
#include "graph_compiler/contraction/conv.h"
#include "graph_compiler/contraction/epilogue.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

class DepthwiseConv {
 public:
  DepthwiseConv(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
                const ConvSpec& spec, const ConvPlan& plan)
      : e_(builder, target), frame_(frame), spec_(spec), plan_(plan) {}

  void Emit(Value* task) {
    const Values index =
        e_.Decompose(task, {spec_.batch, plan_.blocks_h, plan_.blocks_w, plan_.panel_blocks});
    ConvTask position(e_, frame_, spec_, plan_, index[0], index[1], index[2]);
    position_ = &position;
    position.FillPixelTable();
    Value* first_panel = e_.Mul(index[3], plan_.panels_per_task);
    Value* end_panel = e_.Min(e_.Add(first_panel, plan_.panels_per_task), e_.Int(plan_.panels));
    e_.For(first_panel, end_panel, 1, [&](Value* panel) {
      Value* channel = e_.Mul(panel, plan_.panel_cols);
      Value* channels = e_.Int(plan_.panel_cols);
      if (spec_.out_c % plan_.panel_cols != 0) {
        channels = e_.Min(e_.Sub(e_.Int(spec_.out_c), channel), channels);
      }
      position.FillStrip(channel, channels);
      Panel(panel, channel);
    });
  }

 private:
  void Panel(Value* panel, Value* channel) {
    if (plan_.tiles_of_rows) return PanelByRows(panel, channel);
    const RowTiles& tiles = plan_.tiles;
    const int64_t main_end = tiles.main_rows * tiles.main_count;
    const auto limit = [&](int64_t end) {
      Value* pixels = position_->pixel_count();
      return pixels == nullptr ? e_.Int(end) : e_.Min(pixels, e_.Int(end));
    };
    e_.For(e_.Int(0), limit(main_end), tiles.main_rows,
           [&](Value* pixel) { Tile(tiles.main_rows, pixel, panel, channel); });
    if (tiles.tail_count == 0) return;
    e_.For(e_.Int(main_end), limit(plan_.pixels()), tiles.tail_rows,
           [&](Value* pixel) { Tile(tiles.tail_rows, pixel, panel, channel); });
  }

  void PanelByRows(Value* panel, Value* channel) {
    const RowTiles& tiles = plan_.tiles;
    const int64_t main_end = tiles.main_rows * tiles.main_count;
    e_.For(e_.Int(0), position_->rows(), 1, [&](Value* row) {
      Value* first = e_.Mul(row, plan_.tile_w);
      Value* tail = e_.Add(first, main_end);
      e_.For(first, tail, tiles.main_rows,
             [&](Value* pixel) { RowTile(tiles.main_rows, pixel, panel, channel); });
      if (tiles.tail_count == 0) return;
      e_.For(tail, e_.Add(first, plan_.tile_w), tiles.tail_rows,
             [&](Value* pixel) { RowTile(tiles.tail_rows, pixel, panel, channel); });
    });
  }

  // Pixels of one output row: a column of the strip is loaded once for all that it is a tap of.
  void RowTile(int count, Value* pixel, Value* panel, Value* channel) {
    const TileShape shape{count, plan_.vectors};
    const TileShape one{1, plan_.vectors};
    const int64_t row_bytes = plan_.panel_cols * 4;
    const int64_t kernel_row_bytes = spec_.kernel_w * row_bytes;
    const int64_t col_bytes = position_->PixelStride() / spec_.stride_w;
    const int64_t columns =
        (count - 1) * spec_.stride_w + (spec_.kernel_w - 1) * spec_.dilation_w + 1;
    Value* weights =
        e_.Address(frame_.Operand(e_.b, 1), e_.Mul(panel, spec_.kernel_h * kernel_row_bytes));
    Value* base = e_.Address(position_->InputBase(channel), position_->PixelOffset(pixel));
    const auto kernel_row = [&](Value* row, Values sums) {
      Value* input = e_.Address(base, position_->TapOffset(row, e_.Int(0)));
      Value* first = e_.Address(weights, e_.Mul(row, kernel_row_bytes));
      std::vector<Values> w;
      for (int64_t tap = 0; tap < spec_.kernel_w; ++tap) {
        w.push_back(LoadTile(e_, one, e_.Address(first, tap * row_bytes), 0));
      }
      for (int64_t column = 0; column < columns; ++column) {
        Values x;
        for (int64_t tap = 0; tap < spec_.kernel_w; ++tap) {
          const int64_t from = column - tap * spec_.dilation_w;
          if (from < 0 || from % spec_.stride_w != 0 || from / spec_.stride_w >= count) continue;
          if (x.empty()) x = LoadTile(e_, one, e_.Address(input, column * col_bytes), 0);
          for (size_t v = 0; v < x.size(); ++v) {
            Value*& sum = sums[static_cast<size_t>(from / spec_.stride_w) * x.size() + v];
            sum = e_.Fma(x[v], w[static_cast<size_t>(tap)][v], sum);
          }
        }
      }
      return sums;
    };
    const Values sums = e_.For(e_.Int(0), e_.Int(spec_.kernel_h), 1, ZeroTile(e_, shape),
                               [&](Value* row, const Values& s) { return kernel_row(row, s); });
    const Values first_index = position_->PixelIndex(pixel);
    TilePlace place = PlaceOf(pixel, channel);
    place.row_index = [&](Value* row) {
      return Values{first_index[0], e_.b.CreateAdd(first_index[1], e_.Sub(row, pixel))};
    };
    EmitTileEpilogue(e_, frame_, spec_.epilogue, shape, sums, place);
  }

  TilePlace PlaceOf(Value* pixel, Value* channel) {
    TilePlace place;
    place.prefix = {position_->image()};
    place.row = pixel;
    place.col = channel;
    place.cols_total = spec_.out_c;
    place.tile_buffer = position_->end_of_scratch();
    return place;
  }

  void Tile(int rows, Value* pixel, Value* panel, Value* channel) {
    const TileShape shape{rows, plan_.vectors};
    const int64_t row_bytes = plan_.panel_cols * 4;
    const int64_t group = plan_.lane_group;
    const int64_t tap_bytes = group * row_bytes;
    const int64_t taps = spec_.kernel_h * spec_.kernel_w;
    Value* weights = e_.Address(frame_.Operand(e_.b, 1), e_.Mul(panel, taps * tap_bytes));
    Values pixels;
    for (int r = 0; r < rows; ++r) {
      pixels.push_back(
          e_.Address(position_->InputBase(channel), position_->PixelOffset(e_.Add(pixel, r))));
    }
    const auto tap = [&](Value* row, Value* col, Values sums) {
      Value* offset = position_->TapOffset(row, col);
      Value* number = e_.Add(e_.Mul(row, spec_.kernel_w), col);
      Values x;
      for (Value* pixel_base : pixels) {
        const Values one = LoadTile(e_, {1, plan_.vectors}, e_.Address(pixel_base, offset), 0);
        x.insert(x.end(), one.begin(), one.end());
      }
      // Row j holds the weights by which input j of each group reaches every output.
      Value* first = e_.Address(weights, e_.Mul(number, tap_bytes));
      for (int64_t j = 0; j < group; ++j) {
        const Values w = LoadTile(e_, {1, plan_.vectors}, e_.Address(first, j * row_bytes), 0);
        for (size_t i = 0; i < sums.size(); ++i) {
          Value* input = e_.MemberOfGroup(x[i], group, j);
          sums[i] = e_.Fma(input, w[i % static_cast<size_t>(plan_.vectors)], sums[i]);
        }
      }
      return sums;
    };
    const Values sums = e_.For(
        e_.Int(0), e_.Int(spec_.kernel_h), 1, ZeroTile(e_, shape),
        [&](Value* row, const Values& outer) {
          return e_.For(e_.Int(0), e_.Int(spec_.kernel_w), 1, outer,
                        [&](Value* col, const Values& inner) { return tap(row, col, inner); });
        });
    TilePlace place = PlaceOf(pixel, channel);
    place.row_index = [&](Value* row) { return position_->PixelIndex(row); };
    if (Value* count = position_->pixel_count()) place.rows_left = e_.Sub(count, pixel);
    EmitTileEpilogue(e_, frame_, spec_.epilogue, shape, sums, place);
  }

  IrEmitter e_;
  const KernelFrame& frame_;
  const ConvSpec& spec_;
  const ConvPlan& plan_;
  ConvTask* position_ = nullptr;
};

}  // namespace

KernelLaunch EmitDepthwiseConv(KernelCache& cache, const ConvSpec& spec, const ConvPlan& plan) {
  KernelLaunch launch = MakeConvLaunch(spec, plan, 1, plan.lane_group);
  launch.scratch_bytes = static_cast<uint64_t>(ConvTask::ScratchBytes(spec, plan) +
                                               plan.tiles.max_rows() * plan.panel_cols * 4);
  launch.entry = cache.GetOrAdd(
      ConvKey("conv_depthwise", spec, plan), "conv_depthwise",
      [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, Value* task) {
        DepthwiseConv(builder, cache.module().target(), frame, spec, plan).Emit(task);
      });
  return launch;
}

}  // namespace hpu::graph_compiler
