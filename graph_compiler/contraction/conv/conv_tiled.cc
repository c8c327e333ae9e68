// Implicit GEMM: rows of the register tile are output pixels, each with its own input address; k
// runs over kernel rows, then over (kernel column, channel), which is one contiguous run of the
// strip unless columns are dilated.
#include "graph_compiler/contraction/conv/conv.h"
#include "graph_compiler/contraction/tiles/amx_tiles.h"
#include "graph_compiler/contraction/tiles/epilogue.h"
#include "graph_compiler/contraction/tiles/int8.h"
#include "graph_compiler/contraction/tiles/micro_kernel.h"
#include "graph_compiler/contraction/tiles/packing.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

constexpr uint32_t kZerosOfWeights = 2;  // operand

class TiledConv {
 public:
  TiledConv(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
            const ConvSpec& spec, const ConvPlan& plan, PanelType packed_type)
      : e_(builder, target),
        frame_(frame),
        spec_(spec),
        plan_(plan),
        packed_type_(packed_type),
        zeros_(e_, frame, packed_type, spec.zeros, plan.vectors) {
    fused_columns_ = plan.fused_columns(spec);
    run_ = plan.run(spec);
    k_bytes_ = plan.panel_cols * PackedSize(packed_type) * KPerStep(packed_type);
  }

  // Neighbouring tasks share panels, which are larger than the image where there are many.
  void Emit(Value* task) {
    const Values index = e_.Decompose(
        task, {spec_.batch, spec_.groups, plan_.panel_blocks, plan_.blocks_h, plan_.blocks_w});
    group_ = index[1];
    ConvTask position(e_, frame_, spec_, plan_, index[0], index[3], index[4]);
    position_ = &position;
    Value* first_channel = e_.Mul(group_, plan_.group_in);
    if (plan_.strip) position.FillStrip(first_channel, e_.Int(plan_.group_in));
    position.FillPixelTable();
    input_ = position.InputBase(first_channel);
    const int64_t group_bytes = spec_.groups_share_weights() ? 0 : plan_.panels * PanelBytes();
    weights_ = e_.Address(frame_.Operand(e_.b, 1), e_.Mul(group_, group_bytes));
    Value* first_panel = e_.Mul(index[2], plan_.panels_per_task);
    Value* end_panel = e_.Min(e_.Add(first_panel, plan_.panels_per_task), e_.Int(plan_.panels));
    e_.For(first_panel, end_panel, 1, [&](Value* panel) { Panel(panel); });
    if (plan_.amx_depth > 0) AmxTiles::Release(e_);
  }

 private:
  int64_t taps() const { return spec_.kernel_h * spec_.kernel_w; }
  int64_t SumBytes() const { return integers() ? plan_.panel_cols * 4 : 0; }
  int64_t PanelBytes() const { return taps() * plan_.group_in * k_bytes_ + SumBytes(); }
  bool integers() const { return IsInteger(packed_type_); }

  // Loads the initial values and the corrections of a panel's integer sums.
  void EnterIntegers(Value* panel) {
    Value* end = e_.Add(e_.Mul(panel, PanelBytes()), PanelBytes() - SumBytes());
    Value* col = e_.Mul(panel, plan_.panel_cols);
    Value* first = e_.Add(e_.Mul(group_, plan_.group_out), col);
    Value* b_zero = spec_.zeros.has_b()
                        ? e_.Address(frame_.Operand(e_.b, kZerosOfWeights), e_.Mul(first, 8))
                        : nullptr;
    zeros_.Enter(e_.Address(weights_, end), b_zero, e_.Sub(e_.Int(plan_.group_out), col));
  }
  Value* RowToBeginWith() {
    return e_.Address(position_->end_of_scratch(), plan_.tiles.max_rows() * plan_.panel_cols * 4);
  }
  // Turns finished integer sums in the tile's buffer into results.
  void FinishIntegers(TileShape shape, Value* pixel, Value* panel) {
    const int64_t k = taps() * plan_.group_in * KPerStep(packed_type_);
    Value* sums = position_->end_of_scratch();
    zeros_.Finish(sums, e_.Int(shape.rows), k, [&](Value* row, const TileB& ones) {
      TileA a;
      a.row_bases = {e_.Address(input_, position_->PixelOffset(e_.Add(pixel, row)))};
      a.row_offsets = {0};
      return ForEachRun({e_.Zero(e_.lanes())},
                        [&](Value* kernel_row, Value* kernel_col, const Values& carried) {
                          a.start = position_->TapOffset(kernel_row, kernel_col);
                          return AccumulateTile(e_, {1, 1}, a, ones, run_, carried);
                        })[0];
    });
    Finish(shape, {}, pixel, panel);
  }

