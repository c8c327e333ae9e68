#include <cmath>
#include <functional>
#include <optional>

#include "graph_compiler/codegen/body.h"
#include "graph_compiler/contraction/attention.h"
#include "graph_compiler/contraction/attention_dropout.h"
#include "graph_compiler/contraction/attention_weight.h"
#include "graph_compiler/contraction/matrix_copy.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;
using Mask = AttentionMask;

constexpr uint32_t kQ = 0, kK = 1, kV = 2, kOut = 3, kMask = 4, kMaximum = 5, kInverse = 6,
                   kSeed = 7;
constexpr int kExpRows = 4;  // rows of scores whose exponentials are in flight together

BodyOp MakeOp(Opcode opcode, std::vector<uint32_t> args = {}) {
  BodyOp op;
  op.op = opcode;
  op.type = ScalarType::kF32;
  op.args = std::move(args);
  return op;
}

class AttentionTask {
 public:
  AttentionTask(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
                const AttentionSpec& spec, const AttentionPlan& plan)
      : e_(builder, target),
        frame_(frame),
        spec_(spec),
        plan_(plan),
        scratch_(spec, plan),
        size_(MemoryTypeSize(spec.type)),
        score_stride_(plan.query_block * 4) {
    if (spec.Drops()) kept_.emplace(e_, frame, spec, kSeed, plan.key_block);
  }

  void Emit(Value* task) {
    const int64_t heads = plan_.folds_heads ? spec_.heads / spec_.kv_repeat : spec_.heads;
    const Values index = e_.Decompose(task, {spec_.batch, heads, plan_.query_blocks});
    batch_ = index[0];
    key_head_ = plan_.folds_heads ? index[1] : e_.DivConst(index[1], spec_.kv_repeat);
    head_ = plan_.folds_heads ? e_.Mul(index[1], spec_.kv_repeat) : index[1];
    if (kept_.has_value()) kept_->SetHead(batch_, head_);
    first_row_ = e_.Mul(index[2], plan_.query_block);
    rows_ = plan_.query_blocks == 1
                ? e_.Int(plan_.rows)
                : e_.Min(e_.Sub(e_.Int(plan_.rows), first_row_), e_.Int(plan_.query_block));
    PackQueries();
    Fill(scratch_.maximum, plan_.query_block, -INFINITY);
    Fill(scratch_.sum, plan_.query_block, 0.0f);
    Value* end = e_.Int(spec_.n);
    // Keys after the last query of the block are seen by none of its queries.
    if (spec_.causal) {
      end = e_.Min(end, plan_.folds_heads ? e_.Int(spec_.m) : e_.Add(first_row_, rows_));
    }
    e_.For(e_.Int(0), end, plan_.key_block, [&](Value* key) { KeyBlock(key, end); });
    StoreOutput();
  }

 private:
  Value* Scratch(int64_t offset) { return e_.Address(frame_.scratch, offset); }

  Value* Operand(uint32_t operand, const int64_t* strides, Value* head, Value* row, int size) {
    Value* offset = e_.Dot({batch_, head, row}, {strides[0], strides[1], strides[2]});
    return e_.Address(frame_.Operand(e_.b, operand), e_.Mul(offset, size));
  }

  void Fill(int64_t offset, int64_t floats, float value) {
    e_.For(e_.Int(0), e_.Int(floats), e_.lanes(), [&](Value* i) {
      e_.StoreF32(e_.Address(Scratch(offset), e_.Mul(i, 4)), e_.F32Const(value, e_.lanes()));
    });
  }

  // Q^T in panels of query_cols columns; missing queries are 0.
  void PackQueries() {
    const int64_t cols = plan_.query_cols;
    if (plan_.folds_heads) return PackFoldedQueries();
    e_.For(e_.Int(0), rows_, cols, [&](Value* row) {
      MatrixSource source{Operand(kQ, spec_.q_strides, head_, e_.Add(first_row_, row), size_),
                          spec_.type, spec_.q_strides[3], spec_.q_strides[2]};
      Value* panel = e_.Address(Scratch(scratch_.queries), e_.Mul(row, spec_.d * 4));
      EmitMatrixCopy(e_, source, {panel, cols, cols}, e_.Int(spec_.d),
                     e_.Min(e_.Sub(rows_, row), e_.Int(cols)));
    });
  }

