#include "graph_compiler/contraction/attention/attention_backward_task.h"

#include "graph_compiler/contraction/attention/attention_weight.h"
#include "graph_compiler/contraction/tiles/matrix_copy.h"

namespace hpu::graph_compiler::attention_backward {

using llvm::Value;

Task::Task(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
           const AttentionBackwardSpec& spec, const Plan& plan)
    : Base(builder, target, frame, spec, plan),
      at_(plan),
      factors_(plan.pairs ? PanelType::kBF16Pairs : PanelType::kF32),
      size_(MemoryTypeSize(spec.forward.type)),
      score_stride_(plan.query_block * 4) {
  if (spec_.Drops()) kept_.emplace(e_, frame, spec_, kSeed, plan.key_step);
}

void Task::Emit(Value* task) {
  const Values index = e_.Decompose(task, {spec_.batch, key_heads_, plan_.splits});
  batch_ = index[0];
  key_head_ = index[1];
  const bool split = plan_.splits > 1;
  key_gradients_ = split ? Partial(task, false) : Place(at_.key_gradients);
  value_gradients_ = split ? Partial(task, true) : Place(at_.value_gradients);
  StageKeys();
  Clear(key_gradients_, plan_.keys * plan_.d.width);
  Clear(value_gradients_, plan_.keys * plan_.dv.width);
  e_.For(index[2], e_.Int(spec_.kv_repeat * plan_.query_blocks), plan_.splits,
         [&](Value* number) { QueryBlock(number); });
  Finish();
  if (split) return;
  StoreKeyGradients(kKGradient, gradient_.k_gradient_strides, plan_.d, key_gradients_);
  StoreKeyGradients(kVGradient, gradient_.v_gradient_strides, plan_.dv, value_gradients_);
}

Value* Task::OperandRow(Operand operand, const int64_t* strides, Value* head, Value* row,
                        int size) {
  Value* offset = e_.Dot({batch_, head, row}, {strides[0], strides[1], strides[2]});
  return e_.Address(frame_.Operand(e_.b, operand), e_.Mul(offset, size));
}

void Task::Clear(Value* base, int64_t floats) {
  e_.For(e_.Int(0), e_.Int(floats), e_.lanes(),
         [&](Value* i) { e_.StoreF32(e_.Address(base, e_.Mul(i, 4)), e_.Zero(e_.lanes())); });
}

void Task::StageRows(Operand operand, const int64_t* strides, Value* head, Value* row, Value* rows,
                     const Features& features, int64_t to) {
  const MatrixSource source{OperandRow(operand, strides, head, row, size_), spec_.type, strides[2],
                            strides[3]};
  EmitMatrixCopy(e_, source, {Place(to), features.width, features.width}, rows,
                 e_.Int(features.size));
}

// Queries that the last panel lacks are 0.
void Task::StagePanels(Operand operand, const int64_t* strides, const Features& features,
                       int64_t to) {
  const QueryPanels panels = Panels(features);
  e_.For(e_.Int(0), queries_, panels.cols, [&](Value* query) {
    Value* row = OperandRow(operand, strides, head_, e_.Add(first_query_, query), size_);
    Value* existing = e_.Min(e_.Sub(queries_, query), e_.Int(panels.cols));
    EmitMatrixCopy(e_, panels.Source(row, spec_.type, strides),
                   {Panel(to, features, query), panels.cols, panels.cols}, e_.Int(panels.steps()),
                   existing);
  });
}

Value* Task::Panel(int64_t panels, const Features& features, Value* query) {
  return Place(panels, e_.Mul(query, Panels(features).steps()));
}

TileB Task::RowsOf(Value* first, int64_t width) const {
  TileB b;
  b.base = first;
  b.k_stride = width * 4;
  b.type = factors_;
  return b;
}

// Stages one f32 per query of the block; missing queries get 0.
void Task::StageStatistic(Operand operand, int64_t to) {
  const int64_t strides[] = {spec_.heads * spec_.m, spec_.m, 1};
  const MatrixSource source{OperandRow(operand, strides, head_, first_query_, 4), MemoryType::kF32,
                            0, 1};
  EmitMatrixCopy(e_, source, {Place(to), plan_.query_block, plan_.query_block}, e_.Int(1),
                 queries_);
}

void Task::QueryBlock(Value* number) {
  const Values index = e_.Decompose(number, {spec_.kv_repeat, plan_.query_blocks});
  head_ = e_.Add(e_.Mul(key_head_, spec_.kv_repeat), index[0]);
  if (kept_.has_value()) kept_->SetHead(batch_, head_);
  first_query_ = e_.Mul(index[1], plan_.query_block);
  queries_ = e_.Min(e_.Sub(e_.Int(spec_.m), first_query_), e_.Int(plan_.query_block));
  const int64_t* out_strides = gradient_.out_gradient_strides;
  StageQueries();
  StageRows(kOutGradient, out_strides, head_, first_query_, queries_, plan_.dv, at_.out_rows);
  StageRows(kOut, spec_.out_strides, head_, first_query_, queries_, plan_.dv, at_.result_rows);
  StageStatistic(kMaximum, at_.maximum);
  StageStatistic(kInverse, at_.inverse);
  e_.For(e_.Int(0), queries_, e_.lanes(), [&](Value* query) { Dots(query); });
  Clear(Place(at_.query_sums), plan_.query_sums);
  // No query of the block sees the keys after its last query.
  Value* end = e_.Int(spec_.n);
  if (spec_.causal) {
    Value* seen = e_.Add(first_query_, queries_);
    Value* steps = e_.DivConst(e_.Add(seen, plan_.key_step - 1), plan_.key_step);
    end = e_.Min(end, e_.Mul(steps, plan_.key_step));
  }
  e_.For(e_.Int(0), end, plan_.key_block, [&](Value* key) { KeyBlock(key, end); });
  FinishQueries();
  e_.For(e_.Int(0), queries_, 1, [&](Value* row) {
    StoreRow(kQGradient, gradient_.q_gradient_strides, plan_.d, head_, e_.Add(first_query_, row),
             [&](Value* col) {
               Value* from = e_.Add(e_.Mul(row, plan_.d.width), col);
               return e_.LoadF32(Place(at_.query_gradients, from), static_cast<int>(plan_.d.cols));
             });
  });
}

// Computes D of a vector of queries.
void Task::Dots(Value* query) {
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

void Task::KeyBlock(Value* key, Value* end) {
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
      Values scores = ScoreProducts(at_.keys, plan_.key_stride, at_.query_panels, plan_.d,
                                    {at_.weights, row, query});
      Mask(row, query, scores);
      StoreTile(e_, ScoreShape(), ScoreAt(at_.weights, row, query), score_stride_, scores);
      StoreTile(e_, ScoreShape(), ScoreAt(at_.slopes, row, query), score_stride_,
                ScoreProducts(at_.values, plan_.value_stride, at_.out_panels, plan_.dv,
                              {at_.slopes, row, query}));
    });
  });
  e_.For(e_.Int(0), WeighedQueries(), e_.lanes(), [&](Value* query) { Weigh(query); });
  AddToKeys(at_.weights, at_.out_factors, plan_.dv, value_gradients_);
  AddToKeys(at_.slopes, at_.query_rows, plan_.d, key_gradients_);
  AddToQueries();
}

