// The tiles of products of groups. One task is a group times some panels of B:
//
//   rows    for panel
//             for block of rows of the group
//               for block of k       its share of the panel stays in L2; sums lie in scratch
//                 for row tile       (micro_kernel.h)
//   inner   for panel
//             for row tile           k runs over the range of the group
//
// Neighbouring tasks are of different groups, so that threads get equal shares of large groups and
// small ones.
#include <algorithm>

#include "graph_compiler/contraction/gemm/grouped_gemm.h"
#include "graph_compiler/contraction/gemm/groups.h"
#include "graph_compiler/contraction/tiles/amx_tiles.h"
#include "graph_compiler/contraction/tiles/epilogue.h"
#include "graph_compiler/contraction/tiles/matrix_copy.h"
#include "graph_compiler/contraction/tiles/micro_kernel.h"
#include "graph_compiler/contraction/tiles/tiling.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

constexpr int64_t kRowsOfGroupPerBlock = 128;
// Most tasks of many groups find nothing to do, so there are not many more tasks than balance 64
// threads, and all groups but one may be empty.
constexpr int64_t kTasksWanted = 512;
constexpr int64_t kFewestTasksPerGroup = 8;

class GroupedTiles {
 public:
  GroupedTiles(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
               const BoundGroupedGemm& gemm)
      : e_(builder, target),
        frame_(frame),
        gemm_(gemm),
        panel_cols_(PanelCols(target, gemm)),
        most_rows_(MostRows(target, gemm)) {}

  static int MostRows(const TargetInfo& target, const BoundGroupedGemm& gemm) {
    return gemm.amx_depth > 0 ? kAmxHalves * kAmxRows : MaxTileRows(target, gemm.vectors);
  }

  static int64_t PanelCols(const TargetInfo& target, const BoundGroupedGemm& gemm) {
    return int64_t{gemm.vectors} * target.f32_lanes;
  }
  // Rows beyond the last group have tasks of their own.
  static int64_t Ranges(const BoundGroupedGemm& gemm) {
    return gemm.inner ? gemm.groups : gemm.groups + 1;
  }
  static int64_t Panels(const TargetInfo& target, const BoundGroupedGemm& gemm) {
    return CeilDiv(gemm.n, PanelCols(target, gemm));
  }
  static int64_t PanelsPerTask(const TargetInfo& target, const BoundGroupedGemm& gemm) {
    const int64_t wanted = std::max(kFewestTasksPerGroup, CeilDiv(kTasksWanted, Ranges(gemm)));
    return CeilDiv(Panels(target, gemm), wanted);
  }
  static uint64_t Tasks(const TargetInfo& target, const BoundGroupedGemm& gemm) {
    return static_cast<uint64_t>(Ranges(gemm) *
                                 CeilDiv(Panels(target, gemm), PanelsPerTask(target, gemm)));
  }
  // Returns the size of even blocks of k whose panel stays in L2.
  static int64_t KBlock(const TargetInfo& target, const BoundGroupedGemm& gemm) {
    int64_t block = kPanelBytesInL2 / (PanelCols(target, gemm) * 4);
    EvenBlocks(gemm.k, block);
    return gemm.amx_depth > 0 ? RoundUp(block, gemm.amx_depth) : block;
  }
  // Scratch holds one tile, then the partial sums of a block of rows, then a block of the panel.
  static int64_t TileBytes(const TargetInfo& target, const BoundGroupedGemm& gemm) {
    return MostRows(target, gemm) * PanelCols(target, gemm) * 4;
  }
  static int64_t PartialBytes(const TargetInfo& target, const BoundGroupedGemm& gemm) {
    if (gemm.inner || KBlock(target, gemm) >= gemm.k) return 0;
    return kRowsOfGroupPerBlock * PanelCols(target, gemm) * 4 + TileBytes(target, gemm);
  }
  static uint64_t ScratchBytes(const TargetInfo& target, const BoundGroupedGemm& gemm) {
    int64_t bytes = TileBytes(target, gemm) + PartialBytes(target, gemm);
    if (gemm.form == PanelForm::kPackedByTask) {
      bytes += KBlock(target, gemm) * PanelCols(target, gemm) * 4;
    }
    return static_cast<uint64_t>(bytes);
  }

