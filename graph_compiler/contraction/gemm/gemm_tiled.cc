// The tiled product. One task is a block of rows times some panels of B:
//
//   for block of k                    A: the task's rows x k_block stay in L2; partial sums lie in
//                                     scratch between blocks
//     for panel                       B: k_block x panel_cols streams by
//       for row tile                  accumulators in registers (micro_kernel.h)
//         last block of k: epilogue
#include <algorithm>

#include "graph_compiler/contraction/gemm/gemm.h"
#include "graph_compiler/contraction/tiles/amx_tiles.h"
#include "graph_compiler/contraction/tiles/epilogue.h"
#include "graph_compiler/contraction/tiles/int8.h"
#include "graph_compiler/contraction/tiles/matrix_copy.h"
#include "graph_compiler/contraction/tiles/packing.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

// Smaller results and residuals come from a cache, and fewer steps of a tile take less time than a
// fetch from memory.
constexpr uint64_t kBytesWorthPrefetching = 4 << 20;
constexpr int64_t kStepsWorthPrefetching = 32;
constexpr uint32_t kZerosOfB = 2;  // operand

bool PrefetchesEpilogue(const BoundGemm& gemm, const GemmBlocks& blocks) {
  const auto results = static_cast<uint64_t>(gemm.batch_count() * gemm.m * gemm.n);
  return blocks.k_blocks == 1 && gemm.k >= kStepsWorthPrefetching &&
         EpilogueBytes(gemm.epilogue, results) >= kBytesWorthPrefetching;
}

// Returns whether rows of A follow each other without a gap and come from memory, so that the rows
// of the next tile are prefetched.
bool StreamsA(const BoundGemm& gemm, const GemmBlocks& blocks) {
  const bool dense = gemm.a.row_stride == gemm.k && gemm.a.col_stride == 1;
  const auto bytes = static_cast<uint64_t>(gemm.m * gemm.k * 4);
  return dense && blocks.k_blocks == 1 && bytes >= kBytesWorthPrefetching;
}

class TiledGemm {
 public:
  TiledGemm(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
            const BoundGemm& gemm, PanelForm form, const GemmBlocks& blocks, PanelType packed_type)
      : e_(builder, target),
        frame_(frame),
        gemm_(gemm),
        form_(form),
        blocks_(blocks),
        packed_type_(packed_type),
        zeros_(e_, frame, packed_type, gemm.zeros, blocks.vectors) {}

  // Returns the bytes of the partial sums of one panel.
  static int64_t PanelPartialBytes(const GemmBlocks& blocks) {
    return blocks.tiles_per_block * blocks.tiles.max_rows() * blocks.panel_cols * 4;
  }
  static uint64_t PartialBytes(const GemmBlocks& blocks) {
    if (blocks.k_blocks == 1) return 0;
    return static_cast<uint64_t>(blocks.panels_per_task * blocks.tasks_joined *
                                 PanelPartialBytes(blocks));
  }
  static uint64_t TileBufferBytes(const GemmBlocks& blocks) {
    return static_cast<uint64_t>(blocks.tiles.max_rows() * blocks.panel_cols * 4);
  }
  static uint64_t ScratchBytes(const GemmBlocks& blocks, PanelForm form, PanelType packed_type) {
    uint64_t bytes = PartialBytes(blocks) + TileBufferBytes(blocks) +
                     RowToBeginWithBytes(packed_type, blocks.panel_cols);
    if (form == PanelForm::kPackedByTask) {
      bytes += static_cast<uint64_t>(blocks.k_block * blocks.panel_cols * 4);
    }
    return bytes;
  }

