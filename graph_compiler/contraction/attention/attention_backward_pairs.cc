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
                 OperandRow(operand, strides, key_head_, e_.Int(0), size_), {Place(to), to_stride},
                 e_.Int(spec_.n));
    const int64_t row_floats = to_stride / 2;
    Clear(Place(to, e_.Int(spec_.n * row_floats)), (plan_.keys - spec_.n) * row_floats);
  }

  void StageQueries() override {
    const int64_t* out_strides = gradient_.out_gradient_strides;
    StagePanels(kQ, spec_.q_strides, spec_.d, at_.query_panels);
    StagePanels(kOutGradient, out_strides, spec_.dv, at_.out_panels);
    StageQueryPairs(kQ, spec_.q_strides, plan_.d, at_.query_rows);
    StageQueryPairs(kOutGradient, out_strides, plan_.dv, at_.out_pairs);
  }

  // Pairs of features lie together in memory, so dwords are copied. Missing queries are 0.
  void StagePanels(Operand operand, const int64_t* strides, int64_t features, int64_t to) {
    const int64_t cols = plan_.query_cols;
    e_.For(e_.Int(0), queries_, cols, [&](Value* query) {
      const MatrixSource source{
          OperandRow(operand, strides, head_, e_.Add(first_query_, query), size_), MemoryType::kF32,
          1, strides[2] / 2};
      EmitMatrixCopy(e_, source, {Panel(to, features, query), cols, cols}, e_.Int(features / 2),
                     e_.Min(e_.Sub(queries_, query), e_.Int(cols)));
    });
  }

  Value* Panel(int64_t panels, int64_t features, Value* query) {
    return Place(panels, e_.Mul(query, features / 2));
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
        e_.StoreF32(Place(to, e_.Add(e_.Mul(pair, features.width), col)), Joined(halves));
      }
    });
  }

  // Returns dwords of two vectors of 16 bits, the first one in the low halves.
  Value* Joined(const Values& halves) {
    llvm::Type* dwords = e_.I32(e_.lanes());
    Value* high = e_.b.CreateShl(e_.b.CreateZExt(halves[1], dwords), 16);
    return e_.b.CreateBitCast(e_.b.CreateOr(e_.b.CreateZExt(halves[0], dwords), high),
                              e_.F32(e_.lanes()));
  }

  Values KeyProducts(Value* row, Value* query) override {
    return Product(at_.keys, plan_.key_stride, at_.query_panels, spec_.d, at_.weights, row, query);
  }
  Values ValueProducts(Value* row, Value* query) override {
    return Product(at_.values, plan_.value_stride, at_.out_panels, spec_.dv, at_.slopes, row,
                   query);
  }

  // `to` is the place of the result, because AMX tiles leave their results in memory.
  Values Product(int64_t rows, int64_t stride, int64_t panels, int64_t features, int64_t to,
                 Value* row, Value* query) {
    Value* from = Place(rows, e_.Mul(e_.Add(first_key_, row), stride / 2));
    const TileB b = Pairs(Panel(panels, features, query), plan_.query_cols);
    if (!plan_.amx) {
      return AccumulateTile(e_, ScoreShape(), Rows(from, plan_.key_rows, stride * size_), b,
                            features / 2, ZeroTile(e_, ScoreShape()));
    }
    Value* target = ScoreAt(to, row, query);
    AmxTiles amx = Tiles(plan_.key_rows, plan_.query_vectors, AmxDepth(features / 2));
    amx.Zero();
    amx.Accumulate(AmxRows(from, stride * size_), b, e_.Int(features / 2));
    amx.Store(target, score_stride_);
    return LoadTile(e_, ScoreShape(), target, score_stride_);
  }

  static TileA Rows(Value* from, int rows, int64_t stride) {
    TileA a;
    a.row_bases = {from};
    for (int r = 0; r < rows; ++r) a.row_offsets.push_back(r * stride);
    return a;
  }
  AmxA AmxRows(Value* from, int64_t stride) {
    AmxA a;
    a.row_stride = stride;
    a.halves[0] = from;
    a.halves[1] = e_.Address(from, kAmxRows * stride);
    return a;
  }
  // Describes rows of pairs that are `width` dwords apart.
  static TileB Pairs(Value* base, int64_t width) {
    TileB b;
    b.type = PanelType::kBF16Pairs;
    b.base = base;
    b.k_stride = width * 4;
    return b;
  }
  AmxTiles Tiles(int rows, int vectors, int depth) {
    AmxTiles amx(e_, rows, kAmxRows, vectors, depth);
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
      e_.StoreF32(Place(at_.slope_pairs, to), Joined(pair));
    }
  }

  void AddGradients() override {
    AddToKeys(at_.weights, at_.out_pairs, plan_.dv, value_gradients_);
    AddToKeys(at_.slopes, at_.query_rows, plan_.d, key_gradients_);
    AddToQueries();
  }

  // Computes sums[key] += sum over the block's queries of factors[key, query] * rows[query].
  void AddToKeys(int64_t factors, int64_t rows, const Features& features, Value* sums) {
    const TileShape shape{features.rows, features.vectors};
    e_.For(e_.Int(0), keys_, features.rows, [&](Value* row) {
      e_.For(e_.Int(0), e_.Int(features.panels), 1, [&](Value* panel) {
        Value* col = e_.Mul(panel, features.cols);
        Value* place = e_.Add(e_.Mul(e_.Add(first_key_, row), features.width), col);
        Add(shape, e_.Address(Place(factors), e_.Mul(row, score_stride_)), score_stride_,
            Pairs(Place(rows, col), features.width), e_.DivConst(WeighedQueries(), 2),
            static_cast<int>(plan_.query_cols / 2), e_.Address(sums, e_.Mul(place, 4)),
            features.width * 4);
      });
    });
  }

  // Computes dQ^T[feature] += sum over the block's keys of K^T[feature, key] * slopes[key].
  void AddToQueries() {
    const TileShape shape{plan_.feature_rows, plan_.query_vectors};
    Value* pairs = e_.DivConst(WeighedRows(), 2);
    e_.For(e_.Int(0), e_.Int(spec_.d), plan_.feature_rows, [&](Value* feature) {
      e_.For(e_.Int(0), queries_, plan_.query_cols, [&](Value* query) {
        Value* from = Place(at_.key_columns, e_.Add(e_.Mul(feature, plan_.column_stride / 2),
                                                    e_.DivConst(first_key_, 2)));
        Value* sums = Place(at_.query_sums, e_.Add(e_.Mul(feature, plan_.query_block), query));
        Add(shape, from, plan_.column_stride * size_,
            Pairs(Place(at_.slope_pairs, query), plan_.query_block), pairs, kAmxRows, sums,
            plan_.query_block * 4);
      });
    });
  }

  // Computes sums += rows * b over `steps` pairs. `depth` is the depth of an AMX tile.
  void Add(TileShape shape, Value* rows, int64_t row_stride, const TileB& b, Value* steps,
           int depth, Value* sums, int64_t sum_stride) {
    if (!plan_.amx) {
      const Values tile = LoadTile(e_, shape, sums, sum_stride);
      const TileA a = Rows(rows, shape.rows, row_stride);
      StoreTile(e_, shape, sums, sum_stride, AccumulateTile(e_, shape, a, b, steps, tile));
      return;
    }
    AmxTiles amx = Tiles(shape.rows, shape.vectors, depth);
    amx.Load(sums, sum_stride);
    amx.Accumulate(AmxRows(rows, row_stride), b, steps);
    amx.Store(sums, sum_stride);
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
