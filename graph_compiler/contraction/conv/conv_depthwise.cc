// Convolution of one or few channels per group: lanes are channels. Sums of a tile of a few pixels
// stay in registers over all taps. With one channel per group and contiguous channels, x is read
// where it lies, the pixels of an output row one after another and all channels of a tile, so that
// memory is walked in order. Where the machine multiplies pairs of bf16, neighbouring columns are
// pairs. In all other cases a task walks over blocks of channels and copies the strip for each.
#include <algorithm>
#include <map>

#include "graph_compiler/contraction/conv/conv.h"
#include "graph_compiler/contraction/tiles/epilogue.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

constexpr int kPairChannels = 32;  // words of a vector

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
    Value* first_panel = e_.Mul(index[3], plan_.panels_per_task);
    Value* end_panel = e_.Min(e_.Add(first_panel, plan_.panels_per_task), e_.Int(plan_.panels));
    if (!plan_.strip) return RowsInPlace(first_panel, end_panel);
    position.FillPixelTable();
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

  // Neighbouring pixels of an output row, from column `first` on, and the input that they read.
  struct RowTile {
    int count = 0;
    Value* first = nullptr;  // output column
    Value* input = nullptr;  // the address of channel 0 under the first tap of the first pixel
    int64_t col_bytes = 0, row_bytes = 0;
    MemoryType type = MemoryType::kF32;
    // The columns of the input that exist, counted from `input`, and the kernel rows that exist.
    int64_t begin = 0, end = 0;
    Value* first_kernel_row = nullptr;
    Value* end_kernel_row = nullptr;
    // The number of vectors of channels. The last panel in place has as many vectors as it needs.
    // Its last vector may have lanes for which nothing may be read.
    int vectors = 0;
    Value* last_lanes = nullptr;  // mask of the last vector (pairs: of all channels); null: all
  };

  int64_t Columns(int count) const {
    return (count - 1) * spec_.stride_w + (spec_.kernel_w - 1) * spec_.dilation_w + 1;
  }

  void PanelByRows(Value* panel, Value* channel) {
    const RowTiles& tiles = plan_.tiles;
    const int64_t main_end = tiles.main_rows * tiles.main_count;
    const auto tile = [&](int count, Value* pixel) {
      const Values index = position_->PixelIndex(pixel);
      RowTile at;
      at.count = count;
      at.first = index[1];
      at.input = e_.Address(position_->InputBase(channel), position_->PixelOffset(pixel));
      at.col_bytes = plan_.strip_channels * 4;
      at.row_bytes = plan_.strip_cols(spec_) * at.col_bytes;
      at.end = Columns(count);
      at.first_kernel_row = e_.Int(0);
      at.end_kernel_row = e_.Int(spec_.kernel_h);
      at.vectors = plan_.vectors;
      Tile(at, index[0], panel, channel);
    };
    e_.For(e_.Int(0), position_->rows(), 1, [&](Value* row) {
      Value* first = e_.Mul(row, plan_.tile_w);
      Value* tail = e_.Add(first, main_end);
      e_.For(first, tail, tiles.main_rows, [&](Value* p) { tile(tiles.main_rows, p); });
      if (tiles.tail_count == 0) return;
      e_.For(tail, e_.Add(first, plan_.tile_w), tiles.tail_rows,
             [&](Value* p) { tile(tiles.tail_rows, p); });
    });
  }

  // Reads x where it lies. Kernel rows outside the image are left out. So are columns, which are
  // known for every tile: tiles that reach over an edge have code of their own.
  void RowsInPlace(Value* first_panel, Value* end_panel) {
    const int size = MemoryTypeSize(spec_.x_type);
    const int64_t* strides = spec_.x_strides;
    const int64_t full_panels = spec_.out_c / plan_.panel_cols;
    const int64_t rest = spec_.out_c % plan_.panel_cols;
    RowTile at;
    at.type = spec_.x_type;
    at.col_bytes = strides[2] * size;
    at.row_bytes = strides[1] * size;
    e_.For(e_.Int(0), position_->rows(), 1, [&](Value* h) {
      Value* row = e_.Add(position_->first_h(), h);
      Value* top = e_.Add(e_.Mul(row, spec_.stride_h), -spec_.pad_top);
      // Returns the number of kernel rows that cover this many rows of the image.
      const auto kernel_rows = [&](Value* pixels) {
        Value* some = e_.Max(pixels, e_.Int(0));
        return e_.Min(e_.DivConst(e_.Add(some, spec_.dilation_h - 1), spec_.dilation_h),
                      e_.Int(spec_.kernel_h));
      };
      at.first_kernel_row = kernel_rows(e_.Sub(e_.Int(0), top));
      at.end_kernel_row = e_.Max(kernel_rows(e_.Sub(e_.Int(spec_.in_h), top)), at.first_kernel_row);
      Value* start = e_.Add(e_.Mul(position_->image(), strides[0]), e_.Mul(top, strides[1]));
      const auto tile = [&](int count, Value* first, int64_t begin, int64_t end) {
        at.count = count;
        at.first = first;
        at.begin = begin;
        at.end = end;
        Value* left = e_.Add(e_.Mul(first, spec_.stride_w), -spec_.pad_left);
        Value* offset = e_.Mul(e_.Add(start, e_.Mul(left, strides[2])), size);
        Value* input = e_.Address(frame_.Operand(e_.b, 0), offset);
        const auto panel_tile = [&](Value* panel) {
          Value* channel = e_.Mul(panel, plan_.panel_cols);
          at.input = e_.Address(input, e_.Mul(channel, size));
          Tile(at, row, panel, channel);
        };
        at.vectors = plan_.vectors;
        at.last_lanes = nullptr;
        e_.For(first_panel, e_.Min(end_panel, e_.Int(full_panels)), 1, panel_tile);
        if (rest == 0) return;
        const auto lanes = static_cast<int>(plan_.column_pairs ? plan_.panel_cols : e_.lanes());
        if (!plan_.column_pairs) at.vectors = static_cast<int>(CeilDiv(rest, lanes));
        if (rest % lanes != 0) at.last_lanes = e_.LaneMask(e_.Int(rest % lanes), lanes);
        e_.If(e_.b.CreateICmpSGT(end_panel, e_.Int(full_panels)),
              [&] { panel_tile(e_.Int(full_panels)); });
      };
      TilesOfRow(tile);
    });
  }

  // Calls tile(count, first column, begin, end), in a loop for neighbours that read no padding.
  template <typename F>
  void TilesOfRow(const F& tile) {
    const RowTiles& tiles = plan_.tiles;
    int64_t column = 0;
    const auto walk = [&](int count, int64_t times) {
      const auto left = [&](int64_t first) { return first * spec_.stride_w - spec_.pad_left; };
      const auto inside = [&](int64_t first) {
        return left(first) >= 0 && left(first) + Columns(count) <= spec_.in_w;
      };
      for (int64_t i = 0; i < times;) {
        int64_t run = 0;
        while (i + run < times && inside(column + run * count)) ++run;
        if (run > 0) {
          e_.For(e_.Int(column), e_.Int(column + run * count), count,
                 [&](Value* first) { tile(count, first, 0, Columns(count)); });
        } else {
          run = 1;
          const int64_t begin = std::max<int64_t>(0, -left(column));
          tile(count, e_.Int(column), begin, std::min(Columns(count), spec_.in_w - left(column)));
        }
        column += run * count;
        i += run;
      }
    };
    walk(tiles.main_rows, tiles.main_count);
    walk(tiles.tail_rows, tiles.tail_count);
  }

  void Tile(const RowTile& at, Value* output_row, Value* panel, Value* channel) {
    const TileShape shape{at.count, at.vectors};
    const int64_t kernel_row_bytes =
        plan_.panel_cols * 4 * (plan_.column_pairs ? CeilDiv(spec_.kernel_w, 2) : spec_.kernel_w);
    Value* weights =
        e_.Address(frame_.Operand(e_.b, 1), e_.Mul(panel, spec_.kernel_h * kernel_row_bytes));
    const auto kernel_row = [&](Value* number, const Values& sums) {
      Value* row = e_.Address(at.input, e_.Mul(number, spec_.dilation_h * at.row_bytes));
      Value* first = e_.Address(weights, e_.Mul(number, kernel_row_bytes));
      return plan_.column_pairs ? RowOfPairs(at, row, first, sums)
                                : RowOfTaps(at, row, first, sums);
    };
    Values sums =
        e_.For(at.first_kernel_row, at.end_kernel_row, 1, ZeroTile(e_, shape), kernel_row);
    if (plan_.column_pairs) {
      for (size_t i = 0; i < sums.size(); i += 2) ToChannelOrder(&sums[i], &sums[i + 1]);
    }
    TilePlace place = PlaceOf(e_.Int(0), channel);
    place.row_index = [&](Value* pixel) { return Values{output_row, e_.Add(at.first, pixel)}; };
    EmitTileEpilogue(e_, frame_, spec_.epilogue, shape, sums, place);
  }

  // Returns the number of the tile's pixel whose tap is at the column, or -1.
  int64_t PixelOf(const RowTile& at, int64_t column, int64_t tap) const {
    const int64_t from = column - tap * spec_.dilation_w;
    const bool exists = from >= 0 && from % spec_.stride_w == 0 && from / spec_.stride_w < at.count;
    return exists ? from / spec_.stride_w : -1;
  }

  // A column of the image is loaded once for all pixels that have it as a tap.
  Values RowOfTaps(const RowTile& at, Value* row, Value* first, Values sums) {
    const TileShape one{1, at.vectors};
    const auto load = [&](int64_t column) {
      Values x;
      for (int v = 0; v < at.vectors; ++v) {
        const int64_t bytes =
            column * at.col_bytes + int64_t{v} * e_.lanes() * MemoryTypeSize(at.type);
        Value* mask = v + 1 == at.vectors ? at.last_lanes : nullptr;
        x.push_back(e_.LoadWide(e_.Address(row, bytes), at.type, e_.lanes(), mask));
      }
      return x;
    };
    std::vector<Values> w;
    for (int64_t tap = 0; tap < spec_.kernel_w; ++tap) {
      w.push_back(LoadTile(e_, one, e_.Address(first, tap * plan_.panel_cols * 4), 0));
    }
    for (int64_t column = at.begin; column < at.end; ++column) {
      Values x;
      for (int64_t tap = 0; tap < spec_.kernel_w; ++tap) {
        const int64_t pixel = PixelOf(at, column, tap);
        if (pixel < 0) continue;
        if (x.empty()) x = load(column);
        for (size_t v = 0; v < x.size(); ++v) {
          Value*& sum = sums[static_cast<size_t>(pixel) * x.size() + v];
          sum = e_.Fma(x[v], w[static_cast<size_t>(tap)][v], sum);
        }
      }
    }
    return sums;
  }

  // Taps 2i and 2i + 1 are one product of pairs. A last tap without a partner is multiplied beside
  // a zero, not beside the next column, which may be infinite.
  Values RowOfPairs(const RowTile& at, Value* row, Value* first, Values sums) {
    std::map<int64_t, Value*> columns;
    const auto column = [&](int64_t number) -> Value* {  // null: padding
      if (number < at.begin || number >= at.end) return nullptr;
      Value*& words = columns[number];
      if (words == nullptr) {
        words = e_.LoadBF16(e_.Address(row, number * at.col_bytes), at.type,
                            static_cast<int>(plan_.panel_cols), at.last_lanes);
      }
      return words;
    };
    std::vector<Values> w;
    for (int64_t tap = 0; tap < spec_.kernel_w; tap += 2) {
      w.push_back(LoadTile(e_, {1, 2}, e_.Address(first, tap / 2 * plan_.panel_cols * 4), 0));
      ToPairOrder(&w.back()[0], &w.back()[1]);
    }
    for (int64_t number = at.begin - 1; number < at.end; ++number) {
      Values pairs, singles;  // pairs of this column and the next; pairs of this column and zeros
      for (int64_t tap = 0; tap < spec_.kernel_w; tap += 2) {
        const int64_t pixel = PixelOf(at, number, tap);
        if (pixel < 0) continue;
        const bool alone = tap + 1 == spec_.kernel_w;
        Values& x = alone ? singles : pairs;
        if (x.empty()) x = JoinWords(column(number), alone ? nullptr : column(number + 1));
        for (size_t v = 0; v < x.size(); ++v) {
          Value*& sum = sums[static_cast<size_t>(pixel) * 2 + v];
          sum = e_.DotPairs(x[v], w[static_cast<size_t>(tap / 2)][v], sum);
        }
      }
    }
    return sums;
  }

  // Returns pairs (x[c], y[c]) of 32 channels in two vectors, in the order in which machines join
  // words: of every 8 channels the first 4 are in one vector and the last 4 in the other. Returns
  // nothing if there is neither x nor y.
  Values JoinWords(Value* x, Value* y) {
    if (x == nullptr && y == nullptr) return {};
    Value* zero = llvm::Constant::getNullValue((x == nullptr ? y : x)->getType());
    if (x == nullptr) x = zero;
    if (y == nullptr) y = zero;
    std::vector<int> low, high;
    for (int c = 0; c < kPairChannels; ++c) {
      std::vector<int>& half = c % 8 < 4 ? low : high;
      half.push_back(c);
      half.push_back(kPairChannels + c);
    }
    return {e_.b.CreateShuffleVector(x, y, low), e_.b.CreateShuffleVector(x, y, high)};
  }

  // Converts two vectors of 16 channels each to the order of JoinWords, and back.
  void ToPairOrder(Value** x, Value** y) {
    std::vector<int> low, high;
    for (int c = 0; c < kPairChannels; ++c) (c % 8 < 4 ? low : high).push_back(c);
    Shuffle(x, y, low, high);
  }
  void ToChannelOrder(Value** x, Value** y) {
    std::vector<int> order;  // the place of channel c
    for (int c = 0; c < kPairChannels; ++c) {
      order.push_back(c / 8 * 4 + c % 4 + (c % 8 < 4 ? 0 : kPairChannels / 2));
    }
    const auto middle = order.begin() + kPairChannels / 2;
    Shuffle(x, y, {order.begin(), middle}, {middle, order.end()});
  }
  void Shuffle(Value** x, Value** y, const std::vector<int>& first,
               const std::vector<int>& second) {
    Value* shuffled = e_.b.CreateShuffleVector(*x, *y, first);
    *y = e_.b.CreateShuffleVector(*x, *y, second);
    *x = shuffled;
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
