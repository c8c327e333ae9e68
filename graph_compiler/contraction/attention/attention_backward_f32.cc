#include "graph_compiler/contraction/attention/attention_backward_task.h"
#include "graph_compiler/contraction/tiles/matrix_copy.h"

namespace hpu::graph_compiler::attention_backward {
namespace {

using llvm::Value;

// All operands are widened to f32: as rows, and Q and dO also transposed in panels.
class F32Task : public Task {
 public:
  using Task::Task;

 private:
  void StageKeys() override {
    StageRows(kK, spec_.k_strides, key_head_, e_.Int(0), e_.Int(spec_.n), plan_.d, at_.keys);
    StageRows(kV, spec_.v_strides, key_head_, e_.Int(0), e_.Int(spec_.n), plan_.dv, at_.values);
  }

  void StageQueries() override {
    StageRows(kQ, spec_.q_strides, head_, first_query_, queries_, plan_.d, at_.query_rows);
    StagePanels(kQ, spec_.q_strides, plan_.d, at_.query_panels);
    StagePanels(kOutGradient, gradient_.out_gradient_strides, plan_.dv, at_.out_panels);
  }

  // Stages the rows of the block transposed, in panels of query_cols queries; missing queries are
  // 0.
  void StagePanels(Operand operand, const int64_t* strides, const Features& features, int64_t to) {
    const int64_t cols = plan_.query_cols;
    e_.For(e_.Int(0), queries_, cols, [&](Value* query) {
      const MatrixSource source{
          OperandRow(operand, strides, head_, e_.Add(first_query_, query), size_), spec_.type,
          strides[3], strides[2]};
      EmitMatrixCopy(e_, source, {Panel(to, features, query), cols, cols}, e_.Int(features.size),
                     e_.Min(e_.Sub(queries_, query), e_.Int(cols)));
    });
  }

  Value* Panel(int64_t panels, const Features& features, Value* query) {
    return Place(panels, e_.Mul(query, features.size));
  }

  Values KeyProducts(Value* row, Value* query) override {
    return Product(at_.keys, at_.query_panels, plan_.d, row, query);
  }
  Values ValueProducts(Value* row, Value* query) override {
    return Product(at_.values, at_.out_panels, plan_.dv, row, query);
  }

  Values Product(int64_t rows, int64_t panels, const Features& features, Value* row, Value* query) {
    TileA a;
    a.row_bases = {Place(rows, e_.Mul(e_.Add(first_key_, row), features.width))};
    for (int r = 0; r < plan_.key_rows; ++r) a.row_offsets.push_back(r * features.width * 4);
    TileB b;
    b.base = Panel(panels, features, query);
    b.k_stride = plan_.query_cols * 4;
    return AccumulateTile(e_, ScoreShape(), a, b, features.size, ZeroTile(e_, ScoreShape()));
  }

  void StoreWeights(Value* row, Value* query, const Values& weights,
                    const Values& slopes) override {
    for (int i = 0; i < kRowsAtOnce; ++i) {
      e_.StoreF32(e_.Address(ScoreAt(at_.weights, row, query), i * score_stride_), weights[i]);
      e_.StoreF32(e_.Address(ScoreAt(at_.slopes, row, query), i * score_stride_), slopes[i]);
    }
  }

  void AddGradients() override {
    AddToKeys(at_.weights, at_.out_rows, plan_.dv, value_gradients_);
    AddToKeys(at_.slopes, at_.query_rows, plan_.d, key_gradients_);
    AddToQueries();
  }

  // Computes sums[key] += sum over the block's queries of factors[key, query] * rows[query].
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

  // Computes dQ[query] += sum over the block's keys of slopes[key, query] * K[key].
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
        AddTile(shape, a, b, keys_, Place(at_.query_sums, place), features.width * 4);
      });
    });
  }

  void AddTile(const TileShape& shape, const TileA& a, const TileB& b, Value* count, Value* sums,
               int64_t stride) {
    const Values tile = LoadTile(e_, shape, sums, stride);
    StoreTile(e_, shape, sums, stride, AccumulateTile(e_, shape, a, b, count, tile));
  }
};

}  // namespace

std::unique_ptr<Task> MakeF32Task(llvm::IRBuilder<>& builder, const TargetInfo& target,
                                  const KernelFrame& frame, const AttentionBackwardSpec& spec,
                                  const Plan& plan) {
  return std::make_unique<F32Task>(builder, target, frame, spec, plan);
}

}  // namespace hpu::graph_compiler::attention_backward