  void PackFoldedQueries() {
    const int64_t cols = plan_.query_cols;
    Fill(scratch_.queries, plan_.query_block * spec_.d, 0.0f);
    e_.For(e_.Int(0), e_.Int(plan_.rows), 1, [&](Value* row) {
      Value* head = e_.Add(head_, e_.DivConst(row, spec_.m));
      Value* from = Operand(kQ, spec_.q_strides, head, e_.RemConst(row, spec_.m), size_);
      Value* panel = e_.Mul(e_.DivConst(row, cols), cols * spec_.d * 4);
      Value* to =
          e_.Address(Scratch(scratch_.queries), e_.Add(panel, e_.Mul(e_.RemConst(row, cols), 4)));
      e_.For(e_.Int(0), e_.Int(spec_.d), 1, [&](Value* i) {
        Value* source = e_.Address(from, e_.Mul(i, spec_.q_strides[3] * size_));
        e_.StoreF32(e_.Address(to, e_.Mul(i, cols * 4)), e_.LoadWide(source, spec_.type, 1));
      });
    });
  }

  void KeyBlock(Value* key, Value* end) {
    // At least one tile of keys, all of which exist (ChooseKeyBlock).
    Value* wanted = e_.Max(e_.Sub(end, key), e_.Int(plan_.key_rows));
    keys_ = e_.Min(e_.Min(wanted, e_.Sub(e_.Int(spec_.n), key)), e_.Int(plan_.key_block));
    first_key_ = key;
    StageOperands();
    CopyBlockMaximum();
    e_.For(e_.Int(0), keys_, plan_.key_rows, [&](Value* row) {
      Value* tile_row = e_.Min(row, e_.Add(keys_, -plan_.key_rows));
      e_.For(FirstPanel(tile_row), rows_, plan_.query_cols,
             [&](Value* col) { ScoreTile(tile_row, col); });
    });
    e_.For(e_.Int(0), rows_, e_.lanes(), [&](Value* col) { Exponentials(col); });
    e_.For(e_.Int(0), rows_, plan_.value_rows, [&](Value* row) {
      e_.For(e_.Int(0), e_.Int(plan_.value_panels), 1,
             [&](Value* panel) { OutputTile(row, panel); });
    });
  }

  bool SkipsAboveDiagonal() const { return spec_.causal && !plan_.folds_heads; }

  // Keys of the block up to which the tile of O that starts at query `row` reads probabilities.
  Value* KeysRead(Value* row) {
    if (!SkipsAboveDiagonal()) return keys_;
    Value* end = e_.Add(e_.Add(e_.Sub(first_row_, first_key_), row), plan_.value_rows);
    return e_.Max(e_.Min(end, keys_), e_.Int(0));
  }

  // First query panel with a query that reads keys from `key` on.
  Value* FirstPanel(Value* key) {
    if (!SkipsAboveDiagonal()) return e_.Int(0);
    Value* query = e_.Add(e_.Add(e_.Sub(first_key_, first_row_), key), 1 - plan_.value_rows);
    return e_.Mul(e_.DivConst(e_.Max(query, e_.Int(0)), plan_.query_cols), plan_.query_cols);
  }

  void StageOperands() {
    if (!plan_.keys_in_place) {
      MatrixSource source{Operand(kK, spec_.k_strides, key_head_, first_key_, size_), spec_.type,
                          spec_.k_strides[2], spec_.k_strides[3]};
      EmitMatrixCopy(e_, source, {Scratch(scratch_.keys), spec_.d, spec_.d}, keys_,
                     e_.Int(spec_.d));
    }
    if (!plan_.values_in_place) {
      const int64_t cols = plan_.value_panels * plan_.value_cols;
      MatrixSource source{Operand(kV, spec_.v_strides, key_head_, first_key_, size_), spec_.type,
                          spec_.v_strides[2], spec_.v_strides[3]};
      EmitMatrixCopy(e_, source, {Scratch(scratch_.values), cols, cols}, keys_, e_.Int(spec_.dv));
    }
    if (plan_.mask == Mask::kPerQuery) {
      MatrixSource source{MaskAddress(first_key_), spec_.mask_type, spec_.mask_strides[3],
                          spec_.mask_strides[2]};
      EmitMatrixCopy(e_, source, {Scratch(scratch_.mask), plan_.query_block, plan_.query_block},
                     keys_, rows_);
    }
  }

  Value* MaskAddress(Value* key) {
    const int size = MemoryTypeSize(spec_.mask_type);
    Value* row = Operand(kMask, spec_.mask_strides, head_, first_row_, size);
    return e_.Address(row, e_.Mul(key, spec_.mask_strides[3] * size));
  }

