#include "graph_compiler/contraction/attention/attention_forms.h"
#include "graph_compiler/contraction/tiles/matrix_copy.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

// Scores lie as rows of query_block queries, and O as rows of whole panels of features.
class F32Attention : public AttentionTask {
 public:
  using AttentionTask::AttentionTask;

 private:
  int64_t score_stride() const override { return plan_.query_block * 4; }
  int64_t output_cols() const { return plan_.value_panels * plan_.value_cols; }

  Value* ScoreColumn(Value* query) override {
    return e_.Address(Scratch(scratch_.scores), e_.Mul(query, 4));
  }

  void PackQueries() override {
    plan_.folds_heads ? PackFoldedQueries() : AttentionTask::PackQueries();
  }

  void PackFoldedQueries() {
    const int64_t cols = plan_.query_cols;
    Fill(scratch_.queries, plan_.query_block * spec_.d, 0.0f);
    e_.For(e_.Int(0), e_.Int(plan_.rows), 1, [&](Value* row) {
      Value* head = e_.Add(head_, e_.DivConst(row, spec_.m));
      Value* from = OperandRow(kQ, spec_.q_strides, head, e_.RemConst(row, spec_.m), size_);
      Value* panel = e_.Mul(e_.DivConst(row, cols), cols * spec_.d * 4);
      Value* to =
          e_.Address(Scratch(scratch_.queries), e_.Add(panel, e_.Mul(e_.RemConst(row, cols), 4)));
      e_.For(e_.Int(0), e_.Int(spec_.d), 1, [&](Value* i) {
        Value* source = e_.Address(from, e_.Mul(i, spec_.q_strides[3] * size_));
        e_.StoreF32(e_.Address(to, e_.Mul(i, cols * 4)), e_.LoadWide(source, spec_.type, 1));
      });
    });
  }

  void StageBlock() override {
    if (!plan_.keys_in_place) {
      MatrixSource source{OperandRow(kK, spec_.k_strides, key_head_, first_key_, size_), spec_.type,
                          spec_.k_strides[2], spec_.k_strides[3]};
      EmitMatrixCopy(e_, source, {Scratch(scratch_.keys), spec_.d, spec_.d}, keys_,
                     e_.Int(spec_.d));
    }
    if (!plan_.values_in_place) {
      MatrixSource source{OperandRow(kV, spec_.v_strides, key_head_, first_key_, size_), spec_.type,
                          spec_.v_strides[2], spec_.v_strides[3]};
      EmitMatrixCopy(e_, source, {Scratch(scratch_.values), output_cols(), output_cols()}, keys_,
                     e_.Int(spec_.dv));
    }
  }

  FactorRows KeyRows(Value* key) override {
    if (plan_.keys_in_place) {
      return {OperandRow(kK, spec_.k_strides, key_head_, e_.Add(first_key_, key), 4),
              spec_.k_strides[2] * 4};
    }
    return {e_.Address(Scratch(scratch_.keys), e_.Mul(key, spec_.d * 4)), spec_.d * 4};
  }

  // The last query of the vector lies in a tile that starts at most `lanes` - 1 rows below.
  Value* KeysRead(Value* query) override {
    return KeysSeen(e_.Add(query, e_.lanes() - 1), plan_.value_rows);
  }

  Value* FirstPanel(Value* key) override {
    Value* query = e_.Add(e_.Add(e_.Sub(first_key_, first_row_), key), 1 - plan_.value_rows);
    return e_.Mul(e_.DivConst(e_.Max(query, e_.Int(0)), plan_.query_cols), plan_.query_cols);
  }

  void StoreWeights(Value* column, Value* row, const Values& weights) override {
    Value* to = e_.Address(column, e_.Mul(row, score_stride()));
    for (size_t i = 0; i < weights.size(); ++i) {
      e_.StoreF32(e_.Address(to, static_cast<int64_t>(i) * score_stride()), weights[i]);
    }
  }

  void AddOutputs() override {
    e_.For(e_.Int(0), rows_, plan_.value_rows, [&](Value* row) {
      e_.For(e_.Int(0), e_.Int(plan_.value_panels), 1,
             [&](Value* panel) { OutputTile(row, panel); });
    });
  }

  // Computes value_rows queries x one panel of value columns.
  void OutputTile(Value* row, Value* panel) {
    const TileShape shape{plan_.value_rows, plan_.value_vectors};
    const int64_t cols = output_cols();
    Value* col = e_.Mul(panel, plan_.value_cols);
    Value* target =
        e_.Address(Scratch(scratch_.output_rows), e_.Add(e_.Mul(row, cols * 4), e_.Mul(col, 4)));
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
    const FactorRows weights{e_.Address(Scratch(scratch_.scores), e_.Mul(row, 4)), 4,
                             score_stride()};
    TileB b;
    if (plan_.values_in_place) {
      b.base =
          e_.Address(OperandRow(kV, spec_.v_strides, key_head_, first_key_, 4), e_.Mul(col, 4));
      b.k_stride = spec_.v_strides[2] * 4;
    } else {
      b.base = e_.Address(Scratch(scratch_.values), e_.Mul(col, 4));
      b.k_stride = cols * 4;
    }
    StoreTile(e_, shape, target, cols * 4,
              AccumulateTile(e_, shape, weights.Tile(shape.rows), b,
                             KeysSeen(row, plan_.value_rows), init));
  }
};

}  // namespace

std::unique_ptr<AttentionTask> MakeF32Attention(llvm::IRBuilder<>& builder,
                                                const TargetInfo& target, const KernelFrame& frame,
                                                const AttentionSpec& spec,
                                                const AttentionPlan& plan) {
  return std::make_unique<F32Attention>(builder, target, frame, spec, plan);
}

}  // namespace hpu::graph_compiler
