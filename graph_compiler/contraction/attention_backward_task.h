// What the kernels of attention's gradient share.
#pragma once

#include "graph_compiler/codegen/body.h"
#include "graph_compiler/contraction/attention_backward.h"

namespace hpu::graph_compiler::attention_backward {

inline BodyOp MakeOp(Opcode opcode, std::vector<uint32_t> args = {}) {
  BodyOp op;
  op.op = opcode;
  op.type = ScalarType::kF32;
  op.args = std::move(args);
  return op;
}

// What both kernels do: store rows of a gradient.
class Base {
 public:
  Base(llvm::IRBuilder<>& builder, const TargetInfo& target, const KernelFrame& frame,
       const AttentionBackwardSpec& spec, const Plan& plan)
      : e_(builder, target),
        frame_(frame),
        gradient_(spec),
        spec_(spec.forward),
        plan_(plan),
        key_heads_(spec.forward.heads / spec.forward.kv_repeat) {}

 protected:
  // Where a task's share of dK or dV lies.
  llvm::Value* Partial(llvm::Value* task, bool of_values) {
    llvm::Value* offset = e_.Mul(task, plan_.partial_floats() * 4);
    if (of_values) offset = e_.Add(offset, plan_.keys * plan_.d.width * 4);
    return e_.Address(frame_.Operand(e_.b, kPartial), offset);
  }

  // One row of `operand`; `load` gives `cols` floats from a column on.
  void StoreRow(Operand operand, const int64_t* strides, const Features& features,
                llvm::Value* head, llvm::Value* row,
                const std::function<llvm::Value*(llvm::Value* col)>& load) {
    Body store;
    store.ops.push_back(MakeOp(Opcode::kAccumulator));
    Store to;
    to.access.operand = operand;
    to.access.type = spec_.type;
    to.access.strides.assign(strides, strides + 4);
    store.stores.push_back(to);
    const int cols = static_cast<int>(features.cols);
    e_.For(e_.Int(0), e_.Int(features.panels), 1, [&](llvm::Value* panel) {
      llvm::Value* col = e_.Mul(panel, cols);
      BodyPosition position;
      position.index = {batch_, head, row, col};
      position.lanes = cols;
      if (features.size % cols != 0) {
        position.mask = e_.LaneMask(e_.Sub(e_.Int(features.size), col), cols);
      }
      EmitBody(e_.b, frame_, e_.target(), store, position, {load(col)});
    });
  }

  IrEmitter e_;
  const KernelFrame& frame_;
  const AttentionBackwardSpec& gradient_;
  const AttentionSpec& spec_;
  const Plan& plan_;
  const int64_t key_heads_;
  llvm::Value* batch_ = nullptr;
  llvm::Value* key_head_ = nullptr;
};

}  // namespace hpu::graph_compiler::attention_backward
