#include "graph_compiler/contraction/attention_backward_task.h"

#include <optional>

#include "graph_compiler/contraction/attention_dropout.h"
#include "graph_compiler/contraction/attention_weight.h"
#include "graph_compiler/contraction/matrix_copy.h"
#include "graph_compiler/contraction/micro_kernel.h"

namespace hpu::graph_compiler::attention_backward {
namespace {

using llvm::Value;

class Task : public Base {
 public:
  Task(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
       const AttentionBackwardSpec& spec, const Plan& plan)
      : Base(builder, target, frame, spec, plan),
        at_(plan),
        size_(MemoryTypeSize(spec.forward.type)),
        score_stride_(plan.query_block * 4) {
    if (spec_.Drops()) kept_.emplace(e_, frame, spec_, kSeed, plan.key_step);
  }

  void Emit(Value* task) {
    const Values index = e_.Decompose(task, {spec_.batch, key_heads_, plan_.splits});
    batch_ = index[0];
    key_head_ = index[1];
    const bool split = plan_.splits > 1;
    key_gradients_ = split ? Partial(task, false) : Place(at_.key_gradients);
    value_gradients_ = split ? Partial(task, true) : Place(at_.value_gradients);
    StageRows(kK, spec_.k_strides, key_head_, e_.Int(0), e_.Int(spec_.n), plan_.d, at_.keys);
    StageRows(kV, spec_.v_strides, key_head_, e_.Int(0), e_.Int(spec_.n), plan_.dv, at_.values);
    Clear(key_gradients_, plan_.keys * plan_.d.width);
    Clear(value_gradients_, plan_.keys * plan_.dv.width);
    e_.For(index[2], e_.Int(spec_.kv_repeat * plan_.query_blocks), plan_.splits,
           [&](Value* number) { QueryBlock(number); });
    if (split) return;
    StoreKeyGradients(kKGradient, gradient_.k_gradient_strides, plan_.d, key_gradients_);
    StoreKeyGradients(kVGradient, gradient_.v_gradient_strides, plan_.dv, value_gradients_);
  }

 private:
  Value* Place(int64_t offset) { return e_.Address(frame_.scratch, offset); }
  Value* Place(int64_t offset, Value* floats) {
    return e_.Address(Place(offset), e_.Mul(floats, 4));
  }

  Value* Address(Operand operand, const int64_t* strides, Value* head, Value* row, int size) {
    Value* offset = e_.Dot({batch_, head, row}, {strides[0], strides[1], strides[2]});
    return e_.Address(frame_.Operand(e_.b, operand), e_.Mul(offset, size));
  }

  void Clear(Value* base, int64_t floats) {
    e_.For(e_.Int(0), e_.Int(floats), e_.lanes(),
           [&](Value* i) { e_.StoreF32(e_.Address(base, e_.Mul(i, 4)), e_.Zero(e_.lanes())); });
  }

  // Rows from `row` on as f32, padded to whole panels.
  void StageRows(Operand operand, const int64_t* strides, Value* head, Value* row, Value* rows,
                 const Features& features, int64_t to) {
    const MatrixSource source{Address(operand, strides, head, row, size_), spec_.type, strides[2],
                              strides[3]};
    EmitMatrixCopy(e_, source, {Place(to), features.width, features.width}, rows,
                   e_.Int(features.size));
  }

  // The block's rows transposed: panels of query_cols queries; missing queries are 0.
  void StagePanels(Operand operand, const int64_t* strides, const Features& features, int64_t to) {
    const int64_t cols = plan_.query_cols;
    e_.For(e_.Int(0), queries_, cols, [&](Value* query) {
      const MatrixSource source{
          Address(operand, strides, head_, e_.Add(first_query_, query), size_), spec_.type,
          strides[3], strides[2]};
      EmitMatrixCopy(e_, source, {Panel(to, features, query), cols, cols}, e_.Int(features.size),
                     e_.Min(e_.Sub(queries_, query), e_.Int(cols)));
    });
  }

  Value* Panel(int64_t panels, const Features& features, Value* query) {
    return Place(panels, e_.Mul(query, features.size));
  }