// Returns the products of key_rows keys, or values, with query_cols queries, or gradients of
// results. The last tile may reach past n; those products are not stored.
Values Task::ScoreProducts(int64_t rows, int64_t stride, int64_t panels, const Features& features,
                           const ScoreTile& tile) {
  Value* first = Place(rows, e_.Mul(e_.Add(first_key_, tile.row), stride / 4));
  const QueryPanels queries = Panels(features);
  const TileB b = queries.Tile(Panel(panels, features, tile.query));
  return Product({first, stride}, b, queries.steps(), tile);
}

Values Task::Product(const FactorRows& a, const TileB& b, int64_t steps,
                     const ScoreTile& /*tile*/) {
  const TileShape shape = ScoreShape();
  return AccumulateTile(e_, shape, a.Tile(shape.rows), b, steps, ZeroTile(e_, shape));
}

// Computes sums[key] += sum over the block's queries of factors[key, query] * rows[query].
void Task::AddToKeys(int64_t factors, int64_t rows, const Features& features, Value* sums) {
  const TileShape shape{features.rows, features.vectors};
  e_.For(e_.Int(0), keys_, features.rows, [&](Value* row) {
    e_.For(e_.Int(0), e_.Int(features.panels), 1, [&](Value* panel) {
      Value* col = e_.Mul(panel, features.cols);
      const FactorRows a{e_.Address(Place(factors), e_.Mul(row, score_stride_)), score_stride_};
      const TileB b = RowsOf(Place(rows, col), features.width);
      Value* place = e_.Add(e_.Mul(e_.Add(first_key_, row), features.width), col);
      const Sums to{e_.Address(sums, e_.Mul(place, 4)), features.width * 4};
      AddProduct(shape, a, b, QuerySteps(), to);
    });
  });
}