  void Emit(Value* task) {
    const int64_t per_matrix = static_cast<int64_t>(blocks_.tasks_per_matrix());
    Value* block = e_.RemConst(task, per_matrix);
    batch_index_ = e_.Decompose(e_.DivConst(task, per_matrix), gemm_.batch);
    const int64_t inner = blocks_.rows_first ? blocks_.row_blocks : blocks_.panel_blocks;
    Value* outer_block = e_.DivConst(block, inner);
    Value* inner_block = e_.RemConst(block, inner);
    Value* row_block = blocks_.rows_first ? inner_block : outer_block;
    Value* panel_block = blocks_.rows_first ? outer_block : inner_block;

    first_tile_ = e_.Mul(row_block, blocks_.tiles_per_block);
    Value* last_tile = e_.Add(first_tile_, blocks_.tiles_per_block);
    end_tile_ = e_.Min(last_tile, e_.Int(blocks_.tiles.count()));
    first_row_ = TileRow(first_tile_);
    a_ =
        e_.Address(frame_.Operand(e_.b, 0), e_.Mul(e_.Dot(batch_index_, gemm_.a.batch_strides), 4));
    b_ = BaseOfB();
    partials_ = frame_.scratch;
    tile_buffer_ = e_.Address(frame_.scratch, static_cast<int64_t>(PartialBytes(blocks_)));
    task_panel_ = e_.Address(tile_buffer_, static_cast<int64_t>(TileBufferBytes(blocks_)));

    const int64_t joined = blocks_.tasks_joined;
    if (joined == 1) return Panels(panel_block, e_.Add(panel_block, 1));
    // The tasks of this call that share a block of rows run in groups; the first task of a group
    // runs the whole group.
    Value* first = e_.Max(frame_.task_begin, e_.Sub(task, panel_block));
    Value* leads = e_.b.CreateICmpEQ(e_.RemConst(e_.Sub(task, first), joined), e_.Int(0));
    e_.If(leads, [&] {
      Value* left = e_.Min(e_.Sub(frame_.task_end, task), e_.Int(joined));
      Panels(panel_block, e_.Min(e_.Add(panel_block, left), e_.Int(blocks_.panel_blocks)));
    });
  }

 private:
  // Computes the panels of the blocks [begin, end).
  void Panels(Value* begin, Value* end) {
    Value* first_panel = e_.Mul(begin, blocks_.panels_per_task);
    Value* end_panel = e_.Min(e_.Mul(end, blocks_.panels_per_task), e_.Int(blocks_.panels));
    EachBlockOfK([&](Value* k0) {
      if (blocks_.panels_per_task * blocks_.tasks_joined == 1) return Panel(first_panel, k0);
      e_.For(first_panel, end_panel, 1, [&](Value* panel) {
        partials_ = e_.Address(frame_.scratch,
                               e_.Mul(e_.Sub(panel, first_panel), PanelPartialBytes(blocks_)));
        Panel(panel, k0);
      });
    });
    if (blocks_.amx_depth > 0) AmxTiles::Release(e_);
  }

  void EachBlockOfK(const std::function<void(Value* k0)>& block) {
    if (blocks_.k_blocks == 1) return block(e_.Int(0));
    e_.For(e_.Int(0), e_.Int(gemm_.k), blocks_.k_block, block);
  }

  // Returns the first row of a tile: tiles of main_rows come first, then those of tail_rows.
  Value* TileRow(Value* tile) {
    const RowTiles& tiles = blocks_.tiles;
    if (tiles.tail_count == 0) return e_.Mul(tile, tiles.main_rows);
    Value* main = e_.Min(tile, e_.Int(tiles.main_count));
    Value* tail = e_.Max(e_.Add(tile, -tiles.main_count), e_.Int(0));
    return e_.Add(e_.Mul(main, tiles.main_rows), e_.Mul(tail, tiles.tail_rows));
  }

  Value* BaseOfB() {
    Value* base = frame_.Operand(e_.b, 1);
    if (form_ != PanelForm::kPacked) {
      return e_.Address(
          base, e_.Mul(e_.Dot(batch_index_, gemm_.b.batch_strides), MemoryTypeSize(gemm_.b.type)));
    }
    int64_t count = 0;
    const auto strides = DenseBatchStrides(gemm_.batch, gemm_.b.batch_strides, &count);
    return e_.Address(base, e_.Mul(e_.Dot(batch_index_, strides), blocks_.panels * PanelBytes()));
  }

  int64_t StepBytes() const {
    return blocks_.panel_cols * PackedSize(packed_type_) * KPerStep(packed_type_);
  }
  int64_t SumBytes() const { return integers() ? blocks_.panel_cols * 4 : 0; }
  int64_t PanelBytes() const { return gemm_.k * StepBytes() + SumBytes(); }
  bool integers() const { return IsInteger(packed_type_); }

