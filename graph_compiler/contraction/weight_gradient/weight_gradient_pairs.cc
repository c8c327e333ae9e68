// There is one 32 x 32 block of sums per tap, output channels x input channels, in AMX tiles or in
// register tiles of AVX512_BF16's dot products. A is dy, which the copy transposes so that
// positions run along rows. B is the strip, in which a pair holds the pixels that two consecutive
// positions see.
//
// Positions that only fill up a run have a dy of 0, but they read pixels of the strip: an infinity
// or a NaN among these makes the sums of its channel NaN, also for taps that do not see it.
#include "graph_compiler/contraction/tiles/amx_tiles.h"
#include "graph_compiler/contraction/tiles/micro_kernel.h"
#include "graph_compiler/contraction/tiles/pair_rows.h"
#include "graph_compiler/contraction/weight_gradient/weight_gradient.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

constexpr int64_t kHalfBytes = 2;
constexpr int kVectors = 2;  // of a block's columns
// The rows of a register tile, which divide the rows of a block. They give enough sums for two
// pipes of latency six.
constexpr int kTileRows = 8;

class PairsGradient {
 public:
  PairsGradient(IrEmitter& e, const KernelFrame& frame, GradientTask& task,
                const WeightGradientSpec& spec, const WeightGradientPlan& plan)
      : e_(e),
        frame_(frame),
        task_(task),
        spec_(spec),
        conv_(spec.conv),
        plan_(plan),
        runs_(plan.runs),
        side_(plan.panel_cols),
        tiles_(e, static_cast<int>(side_), kAmxRows, kVectors, runs_.depth) {}

  void Emit() {
    if (runs_.depth > 0) tiles_.Configure(frame_);
    task_.Run([&](const GradientTask::Chunk& chunk) { Add(chunk); },
              [&](Value* sums) { TransposeTaps(sums); });
    if (runs_.depth > 0) AmxTiles::Release(e_);
  }

 private:
  void Add(const GradientTask::Chunk& chunk) {
    e_.For(task_.first_panel(), task_.end_panel(), 1, [&](Value* panel) { CopyDy(chunk, panel); });
    e_.For(task_.first_tile(), task_.end_tile(), 1, [&](Value* tile) {
      e_.For(e_.Int(0), chunk.images, 1, [&](Value* image) { FillStrip(chunk, tile, image); });
      e_.For(task_.first_panel(), task_.end_panel(), 1, [&](Value* panel) {
        Value* sums = task_.Sums(tile, panel);
        e_.For(e_.Int(0), e_.Int(conv_.kernel_h), 1, [&](Value* r) {
          e_.For(e_.Int(0), e_.Int(conv_.kernel_w), 1,
                 [&](Value* s) { AddTap(chunk, TapSums(sums, r, s), panel, r, s); });
        });
      });
    });
  }

  Value* TapSums(Value* sums, Value* r, Value* s) {
    Value* tap = e_.Add(e_.Mul(r, conv_.kernel_w), s);
    return e_.Address(sums, e_.Mul(tap, side_ * side_ * 4));
  }

  // Copies dy of a panel as [output channel][image][row][column].
  void CopyDy(const GradientTask::Chunk& chunk, Value* panel) {
    const int64_t* strides = spec_.dy_strides;
    const int64_t group_out = conv_.out_c / conv_.groups;
    Value* channel = e_.Mul(panel, side_);
    Value* channels = Existing(channel, group_out);
    MatrixAccess dy;
    dy.row_stride = 1;
    dy.col_stride = strides[2];
    const int64_t rows_of_runs = plan_.cut.tile_h;
    e_.For(e_.Int(0), chunk.images, 1, [&](Value* image) {
      e_.For(e_.Int(0), e_.Int(rows_of_runs), 1, [&](Value* row) {
        Value* y = e_.Add(e_.Mul(chunk.block_h, plan_.cut.tile_h), row);
        Value* from =
            e_.Add(e_.Mul(e_.Add(chunk.first_image, image), strides[0]), e_.Mul(y, strides[1]));
        from = e_.Add(from, e_.Add(e_.Mul(task_.group(), group_out), channel));
        Value* place =
            e_.Add(e_.Mul(image, runs_.image_positions), e_.Mul(row, runs_.row_positions));
        const PairRowsTarget to{e_.Address(task_.DyPanel(panel), e_.Mul(place, kHalfBytes)),
                                runs_.dy_row};
        Value* source = e_.Address(frame_.Operand(e_.b, 1), e_.Mul(from, kHalfBytes));
        e_.If(
            e_.b.CreateICmpSLT(row, chunk.rows),
            [&] { EmitPairRows(e_, dy, conv_.out_w, runs_.row_positions, source, to, channels); },
            [&] { EmitPairRows(e_, dy, 0, runs_.row_positions, source, to, channels); });
      });
      FillImage(panel, image);
    });
  }

