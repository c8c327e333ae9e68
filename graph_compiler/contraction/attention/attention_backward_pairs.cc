#include "graph_compiler/codegen/convert.h"
#include "graph_compiler/contraction/attention/attention_backward_task.h"
#include "graph_compiler/contraction/tiles/amx_tiles.h"
#include "graph_compiler/contraction/tiles/matrix_copy.h"
#include "graph_compiler/contraction/tiles/pair_rows.h"

namespace hpu::graph_compiler::attention_backward {
namespace {

using llvm::Value;

// Multiplies pairs of bf16: pairs of features for the scores and V dO^T, pairs of queries for dV
// and dK, pairs of keys for dQ.
//
//   keys, values       rows of pairs of features, zeros up to whole blocks
//   key_columns        K^T, rows of pairs of keys
//   query_panels, ...  Q^T and dO^T, panels of query_cols queries, pairs of features
//   query_rows, ...    Q and dO, pairs of queries by feature
//   weights, slopes    P and dS, rows of pairs of queries, in place of the f32 that they come from
//   slope_pairs        dS, pairs of keys by query
//   query_sums         dQ^T
class PairsTask : public Task {
 public:
  using Task::Task;

 private:
  void StageKeys() override {
    StageFeaturePairs(kK, spec_.k_strides, spec_.d, at_.keys, plan_.key_stride);
    StageFeaturePairs(kV, spec_.v_strides, spec_.dv, at_.values, plan_.value_stride);
    const MatrixAccess columns = Access(spec_.k_strides[3], spec_.k_strides[2]);
    EmitPairRows(e_, columns, spec_.n, plan_.keys,
                 OperandRow(kK, spec_.k_strides, key_head_, e_.Int(0), size_),
                 {Place(at_.key_columns), plan_.column_stride}, e_.Int(spec_.d));
  }

  MatrixAccess Access(int64_t row_stride, int64_t col_stride) const {
    MatrixAccess access;
    access.type = spec_.type;
    access.row_stride = row_stride;
    access.col_stride = col_stride;
    return access;
  }

  void StageFeaturePairs(Operand operand, const int64_t* strides, int64_t features, int64_t to,
                         int64_t to_stride) {
    EmitPairRows(e_, Access(strides[2], strides[3]), features, features,
                 OperandRow(operand, strides, key_head_, e_.Int(0), size_),
                 {Place(to), to_stride / size_}, e_.Int(spec_.n));
    const int64_t row_floats = to_stride / 4;
    Clear(Place(to, e_.Int(spec_.n * row_floats)), (plan_.keys - spec_.n) * row_floats);
  }

  void StageQueries() override {
    const int64_t* out_strides = gradient_.out_gradient_strides;
    StagePanels(kQ, spec_.q_strides, plan_.d, at_.query_panels);
    StagePanels(kOutGradient, out_strides, plan_.dv, at_.out_panels);
    StageQueryPairs(kQ, spec_.q_strides, plan_.d, at_.query_rows);
    StageQueryPairs(kOutGradient, out_strides, plan_.dv, at_.out_factors);
  }

  // Stages rows 2p and 2p + 1 as dwords. Missing queries are 0.
  void StageQueryPairs(Operand operand, const int64_t* strides, const Features& features,
                       int64_t to) {
    const int lanes = e_.lanes();
    e_.For(e_.Int(0), e_.Int(plan_.query_block / 2), 1, [&](Value* pair) {
      for (int64_t col = 0; col < features.width; col += lanes) {
        Value* mask =
            col + lanes > features.size ? e_.LaneMask(e_.Int(features.size - col), lanes) : nullptr;
        Values halves;
        for (int64_t half = 0; half < 2; ++half) {
          Value* query = e_.Add(e_.Mul(pair, 2), half);
          Value* existing = e_.Min(query, e_.Add(queries_, -1));
          Value* from = OperandRow(operand, strides, head_, e_.Add(first_query_, existing), size_);
          Value* bits = e_.LoadBF16(e_.Address(from, col * size_), spec_.type, lanes, mask);
          halves.push_back(e_.b.CreateSelect(e_.b.CreateICmpSLT(query, queries_), bits,
                                             llvm::Constant::getNullValue(bits->getType())));
        }
        e_.StoreF32(Place(to, e_.Add(e_.Mul(pair, features.width), col)),
                    JoinHalves(e_, halves[0], halves[1]));
      }
    });
  }

  // AMX tiles leave their results in memory.
  Values Product(const FactorRows& a, const TileB& b, int64_t steps,
                 const ScoreTile& tile) override {
    if (!plan_.amx) return Task::Product(a, b, steps, tile);
    Value* target = ScoreAt(tile.part, tile.row, tile.query);
    AmxTiles amx = Tiles(ScoreShape(), AmxDepth(steps));
    amx.Zero();
    amx.Accumulate(AdjacentRows(e_, a.first, a.stride), b, e_.Int(steps));
    amx.Store(target, score_stride_);
    return LoadTile(e_, ScoreShape(), target, score_stride_);
  }