  // Loads the initial values and the corrections of a panel's integer sums.
  void EnterIntegers(Value* panel, Value* col) {
    Value* sums = e_.Address(b_, e_.Add(e_.Mul(panel, PanelBytes()), gemm_.k * StepBytes()));
    Value* b_zero =
        gemm_.zeros.has_b() ? e_.Address(frame_.Operand(e_.b, kZerosOfB), e_.Mul(col, 8)) : nullptr;
    zeros_.Enter(sums, b_zero, e_.Sub(e_.Int(gemm_.n), col));
  }
  Values BeginTile(TileShape shape) {
    return integers() ? zeros_.Begin(shape) : ZeroTile(e_, shape);
  }
  // Turns finished integer sums in memory into results.
  void FinishIntegers(TileShape shape, Value* row, Value* sums, const TilePlace& place) {
    zeros_.Finish(sums, e_.Int(shape.rows), gemm_.k_elements, [&](Value* r, const TileB& ones) {
      TileA a;
      a.row_bases = {e_.Address(a_, e_.Mul(e_.Add(row, r), gemm_.a.row_stride * 4))};
      a.row_offsets = {0};
      return AccumulateTile(e_, {1, 1}, a, ones, gemm_.k, {e_.Zero(e_.lanes())})[0];
    });
    EmitTileEpilogue(e_, frame_, gemm_.epilogue, shape, {}, place);
  }

  void Panel(Value* panel, Value* k0) {
    Value* col = e_.Mul(panel, blocks_.panel_cols);
    const bool equal_blocks = blocks_.k_block * blocks_.k_blocks == gemm_.k;
    Value* steps = equal_blocks ? e_.Int(blocks_.k_block)
                                : e_.Min(e_.Sub(e_.Int(gemm_.k), k0), e_.Int(blocks_.k_block));
    const TileB b = PanelRows(panel, col, k0, steps);
    if (integers()) EnterIntegers(panel, col);
    const RowTiles& tiles = blocks_.tiles;
    const auto run = [&](int rows, Value* first, Value* end) {
      if (blocks_.amx_depth > 0) return AmxRun(rows, first, end, col, k0, steps, b);
      e_.For(first, end, 1, [&](Value* tile) { Tile(rows, TileRow(tile), col, k0, steps, b); });
    };
    run(tiles.main_rows, first_tile_, e_.Min(end_tile_, e_.Int(tiles.main_count)));
    if (tiles.tail_count == 0) return;
    run(tiles.tail_rows, e_.Max(first_tile_, e_.Int(tiles.main_count)), end_tile_);
  }

  TileB PanelRows(Value* panel, Value* col, Value* k0, Value* steps) {
    const int64_t cols = blocks_.panel_cols;
    TileB b;
    if (form_ == PanelForm::kPacked) {
      b.type = packed_type_;
      b.k_stride = StepBytes();
      b.base = e_.Address(b_, e_.Add(e_.Mul(panel, PanelBytes()), e_.Mul(k0, b.k_stride)));
      return b;
    }
    const int size = MemoryTypeSize(gemm_.b.type);
    Value* source = e_.Address(
        b_, e_.Mul(e_.Add(e_.Mul(col, gemm_.b.col_stride), e_.Mul(k0, gemm_.b.row_stride)), size));
    const bool has_tail = gemm_.n % cols != 0;
    Value* left = e_.Sub(e_.Int(gemm_.n), col);
    if (form_ == PanelForm::kInPlace) {
      b.base = source;
      b.k_stride = gemm_.b.row_stride * size;
      for (int v = 0; has_tail && v < blocks_.vectors; ++v) {
        b.masks.push_back(e_.LaneMask(e_.Add(left, -v * e_.lanes()), e_.lanes()));
      }
      return b;
    }
    EmitMatrixCopy(e_, {source, gemm_.b.type, gemm_.b.row_stride, gemm_.b.col_stride},
                   {task_panel_, cols, cols}, steps,
                   has_tail ? e_.Min(left, e_.Int(cols)) : e_.Int(cols));
    b.base = task_panel_;
    b.k_stride = cols * 4;
    return b;
  }