  // Writes zeros where joined rows end before their last tile.
  void FillImage(Value* panel, Value* image) {
    const int64_t written = plan_.cut.tile_h * runs_.row_positions;
    if (written >= runs_.image_positions) return;
    Value* place = e_.Add(e_.Mul(image, runs_.image_positions), written);
    Value* to = e_.Address(task_.DyPanel(panel), e_.Mul(place, kHalfBytes));
    MatrixAccess nothing;
    nothing.row_stride = 1;
    EmitPairRows(e_, nothing, 0, runs_.image_positions - written, to, {to, runs_.dy_row},
                 e_.Int(side_));
  }

  Value* Existing(Value* first, int64_t count) {
    return count % side_ == 0 ? e_.Int(side_) : e_.Min(e_.Sub(e_.Int(count), first), e_.Int(side_));
  }

  // Copies for every column and channel the pixel and the one a stride further.
  void FillStrip(const GradientTask::Chunk& chunk, Value* tile, Value* image) {
    const auto halves = static_cast<unsigned>(side_);
    auto* type = llvm::FixedVectorType::get(e_.b.getInt16Ty(), halves);
    Value* zero = llvm::Constant::getNullValue(type);
    const int64_t group_in = conv_.in_c / conv_.groups;
    Value* channel = e_.Mul(tile, side_);
    Value* channels = e_.LaneMask(Existing(channel, group_in), static_cast<int>(side_));
    Value* none = llvm::Constant::getNullValue(channels->getType());
    const int64_t* strides = conv_.x_strides;
    Value* base = e_.Add(e_.Mul(e_.Add(chunk.first_image, image), strides[0]),
                         e_.Add(e_.Mul(task_.group(), group_in), channel));
    Value* top = e_.Add(e_.Mul(chunk.block_h, plan_.cut.tile_h * conv_.stride_h), -conv_.pad_top);
    Value* strip = task_.Strip(image);
    const int64_t column_bytes = side_ * 4;
    const int64_t row_bytes = runs_.columns * column_bytes;
    std::vector<int> zips[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      for (int i = 0; i < e_.lanes(); ++i) {
        zips[v].push_back(v * e_.lanes() + i);
        zips[v].push_back(static_cast<int>(side_) + v * e_.lanes() + i);
      }
    }
    const int64_t rows = plan_.cut.strip_rows(conv_);
    e_.For(e_.Int(0), e_.Int(rows), 1, [&](Value* row) {
      Value* h = e_.Add(top, row);
      Value* inside = e_.b.CreateICmpULT(h, e_.Int(conv_.in_h));
      Value* line = e_.Add(base, e_.Mul(h, strides[1]));
      Value* to_row = e_.Address(strip, e_.Mul(row, row_bytes));
      e_.For(e_.Int(0), e_.Int(runs_.columns), 1, [&](Value* column) {
        const auto pixel = [&](int64_t beyond) {
          Value* w = e_.Add(column, beyond - conv_.pad_left);
          Value* exists = e_.b.CreateAnd(inside, e_.b.CreateICmpULT(w, e_.Int(conv_.in_w)));
          Value* from = e_.Address(frame_.Operand(e_.b, 0),
                                   e_.Mul(e_.Add(line, e_.Mul(w, strides[2])), kHalfBytes));
          return e_.b.CreateMaskedLoad(type, from, llvm::Align(kHalfBytes),
                                       e_.b.CreateSelect(exists, channels, none), zero);
        };
        Value* first = pixel(0);
        Value* second = pixel(conv_.stride_w);
        Value* to = e_.Address(to_row, e_.Mul(column, column_bytes));
        for (int v = 0; v < kVectors; ++v) {
          Value* pairs = e_.b.CreateShuffleVector(first, second, zips[v]);
          e_.StoreF32(e_.Address(to, v * e_.lanes() * 4),
                      e_.b.CreateBitCast(pairs, e_.F32(e_.lanes())));
        }
      });
    });
    e_.For(e_.Int(rows * row_bytes), e_.Int(runs_.strip_dwords * 4), e_.lanes() * 4,
           [&](Value* byte) { e_.StoreF32(e_.Address(strip, byte), e_.Zero(e_.lanes())); });
  }

