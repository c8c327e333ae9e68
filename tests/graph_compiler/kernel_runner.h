// Compiles one Body as an elementwise kernel over n elements and runs it, for the codegen tests.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "graph_compiler/codegen/body.h"
#include "graph_compiler/codegen/module.h"
#include "graph_compiler/codegen/run_image.h"

namespace hpu::graph_compiler {

inline std::vector<IsaLevel> RunnableIsaLevels() {
  std::vector<IsaLevel> levels = {IsaLevel::kV2};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    levels.push_back(IsaLevel::kV3);
  }
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd")) {
    levels.push_back(IsaLevel::kV4);
  }
  return levels;
}

// A kernel of one task: for (i = 0; i < operand n; ...) body, with `lanes` elements at a time and a
// masked tail. Operand `count_operand` points to the i64 element count.
class BodyRunner {
 public:
  BodyRunner(IsaLevel isa, const Body& body, uint32_t count_operand, int lanes = 0) {
    const TargetInfo target = TargetInfoFor(isa);
    KernelModule module(target);
    if (lanes == 0) lanes = target.f32_lanes;
    module.AddKernel("body", [&](llvm::IRBuilder<>& b, const KernelFrame& frame, llvm::Value*) {
      EmitLoop(b, frame, target, body, lanes,
               b.CreateLoad(b.getInt64Ty(), frame.Operand(b, count_operand)));
    });
    auto image = module.Finish(SizesAs::kSymbols);
    EXPECT_TRUE(image.ok()) << image.status();
    if (image.ok()) {
      code_ = std::move(image->code);
      mapped_ = std::make_unique<MappedImage>(code_);
    }
  }

  void Run(const std::vector<void*>& operands) const { mapped_->Run(0, operands, 0, 1); }
  const Bytes& code() const { return code_; }

 private:
  static void EmitLoop(llvm::IRBuilder<>& b, const KernelFrame& frame, const TargetInfo& target,
                       const Body& body, int lanes, llvm::Value* count) {
    llvm::LLVMContext& context = b.getContext();
    auto* head = llvm::BasicBlock::Create(context, "head", frame.function);
    auto* full = llvm::BasicBlock::Create(context, "full", frame.function);
    auto* check = llvm::BasicBlock::Create(context, "check", frame.function);
    auto* tail = llvm::BasicBlock::Create(context, "tail", frame.function);
    auto* done = llvm::BasicBlock::Create(context, "done", frame.function);
    llvm::BasicBlock* before = b.GetInsertBlock();
    b.CreateBr(head);
    b.SetInsertPoint(head);
    llvm::PHINode* i = b.CreatePHI(b.getInt64Ty(), 2);
    i->addIncoming(b.getInt64(0), before);
    llvm::Value* next = b.CreateAdd(i, b.getInt64(static_cast<uint64_t>(lanes)));
    b.CreateCondBr(b.CreateICmpSLE(next, count), full, check);
    b.SetInsertPoint(full);
    BodyPosition position{{i}, lanes, nullptr};
    EmitBody(b, frame, target, body, position, {});
    i->addIncoming(next, b.GetInsertBlock());
    b.CreateBr(head);
    b.SetInsertPoint(check);
    b.CreateCondBr(b.CreateICmpSLT(i, count), tail, done);
    b.SetInsertPoint(tail);
    if (lanes > 1) {
      llvm::Value* left = b.CreateVectorSplat(static_cast<unsigned>(lanes), b.CreateSub(count, i));
      std::vector<llvm::Constant*> steps;
      for (int lane = 0; lane < lanes; ++lane) {
        steps.push_back(b.getInt64(static_cast<uint64_t>(lane)));
      }
      position.mask = b.CreateICmpSLT(llvm::ConstantVector::get(steps), left);
    }
    EmitBody(b, frame, target, body, position, {});
    b.CreateBr(done);
    b.SetInsertPoint(done);
  }

  Bytes code_;
  std::unique_ptr<MappedImage> mapped_;
};

inline uint32_t AddLoad(Body& body, uint32_t operand, MemoryType type, int64_t stride = 1,
                        int64_t offset = 0) {
  BodyOp op{Opcode::kLoad, ComputeType(type), {}, 0, 0, {}};
  op.access = Access{operand, type, {stride}, offset};
  body.ops.push_back(op);
  return static_cast<uint32_t>(body.ops.size() - 1);
}
inline uint32_t AddOp(Body& body, Opcode opcode, ScalarType type, std::vector<uint32_t> args,
                      int64_t imm_int = 0, double imm_f32 = 0) {
  body.ops.push_back(BodyOp{opcode, type, std::move(args), imm_f32, imm_int, {}});
  return static_cast<uint32_t>(body.ops.size() - 1);
}
inline void AddStore(Body& body, uint32_t value, uint32_t operand, MemoryType type,
                     int64_t stride = 1) {
  body.stores.push_back(Store{value, Access{operand, type, {stride}, 0}});
}

}  // namespace hpu::graph_compiler
