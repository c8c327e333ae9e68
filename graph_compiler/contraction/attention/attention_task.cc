#include "graph_compiler/contraction/attention/attention_task.h"

#include <cmath>

#include "graph_compiler/codegen/body.h"
#include "graph_compiler/contraction/attention/attention_weight.h"
#include "graph_compiler/contraction/tiles/matrix_copy.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;
using Mask = AttentionMask;

BodyOp MakeOp(Opcode opcode, std::vector<uint32_t> args = {}) {
  BodyOp op;
  op.op = opcode;
  op.type = ScalarType::kF32;
  op.args = std::move(args);
  return op;
}

}  // namespace

AttentionTask::AttentionTask(llvm::IRBuilder<>& builder, const TargetInfo& target,
                             const KernelFrame& frame, const AttentionSpec& spec,
                             const AttentionPlan& plan)
    : e_(builder, target),
      frame_(frame),
      spec_(spec),
      plan_(plan),
      scratch_(spec, plan),
      panels_{plan.pairs ? PanelType::kBF16Pairs : PanelType::kF32, plan.query_cols, spec.d},
      size_(MemoryTypeSize(spec.type)) {
  if (spec.Drops()) kept_.emplace(e_, frame, spec, kSeed, plan.key_block);
}

void AttentionTask::Emit(Value* task) {
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
  // No query of the block sees the keys after its last query.
  if (spec_.causal) {
    end = e_.Min(end, plan_.folds_heads ? e_.Int(spec_.m) : e_.Add(first_row_, rows_));
  }
  e_.For(e_.Int(0), end, plan_.key_block, [&](Value* key) { KeyBlock(key, end); });
  FinishOutputs();
  StoreOutput();
}

Value* AttentionTask::OperandRow(Operand operand, const int64_t* strides, Value* head, Value* row,
                                 int size) {
  Value* offset = e_.Dot({batch_, head, row}, {strides[0], strides[1], strides[2]});
  return e_.Address(frame_.Operand(e_.b, operand), e_.Mul(offset, size));
}

void AttentionTask::Fill(int64_t offset, int64_t floats, float value) {
  e_.For(e_.Int(0), e_.Int(floats), e_.lanes(), [&](Value* i) {
    e_.StoreF32(e_.Address(Scratch(offset), e_.Mul(i, 4)), e_.F32Const(value, e_.lanes()));
  });
}

void AttentionTask::PackQueries() {
  const int64_t cols = panels_.cols;
  e_.For(e_.Int(0), rows_, cols, [&](Value* query) {
    Value* row = OperandRow(kQ, spec_.q_strides, head_, e_.Add(first_row_, query), size_);
    Value* panel = QueryPanel(query);
    EmitMatrixCopy(e_, panels_.Source(row, spec_.type, spec_.q_strides), {panel, cols, cols},
                   e_.Int(panels_.steps()), e_.Min(e_.Sub(rows_, query), e_.Int(cols)));
  });
}

Values AttentionTask::Products(Value* key, Value* query) {
  const TileShape shape = ScoreShape();
  const FactorRows keys = KeyRows(key);
  const TileB queries = panels_.Tile(QueryPanel(query));
  return AccumulateTile(e_, shape, keys.Tile(shape.rows), queries, panels_.steps(),
                        ZeroTile(e_, shape));
}

Value* AttentionTask::KeysSeen(Value* query, int64_t count) {
  if (!SkipsAboveDiagonal()) return keys_;
  Value* end = e_.Add(e_.Add(e_.Sub(first_row_, first_key_), query), count);
  return e_.Max(e_.Min(end, keys_), e_.Int(0));
}

Value* AttentionTask::WholeGroups(Value* keys) {
  return e_.Mul(e_.DivConst(e_.Add(keys, kWeightsAtOnce - 1), kWeightsAtOnce), kWeightsAtOnce);
}