  void Emit(Value* task) {
    group_ = e_.RemConst(task, Ranges(gemm_));
    Value* block = e_.DivConst(task, Ranges(gemm_));
    const int64_t limit = gemm_.inner ? gemm_.k : gemm_.m;
    range_ = RangeOfGroup(e_, frame_.Operand(e_.b, kEndsOfGroups), gemm_.groups, group_, limit);
    a_ = frame_.Operand(e_.b, 0);
    k_block_ = KBlock(e_.target(), gemm_);
    partials_ = e_.Address(frame_.scratch, TileBytes(e_.target(), gemm_));
    task_panel_ = e_.Address(partials_, PartialBytes(e_.target(), gemm_));
    if (gemm_.inner) {
      return EachPanel(block, [&](Value* panel) { InnerRange(panel); });
    }
    e_.If(e_.b.CreateICmpSLT(range_.begin, range_.end), [&] {
      e_.If(
          e_.b.CreateICmpEQ(group_, e_.Int(gemm_.groups)),
          [&] { EachPanel(block, [&](Value*) { RowsOfNoGroup(); }); },
          [&] { EachPanel(block, [&](Value* panel) { RowsOfGroup(panel); }); });
    });
  }

 private:
  void EachPanel(Value* block, const std::function<void(Value* panel)>& run) {
    const int64_t per_task = PanelsPerTask(e_.target(), gemm_);
    Value* first = e_.Mul(block, per_task);
    Value* end = e_.Min(e_.Add(first, per_task), e_.Int(Panels(e_.target(), gemm_)));
    e_.For(first, end, 1, [&](Value* panel) {
      col_ = e_.Mul(panel, panel_cols_);
      run(panel);
    });
  }

  void RowsOfGroup(Value* panel) {
    b_ = ColumnsOfPanel(MatrixOfGroup(e_, frame_, group_, BytesBetween()), panel);
    const bool one_block = k_block_ >= gemm_.k;
    TileB b;
    if (one_block) b = PanelRows(e_.Int(0), e_.Int(gemm_.k));
    e_.For(range_.begin, range_.end, kRowsOfGroupPerBlock, [&](Value* first) {
      first_row_ = first;
      end_row_ = e_.Min(e_.Add(first, kRowsOfGroupPerBlock), range_.end);
      if (one_block) return BlockOfRows(b, e_.Int(0), e_.Int(gemm_.k));
      e_.For(e_.Int(0), e_.Int(gemm_.k), k_block_, [&](Value* k0) {
        Value* steps = e_.Min(e_.Sub(e_.Int(gemm_.k), k0), e_.Int(k_block_));
        BlockOfRows(PanelRows(k0, steps), k0, steps);
      });
    });
    if (gemm_.amx_depth > 0) AmxTiles::Release(e_);
  }

  int64_t StepBytes() const {
    return gemm_.form == PanelForm::kInPlace
               ? gemm_.b.row_stride * 4
               : panel_cols_ * PackedSize(gemm_.panel_type) * KPerStep(gemm_.panel_type);
  }

  int64_t PanelBytes() const { return gemm_.k * StepBytes(); }
  int64_t BytesBetween() const {
    if (gemm_.separate) return 0;
    if (gemm_.form != PanelForm::kPacked) return BytesBetweenMatrices(gemm_.b);
    return Panels(e_.target(), gemm_) * PanelBytes();
  }
  // Returns the address of a panel's columns in row 0 of a matrix.
  Value* ColumnsOfPanel(Value* matrix, Value* panel) {
    if (gemm_.form == PanelForm::kPacked) return e_.Address(matrix, e_.Mul(panel, PanelBytes()));
    return e_.Address(matrix, e_.Mul(col_, gemm_.b.col_stride * MemoryTypeSize(gemm_.b.type)));
  }

