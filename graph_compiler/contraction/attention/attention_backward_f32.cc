#include "graph_compiler/contraction/attention/attention_backward_task.h"

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

  Steps QuerySteps() override { return {queries_, 1}; }
  Steps KeySteps() override { return {keys_, 1}; }

  void StoreWeights(Value* row, Value* query, const Values& weights,
                    const Values& slopes) override {
    for (int i = 0; i < kRowsAtOnce; ++i) {
      e_.StoreF32(e_.Address(ScoreAt(at_.weights, row, query), i * score_stride_), weights[i]);
      e_.StoreF32(e_.Address(ScoreAt(at_.slopes, row, query), i * score_stride_), slopes[i]);
    }
  }

  void AddToQueries() override {
    const Features& features = plan_.d;
    const TileShape shape{features.rows, features.vectors};
    e_.For(e_.Int(0), queries_, features.rows, [&](Value* row) {
      e_.For(e_.Int(0), e_.Int(features.panels), 1, [&](Value* panel) {
        Value* col = e_.Mul(panel, features.cols);
        const FactorRows a{Place(at_.slopes, row), 4, score_stride_};
        const TileB b = RowsOf(Place(at_.keys, e_.Add(e_.Mul(first_key_, features.width), col)),
                               features.width);
        Value* place = e_.Add(e_.Mul(row, features.width), col);
        AddProduct(shape, a, b, KeySteps(), {Place(at_.query_sums, place), features.width * 4});
      });
    });
  }
};

}  // namespace

std::unique_ptr<Task> MakeF32Task(llvm::IRBuilder<>& builder, const TargetInfo& target,
                                  const KernelFrame& frame, const AttentionBackwardSpec& spec,
                                  const Plan& plan) {
  return std::make_unique<F32Task>(builder, target, frame, spec, plan);
}

}  // namespace hpu::graph_compiler::attention_backward
