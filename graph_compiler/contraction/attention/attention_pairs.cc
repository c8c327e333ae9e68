#include "graph_compiler/codegen/convert.h"
#include "graph_compiler/contraction/attention/attention_forms.h"
#include "graph_compiler/contraction/tiles/amx_tiles.h"
#include "graph_compiler/contraction/tiles/matrix_copy.h"
#include "graph_compiler/contraction/tiles/pair_rows.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

// Everything lies in panels of query_cols queries: Q^T in pairs of features, scores by key, weights
// in pairs of keys over them, O^T by feature. V^T lies in rows of pairs of keys. The filling of the
// last pair, or of the last AMX tile, is 0.
class PairsAttention : public AttentionTask {
 public:
  using AttentionTask::AttentionTask;

 private:
  int64_t panel_bytes() const { return plan_.query_cols * 4; }  // of a row of one panel
  int64_t score_stride() const override { return panel_bytes(); }

  Value* PanelOf(int64_t part, Value* query, int64_t rows) {
    return e_.Address(Scratch(part), e_.Mul(query, rows * 4));
  }
  Value* ScoreColumn(Value* query) override {
    Value* lane = e_.RemConst(query, plan_.query_cols);
    Value* panel = PanelOf(scratch_.scores, e_.Sub(query, lane), plan_.score_rows);
    return e_.Address(panel, e_.Mul(lane, 4));
  }

  // Pairs of features lie together in memory, so dwords are copied.
  void PackQueries() override {
    const int64_t cols = plan_.query_cols;
    e_.For(e_.Int(0), rows_, cols, [&](Value* row) {
      MatrixSource source{OperandRow(kQ, spec_.q_strides, head_, e_.Add(first_row_, row), size_),
                          MemoryType::kF32, 1, spec_.q_strides[2] / 2};
      EmitMatrixCopy(e_, source, {PanelOf(scratch_.queries, row, spec_.d / 2), cols, cols},
                     e_.Int(spec_.d / 2), e_.Min(e_.Sub(rows_, row), e_.Int(cols)));
    });
  }

  // Stages V^T in groups of keys, a vector of pairs each. The last group is filled up with zeros,
  // and the products read all of it.
  void StageBlock() override {
    MatrixAccess values;
    values.type = spec_.type;
    values.row_stride = spec_.v_strides[3];
    values.col_stride = spec_.v_strides[2];
    Value* from = OperandRow(kV, spec_.v_strides, key_head_, first_key_, size_);
    const int64_t group = 2 * e_.lanes();
    const auto copy = [&](Value* key, int64_t keys) {
      EmitPairRows(
          e_, values, keys, RoundUp(keys, group),
          e_.Address(from, e_.Mul(key, values.col_stride * size_)),
          {e_.Address(Scratch(scratch_.values), e_.Mul(key, size_)), 2 * plan_.value_stride},
          e_.Int(spec_.dv));
    };
    // This covers the whole block in memory, however much of it the queries see.
    Value* left = e_.Min(e_.Sub(e_.Int(spec_.n), first_key_), e_.Int(plan_.key_block));
    Value* full = e_.Mul(e_.DivConst(left, group), group);
    e_.For(e_.Int(0), full, group, [&](Value* key) { copy(key, group); });
    const int64_t rest = plan_.key_block % group;
    const int64_t last_rest = spec_.n % plan_.key_block % group;
    const auto copy_rest = [&](int64_t keys) {
      Value* is_rest = e_.b.CreateICmpEQ(e_.Sub(left, full), e_.Int(keys));
      e_.If(is_rest, [&] { copy(full, keys); });
    };
    if (rest != 0) copy_rest(rest);
    if (last_rest != 0 && last_rest != rest) copy_rest(last_rest);
  }

  TileShape ScoreShape() const { return {plan_.key_rows, plan_.query_vectors}; }

  Values Products(Value* key, Value* query) override {
    const TileShape shape = ScoreShape();
    const int64_t key_stride = spec_.k_strides[2] * size_;
    Value* keys = OperandRow(kK, spec_.k_strides, key_head_, e_.Add(first_key_, key), size_);
    TileB b;
    b.type = PanelType::kBF16Pairs;
    b.base = PanelOf(scratch_.queries, query, spec_.d / 2);
    b.k_stride = panel_bytes();
    if (plan_.score_depth > 0) {
      Value* target = e_.Address(ScoreColumn(query), e_.Mul(key, score_stride()));
      Tiles(shape, plan_.score_depth, keys, key_stride, b, e_.Int(spec_.d / 2), target, nullptr);
      return LoadTile(e_, shape, target, score_stride());
    }
    TileA a;
    a.row_bases = {keys};
    for (int r = 0; r < shape.rows; ++r) a.row_offsets.push_back(r * key_stride);
    return AccumulateTile(e_, shape, a, b, spec_.d / 2, ZeroTile(e_, shape));
  }

  // Computes an AMX tile at `target`. `sums` are its initial values; null means 0.
  void Tiles(TileShape shape, int depth, Value* rows, int64_t row_stride, const TileB& b,
             Value* steps, Value* target, Value* sums) {
    AmxTiles amx(e_, shape.rows, kAmxRows, shape.vectors, depth);
    amx.Configure(frame_);
    AmxA a;
    a.row_stride = row_stride;
    a.halves[0] = rows;
    a.halves[1] = e_.Address(rows, kAmxRows * row_stride);
    sums == nullptr ? amx.Zero() : amx.Load(sums);
    amx.Accumulate(a, b, steps);
    amx.Store(target);
  }