  void Panel(Value* panel) {
    const RowTiles& tiles = plan_.tiles;
    Value* pixels = position_->pixel_count();
    if (integers()) EnterIntegers(panel);
    const auto limit = [&](int64_t end) {
      return pixels == nullptr ? e_.Int(end) : e_.Min(pixels, e_.Int(end));
    };
    const auto run = [&](int rows, Value* first, Value* end) {
      if (plan_.amx_depth > 0) return AmxRun(rows, first, end, panel);
      e_.For(first, end, rows, [&](Value* pixel) { Tile(rows, pixel, panel); });
    };
    const int64_t main_end = tiles.main_rows * tiles.main_count;
    run(tiles.main_rows, e_.Int(0), limit(main_end));
    if (tiles.tail_count > 0) run(tiles.tail_rows, e_.Int(main_end), limit(plan_.pixels()));
  }

  // `run` gets the first tap of every contiguous run of k and the values that are carried from run
  // to run.
  Values ForEachRun(const Values& init,
                    const std::function<Values(Value* row, Value* col, const Values&)>& run) {
    const auto kernel_row = [&](Value* row, const Values& carried) {
      if (fused_columns_ || spec_.kernel_w == 1) return run(row, e_.Int(0), carried);
      return e_.For(e_.Int(0), e_.Int(spec_.kernel_w), 1, carried,
                    [&](Value* col, const Values& inner) { return run(row, col, inner); });
    };
    if (spec_.kernel_h == 1) return kernel_row(e_.Int(0), init);
    return e_.For(e_.Int(0), e_.Int(spec_.kernel_h), 1, init, kernel_row);
  }

  // Returns the weights of a panel from tap (row, col) on; `k_before` receives the k steps before
  // it.
  TileB Weights(Value* panel, Value* row, Value* col, Value** k_before) {
    TileB b;
    b.type = packed_type_;
    b.k_stride = k_bytes_;
    Value* tap = e_.Add(e_.Mul(row, spec_.kernel_w), col);
    *k_before = e_.Mul(tap, plan_.group_in);
    Value* base = e_.Address(weights_, e_.Mul(panel, PanelBytes()));
    b.base = e_.Address(base, e_.Mul(*k_before, k_bytes_));
    return b;
  }

  void Finish(TileShape shape, const Values& sums, Value* pixel, Value* panel) {
    TilePlace place;
    place.prefix = {position_->image()};
    place.row = pixel;
    place.col = e_.Mul(panel, plan_.panel_cols);
    place.cols_total = plan_.group_out;
    place.tile_buffer = position_->end_of_scratch();
    place.row_index = [&](Value* row) { return position_->PixelIndex(row); };
    place.first_col = e_.Mul(group_, plan_.group_out);
    if (Value* pixels = position_->pixel_count()) place.rows_left = e_.Sub(pixels, pixel);
    EmitTileEpilogue(e_, frame_, spec_.epilogue, shape, sums, place);
  }