void Task::AddProduct(TileShape shape, const FactorRows& a, const TileB& b, const Steps& steps,
                      const Sums& sums) {
  const Values tile = LoadTile(e_, shape, sums.first, sums.stride);
  StoreTile(e_, shape, sums.first, sums.stride,
            AccumulateTile(e_, shape, a.Tile(shape.rows), b, steps.count, tile));
}

Value* Task::MaskAddress() {
  const int size = MemoryTypeSize(spec_.mask_type);
  Value* row = OperandRow(kMask, spec_.mask_strides, head_, first_query_, size);
  return e_.Address(row, e_.Mul(first_key_, spec_.mask_strides[3] * size));
}

void Task::Mask(Value* row, Value* query, Values& scores) {
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
}

// Handles one vector of queries: scores become weights P, and products with V become slopes dS. A
// dropped weight is 0 in P. It contributed nothing to the result, so its slope only has the part
// that comes from its share in the sum.
void Task::Weigh(Value* query) {
  const int lanes = e_.lanes();
  Value* maximum = e_.LoadF32(Place(at_.maximum, query), lanes);
  Value* inverse = e_.LoadF32(Place(at_.inverse, query), lanes);
  Value* dot = e_.LoadF32(Place(at_.dots, query), lanes);
  Value* scale = e_.F32Const(spec_.scale, lanes);
  Value* factor = e_.F32Const(1 / spec_.keep, lanes);
  KeptWeights::Column column;
  if (kept_.has_value()) column = kept_->At(e_.Add(first_query_, query), first_key_);
  e_.For(e_.Int(0), WeighedRows(), kRowsAtOnce, column.state,
         [&](Value* row, const Values& so_far) {
           Values state = so_far;
           Values kept;
           if (kept_.has_value()) kept = kept_->Next(column, row, &state);
           Value* scores = ScoreAt(at_.weights, row, query);
           Value* products = ScoreAt(at_.slopes, row, query);
           Values weights, slopes;
           for (int i = 0; i < kRowsAtOnce; ++i) {
             Value* score = e_.LoadF32(e_.Address(scores, i * score_stride_), lanes);
             Value* power = EmitWeight(e_, e_.b.CreateFSub(score, maximum), lanes);
             Value* p = e_.b.CreateFMul(power, inverse);
             Value* product = e_.LoadF32(e_.Address(products, i * score_stride_), lanes);
             const auto dropped = [&](Value* x) {
               if (kept.empty()) return x;
               return e_.b.CreateSelect(kept[i], e_.b.CreateFMul(x, factor), e_.Zero(lanes));
             };
             Value* excess = e_.b.CreateFSub(dropped(product), dot);
             weights.push_back(dropped(p));
             slopes.push_back(e_.b.CreateFMul(e_.b.CreateFMul(p, scale), excess));
           }
           StoreWeights(row, query, weights, slopes);
           return state;
         });
}

void Task::StoreKeyGradients(Operand operand, const int64_t* strides, const Features& features,
                             Value* sums) {
  e_.For(e_.Int(0), e_.Int(spec_.n), 1, [&](Value* row) {
    StoreRow(operand, strides, features, key_head_, row, [&](Value* col) {
      Value* from = e_.Add(e_.Mul(row, features.width), col);
      return e_.LoadF32(e_.Address(sums, e_.Mul(from, 4)), static_cast<int>(features.cols));
    });
  });
}

}  // namespace hpu::graph_compiler::attention_backward