  // One f32 per query of the block; 0 for missing ones.
  void StageStatistic(Operand operand, int64_t to) {
    const int64_t strides[] = {spec_.heads * spec_.m, spec_.m, 1};
    const MatrixSource source{Address(operand, strides, head_, first_query_, 4), MemoryType::kF32,
                              0, 1};
    EmitMatrixCopy(e_, source, {Place(to), plan_.query_block, plan_.query_block}, e_.Int(1),
                   queries_);
  }

  void QueryBlock(Value* number) {
    const Values index = e_.Decompose(number, {spec_.kv_repeat, plan_.query_blocks});
    head_ = e_.Add(e_.Mul(key_head_, spec_.kv_repeat), index[0]);
    if (kept_.has_value()) kept_->SetHead(batch_, head_);
    first_query_ = e_.Mul(index[1], plan_.query_block);
    queries_ = e_.Min(e_.Sub(e_.Int(spec_.m), first_query_), e_.Int(plan_.query_block));
    const int64_t* out_strides = gradient_.out_gradient_strides;
    StageRows(kQ, spec_.q_strides, head_, first_query_, queries_, plan_.d, at_.query_rows);
    StageRows(kOutGradient, out_strides, head_, first_query_, queries_, plan_.dv, at_.out_rows);
    StageRows(kOut, spec_.out_strides, head_, first_query_, queries_, plan_.dv, at_.result_rows);
    StagePanels(kQ, spec_.q_strides, plan_.d, at_.query_panels);
    StagePanels(kOutGradient, out_strides, plan_.dv, at_.out_panels);
    StageStatistic(kMaximum, at_.maximum);
    StageStatistic(kInverse, at_.inverse);
    e_.For(e_.Int(0), queries_, e_.lanes(), [&](Value* query) { Dots(query); });
    Clear(Place(at_.query_gradients), plan_.query_block * plan_.d.width);
    // Keys after the last query of the block are seen by none of its queries.
    Value* end = e_.Int(spec_.n);
    if (spec_.causal) {
      Value* seen = e_.Add(first_query_, queries_);
      Value* steps = e_.DivConst(e_.Add(seen, plan_.key_step - 1), plan_.key_step);
      end = e_.Min(end, e_.Mul(steps, plan_.key_step));
    }
    e_.For(e_.Int(0), end, plan_.key_block, [&](Value* key) { KeyBlock(key, end); });
    e_.For(e_.Int(0), queries_, 1, [&](Value* row) {
      StoreRow(kQGradient, gradient_.q_gradient_strides, plan_.d, head_, e_.Add(first_query_, row),
               [&](Value* col) {
                 Value* from = e_.Add(e_.Mul(row, plan_.d.width), col);
                 return e_.LoadF32(Place(at_.query_gradients, from),
                                   static_cast<int>(plan_.d.cols));
               });
    });
  }

  // D of a vector of queries.
  void Dots(Value* query) {
    const int lanes = e_.lanes();
    const int64_t width = plan_.dv.width;
    const Values zero(static_cast<size_t>(lanes), e_.Zero(lanes));
    const Values sums =
        e_.For(e_.Int(0), e_.Int(width), lanes, zero, [&](Value* col, const Values& so_far) {
          Value* place = e_.Add(e_.Mul(query, width), col);
          Value* gradients = Place(at_.out_rows, place);
          Value* results = Place(at_.result_rows, place);
          Values next;
          for (int row = 0; row < lanes; ++row) {
            next.push_back(e_.Fma(e_.LoadF32(e_.Address(gradients, row * width * 4), lanes),
                                  e_.LoadF32(e_.Address(results, row * width * 4), lanes),
                                  so_far[row]));
          }
          return next;
        });
    e_.StoreF32(Place(at_.dots, query), e_.SumLanes(sums));
  }

  void KeyBlock(Value* key, Value* end) {
    first_key_ = key;
    keys_ = e_.Min(e_.Sub(end, key), e_.Int(plan_.key_block));
    if (plan_.mask == AttentionMask::kPerQuery) {
      const MatrixSource source{MaskAddress(), spec_.mask_type, spec_.mask_strides[3],
                                spec_.mask_strides[2]};
      EmitMatrixCopy(e_, source, {Place(at_.mask), plan_.query_block, plan_.query_block}, keys_,
                     queries_);
    }
    e_.For(e_.Int(0), keys_, plan_.key_rows, [&](Value* row) {
      e_.For(e_.Int(0), queries_, plan_.query_cols, [&](Value* query) {
        StoreScores(row, query, at_.weights, Scores(row, query));
        StoreScores(row, query, at_.slopes,
                    Product(at_.values, at_.out_panels, plan_.dv, row, query));
      });
    });
    e_.For(e_.Int(0), queries_, e_.lanes(), [&](Value* query) { Weigh(query); });
    AddToKeys(at_.weights, at_.out_rows, plan_.dv, value_gradients_);
    AddToKeys(at_.slopes, at_.query_rows, plan_.d, key_gradients_);
    AddToQueries();
  }

