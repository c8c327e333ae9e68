#include "graph_compiler/contraction/attention/attention_rows_task.h"

namespace hpu::graph_compiler::attention_rows {
namespace {

using llvm::Value;

class JoinTask : public RowsTask {
 public:
  using RowsTask::RowsTask;

  void Emit(Value* unit) {
    SetUnit(unit);
    Value* first = e_.Mul(unit, plan_.chunks * plan_.rows);
    for (int64_t row = 0; row < plan_.rows; ++row) {
      const auto part = [&](Value* chunk) {
        Value* number = e_.Add(first, e_.Add(e_.Mul(chunk, plan_.rows), row));
        return e_.Address(frame_.Operand(e_.b, kQ), e_.Mul(number, plan_.partial * 4));
      };
      const int64_t end = plan_.value_vectors * lanes_ * 4;
      const Values maximum =
          e_.For(e_.Int(0), e_.Int(plan_.chunks), 1, {e_.F32Const(-INFINITY, 1)},
                 [&](Value* chunk, const Values& so_far) {
                   return Values{e_.MaxF32(e_.LoadF32(e_.Address(part(chunk), end), 1), so_far[0])};
                 });
      Value* shift = Shift(maximum[0]);
      Values init(static_cast<size_t>(plan_.value_vectors), e_.Zero(lanes_));
      init.push_back(e_.Zero(1));
      Values sums =
          e_.For(e_.Int(0), e_.Int(plan_.chunks), 1, init, [&](Value* chunk, const Values& so_far) {
            Value* from = part(chunk);
            Value* weight = Weight(e_.b.CreateFSub(e_.LoadF32(e_.Address(from, end), 1), shift), 1);
            Values next = so_far;
            for (int64_t v = 0; v < plan_.value_vectors; ++v) {
              Value* sum = e_.LoadF32(e_.Address(from, v * lanes_ * 4), lanes_);
              next[v] = e_.Fma(e_.Splat(weight, lanes_), sum, so_far[v]);
            }
            Value* total = e_.LoadF32(e_.Address(from, end + 4), 1);
            next.back() = e_.Fma(weight, total, so_far.back());
            return next;
          });
      Value* total = sums.back();
      sums.pop_back();
      StoreRow(row, sums, total);
    }
  }
};

}  // namespace

void EmitJoinTask(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
                  const AttentionSpec& spec, const RowPlan& plan, Value* unit) {
  JoinTask(builder, target, frame, spec, plan).Emit(unit);
}

}  // namespace hpu::graph_compiler::attention_rows
