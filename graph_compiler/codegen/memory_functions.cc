#include "graph_compiler/codegen/memory_functions.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

#include <string>

namespace hpu::graph_compiler {
namespace {

struct Needed {
  bool copy = false;
  bool move = false;
  bool set = false;
};

Needed FindNeeded(const llvm::Module& module) {
  Needed needed;
  for (const llvm::Function& function : module) {
    for (const llvm::Instruction& instruction : llvm::instructions(function)) {
      if (llvm::isa<llvm::MemCpyInst>(instruction)) needed.copy = true;
      if (llvm::isa<llvm::MemMoveInst>(instruction)) needed.move = true;
      if (llvm::isa<llvm::MemSetInst>(instruction)) needed.set = true;
    }
  }
  return needed;
}

llvm::Function* Define(llvm::Module& module, const char* name, llvm::Type* second) {
  llvm::IRBuilder<> builder(module.getContext());
  auto* type = llvm::FunctionType::get(builder.getPtrTy(),
                                       {builder.getPtrTy(), second, builder.getInt64Ty()}, false);
  auto* function = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, name, &module);
  function->setVisibility(llvm::GlobalValue::HiddenVisibility);
  return function;
}

// These are string instructions: every CPU of the supported levels runs them at cache-line speed
// for the sizes that reach a call, and LLVM cannot turn them back into a call of the function
// itself.
void CallString(llvm::IRBuilder<>& builder, const std::string& code, const std::string& constraints,
                const std::vector<llvm::Value*>& values) {
  std::vector<llvm::Type*> types;
  for (llvm::Value* value : values) types.push_back(value->getType());
  std::vector<llvm::Type*> outputs(3, builder.getInt64Ty());
  outputs[0] = builder.getPtrTy();
  outputs[1] = values[1]->getType();
  std::string outs;
  if (values[1]->getType()->isPointerTy()) {
    outs = "={di},={si},={cx},";
  } else {
    outputs.erase(outputs.begin() + 1);
    outs = "={di},={cx},";
  }
  auto* result = llvm::StructType::get(builder.getContext(), outputs);
  auto* type = llvm::FunctionType::get(result, types, false);
  builder.CreateCall(llvm::InlineAsm::get(type, code, outs + constraints, /*hasSideEffects=*/true),
                     values);
}

llvm::Function* DefineCopy(llvm::Module& module, const char* name, bool may_overlap) {
  llvm::IRBuilder<> builder(module.getContext());
  llvm::Function* function = Define(module, name, builder.getPtrTy());
  llvm::Value* to = function->getArg(0);
  llvm::Value* from = function->getArg(1);
  llvm::Value* size = function->getArg(2);
  constexpr char kClobbers[] = "~{memory},~{dirflag},~{flags}";
  auto* entry = llvm::BasicBlock::Create(module.getContext(), "entry", function);
  auto* forward = llvm::BasicBlock::Create(module.getContext(), "forward", function);
  builder.SetInsertPoint(forward);
  CallString(builder, "rep movsb", std::string("0,1,2,") + kClobbers, {to, from, size});
  builder.CreateRet(to);
  builder.SetInsertPoint(entry);
  if (!may_overlap) {
    builder.CreateBr(forward);
    return function;
  }
  // If the destination is inside [from, from + size), the copy must run from the end.
  auto* backward = llvm::BasicBlock::Create(module.getContext(), "backward", function);
  llvm::Type* i64 = builder.getInt64Ty();
  llvm::Value* distance =
      builder.CreateSub(builder.CreatePtrToInt(to, i64), builder.CreatePtrToInt(from, i64));
  builder.CreateCondBr(builder.CreateICmpULT(distance, size), backward, forward);
  builder.SetInsertPoint(backward);
  llvm::Value* last = builder.CreateSub(size, builder.getInt64(1));
  llvm::Type* i8 = builder.getInt8Ty();
  CallString(builder, "std; rep movsb; cld", std::string("0,1,2,") + kClobbers,
             {builder.CreateGEP(i8, to, last), builder.CreateGEP(i8, from, last), size});
  builder.CreateRet(to);
  return function;
}

llvm::Function* DefineSet(llvm::Module& module) {
  llvm::IRBuilder<> builder(module.getContext());
  llvm::Function* function = Define(module, "memset", builder.getInt32Ty());
  builder.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", function));
  llvm::Value* to = function->getArg(0);
  llvm::Value* byte = builder.CreateTrunc(function->getArg(1), builder.getInt8Ty());
  CallString(builder, "rep stosb", "0,{ax},1,~{memory},~{dirflag},~{flags}",
             {to, byte, function->getArg(2)});
  builder.CreateRet(to);
  return function;
}

}  // namespace

std::vector<llvm::Function*> AddMemoryFunctions(llvm::Module& module) {
  const Needed needed = FindNeeded(module);
  std::vector<llvm::Function*> functions;
  if (needed.copy) functions.push_back(DefineCopy(module, "memcpy", /*may_overlap=*/false));
  if (needed.move) functions.push_back(DefineCopy(module, "memmove", /*may_overlap=*/true));
  if (needed.set) functions.push_back(DefineSet(module));
  return functions;
}

}  // namespace hpu::graph_compiler
