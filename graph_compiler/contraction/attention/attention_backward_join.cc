#include "graph_compiler/contraction/attention/attention_backward_task.h"

namespace hpu::graph_compiler::attention_backward {
namespace {

using llvm::Value;

class Join : public Base {
 public:
  using Base::Base;

  void Emit(Value* task) {
    const Values index = e_.Decompose(task, {spec_.batch, key_heads_, plan_.join_blocks});
    batch_ = index[0];
    key_head_ = index[1];
    unit_ = e_.Add(e_.Mul(batch_, key_heads_), key_head_);
    Value* begin = e_.Mul(index[2], plan_.join_rows);
    Value* end = e_.Min(e_.Add(begin, plan_.join_rows), e_.Int(spec_.n));
    e_.For(begin, end, 1, [&](Value* row) {
      Sum(kKGradient, gradient_.k_gradient_strides, plan_.d, row);
      Sum(kVGradient, gradient_.v_gradient_strides, plan_.dv, row);
    });
  }

 private:
  void Sum(Operand operand, const int64_t* strides, const Features& features, Value* row) {
    const int cols = static_cast<int>(features.cols);
    StoreRow(operand, strides, features, key_head_, row, [&](Value* col) {
      Value* place = e_.Mul(e_.Add(e_.Mul(row, features.width), col), 4);
      Value* first = e_.Mul(unit_, plan_.splits);
      return e_.For(e_.Int(0), e_.Int(plan_.splits), 1, {e_.Zero(cols)},
                    [&](Value* split, const Values& so_far) {
                      Value* from = Partial(e_.Add(first, split), operand == kVGradient);
                      Value* part = e_.LoadF32(e_.Address(from, place), cols);
                      return Values{e_.b.CreateFAdd(so_far[0], part)};
                    })[0];
    });
  }

  Value* unit_ = nullptr;
};

}  // namespace

void EmitJoin(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
              const AttentionBackwardSpec& spec, const Plan& plan, Value* task) {
  Join(builder, target, frame, spec, plan).Emit(task);
}

}  // namespace hpu::graph_compiler::attention_backward
