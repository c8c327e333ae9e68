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

  FactorRows KeyRows(Value* key) override {
    return {OperandRow(kK, spec_.k_strides, key_head_, e_.Add(first_key_, key), size_),
            spec_.k_strides[2] * size_};
  }

  Values Products(Value* key, Value* query) override {
    if (plan_.score_depth == 0) return AttentionTask::Products(key, query);
    const FactorRows keys = KeyRows(key);
    const TileB queries = panels_.Tile(QueryPanel(query));
    Value* target = e_.Address(ScoreColumn(query), e_.Mul(key, score_stride()));
    Tiles(ScoreShape(), plan_.score_depth, keys, queries, e_.Int(panels_.steps()), target, nullptr);
    return LoadTile(e_, ScoreShape(), target, score_stride());
  }

  // Computes an AMX tile at `target`. `sums` are its initial values; null means 0.
  void Tiles(TileShape shape, int depth, const FactorRows& rows, const TileB& b, Value* steps,
             Value* target, Value* sums) {
    AmxTiles amx(e_, shape.rows, kAmxRows, shape.vectors, depth);
    amx.Configure(frame_);
    sums == nullptr ? amx.Zero() : amx.Load(sums);
    amx.Accumulate(AdjacentRows(e_, rows.first, rows.stride), b, steps);
    amx.Store(target);
  }

  // All queries of a panel read the keys that its last query sees.
  Value* KeysRead(Value* query) override {
    return KeysSeen(e_.Sub(query, e_.RemConst(query, plan_.query_cols)), plan_.query_cols);
  }
  Value* FirstPanel(Value* key) override {
    Value* query = e_.Max(e_.Add(e_.Sub(first_key_, first_row_), key), e_.Int(0));
    return e_.Mul(e_.DivConst(query, plan_.query_cols), plan_.query_cols);
  }

  // Row r of pairs takes the place of row r of scores, which has been read before.
  void StoreWeights(Value* column, Value* row, const Values& weights) override {
    Value* to = e_.Address(column, e_.Mul(e_.DivConst(row, 2), score_stride()));
    const auto bits = [&](Value* x) {
      return Narrow(e_.b, e_.target(), x, ScalarType::kF32, MemoryType::kBF16);
    };
    for (size_t i = 0; i < weights.size(); i += 2) {
      Value* high = bits(weights[i + 1]);
      Value* pair = JoinHalves(e_, bits(weights[i]), high);
      e_.StoreF32(e_.Address(to, static_cast<int64_t>(i / 2) * score_stride()), pair);
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
      Value* pairs = FilledPairs(WholeGroups(KeysSeen(query, plan_.query_cols)));
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
    const FactorRows rows{
        e_.Address(Scratch(scratch_.values), e_.Mul(feature, plan_.value_stride * 4)),
        plan_.value_stride * 4};
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
      Tiles(shape, plan_.value_depth, rows, b, pairs, target, target);
      return;
    }
    StoreTile(e_, shape, target, row_bytes,
              AccumulateTile(e_, shape, rows.Tile(shape.rows), b, pairs, init));
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