  // Returns the rows [k0, k0 + steps) of the panel, which are packed now if the task does that.
  TileB PanelRows(Value* k0, Value* steps) {
    Value* left = e_.Sub(e_.Int(gemm_.n), col_);
    const bool has_tail = gemm_.n % panel_cols_ != 0;
    TileB b;
    b.type = gemm_.panel_type;
    b.k_stride = StepBytes();
    if (gemm_.form == PanelForm::kPackedByTask) {
      const MatrixAccess& from = gemm_.b;
      Value* source = e_.Address(b_, e_.Mul(k0, from.row_stride * MemoryTypeSize(from.type)));
      EmitMatrixCopy(e_, {source, from.type, from.row_stride, from.col_stride},
                     {task_panel_, panel_cols_, panel_cols_}, steps,
                     has_tail ? e_.Min(left, e_.Int(panel_cols_)) : e_.Int(panel_cols_));
      b.base = task_panel_;
      return b;
    }
    b.base = e_.Address(b_, e_.Mul(k0, b.k_stride));
    for (int v = 0; gemm_.form == PanelForm::kInPlace && has_tail && v < gemm_.vectors; ++v) {
      b.masks.push_back(e_.LaneMask(e_.Add(left, -v * e_.lanes()), e_.lanes()));
    }
    return b;
  }

  // Calls tile(height, row, whole) for tiles that cover [begin, end). Unless a tile is whole, some
  // of its rows do not exist.
  template <typename Tile>
  void EachTile(Value* begin, Value* end, const Tile& tile) {
    Value* left = e_.b.CreateURem(e_.Sub(end, begin), e_.Int(most_rows_));
    Value* full = e_.Sub(end, left);
    e_.For(begin, full, most_rows_, [&](Value* row) { tile(most_rows_, row, true); });
    if (most_rows_ == 1) return;
    const int half = (most_rows_ + 1) / 2;
    const auto several = [&] {
      e_.If(
          e_.b.CreateICmpSLE(left, e_.Int(half)), [&] { tile(half, full, false); },
          [&] { tile(most_rows_, full, false); });
    };
    e_.If(e_.b.CreateICmpSGT(left, e_.Int(0)), [&] {
      e_.If(e_.b.CreateICmpEQ(left, e_.Int(1)), [&] { tile(1, full, true); }, several);
    });
  }

  // Rows of the tile that do not exist are read as the last one that does.
  TileA RowsOfA(int height, Value* row, Value* end, Value* k0) {
    TileA a;
    a.k_stride = gemm_.a.col_stride * 4;
    for (int r = 0; r < height; ++r) {
      Value* number = r == 0 ? row : e_.Min(e_.Add(row, r), e_.Sub(end, e_.Int(1)));
      a.row_bases.push_back(
          e_.Address(a_, e_.Add(e_.Mul(number, gemm_.a.row_stride * 4), e_.Mul(k0, a.k_stride))));
      a.row_offsets.push_back(0);
    }
    return a;
  }
  // All rows of the tile exist.
  TileA WholeTileOfA(int height, Value* row, Value* k0) {
    TileA a;
    a.k_stride = gemm_.a.col_stride * 4;
    a.row_bases = {
        e_.Address(a_, e_.Add(e_.Mul(row, gemm_.a.row_stride * 4), e_.Mul(k0, a.k_stride)))};
    for (int r = 0; r < height; ++r) a.row_offsets.push_back(r * gemm_.a.row_stride * 4);
    return a;
  }