  Value* MaskAddress() {
    const int size = MemoryTypeSize(spec_.mask_type);
    Value* row = Address(kMask, spec_.mask_strides, head_, first_query_, size);
    return e_.Address(row, e_.Mul(first_key_, spec_.mask_strides[3] * size));
  }

  TileShape ScoreShape() const { return {plan_.key_rows, plan_.query_vectors}; }

  // Rows of keys or values, from row `row` of the block on, times a panel of queries. The last tile
  // may reach past n: into rows of scratch whose products nobody stores.
  Values Product(int64_t rows, int64_t panels, const Features& features, Value* row, Value* query) {
    TileA a;
    a.row_bases = {Place(rows, e_.Mul(e_.Add(first_key_, row), features.width))};
    for (int r = 0; r < plan_.key_rows; ++r) a.row_offsets.push_back(r * features.width * 4);
    TileB b;
    b.base = Panel(panels, features, query);
    b.k_stride = plan_.query_cols * 4;
    return AccumulateTile(e_, ScoreShape(), a, b, features.size, ZeroTile(e_, ScoreShape()));
  }

  Values Scores(Value* row, Value* query) {
    Values scores = Product(at_.keys, at_.query_panels, plan_.d, row, query);
    ScoreBlock block;
    block.mask = plan_.mask;
    if (plan_.mask == AttentionMask::kPerKey) block.mask_base = MaskAddress();
    if (plan_.mask == AttentionMask::kPerQuery) block.mask_base = Place(at_.mask);
    block.stride = score_stride_;
    block.first_key = first_key_;
    block.first_query = first_query_;
    for (int r = 0; r < plan_.key_rows; ++r) {
      // The mask has no elements past the last key.
      Value* key = e_.Min(e_.Add(row, r), e_.Add(keys_, -1));
      for (int v = 0; v < plan_.query_vectors; ++v) {
        Value*& score = scores[static_cast<size_t>(r) * plan_.query_vectors + v];
        score = EmitMaskedScore(e_, spec_, block, score, key, e_.Add(query, v * e_.lanes()));
      }
    }
    return scores;
  }

  void StoreScores(Value* row, Value* query, int64_t to, const Values& values) {
    Value* target = e_.Address(Place(to, query), e_.Mul(row, score_stride_));
    StoreTile(e_, ScoreShape(), target, score_stride_, values);
  }

  // One vector of queries: scores become weights P, products with V become slopes dS. A dropped
  // weight is 0 in P, and nothing came of it that a slope could follow but its share in the sum.
  void Weigh(Value* query) {
    const int lanes = e_.lanes();
    Value* maximum = e_.LoadF32(Place(at_.maximum, query), lanes);
    Value* inverse = e_.LoadF32(Place(at_.inverse, query), lanes);
    Value* dot = e_.LoadF32(Place(at_.dots, query), lanes);
    Value* scale = e_.F32Const(spec_.scale, lanes);
    Value* factor = e_.F32Const(1 / spec_.keep, lanes);
    Value* weights = Place(at_.weights, query);
    Value* slopes = Place(at_.slopes, query);
    KeptWeights::Column column;
    if (kept_.has_value()) column = kept_->At(e_.Add(first_query_, query), first_key_);
    e_.For(e_.Int(0), keys_, kRowsAtOnce, column.state, [&](Value* row, const Values& so_far) {
      Values state = so_far;
      Values kept;
      if (kept_.has_value()) kept = kept_->Next(column, row, &state);
      Value* offset = e_.Mul(row, score_stride_);
      for (int i = 0; i < kRowsAtOnce; ++i) {
        Value* weight = e_.Address(e_.Address(weights, offset), i * score_stride_);
        Value* slope = e_.Address(e_.Address(slopes, offset), i * score_stride_);
        Value* power =
            EmitWeight(e_, e_.b.CreateFSub(e_.LoadF32(weight, lanes), maximum), e_.lanes());
        Value* p = e_.b.CreateFMul(power, inverse);
        Value* product = e_.LoadF32(slope, lanes);
        const auto dropped = [&](Value* x) {
          if (kept.empty()) return x;
          return e_.b.CreateSelect(kept[i], e_.b.CreateFMul(x, factor), e_.Zero(lanes));
        };
        Value* excess = e_.b.CreateFSub(dropped(product), dot);
        e_.StoreF32(weight, dropped(p));
        e_.StoreF32(slope, e_.b.CreateFMul(e_.b.CreateFMul(p, scale), excess));
      }
      return state;
    });
  }