  void AddProduct(TileShape shape, const FactorRows& a, const TileB& b, const Steps& steps,
                  const Sums& sums) override {
    if (!plan_.amx) return Task::AddProduct(shape, a, b, steps, sums);
    AmxTiles amx = Tiles(shape, steps.depth);
    amx.Load(sums.first, sums.stride);
    amx.Accumulate(AdjacentRows(e_, a.first, a.stride), b, steps.count);
    amx.Store(sums.first, sums.stride);
  }

  AmxTiles Tiles(TileShape shape, int depth) {
    AmxTiles amx(e_, shape.rows, kAmxRows, shape.vectors, depth);
    amx.Configure(frame_);
    return amx;
  }

  // These are whole tiles of keys and of queries, because the rows are pairs of other products.
  Value* WeighedRows() override {
    const int64_t step = plan_.amx ? plan_.key_step : kRowsAtOnce;
    return e_.Mul(e_.DivConst(e_.Add(keys_, step - 1), step), step);
  }
  Value* WeighedQueries() override {
    const int64_t cols = plan_.query_cols;
    return e_.Mul(e_.DivConst(e_.Add(queries_, cols - 1), cols), cols);
  }

  void StoreWeights(Value* row, Value* query, const Values& weights,
                    const Values& slopes) override {
    Value* queries = e_.LaneMask(e_.Sub(queries_, query), e_.lanes());
    // A key beyond n has the score 0, whose weight is large where all others are small: its slope
    // would be inf, and inf * 0 of K^T is NaN.
    const auto bits = [&](int i, Value* x) {
      Value* exists = e_.b.CreateICmpSLT(e_.Add(row, i), keys_);
      x = e_.b.CreateSelect(exists, x, e_.Zero(e_.lanes()));
      x = e_.b.CreateSelect(queries, x, e_.Zero(e_.lanes()));
      return Narrow(e_.b, e_.target(), x, ScalarType::kF32, MemoryType::kBF16);
    };
    const auto store_row = [&](int64_t part, int i, Value* narrow) {
      Value* to = e_.Address(Place(part),
                             e_.Add(e_.Mul(e_.Add(row, i), score_stride_), e_.Mul(query, size_)));
      e_.b.CreateAlignedStore(narrow, to, llvm::Align(2));
    };
    for (int i = 0; i < kRowsAtOnce; i += 2) {
      Values pair;
      for (int half = i; half < i + 2; ++half) {
        store_row(at_.weights, half, bits(half, weights[half]));
        pair.push_back(bits(half, slopes[half]));
        store_row(at_.slopes, half, pair.back());
      }
      Value* to = e_.Add(e_.Mul(e_.DivConst(e_.Add(row, i), 2), plan_.query_block), query);
      e_.StoreF32(Place(at_.slope_pairs, to), JoinHalves(e_, pair[0], pair[1]));
    }
  }

  Steps QuerySteps() override {
    return {e_.DivConst(WeighedQueries(), 2), static_cast<int>(plan_.query_cols / 2)};
  }
  Steps KeySteps() override { return {e_.DivConst(WeighedRows(), 2), kAmxRows}; }

  // Computes dQ^T[feature] += sum over the block's keys of K^T[feature, key] * slopes[key].
  void AddToQueries() override {
    const TileShape shape{plan_.feature_rows, plan_.query_vectors};
    const Steps steps = KeySteps();
    e_.For(e_.Int(0), e_.Int(spec_.d), plan_.feature_rows, [&](Value* feature) {
      e_.For(e_.Int(0), queries_, plan_.query_cols, [&](Value* query) {
        Value* from = Place(at_.key_columns, e_.Add(e_.Mul(feature, plan_.column_stride / 2),
                                                    e_.DivConst(first_key_, 2)));
        Value* sums = Place(at_.query_sums, e_.Add(e_.Mul(feature, plan_.query_block), query));
        AddProduct(shape, {from, plan_.column_stride * size_},
                   RowsOf(Place(at_.slope_pairs, query), plan_.query_block), steps,
                   {sums, plan_.query_block * 4});
      });
    });
  }

  void FinishQueries() override {
    const MatrixSource source{Place(at_.query_sums), MemoryType::kF32, 1, plan_.query_block};
    EmitMatrixCopy(e_, source, {Place(at_.query_gradients), plan_.d.width, plan_.d.width},
                   e_.Int(plan_.query_block), e_.Int(spec_.d));
  }

  void Finish() override {
    if (plan_.amx) AmxTiles::Release(e_);
  }
};

}  // namespace

std::unique_ptr<Task> MakePairsTask(llvm::IRBuilder<>& builder, const TargetInfo& target,
                                    const KernelFrame& frame, const AttentionBackwardSpec& spec,
                                    const Plan& plan) {
  return std::make_unique<PairsTask>(builder, target, frame, spec, plan);
}

}  // namespace hpu::graph_compiler::attention_backward