void AttentionTask::KeyBlock(Value* key, Value* end) {
  // This is at least one tile of keys, all of which exist (ChooseKeyBlock).
  Value* wanted = e_.Max(e_.Sub(end, key), e_.Int(plan_.key_rows));
  keys_ = e_.Min(e_.Min(wanted, e_.Sub(e_.Int(spec_.n), key)), e_.Int(plan_.key_block));
  first_key_ = key;
  StageBlock();
  if (plan_.mask == Mask::kPerQuery) {
    MatrixSource source{MaskAddress(first_key_), spec_.mask_type, spec_.mask_strides[3],
                        spec_.mask_strides[2]};
    EmitMatrixCopy(e_, source, {Scratch(scratch_.mask), plan_.query_block, plan_.query_block},
                   keys_, rows_);
  }
  CopyBlockMaximum();
  e_.For(e_.Int(0), keys_, plan_.key_rows, [&](Value* row) {
    Value* tile_row = e_.Min(row, e_.Add(keys_, -plan_.key_rows));
    Value* first = SkipsAboveDiagonal() ? FirstPanel(tile_row) : e_.Int(0);
    e_.For(first, rows_, plan_.query_cols, [&](Value* col) { ScoreTile(tile_row, col); });
  });
  e_.For(e_.Int(0), rows_, e_.lanes(), [&](Value* col) { Exponentials(col); });
  AddOutputs();
}

Value* AttentionTask::MaskAddress(Value* key) {
  const int size = MemoryTypeSize(spec_.mask_type);
  Value* row = OperandRow(kMask, spec_.mask_strides, head_, first_row_, size);
  return e_.Address(row, e_.Mul(key, spec_.mask_strides[3] * size));
}

void AttentionTask::CopyBlockMaximum() {
  e_.For(e_.Int(0), e_.Int(plan_.query_block), e_.lanes(), [&](Value* i) {
    Value* from = e_.Address(Scratch(scratch_.maximum), e_.Mul(i, 4));
    e_.StoreF32(e_.Address(Scratch(scratch_.block_maximum), e_.Mul(i, 4)),
                e_.LoadF32(from, e_.lanes()));
  });
}

// Computes the masked scores of key_rows keys x query_cols queries and their maximum per query.
void AttentionTask::ScoreTile(Value* row, Value* col) {
  const TileShape shape = ScoreShape();
  Value* target = e_.Address(ScoreColumn(col), e_.Mul(row, score_stride()));
  Value* maxima = e_.Address(Scratch(scratch_.block_maximum), e_.Mul(col, 4));
  Values maximum = LoadTile(e_, {1, shape.vectors}, maxima, 0);
  Values scores = Products(row, col);
  const ScoreBlock block = Block();
  for (int r = 0; r < shape.rows; ++r) {
    Value* key = e_.Add(row, r);
    for (int v = 0; v < shape.vectors; ++v) {
      Value*& score = scores[static_cast<size_t>(r) * shape.vectors + v];
      score = EmitMaskedScore(e_, spec_, block, score, key, e_.Add(col, v * e_.lanes()));
      maximum[v] = e_.MaxF32(score, maximum[v]);
    }
  }
  StoreTile(e_, shape, target, score_stride(), scores);
  StoreTile(e_, {1, shape.vectors}, maxima, 0, maximum);
}

ScoreBlock AttentionTask::Block() {
  ScoreBlock block;
  block.mask = plan_.mask;
  if (plan_.mask == Mask::kPerKey) block.mask_base = MaskAddress(first_key_);
  if (plan_.mask == Mask::kPerQuery) block.mask_base = Scratch(scratch_.mask);
  block.stride = plan_.query_block * 4;
  block.first_key = first_key_;
  block.first_query = first_row_;
  if (plan_.folds_heads) block.queries_per_head = spec_.m;
  return block;
}