  // `end` follows the last row that exists; null if all rows of the tile do.
  void Finish(const Values& prefix, TileShape shape, Value* row, Value* end, const Values& sums) {
    TilePlace place{prefix, row, col_, gemm_.n, frame_.scratch, nullptr};
    if (end != nullptr) place.rows_left = e_.Sub(end, row);
    EmitTileEpilogue(e_, frame_, gemm_.epilogue, shape, sums, place);
  }
  // Finishes sums that lie in memory.
  void FinishFrom(Value* sums, TileShape shape, Value* row, Value* end) {
    TilePlace place{{}, row, col_, gemm_.n, sums, nullptr};
    if (end != nullptr) place.rows_left = e_.Sub(end, row);
    EmitTileEpilogue(e_, frame_, gemm_.epilogue, shape, {}, place);
  }
  // Returns where the partial sums of a tile lie between blocks of k.
  Value* Partial(Value* row) {
    return e_.Address(partials_, e_.Mul(e_.Sub(row, first_row_), panel_cols_ * 4));
  }

  void BlockOfRows(const TileB& b, Value* k0, Value* steps) {
    if (gemm_.amx_depth > 0) return AmxBlockOfRows(b, k0, steps);
    EachTile(first_row_, end_row_, [&](int height, Value* row, bool is_whole) {
      const TileShape shape{height, gemm_.vectors};
      const TileA a = is_whole ? WholeTileOfA(height, row, k0) : RowsOfA(height, row, end_row_, k0);
      const int64_t stride = panel_cols_ * 4;
      Value* partial = Partial(row);
      const bool one_block = k_block_ >= gemm_.k;
      const auto begin = [&] { return ZeroTile(e_, shape); };
      Values sums = begin();
      if (!one_block) {
        sums = e_.Choose(e_.b.CreateICmpEQ(k0, e_.Int(0)), begin,
                         [&] { return LoadTile(e_, shape, partial, stride); });
      }
      const auto* fixed = llvm::dyn_cast<llvm::ConstantInt>(steps);
      sums = fixed != nullptr ? AccumulateTile(e_, shape, a, b, fixed->getSExtValue(), sums)
                              : AccumulateTile(e_, shape, a, b, steps, sums);
      const auto finish = [&] { Finish({}, shape, row, is_whole ? nullptr : end_row_, sums); };
      if (one_block) return finish();
      e_.If(e_.b.CreateICmpSGE(e_.Add(k0, k_block_), e_.Int(gemm_.k)), finish,
            [&] { StoreTile(e_, shape, partial, stride, sums); });
    });
  }

  // The rows that do not fill the last tile take tiles of as many rows.
  void AmxBlockOfRows(const TileB& b, Value* k0, Value* steps) {
    Value* left = e_.b.CreateURem(e_.Sub(end_row_, first_row_), e_.Int(most_rows_));
    Value* full = e_.Sub(end_row_, left);
    e_.If(e_.b.CreateICmpSLT(first_row_, full), [&] {
      AmxTiles amx(e_, most_rows_, kAmxRows, gemm_.vectors, gemm_.amx_depth);
      amx.Configure(frame_);
      e_.For(first_row_, full, most_rows_, [&](Value* row) {
        AmxTile(amx, {most_rows_, gemm_.vectors}, row, nullptr, b, k0, steps);
      });
    });
    const auto rest = [&](int most_rows, Value* last_rows) {
      AmxTiles amx(e_, most_rows, kAmxRows, gemm_.vectors, gemm_.amx_depth);
      amx.Configure(frame_, last_rows);
      AmxTile(amx, {most_rows, gemm_.vectors}, full, end_row_, b, k0, steps);
    };
    e_.If(e_.b.CreateICmpSGT(left, e_.Int(0)), [&] {
      e_.If(
          e_.b.CreateICmpSLE(left, e_.Int(kAmxRows)), [&] { rest(kAmxRows, left); },
          [&] { rest(most_rows_, e_.Add(left, -kAmxRows)); });
    });
  }