  void CopyBlockMaximum() {
    e_.For(e_.Int(0), e_.Int(plan_.query_block), e_.lanes(), [&](Value* i) {
      Value* from = e_.Address(Scratch(scratch_.maximum), e_.Mul(i, 4));
      e_.StoreF32(e_.Address(Scratch(scratch_.block_maximum), e_.Mul(i, 4)),
                  e_.LoadF32(from, e_.lanes()));
    });
  }

  // key_rows keys x query_cols queries: scores, masked, and their maximum per query.
  void ScoreTile(Value* row, Value* col) {
    const TileShape shape{plan_.key_rows, plan_.query_vectors};
    const int64_t key_stride = plan_.keys_in_place ? spec_.k_strides[2] * 4 : spec_.d * 4;
    TileA a;
    a.row_bases = {plan_.keys_in_place
                       ? Operand(kK, spec_.k_strides, key_head_, e_.Add(first_key_, row), 4)
                       : e_.Address(Scratch(scratch_.keys), e_.Mul(row, key_stride))};
    for (int r = 0; r < shape.rows; ++r) a.row_offsets.push_back(r * key_stride);
    TileB b;
    b.base = e_.Address(Scratch(scratch_.queries), e_.Mul(col, spec_.d * 4));
    b.k_stride = plan_.query_cols * 4;
    Values scores = AccumulateTile(e_, shape, a, b, spec_.d, ZeroTile(e_, shape));
    Value* maxima = e_.Address(Scratch(scratch_.block_maximum), e_.Mul(col, 4));
    Values maximum = LoadTile(e_, {1, shape.vectors}, maxima, 0);
    const ScoreBlock block = Block();
    for (int r = 0; r < shape.rows; ++r) {
      Value* key = e_.Add(row, r);
      for (int v = 0; v < shape.vectors; ++v) {
        Value*& score = scores[static_cast<size_t>(r) * shape.vectors + v];
        score = EmitMaskedScore(e_, spec_, block, score, key, e_.Add(col, v * e_.lanes()));
        maximum[v] = e_.MaxF32(score, maximum[v]);
      }
    }
    Value* target =
        e_.Address(Scratch(scratch_.scores), e_.Add(e_.Mul(row, score_stride_), e_.Mul(col, 4)));
    StoreTile(e_, shape, target, score_stride_, scores);
    StoreTile(e_, {1, shape.vectors}, maxima, 0, maximum);
  }

  ScoreBlock Block() {
    ScoreBlock block;
    block.mask = plan_.mask;
    if (plan_.mask == Mask::kPerKey) block.mask_base = MaskAddress(first_key_);
    if (plan_.mask == Mask::kPerQuery) block.mask_base = Scratch(scratch_.mask);
    block.stride = score_stride_;
    block.first_key = first_key_;
    block.first_query = first_row_;
    if (plan_.folds_heads) block.queries_per_head = spec_.m;
    return block;
  }

  // One vector of queries: new maximum and sum, scores become exp(score - maximum).
  void Exponentials(Value* col) {
    const int lanes = e_.lanes();
    const auto at = [&](int64_t offset) { return e_.Address(Scratch(offset), e_.Mul(col, 4)); };
    Value* maximum = e_.LoadF32(at(scratch_.block_maximum), lanes);
    Value* old_maximum = e_.LoadF32(at(scratch_.maximum), lanes);
    // While all keys are masked the maximum is -inf; 0 in its place keeps exp(-inf - x) at 0.
    Value* none = e_.b.CreateFCmpOEQ(maximum, e_.F32Const(-INFINITY, lanes));
    Value* shift = e_.b.CreateSelect(none, e_.Zero(lanes), maximum);
    Value* correction = EmitWeight(e_, e_.b.CreateFSub(old_maximum, shift), e_.lanes());
    e_.StoreF32(at(scratch_.maximum), maximum);
    e_.StoreF32(at(scratch_.correction), correction);
    Value* column = at(scratch_.scores);
    // One row; returns what it adds to the sum.
    const auto step = [&](Value* row, int i, Value* kept) {
      Value* address =
          e_.Address(e_.Address(column, e_.Mul(row, score_stride_)), i * score_stride_);
      Value* p = EmitWeight(e_, e_.b.CreateFSub(e_.LoadF32(address, lanes), shift), e_.lanes());
      e_.StoreF32(address, kept == nullptr ? p : e_.b.CreateSelect(kept, p, e_.Zero(lanes)));
      return p;
    };
    const auto steps = [&](Value* row, int count, const Values& sums) {
      Values next = sums;
      for (int i = 0; i < count; ++i) {
        next[i] = e_.b.CreateFAdd(next[i], step(row, i, nullptr));
      }
      return next;
    };
    // The last query of the vector lies in a tile that starts `lanes` - 1 rows below at most.
    Value* keys = KeysRead(e_.Add(col, lanes - 1));
    Value* full = e_.Mul(e_.DivConst(keys, kExpRows), kExpRows);
    Values sums(kExpRows, e_.Zero(lanes));
    if (kept_.has_value()) {
      sums = DroppedExponentials(col, full, keys, sums, step);
    } else {
      sums = e_.For(e_.Int(0), full, kExpRows, sums,
                    [&](Value* row, const Values& s) { return steps(row, kExpRows, s); });
      sums = e_.For(full, keys, 1, sums,
                    [&](Value* row, const Values& s) { return steps(row, 1, s); });
    }
    Value* sum = e_.Fma(e_.LoadF32(at(scratch_.sum), lanes), correction, sums[0]);
    for (int i = 1; i < kExpRows; ++i) sum = e_.b.CreateFAdd(sum, sums[i]);
    e_.StoreF32(at(scratch_.sum), sum);
  }