// Handles one vector of queries: updates maximum and sum, and turns scores into exp(score -
// maximum).
void AttentionTask::Exponentials(Value* col) {
  const int lanes = e_.lanes();
  const auto at = [&](int64_t offset) { return e_.Address(Scratch(offset), e_.Mul(col, 4)); };
  Value* maximum = e_.LoadF32(at(scratch_.block_maximum), lanes);
  Value* old_maximum = e_.LoadF32(at(scratch_.maximum), lanes);
  // While all keys are masked the maximum is -inf. Using 0 in its place keeps exp(-inf - x) at 0.
  Value* none = e_.b.CreateFCmpOEQ(maximum, e_.F32Const(-INFINITY, lanes));
  Value* shift = e_.b.CreateSelect(none, e_.Zero(lanes), maximum);
  Value* correction = EmitWeight(e_, e_.b.CreateFSub(old_maximum, shift), lanes);
  e_.StoreF32(at(scratch_.maximum), maximum);
  e_.StoreF32(at(scratch_.correction), correction);
  Value* column = ScoreColumn(col);
  const auto address = [&](Value* row) { return e_.Address(column, e_.Mul(row, score_stride())); };
  // Rows come in whole groups; rows that are not keys have no weight.
  Value* keys = SkipsAboveDiagonal() ? KeysRead(col) : keys_;
  Value* end = keys;
  const bool whole = plan_.key_block % kWeightsAtOnce == 0 && spec_.n % kWeightsAtOnce == 0;
  if (spec_.causal || !whole) {
    end = WholeGroups(keys);
    e_.For(keys, end, 1,
           [&](Value* row) { e_.StoreF32(address(row), e_.F32Const(-INFINITY, lanes)); });
  }
  KeptWeights::Column kept_column;
  static_assert(kWeightsAtOnce == KeptWeights::kRows);
  if (kept_.has_value()) kept_column = kept_->At(e_.Add(first_row_, col), first_key_);
  Values init(kWeightsAtOnce, e_.Zero(lanes));
  init.insert(init.end(), kept_column.state.begin(), kept_column.state.end());
  const Values sums =
      e_.For(e_.Int(0), end, kWeightsAtOnce, init, [&](Value* row, const Values& so_far) {
        Values next(so_far.begin(), so_far.begin() + kWeightsAtOnce);
        Values state(so_far.begin() + kWeightsAtOnce, so_far.end());
        Values kept, weights;
        if (kept_.has_value()) kept = kept_->Next(kept_column, row, &state);
        Value* from = address(row);
        for (int i = 0; i < kWeightsAtOnce; ++i) {
          Value* score = e_.LoadF32(e_.Address(from, i * score_stride()), lanes);
          Value* p = EmitWeight(e_, e_.b.CreateFSub(score, shift), lanes);
          next[i] = e_.b.CreateFAdd(next[i], p);
          weights.push_back(kept.empty() ? p : e_.b.CreateSelect(kept[i], p, e_.Zero(lanes)));
        }
        StoreWeights(column, row, weights);
        next.insert(next.end(), state.begin(), state.end());
        return next;
      });
  FinishColumn(column, end);
  Value* sum = e_.Fma(e_.LoadF32(at(scratch_.sum), lanes), correction, sums[0]);
  for (int i = 1; i < kWeightsAtOnce; ++i) sum = e_.b.CreateFAdd(sum, sums[i]);
  e_.StoreF32(at(scratch_.sum), sum);
}

// Stores out[row] = O[row] / sum[row], or 0 for rows without keys.
void AttentionTask::StoreOutput() {
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
      Value* from = e_.Address(Scratch(scratch_.output_rows),
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

// Heads are not folded here.
void AttentionTask::StoreStatistics(Value* row, Value* empty, Value* inverse) {
  Value* place =
      e_.Dot({batch_, head_, e_.Add(first_row_, row)}, {spec_.heads * spec_.m, spec_.m, 1});
  Value* maximum = e_.LoadF32(e_.Address(Scratch(scratch_.maximum), e_.Mul(row, 4)), 1);
  const auto store = [&](uint32_t operand, Value* value) {
    e_.StoreF32(e_.Address(frame_.Operand(e_.b, operand), e_.Mul(place, 4)), value);
  };
  store(kMaximum, e_.b.CreateSelect(empty, e_.Zero(1), maximum));
  store(kInverse, e_.b.CreateSelect(empty, e_.F32Const(1.0f, 1), inverse));
}

Values AttentionTask::OutputIndex(Value* row) {
  if (!plan_.folds_heads) return {batch_, head_, e_.Add(first_row_, row)};
  return {batch_, e_.Add(head_, e_.DivConst(row, spec_.m)), e_.RemConst(row, spec_.m)};
}

}  // namespace hpu::graph_compiler
