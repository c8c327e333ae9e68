// Helpers that emit control flow in IR.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>

namespace hpu::graph_compiler {

// Emits `for (i64 i = begin; i < end; i += step) body(i)`. The builder ends after the loop.
inline void EmitFor(llvm::IRBuilder<>& b, llvm::Value* begin, llvm::Value* end, llvm::Value* step,
                    const std::function<void(llvm::Value*)>& body) {
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::Function* function = before->getParent();
  auto* loop = llvm::BasicBlock::Create(b.getContext(), "loop", function);
  auto* done = llvm::BasicBlock::Create(b.getContext(), "loop_done", function);
  b.CreateCondBr(b.CreateICmpSLT(begin, end), loop, done);
  b.SetInsertPoint(loop);
  llvm::PHINode* i = b.CreatePHI(b.getInt64Ty(), 2);
  i->addIncoming(begin, before);
  body(i);
  llvm::Value* next = b.CreateNSWAdd(i, step);
  i->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(next, end), loop, done);
  b.SetInsertPoint(done);
}

// Emits `if (condition) body()`. The builder ends after it.
inline void EmitIf(llvm::IRBuilder<>& b, llvm::Value* condition,
                   const std::function<void()>& body) {
  llvm::Function* function = b.GetInsertBlock()->getParent();
  auto* then = llvm::BasicBlock::Create(b.getContext(), "then", function);
  auto* done = llvm::BasicBlock::Create(b.getContext(), "then_done", function);
  b.CreateCondBr(condition, then, done);
  b.SetInsertPoint(then);
  body();
  b.CreateBr(done);
  b.SetInsertPoint(done);
}

}  // namespace hpu::graph_compiler