  // sums[key] += sum over the block's queries of factors[key, query] * rows[query]
  void AddToKeys(int64_t factors, int64_t rows, const Features& features, Value* sums) {
    const TileShape shape{features.rows, features.vectors};
    e_.For(e_.Int(0), keys_, features.rows, [&](Value* row) {
      e_.For(e_.Int(0), e_.Int(features.panels), 1, [&](Value* panel) {
        Value* col = e_.Mul(panel, features.cols);
        TileA a;
        a.row_bases = {e_.Address(Place(factors), e_.Mul(row, score_stride_))};
        for (int r = 0; r < features.rows; ++r) a.row_offsets.push_back(r * score_stride_);
        TileB b;
        b.base = Place(rows, col);
        b.k_stride = features.width * 4;
        Value* place = e_.Add(e_.Mul(e_.Add(first_key_, row), features.width), col);
        AddTile(shape, a, b, queries_, e_.Address(sums, e_.Mul(place, 4)), features.width * 4);
      });
    });
  }

  // dQ[query] += sum over the block's keys of slopes[key, query] * K[key]
  void AddToQueries() {
    const Features& features = plan_.d;
    const TileShape shape{features.rows, features.vectors};
    e_.For(e_.Int(0), queries_, features.rows, [&](Value* row) {
      e_.For(e_.Int(0), e_.Int(features.panels), 1, [&](Value* panel) {
        Value* col = e_.Mul(panel, features.cols);
        TileA a;
        a.row_bases = {Place(at_.slopes, row)};
        for (int r = 0; r < features.rows; ++r) a.row_offsets.push_back(r * 4);
        a.k_stride = score_stride_;
        TileB b;
        b.base = Place(at_.keys, e_.Add(e_.Mul(first_key_, features.width), col));
        b.k_stride = features.width * 4;
        Value* place = e_.Add(e_.Mul(row, features.width), col);
        AddTile(shape, a, b, keys_, Place(at_.query_gradients, place), features.width * 4);
      });
    });
  }

  void AddTile(const TileShape& shape, const TileA& a, const TileB& b, Value* count, Value* sums,
               int64_t stride) {
    const Values tile = LoadTile(e_, shape, sums, stride);
    StoreTile(e_, shape, sums, stride, AccumulateTile(e_, shape, a, b, count, tile));
  }

  void StoreKeyGradients(Operand operand, const int64_t* strides, const Features& features,
                         Value* sums) {
    e_.For(e_.Int(0), e_.Int(spec_.n), 1, [&](Value* row) {
      StoreRow(operand, strides, features, key_head_, row, [&](Value* col) {
        Value* from = e_.Add(e_.Mul(row, features.width), col);
        return e_.LoadF32(e_.Address(sums, e_.Mul(from, 4)), static_cast<int>(features.cols));
      });
    });
  }

  const Scratch at_;
  const int size_;
  const int64_t score_stride_;  // bytes between keys
  std::optional<KeptWeights> kept_;
  Value* key_gradients_ = nullptr;
  Value* value_gradients_ = nullptr;
  Value* head_ = nullptr;
  Value* first_query_ = nullptr;
  Value* queries_ = nullptr;  // of this block
  Value* first_key_ = nullptr;
  Value* keys_ = nullptr;  // of this block
};

}  // namespace

void EmitTask(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
              const AttentionBackwardSpec& spec, const Plan& plan, Value* task) {
  Task(builder, target, frame, spec, plan).Emit(task);
}

}  // namespace hpu::graph_compiler::attention_backward
