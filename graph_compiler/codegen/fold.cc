#include "graph_compiler/codegen/fold.h"

#include "graph_compiler/codegen/arithmetic.h"
#include "graph_compiler/codegen/convert.h"

namespace hpu::graph_compiler {
namespace {

Opcode CombineOp(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kProd:
      return Opcode::kMul;
    case ReduceKind::kMax:
      return Opcode::kMax;
    case ReduceKind::kMin:
      return Opcode::kMin;
    default:
      return Opcode::kAdd;
  }
}

llvm::Constant* Identity(llvm::Type* type, ReduceKind kind) {
  llvm::Type* element = type->getScalarType();
  const auto splat = [&](llvm::Constant* value) -> llvm::Constant* {
    const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
    return vector == nullptr ? value
                             : llvm::ConstantVector::getSplat(vector->getElementCount(), value);
  };
  if (kind == ReduceKind::kSum) return llvm::Constant::getNullValue(type);
  if (element->isFloatTy()) {
    if (kind == ReduceKind::kProd) return splat(llvm::ConstantFP::get(element, 1.0));
    return splat(llvm::ConstantFP::getInfinity(element, kind == ReduceKind::kMax));
  }
  const unsigned bits = element->getIntegerBitWidth();
  if (kind == ReduceKind::kProd) return splat(llvm::ConstantInt::get(element, 1));
  if (bits == 1) return splat(llvm::ConstantInt::get(element, kind == ReduceKind::kMin ? 1 : 0));
  const llvm::APInt limit = kind == ReduceKind::kMax ? llvm::APInt::getSignedMinValue(bits)
                                                     : llvm::APInt::getSignedMaxValue(bits);
  return splat(llvm::ConstantInt::get(element, limit));
}

}  // namespace

PassFold::PassFold(llvm::IRBuilder<>& builder, const KernelFrame& frame, const TargetInfo& target,
                   const LoopPass& pass, int copies, int lanes)
    : b_(builder), target_(target), pass_(pass), slots_(static_cast<size_t>(copies)) {
  for (auto& copy : slots_) {
    for (const LoopPass::Result& result : pass.results) {
      llvm::Type* type =
          WithLanes(ElementType(b_.getContext(), pass.body.ops[result.value].type), lanes);
      llvm::BasicBlock& entry = frame.function->getEntryBlock();
      llvm::IRBuilder<> at_entry(&entry, entry.begin());
      llvm::AllocaInst* slot = at_entry.CreateAlloca(type);
      b_.CreateStore(Identity(type, result.kind), slot);
      copy.push_back(slot);
    }
  }
}

llvm::Value* PassFold::Combine(size_t result, llvm::Value* x, llvm::Value* y) {
  const ScalarType type = pass_.body.ops[pass_.results[result].value].type;
  return EmitArithmetic(b_, target_, CombineOp(pass_.results[result].kind), type, type, {x, y});
}

void PassFold::Accumulate(size_t copy, const std::vector<llvm::Value*>& values, llvm::Value* mask) {
  for (size_t r = 0; r < pass_.results.size(); ++r) {
    llvm::Value* value = values[pass_.results[r].value];
    if (mask != nullptr) {
      value = b_.CreateSelect(mask, value, Identity(value->getType(), pass_.results[r].kind));
    }
    llvm::AllocaInst* slot = slots_[copy][r];
    b_.CreateStore(Combine(r, b_.CreateLoad(value->getType(), slot), value), slot);
  }
}

llvm::Value* PassFold::FoldLanes(size_t result, llvm::Value* vector) {
  const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(vector->getType());
  if (type == nullptr) return vector;
  for (unsigned lanes = type->getNumElements() / 2; lanes > 0; lanes /= 2) {
    std::vector<int> low;
    std::vector<int> high;
    for (unsigned i = 0; i < lanes; ++i) {
      low.push_back(static_cast<int>(i));
      high.push_back(static_cast<int>(i + lanes));
    }
    vector =
        Combine(result, b_.CreateShuffleVector(vector, low), b_.CreateShuffleVector(vector, high));
  }
  return b_.CreateExtractElement(vector, uint64_t{0});
}

std::vector<llvm::Value*> PassFold::Finish(bool horizontal) {
  std::vector<llvm::Value*> results;
  for (size_t r = 0; r < pass_.results.size(); ++r) {
    llvm::Value* value = nullptr;
    for (const auto& copy : slots_) {
      llvm::Value* part = b_.CreateLoad(copy[r]->getAllocatedType(), copy[r]);
      value = value == nullptr ? part : Combine(r, value, part);
    }
    results.push_back(horizontal ? FoldLanes(r, value) : value);
  }
  return results;
}

}  // namespace hpu::graph_compiler