  using Step = std::function<Value*(Value* row, int i, Value* kept)>;

  // `step` of rows up to `full`, a multiple of kExpRows, then of those up to `keys`; the sums.
  Values DroppedExponentials(Value* col, Value* full, Value* keys, Values sums, const Step& step) {
    static_assert(kExpRows == KeptWeights::kRows);
    const KeptWeights::Column column = kept_->At(e_.Add(first_row_, col), first_key_);
    sums.insert(sums.end(), column.state.begin(), column.state.end());
    sums = e_.For(e_.Int(0), full, kExpRows, sums, [&](Value* row, const Values& so_far) {
      Values next(so_far.begin(), so_far.begin() + kExpRows);
      Values state(so_far.begin() + kExpRows, so_far.end());
      const Values kept = kept_->Next(column, row, &state);
      for (int i = 0; i < kExpRows; ++i) {
        next[i] = e_.b.CreateFAdd(next[i], step(row, i, kept[i]));
      }
      next.insert(next.end(), state.begin(), state.end());
      return next;
    });
    Values state(sums.begin() + kExpRows, sums.end());
    sums.resize(kExpRows);
    return e_.Choose(
        e_.b.CreateICmpSLT(full, keys),
        [&] {
          const Values kept = kept_->Next(column, full, &state);
          Values next = sums;
          for (int i = 0; i + 1 < kExpRows; ++i) {
            next[i] = e_.Choose(
                e_.b.CreateICmpSLT(e_.Add(full, i), keys),
                [&] { return Values{e_.b.CreateFAdd(next[i], step(full, i, kept[i]))}; },
                [&] { return Values{next[i]}; })[0];
          }
          return next;
        },
        [&] { return sums; });
  }

  // value_rows queries x one panel of value columns: O = O * correction + P V.
  void OutputTile(Value* row, Value* panel) {
    const TileShape shape{plan_.value_rows, plan_.value_vectors};
    const int64_t cols = plan_.value_panels * plan_.value_cols;
    Value* col = e_.Mul(panel, plan_.value_cols);
    Value* target =
        e_.Address(Scratch(scratch_.output), e_.Add(e_.Mul(row, cols * 4), e_.Mul(col, 4)));
    const Values init = e_.Choose(
        e_.b.CreateICmpEQ(first_key_, e_.Int(0)), [&] { return ZeroTile(e_, shape); },
        [&] {
          Values tile = LoadTile(e_, shape, target, cols * 4);
          for (int r = 0; r < shape.rows; ++r) {
            Value* address = e_.Address(Scratch(scratch_.correction), e_.Mul(e_.Add(row, r), 4));
            Value* factor = e_.Splat(e_.LoadF32(address, 1), e_.lanes());
            for (int v = 0; v < shape.vectors; ++v) {
              Value*& value = tile[static_cast<size_t>(r) * shape.vectors + v];
              value = e_.b.CreateFMul(value, factor);
            }
          }
          return tile;
        });
    TileA a;
    a.row_bases = {e_.Address(Scratch(scratch_.scores), e_.Mul(row, 4))};
    for (int r = 0; r < shape.rows; ++r) a.row_offsets.push_back(r * 4);
    a.k_stride = score_stride_;
    TileB b;
    if (plan_.values_in_place) {
      b.base = e_.Address(Operand(kV, spec_.v_strides, key_head_, first_key_, 4), e_.Mul(col, 4));
      b.k_stride = spec_.v_strides[2] * 4;
    } else {
      b.base = e_.Address(Scratch(scratch_.values), e_.Mul(col, 4));
      b.k_stride = cols * 4;
    }
    StoreTile(e_, shape, target, cols * 4, AccumulateTile(e_, shape, a, b, KeysRead(row), init));
  }