  // `end` is as in Finish.
  void AmxTile(AmxTiles& amx, TileShape shape, Value* row, Value* end, const TileB& b, Value* k0,
               Value* steps) {
    const bool one_block = k_block_ >= gemm_.k;
    Value* sums = one_block ? frame_.scratch : Partial(row);
    if (one_block) {
      amx.Zero();
    } else {
      e_.If(e_.b.CreateICmpEQ(k0, e_.Int(0)), [&] { amx.Zero(); }, [&] { amx.Load(sums); });
    }
    const int64_t row_stride = gemm_.a.row_stride * 4;
    Value* first = e_.Address(a_, e_.Add(e_.Mul(row, row_stride), e_.Mul(k0, 4)));
    amx.Accumulate(AdjacentRows(e_, first, row_stride), b, steps);
    amx.Store(sums);
    const auto finish = [&] { FinishFrom(sums, shape, row, end); };
    if (one_block) return finish();
    e_.If(e_.b.CreateICmpSGE(e_.Add(k0, k_block_), e_.Int(gemm_.k)), finish);
  }

  void RowsOfNoGroup() {
    const TileShape shape{1, gemm_.vectors};
    e_.For(range_.begin, range_.end, 1,
           [&](Value* row) { Finish({}, shape, row, nullptr, ZeroTile(e_, shape)); });
  }

  void InnerRange(Value* panel) {
    b_ = ColumnsOfPanel(frame_.Operand(e_.b, kFirstMatrix), panel);
    Value* steps = e_.Sub(range_.end, range_.begin);
    const TileB b = PanelRows(range_.begin, steps);
    const RowTiles tiles = ChooseRowTiles(gemm_.m, most_rows_);
    const int64_t main_end = tiles.main_rows * tiles.main_count;
    const auto run = [&](int height, int64_t begin, int64_t end) {
      if (begin == end) return;
      const TileShape shape{height, gemm_.vectors};
      e_.For(e_.Int(begin), e_.Int(end), height, [&](Value* row) {
        const TileA a = WholeTileOfA(height, row, range_.begin);
        Finish({group_}, shape, row, nullptr,
               AccumulateTile(e_, shape, a, b, steps, ZeroTile(e_, shape)));
      });
    };
    run(tiles.main_rows, 0, main_end);
    run(tiles.tail_rows, main_end, gemm_.m);
  }

  IrEmitter e_;
  const KernelFrame& frame_;
  const BoundGroupedGemm& gemm_;
  const int64_t panel_cols_;
  const int most_rows_;
  int64_t k_block_ = 0;
  GroupRange range_;
  Value* group_ = nullptr;
  Value* col_ = nullptr;
  Value* first_row_ = nullptr;
  Value* end_row_ = nullptr;
  Value* a_ = nullptr;
  Value* b_ = nullptr;
  Value* partials_ = nullptr;
  Value* task_panel_ = nullptr;
};

}  // namespace

KernelLaunch EmitGroupedTiles(KernelCache& cache, const BoundGroupedGemm& gemm) {
  const TargetInfo& target = cache.module().target();
  KernelKey key("gemm_groups");
  key.Add(gemm.inner).Add(gemm.groups).Add(gemm.m).Add(gemm.n).Add(gemm.k);
  key.Add(gemm.a.row_stride).Add(gemm.a.col_stride).Add(gemm.form).Add(gemm.panel_type);
  key.Add(gemm.vectors).Add(gemm.amx_depth).Add(gemm.separate).Add(gemm.epilogue);
  if (gemm.form != PanelForm::kPacked) {
    key.Add(gemm.b.type).Add(gemm.b.row_stride).Add(gemm.b.col_stride).Add(gemm.b.batch_strides);
  }

  KernelLaunch launch;
  launch.operands = gemm.operands;
  launch.tasks = GroupedTiles::Tasks(target, gemm);
  launch.scratch_bytes = GroupedTiles::ScratchBytes(target, gemm);
  launch.engine = Engine::kMme;
  launch.name = gemm.name;
  launch.entry = cache.GetOrAdd(
      key, "gemm_groups", [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, Value* task) {
        GroupedTiles(builder, target, frame, gemm).Emit(task);
      });
  return launch;
}

}  // namespace hpu::graph_compiler