  void Tile(int rows, Value* row, Value* col, Value* k0, Value* steps, TileB b) {
    const TileShape shape{rows, blocks_.vectors};
    TileA a;
    a.k_stride = (gemm_.a_in_panels ? rows : gemm_.a.col_stride) * 4;
    a.row_bases = {
        e_.Address(a_, e_.Add(e_.Mul(row, gemm_.a.row_stride * 4), e_.Mul(k0, a.k_stride)))};
    for (int r = 0; r < rows; ++r) {
      a.row_offsets.push_back(r * (gemm_.a_in_panels ? 1 : gemm_.a.row_stride) * 4);
    }

    const int64_t partial_stride = blocks_.panel_cols * 4;
    Value* partial = Partial(row);
    Values sums = BeginTile(shape);
    if (blocks_.k_blocks > 1) {
      sums = e_.Choose(
          e_.b.CreateICmpEQ(k0, e_.Int(0)), [&] { return BeginTile(shape); },
          [&] { return LoadTile(e_, shape, partial, partial_stride); });
    }
    if (StreamsA(gemm_, blocks_)) {
      b.prefetch = e_.Address(a.row_bases[0], rows * gemm_.a.row_stride * 4);
      b.prefetch_step = RoundUp(rows * 4, 16);
    } else if (form_ == PanelForm::kPacked) {
      // Rows stand for tiles here: any order of shares covers the panel. Where rows come first, a
      // thread handles the panel's other blocks of rows next.
      Value* first = blocks_.rows_first ? e_.Int(0) : first_row_;
      const int64_t passes = blocks_.rows_first ? blocks_.tiles.count() : blocks_.tiles_per_block;
      Value* pass = e_.DivConst(e_.Sub(row, first), blocks_.tiles.max_rows());
      PrefetchNextPanel(e_, b, PanelBytes(), passes, blocks_.k_block, pass, e_.Int(0));
    }
    const TilePlace place{batch_index_, row, col, gemm_.n, tile_buffer_, nullptr};
    if (PrefetchesEpilogue(gemm_, blocks_)) {
      PrefetchTileEpilogue(e_, frame_, gemm_.epilogue, shape, place);
    }
    const auto* fixed = llvm::dyn_cast<llvm::ConstantInt>(steps);
    sums = fixed != nullptr ? AccumulateTile(e_, shape, a, b, fixed->getSExtValue(), sums)
                            : AccumulateTile(e_, shape, a, b, steps, sums);
    const auto finish = [&] {
      if (!integers()) return EmitTileEpilogue(e_, frame_, gemm_.epilogue, shape, sums, place);
      StoreTile(e_, shape, tile_buffer_, blocks_.panel_cols * 4, sums);
      FinishIntegers(shape, row, tile_buffer_, place);
    };
    if (blocks_.k_blocks == 1) return finish();
    e_.If(IsLastBlock(k0), finish, [&] { StoreTile(e_, shape, partial, partial_stride, sums); });
  }

  Value* Partial(Value* row) {
    return e_.Address(partials_, e_.Mul(e_.Sub(row, first_row_), blocks_.panel_cols * 4));
  }

  Value* IsLastBlock(Value* k0) {
    return e_.b.CreateICmpSGE(e_.Add(k0, blocks_.k_block), e_.Int(gemm_.k));
  }