  // All queries of a panel read the keys that its last query sees.
  Value* KeysOfPanel(Value* query) {
    if (!SkipsAboveDiagonal()) return keys_;
    Value* end = e_.Add(e_.Add(e_.Sub(first_row_, first_key_), query), plan_.query_cols);
    return e_.Max(e_.Min(end, keys_), e_.Int(0));
  }
  Value* KeysRead(Value* query) override {
    return KeysOfPanel(e_.Sub(query, e_.RemConst(query, plan_.query_cols)));
  }
  Value* FirstPanel(Value* key) override {
    Value* query = e_.Max(e_.Add(e_.Sub(first_key_, first_row_), key), e_.Int(0));
    return e_.Mul(e_.DivConst(query, plan_.query_cols), plan_.query_cols);
  }

  // Row r of pairs takes the place of row r of scores, which has been read before.
  void StoreWeights(Value* column, Value* row, const Values& weights) override {
    Value* to = e_.Address(column, e_.Mul(e_.DivConst(row, 2), score_stride()));
    llvm::Type* dwords = e_.I32(e_.lanes());
    for (size_t i = 0; i < weights.size(); i += 2) {
      const auto bits = [&](Value* x) {
        return e_.b.CreateZExt(Narrow(e_.b, e_.target(), x, ScalarType::kF32, MemoryType::kBF16),
                               dwords);
      };
      Value* pair = e_.b.CreateOr(bits(weights[i]), e_.b.CreateShl(bits(weights[i + 1]), 16));
      e_.StoreF32(e_.Address(to, static_cast<int64_t>(i / 2) * score_stride()),
                  e_.b.CreateBitCast(pair, e_.F32(e_.lanes())));
    }
  }

  // Returns the number of pairs of `rows` keys, in whole AMX tiles.
  Value* FilledPairs(Value* rows) {
    Value* pairs = e_.DivConst(rows, 2);
    const int depth = plan_.value_depth;
    return depth == 0 ? pairs : e_.Mul(e_.DivConst(e_.Add(pairs, depth - 1), depth), depth);
  }

  void FinishColumn(Value* column, Value* rows) override {
    if (plan_.value_depth == 0) return;
    e_.For(e_.DivConst(rows, 2), FilledPairs(rows), 1, [&](Value* pair) {
      e_.StoreF32(e_.Address(column, e_.Mul(pair, score_stride())), e_.Zero(e_.lanes()));
    });
  }

  void AddOutputs() override {
    e_.For(e_.Int(0), rows_, plan_.query_cols, [&](Value* query) {
      Value* pairs = FilledPairs(WholeGroups(KeysOfPanel(query)));
      e_.For(e_.Int(0), e_.Int(spec_.dv), plan_.value_rows,
             [&](Value* feature) { OutputTile(feature, query, pairs); });
    });
  }

  // Computes value_rows features x a panel of queries: O^T = O^T * correction + V^T P^T.
  void OutputTile(Value* feature, Value* query, Value* pairs) {
    const TileShape shape{plan_.value_rows, plan_.query_vectors};
    const int64_t row_bytes = panel_bytes();
    Value* target = e_.Address(PanelOf(scratch_.output_panels, query, plan_.output_features),
                               e_.Mul(feature, row_bytes));
    Value* rows = e_.Address(Scratch(scratch_.values), e_.Mul(feature, plan_.value_stride * 4));
    TileB b;
    b.type = PanelType::kBF16Pairs;
    b.base = PanelOf(scratch_.scores, query, plan_.score_rows);
    b.k_stride = score_stride();
    const auto corrected = [&] {
      Value* corrections = e_.Address(Scratch(scratch_.correction), e_.Mul(query, 4));
      const Values factors = LoadTile(e_, {1, shape.vectors}, corrections, 0);
      Values tile = LoadTile(e_, shape, target, row_bytes);
      for (size_t i = 0; i < tile.size(); ++i) {
        tile[i] = e_.b.CreateFMul(tile[i], factors[i % factors.size()]);
      }
      return tile;
    };
    const Values init = e_.Choose(
        e_.b.CreateICmpEQ(first_key_, e_.Int(0)), [&] { return ZeroTile(e_, shape); }, corrected);
    if (plan_.value_depth > 0) {
      StoreTile(e_, shape, target, row_bytes, init);
      Tiles(shape, plan_.value_depth, rows, plan_.value_stride * 4, b, pairs, target, target);
      return;
    }
    TileA a;
    a.row_bases = {rows};
    for (int r = 0; r < shape.rows; ++r) a.row_offsets.push_back(r * plan_.value_stride * 4);
    StoreTile(e_, shape, target, row_bytes, AccumulateTile(e_, shape, a, b, pairs, init));
  }

  void FinishOutputs() override {
    if (plan_.score_depth > 0 || plan_.value_depth > 0) AmxTiles::Release(e_);
    const int64_t cols = plan_.value_panels * plan_.value_cols;
    e_.For(e_.Int(0), rows_, plan_.query_cols, [&](Value* query) {
      MatrixSource source{PanelOf(scratch_.output_panels, query, plan_.output_features),
                          MemoryType::kF32, 1, plan_.query_cols};
      EmitMatrixCopy(e_, source, {PanelOf(scratch_.output_rows, query, cols), cols, cols},
                     e_.Int(plan_.query_cols), e_.Int(spec_.dv));
    });
  }
};

}  // namespace

std::unique_ptr<AttentionTask> MakePairsAttention(llvm::IRBuilder<>& builder,
                                                  const TargetInfo& target,
                                                  const KernelFrame& frame,
                                                  const AttentionSpec& spec,
                                                  const AttentionPlan& plan) {
  return std::make_unique<PairsAttention>(builder, target, frame, spec, plan);
}

}  // namespace hpu::graph_compiler