  // out[row] = O[row] / sum[row]; 0 for rows without keys.
  void StoreOutput() {
    Body store;
    store.ops.push_back(MakeOp(Opcode::kAccumulator));
    Store to;
    to.access.operand = kOut;
    to.access.type = spec_.type;
    to.access.strides.assign(spec_.out_strides, spec_.out_strides + 4);
    store.stores.push_back(to);
    const int cols = static_cast<int>(plan_.value_cols);
    e_.For(e_.Int(0), rows_, 1, [&](Value* row) {
      Value* sum = e_.LoadF32(e_.Address(Scratch(scratch_.sum), e_.Mul(row, 4)), 1);
      Value* empty = e_.b.CreateFCmpOEQ(sum, e_.Zero(1));
      Value* factor =
          e_.b.CreateSelect(empty, e_.Zero(1), e_.b.CreateFDiv(e_.F32Const(1.0f, 1), sum));
      if (spec_.HasStatistics()) StoreStatistics(row, empty, factor);
      if (spec_.Drops()) factor = e_.b.CreateFMul(factor, e_.F32Const(1 / spec_.keep, 1));
      e_.For(e_.Int(0), e_.Int(plan_.value_panels), 1, [&](Value* panel) {
        Value* col = e_.Mul(panel, cols);
        Value* from = e_.Address(Scratch(scratch_.output),
                                 e_.Mul(e_.Add(e_.Mul(row, plan_.value_panels * cols), col), 4));
        Value* result = e_.b.CreateFMul(e_.LoadF32(from, cols), e_.Splat(factor, cols));
        BodyPosition position;
        position.index = OutputIndex(row);
        position.index.push_back(col);
        position.lanes = cols;
        if (spec_.dv % cols != 0) {
          position.mask = e_.LaneMask(e_.Sub(e_.Int(spec_.dv), col), cols);
        }
        EmitBody(e_.b, frame_, e_.target(), store, position, {result});
      });
    });
  }

  // Heads are not folded.
  void StoreStatistics(Value* row, Value* empty, Value* inverse) {
    Value* place =
        e_.Dot({batch_, head_, e_.Add(first_row_, row)}, {spec_.heads * spec_.m, spec_.m, 1});
    Value* maximum = e_.LoadF32(e_.Address(Scratch(scratch_.maximum), e_.Mul(row, 4)), 1);
    const auto store = [&](uint32_t operand, Value* value) {
      e_.StoreF32(e_.Address(frame_.Operand(e_.b, operand), e_.Mul(place, 4)), value);
    };
    store(kMaximum, e_.b.CreateSelect(empty, e_.Zero(1), maximum));
    store(kInverse, e_.b.CreateSelect(empty, e_.F32Const(1.0f, 1), inverse));
  }

  Values OutputIndex(Value* row) {
    if (!plan_.folds_heads) return {batch_, head_, e_.Add(first_row_, row)};
    return {batch_, e_.Add(head_, e_.DivConst(row, spec_.m)), e_.RemConst(row, spec_.m)};
  }

  IrEmitter e_;
  const KernelFrame& frame_;
  const AttentionSpec& spec_;
  const AttentionPlan& plan_;
  const AttentionScratch scratch_;
  const int size_;
  const int64_t score_stride_;  // bytes between keys
  std::optional<KeptWeights> kept_;
  Value* batch_ = nullptr;
  Value* head_ = nullptr;  // first one, if heads are folded
  Value* key_head_ = nullptr;
  Value* first_row_ = nullptr;
  Value* rows_ = nullptr;  // query rows of this task
  Value* first_key_ = nullptr;
  Value* keys_ = nullptr;  // keys of this block
};

}  // namespace

void EmitAttentionTask(llvm::IRBuilder<>& builder, const TargetInfo& target,
                       const KernelFrame& frame, const AttentionSpec& spec,
                       const AttentionPlan& plan, Value* task) {
  AttentionTask(builder, target, frame, spec, plan).Emit(task);
}

}  // namespace hpu::graph_compiler