  // Computes row tiles [first, end) of equal height in AMX tiles.
  void AmxRun(int rows, Value* first, Value* end, Value* col, Value* k0, Value* steps,
              const TileB& b) {
    AmxTiles amx(e_, rows, kAmxRows, blocks_.vectors, blocks_.amx_depth);
    amx.Configure(frame_);
    const int64_t row_stride = gemm_.a.row_stride * 4;
    Value* first_row = e_.Address(tile_buffer_, blocks_.tiles.max_rows() * blocks_.panel_cols * 4);
    if (integers()) zeros_.StoreBegin(first_row);
    const auto begin = [&] { integers() ? amx.LoadRow(first_row) : amx.Zero(); };
    e_.For(first, end, 1, [&](Value* tile) {
      Value* row = TileRow(tile);
      const AmxA a = AdjacentRows(
          e_, e_.Address(a_, e_.Add(e_.Mul(row, row_stride), e_.Mul(k0, 4))), row_stride);
      Value* sums = blocks_.k_blocks == 1 ? tile_buffer_ : Partial(row);
      if (blocks_.k_blocks == 1) {
        begin();
      } else {
        e_.If(e_.b.CreateICmpEQ(k0, e_.Int(0)), begin, [&] { amx.Load(sums); });
      }
      amx.Accumulate(a, b, steps);
      amx.Store(sums);
      const TilePlace place{batch_index_, row, col, gemm_.n, sums, nullptr};
      const auto finish = [&] {
        const TileShape shape{rows, blocks_.vectors};
        if (integers()) return FinishIntegers(shape, row, sums, place);
        EmitTileEpilogue(e_, frame_, gemm_.epilogue, shape, {}, place);
      };
      if (blocks_.k_blocks == 1) return finish();
      e_.If(IsLastBlock(k0), finish);
    });
  }

  IrEmitter e_;
  const KernelFrame& frame_;
  const BoundGemm& gemm_;
  const PanelForm form_;
  const GemmBlocks& blocks_;
  const PanelType packed_type_;
  PanelZeros zeros_;
  Values batch_index_;
  Value* first_tile_ = nullptr;
  Value* end_tile_ = nullptr;
  Value* first_row_ = nullptr;
  Value* a_ = nullptr;
  Value* b_ = nullptr;
  Value* partials_ = nullptr;
  Value* tile_buffer_ = nullptr;
  Value* task_panel_ = nullptr;
};

void AddBlocks(KernelKey& key, const GemmBlocks& blocks) {
  key.Add(blocks.tiles.main_rows).Add(blocks.tiles.main_count).Add(blocks.tiles.tail_rows);
  key.Add(blocks.tiles.tail_count).Add(blocks.vectors).Add(blocks.k_block);
  key.Add(blocks.tiles_per_block).Add(blocks.panels_per_task).Add(blocks.tasks_joined);
  key.Add(blocks.rows_first).Add(blocks.amx_depth);
}

}  // namespace

KernelLaunch EmitTiledGemm(KernelCache& cache, const BoundGemm& gemm, PanelForm form,
                           const GemmBlocks& blocks, PanelType packed_type) {
  KernelKey key("gemm");
  // The outermost batch size only sets the number of tasks.
  key.Add(gemm.batch.size());
  if (!gemm.batch.empty()) key.Add(gemm.batch[0] == 1);
  for (size_t i = 1; i < gemm.batch.size(); ++i) key.Add(gemm.batch[i]);
  key.Add(gemm.m).Add(gemm.n).Add(gemm.k).Add(form).Add(packed_type).Add(gemm.b.type);
  for (const MatrixAccess* access : {&gemm.a, &gemm.b}) {
    const bool packed = access == &gemm.b && form == PanelForm::kPacked;
    std::vector<int64_t> strides = access->batch_strides;
    if (packed) {
      int64_t count = 0;
      strides = DenseBatchStrides(gemm.batch, strides, &count);
    }
    key.Add(strides);
    if (!packed) key.Add(access->row_stride).Add(access->col_stride);
  }
  AddBlocks(key, blocks);
  key.Add(gemm.a_in_panels).Add(gemm.epilogue).Add(PrefetchesEpilogue(gemm, blocks));
  key.Add(gemm.zeros.a).Add(gemm.zeros.has_b());

  KernelLaunch launch;
  launch.operands = gemm.operands;
  launch.tasks = static_cast<uint64_t>(gemm.batch_count()) * blocks.tasks_per_matrix();
  launch.scratch_bytes = TiledGemm::ScratchBytes(blocks, form, packed_type);
  launch.engine = Engine::kMme;
  launch.name = gemm.name;
  launch.flops = gemm.total_flops;
  launch.bytes = gemm.total_bytes;
  launch.grain = ChooseGrain(launch.tasks, launch.flops);
  launch.entry = cache.GetOrAdd(
      key, "gemm", [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, Value* task) {
        TiledGemm(builder, cache.module().target(), frame, gemm, form, blocks, packed_type)
            .Emit(task);
      });
  return launch;
}

}  // namespace hpu::graph_compiler