  void AddTap(const GradientTask::Chunk& chunk, Value* sums, Value* panel, Value* r, Value* s) {
    const int64_t column_bytes = side_ * 4;
    Value* tap = e_.Add(e_.Mul(r, conv_.dilation_h * runs_.columns * column_bytes),
                        e_.Mul(s, conv_.dilation_w * column_bytes));
    if (runs_.depth > 0) {
      tiles_.Load(sums);
      ForEachRun(chunk, {}, [&](Value* image, Value* row, const Values&) {
        const AmxA a = AdjacentRows(e_, DyRun(panel, image, row), runs_.dy_row * kHalfBytes);
        tiles_.Accumulate(a, StripRun(tap, image, row), e_.Int(runs_.pairs));
        return Values{};
      });
      return tiles_.Store(sums);
    }
    const TileShape shape{kTileRows, kVectors};
    const int64_t dy_bytes = runs_.dy_row * kHalfBytes;
    e_.For(e_.Int(0), e_.Int(side_), kTileRows, [&](Value* first) {
      Value* place = e_.Address(sums, e_.Mul(first, column_bytes));
      const Values held = ForEachRun(
          chunk, LoadTile(e_, shape, place, column_bytes),
          [&](Value* image, Value* row, const Values& carried) {
            TileA a;
            a.row_bases = {e_.Address(DyRun(panel, image, row), e_.Mul(first, dy_bytes))};
            for (int i = 0; i < kTileRows; ++i) a.row_offsets.push_back(i * dy_bytes);
            return AccumulateTile(e_, shape, a, StripRun(tap, image, row), runs_.pairs, carried);
          });
      StoreTile(e_, shape, place, column_bytes, held);
    });
  }

  // Runs `body` for every run of the chunk, with values carried through.
  Values ForEachRun(const GradientTask::Chunk& chunk, const Values& init,
                    const std::function<Values(Value* image, Value* row, const Values&)>& body) {
    return e_.For(e_.Int(0), chunk.images, 1, init, [&](Value* image, const Values& carried) {
      if (runs_.joined_rows) return body(image, e_.Int(0), carried);
      return e_.For(e_.Int(0), chunk.rows, 1, carried,
                    [&](Value* row, const Values& inner) { return body(image, row, inner); });
    });
  }

  // Return where a run begins in the copy of dy, and in the strip for the tap at the given byte
  // offset.
  Value* DyRun(Value* panel, Value* image, Value* row) {
    Value* place = e_.Add(e_.Mul(image, runs_.image_positions), e_.Mul(row, runs_.row_positions));
    return e_.Address(task_.DyPanel(panel), e_.Mul(place, kHalfBytes));
  }
  TileB StripRun(Value* tap, Value* image, Value* row) {
    TileB b;
    b.type = PanelType::kBF16Pairs;
    b.k_stride = 2 * conv_.stride_w * side_ * 4;
    Value* strip_row = e_.Mul(row, conv_.stride_h * runs_.columns * side_ * 4);
    b.base = e_.Address(task_.Strip(image), e_.Add(tap, strip_row));
    return b;
  }

  // Turns sums of (output channel, input channel) into sums of (input channel, output channel).
  void TransposeTaps(Value* sums) {
    const int lanes = e_.lanes();
    const auto block = [&](Value* tap, int64_t row, int64_t vector) {
      Values rows;
      for (int i = 0; i < lanes; ++i) {
        rows.push_back(
            e_.LoadF32(e_.Address(tap, ((row * lanes + i) * side_ + vector * lanes) * 4), lanes));
      }
      return e_.Transpose(std::move(rows));
    };
    const auto store = [&](Value* tap, int64_t row, int64_t vector, const Values& rows) {
      for (int i = 0; i < lanes; ++i) {
        e_.StoreF32(e_.Address(tap, ((row * lanes + i) * side_ + vector * lanes) * 4), rows[i]);
      }
    };
    e_.For(e_.Int(0), e_.Int(conv_.kernel_h * conv_.kernel_w), 1, [&](Value* number) {
      Value* tap = e_.Address(sums, e_.Mul(number, side_ * side_ * 4));
      for (int64_t i = 0; i < kVectors; ++i) store(tap, i, i, block(tap, i, i));
      const Values upper = block(tap, 0, 1), lower = block(tap, 1, 0);
      store(tap, 1, 0, upper);
      store(tap, 0, 1, lower);
    });
  }

  IrEmitter& e_;
  const KernelFrame& frame_;
  GradientTask& task_;
  const WeightGradientSpec& spec_;
  const ConvSpec& conv_;
  const WeightGradientPlan& plan_;
  const GradientRuns& runs_;
  const int64_t side_;  // of a tap's block of sums
  AmxTiles tiles_;      // used only with AMX
};

}  // namespace

void EmitPairsGradient(IrEmitter& e, const KernelFrame& frame, GradientTask& task,
                       const WeightGradientSpec& spec, const WeightGradientPlan& plan) {
  PairsGradient(e, frame, task, spec, plan).Emit();
}

}  // namespace hpu::graph_compiler