  // Computes tiles of `rows` pixels from `first` to `end` in AMX tiles, each in one output row.
  void AmxRun(int rows, Value* first, Value* end, Value* panel) {
    AmxTiles amx(e_, rows, plan_.amx_pixels, plan_.vectors, plan_.amx_depth);
    amx.Configure(frame_);
    if (integers()) zeros_.StoreBegin(RowToBeginWith());
    e_.For(first, end, rows, [&](Value* pixel) {
      Value* starts[kAmxHalves] = {};
      for (int half = 0; half * plan_.amx_pixels < rows; ++half) {
        Value* offset = position_->PixelOffset(e_.Add(pixel, half * plan_.amx_pixels));
        starts[half] = e_.Address(input_, offset);
      }
      integers() ? amx.LoadRow(RowToBeginWith()) : amx.Zero();
      ForEachRun({}, [&](Value* row, Value* col, const Values& none) {
        AmxA a;
        a.row_stride = position_->PixelStride();
        for (int half = 0; half < kAmxHalves; ++half) {
          if (starts[half] == nullptr) continue;
          a.halves[half] = e_.Address(starts[half], position_->TapOffset(row, col));
        }
        Value* k_before = nullptr;
        amx.Accumulate(a, Weights(panel, row, col, &k_before), e_.Int(run_));
        return none;
      });
      amx.Store(position_->end_of_scratch());
      const TileShape shape{rows, plan_.vectors};
      integers() ? FinishIntegers(shape, pixel, panel) : Finish(shape, {}, pixel, panel);
    });
  }

  void Tile(int rows, Value* pixel, Value* panel) {
    const TileShape shape{rows, plan_.vectors};
    TileA a;
    for (int r = 0; r < rows; ++r) {
      a.row_bases.push_back(e_.Address(input_, position_->PixelOffset(e_.Add(pixel, r))));
      a.row_offsets.push_back(0);
    }
    const Values sums = ForEachRun(
        integers() ? zeros_.Begin(shape) : ZeroTile(e_, shape),
        [&](Value* kernel_row, Value* kernel_col, const Values& carried) {
          a.start = position_->TapOffset(kernel_row, kernel_col);
          Value* k_before = nullptr;
          TileB b = Weights(panel, kernel_row, kernel_col, &k_before);
          PrefetchNextPanel(e_, b, PanelBytes(), plan_.tiles.count(), taps() * plan_.group_in,
                            e_.DivConst(pixel, plan_.tiles.max_rows()), k_before);
          return AccumulateTile(e_, shape, a, b, run_, carried);
        });
    if (!integers()) return Finish(shape, sums, pixel, panel);
    StoreTile(e_, shape, position_->end_of_scratch(), plan_.panel_cols * 4, sums);
    FinishIntegers(shape, pixel, panel);
  }

  IrEmitter e_;
  const KernelFrame& frame_;
  const ConvSpec& spec_;
  const ConvPlan& plan_;
  const PanelType packed_type_;
  PanelZeros zeros_;
  bool fused_columns_ = false;
  int64_t run_ = 0;      // k steps without a jump in the input
  int64_t k_bytes_ = 0;  // bytes of a panel per k step
  ConvTask* position_ = nullptr;
  Value* group_ = nullptr;
  Value* input_ = nullptr;
  Value* weights_ = nullptr;
};

}  // namespace

KernelLaunch EmitTiledConv(KernelCache& cache, const ConvSpec& spec, const ConvPlan& plan,
                           PanelType packed_type) {
  const int64_t channels =
      plan.joined_channels > 0 ? plan.joined_channels : plan.group_in * KPerStep(packed_type);
  KernelLaunch launch = MakeConvLaunch(spec, plan, spec.groups, channels);
  launch.scratch_bytes = static_cast<uint64_t>(ConvTask::ScratchBytes(spec, plan) +
                                               plan.tiles.max_rows() * plan.panel_cols * 4) +
                         RowToBeginWithBytes(packed_type, plan.panel_cols);
  const KernelKey key = ConvKey("conv", spec, plan).Add(packed_type);
  launch.entry = cache.GetOrAdd(
      key, "conv", [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, Value* task) {
        TiledConv(builder, cache.module().target(), frame, spec, plan, packed_type).Emit(task);
      });
  return launch;
}

}  // namespace hpu::graph_compiler
