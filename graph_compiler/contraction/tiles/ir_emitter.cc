#include "graph_compiler/contraction/tiles/ir_emitter.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <cmath>

#include "graph_compiler/codegen/arithmetic.h"
#include "graph_compiler/codegen/convert.h"

namespace hpu::graph_compiler {

using llvm::Value;

llvm::Value* IrEmitter::Mul(Value* x, int64_t factor) {
  if (factor == 0) return Int(0);
  if (factor == 1) return x;
  return b.CreateNSWMul(x, Int(factor));
}

llvm::Value* IrEmitter::Add(Value* x, Value* y) {
  if (const auto* c = llvm::dyn_cast<llvm::ConstantInt>(x); c != nullptr && c->isZero()) return y;
  if (const auto* c = llvm::dyn_cast<llvm::ConstantInt>(y); c != nullptr && c->isZero()) return x;
  return b.CreateNSWAdd(x, y);
}

llvm::Value* IrEmitter::DivConst(Value* x, int64_t divisor) {
  return divisor == 1 ? x : b.CreateUDiv(x, Int(divisor));
}

llvm::Value* IrEmitter::RemConst(Value* x, int64_t divisor) {
  return divisor == 1 ? Int(0) : b.CreateURem(x, Int(divisor));
}

llvm::Value* IrEmitter::Min(Value* x, Value* y) {
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
}

llvm::Value* IrEmitter::Max(Value* x, Value* y) {
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, y);
}

Values IrEmitter::Decompose(Value* flat, const std::vector<int64_t>& sizes) {
  Values index(sizes.size(), Int(0));
  // The outermost coordinate needs no remainder, because `flat` is in range.
  size_t first = 0;
  while (first < sizes.size() && sizes[first] == 1) ++first;
  for (size_t i = sizes.size(); i-- > first;) {
    if (i == first) {
      index[i] = flat;
    } else {
      index[i] = RemConst(flat, sizes[i]);
      flat = DivConst(flat, sizes[i]);
    }
  }
  return index;
}

llvm::Value* IrEmitter::Dot(const Values& index, const std::vector<int64_t>& strides) {
  Value* sum = Int(0);
  for (size_t i = 0; i < strides.size(); ++i) sum = Add(sum, Mul(index[i], strides[i]));
  return sum;
}

llvm::Value* IrEmitter::Address(Value* base, Value* bytes) {
  if (const auto* c = llvm::dyn_cast<llvm::ConstantInt>(bytes); c != nullptr && c->isZero()) {
    return base;
  }
  return b.CreateGEP(b.getInt8Ty(), base, bytes);
}

void IrEmitter::For(Value* begin, Value* end, int64_t step,
                    const std::function<void(Value*)>& body) {
  For(begin, end, step, {}, [&](Value* i, const Values&) {
    body(i);
    return Values();
  });
}

Values IrEmitter::For(Value* begin, Value* end, int64_t step, const Values& init,
                      const std::function<Values(Value*, const Values&)>& body) {
  llvm::Value* any = b.CreateICmpSLT(begin, end);
  if (const auto* c = llvm::dyn_cast<llvm::ConstantInt>(any); c != nullptr && c->isZero()) {
    return init;
  }
  llvm::Function* function = b.GetInsertBlock()->getParent();
  llvm::BasicBlock* before = b.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(b.getContext(), "loop", function);
  auto* after = llvm::BasicBlock::Create(b.getContext(), "after", function);
  b.CreateCondBr(any, loop, after);
  b.SetInsertPoint(loop);
  llvm::PHINode* i = b.CreatePHI(begin->getType(), 2, "i");
  i->addIncoming(begin, before);
  std::vector<llvm::PHINode*> phis;
  Values carried;
  for (Value* value : init) {
    phis.push_back(b.CreatePHI(value->getType(), 2));
    phis.back()->addIncoming(value, before);
    carried.push_back(phis.back());
  }
  const Values next_values = body(i, carried);
  Value* next = b.CreateNSWAdd(i, llvm::ConstantInt::get(i->getType(), step));
  llvm::BasicBlock* latch = b.GetInsertBlock();
  i->addIncoming(next, latch);
  for (size_t p = 0; p < phis.size(); ++p) phis[p]->addIncoming(next_values[p], latch);
  b.CreateCondBr(b.CreateICmpSLT(next, end), loop, after);
  b.SetInsertPoint(after);
  Values result;
  for (size_t p = 0; p < phis.size(); ++p) {
    llvm::PHINode* out = b.CreatePHI(init[p]->getType(), 2);
    out->addIncoming(init[p], before);
    out->addIncoming(next_values[p], latch);
    result.push_back(out);
  }
  return result;
}

void IrEmitter::If(Value* condition, const std::function<void()>& then,
                   const std::function<void()>& otherwise) {
  Choose(
      condition,
      [&] {
        then();
        return Values();
      },
      [&] {
        if (otherwise) otherwise();
        return Values();
      });
}

Values IrEmitter::Choose(Value* condition, const std::function<Values()>& then,
                         const std::function<Values()>& otherwise) {
  if (const auto* c = llvm::dyn_cast<llvm::ConstantInt>(condition)) {
    return c->isZero() ? otherwise() : then();
  }
  llvm::Function* function = b.GetInsertBlock()->getParent();
  auto* then_block = llvm::BasicBlock::Create(b.getContext(), "then", function);
  auto* else_block = llvm::BasicBlock::Create(b.getContext(), "else", function);
  auto* join = llvm::BasicBlock::Create(b.getContext(), "join", function);
  b.CreateCondBr(condition, then_block, else_block);
  b.SetInsertPoint(then_block);
  const Values then_values = then();
  then_block = b.GetInsertBlock();
  b.CreateBr(join);
  b.SetInsertPoint(else_block);
  const Values else_values = otherwise();
  else_block = b.GetInsertBlock();
  b.CreateBr(join);
  b.SetInsertPoint(join);
  Values result;
  for (size_t i = 0; i < then_values.size(); ++i) {
    llvm::PHINode* phi = b.CreatePHI(then_values[i]->getType(), 2);
    phi->addIncoming(then_values[i], then_block);
    phi->addIncoming(else_values[i], else_block);
    result.push_back(phi);
  }
  return result;
}

llvm::Type* IrEmitter::F32(int lanes) { return WithLanes(b.getFloatTy(), lanes); }

llvm::Value* IrEmitter::F32Const(float value, int lanes) {
  return llvm::ConstantFP::get(F32(lanes), llvm::APFloat(value));
}

llvm::Value* IrEmitter::Splat(Value* scalar, int lanes) {
  return lanes == 1 ? scalar : b.CreateVectorSplat(lanes, scalar);
}

llvm::Value* IrEmitter::Fma(Value* x, Value* y, Value* sum) {
  return EmitFma(b, target_, x, y, sum);
}

llvm::Value* IrEmitter::LoadF32(Value* address, int lanes) {
  return b.CreateAlignedLoad(F32(lanes), address, llvm::Align(4));
}

Value* IrEmitter::MemberOfGroup(Value* x, int64_t group, int64_t member) {
  if (group == 1) return x;
  std::vector<int> order;
  for (int c = 0; c < lanes_; ++c) order.push_back(static_cast<int>(c / group * group + member));
  return b.CreateShuffleVector(x, order);
}

void IrEmitter::StoreF32(Value* address, Value* value) {
  b.CreateAlignedStore(value, address, llvm::Align(4));
}

llvm::Value* IrEmitter::LoadWide(Value* address, MemoryType type, int lanes, Value* mask) {
  const int size = MemoryTypeSize(type);
  llvm::Type* loaded = WithLanes(ElementType(b.getContext(), type), lanes);
  Value* raw;
  if (mask == nullptr) {
    raw = b.CreateAlignedLoad(loaded, address, llvm::Align(size));
  } else {
    raw = b.CreateMaskedLoad(loaded, address, llvm::Align(size), mask,
                             llvm::Constant::getNullValue(loaded));
  }
  if (type == MemoryType::kBool) {
    Value* keep = b.CreateICmpNE(raw, llvm::Constant::getNullValue(raw->getType()));
    return b.CreateSelect(keep, Zero(lanes), F32Const(-INFINITY, lanes));
  }
  return Widen(b, target_, raw, type);
}

llvm::Value* IrEmitter::LoadBF16(Value* address, MemoryType type, int lanes, Value* mask) {
  if (type != MemoryType::kBF16) {
    return Narrow(b, target_, LoadWide(address, MemoryType::kF32, lanes, mask), ScalarType::kF32,
                  MemoryType::kBF16);
  }
  llvm::Type* words = WithLanes(b.getInt16Ty(), lanes);
  if (mask == nullptr) return b.CreateAlignedLoad(words, address, llvm::Align(2));
  return b.CreateMaskedLoad(words, address, llvm::Align(2), mask,
                            llvm::Constant::getNullValue(words));
}

llvm::Value* IrEmitter::DotPairs(Value* x, Value* y, Value* sum) {
  llvm::Type* halves = llvm::FixedVectorType::get(b.getBFloatTy(), 2 * lanes_);
  return b.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {},
                           {sum, b.CreateBitCast(x, halves), b.CreateBitCast(y, halves)});
}

llvm::Type* IrEmitter::I32(int lanes) {
  return lanes == 1 ? static_cast<llvm::Type*>(b.getInt32Ty())
                    : llvm::FixedVectorType::get(b.getInt32Ty(), static_cast<unsigned>(lanes));
}

llvm::Value* IrEmitter::DotIntegers(Value* x, Value* y, Value* sum) {
  llvm::Type* dwords = I32(lanes_);
  sum = b.CreateBitCast(sum, dwords);
  if (target_.avx512_bf16) {
    Value* next = b.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpdpbusd_512, {},
                                    {sum, b.CreateBitCast(x, dwords), b.CreateBitCast(y, dwords)});
    return b.CreateBitCast(next, F32(lanes_));
  }
  llvm::Type* words = llvm::FixedVectorType::get(b.getInt16Ty(), 2 * lanes_);
  const llvm::Intrinsic::ID multiply = lanes_ == 16  ? llvm::Intrinsic::x86_avx512_pmaddw_d_512
                                       : lanes_ == 8 ? llvm::Intrinsic::x86_avx2_pmadd_wd
                                                     : llvm::Intrinsic::x86_sse2_pmadd_wd;
  Value* products =
      b.CreateIntrinsic(multiply, {}, {b.CreateBitCast(x, words), b.CreateBitCast(y, words)});
  return b.CreateBitCast(b.CreateAdd(sum, products), F32(lanes_));
}

void IrEmitter::Prefetch(Value* address, int locality) {
  constexpr int kRead = 0, kData = 1;
  b.CreateIntrinsic(llvm::Intrinsic::prefetch, {address->getType()},
                    {address, b.getInt32(kRead), b.getInt32(locality), b.getInt32(kData)});
}

void IrEmitter::StoreFence() { b.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {}); }

llvm::Value* IrEmitter::LaneMask(Value* count, int lanes) {
  if (lanes == 1) return b.CreateICmpSGT(count, Int(0));
  std::vector<llvm::Constant*> numbers;
  for (int i = 0; i < lanes; ++i) numbers.push_back(b.getInt32(i));
  Value* limit = b.CreateTrunc(Min(count, Int(lanes)), b.getInt32Ty());
  return b.CreateICmpSLT(llvm::ConstantVector::get(numbers), Splat(limit, lanes));
}

llvm::Value* IrEmitter::Interleave(Value* x, Value* y, int distance, bool high) {
  const int n = static_cast<int>(llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements());
  std::vector<int> indices;
  for (int i = 0; i < n; ++i) {
    const int source = high ? (i | distance) : (i & ~distance);
    indices.push_back((i & distance) != 0 ? n + source : source);
  }
  return b.CreateShuffleVector(x, y, indices);
}

Values IrEmitter::Transpose(Values vectors) {
  // This is a butterfly: step d exchanges bit d of the vector number with bit d of the lane number.
  const int n = static_cast<int>(vectors.size());
  for (int distance = 1; distance < n; distance *= 2) {
    Values next(vectors.size());
    for (int i = 0; i < n; ++i) {
      if ((i & distance) != 0) continue;
      next[i] = Interleave(vectors[i], vectors[i | distance], distance, false);
      next[i | distance] = Interleave(vectors[i], vectors[i | distance], distance, true);
    }
    vectors = std::move(next);
  }
  return vectors;
}

llvm::Value* IrEmitter::AddInterleaved(Value* x, Value* y, int distance) {
  return b.CreateFAdd(Interleave(x, y, distance, false), Interleave(x, y, distance, true));
}

llvm::Value* IrEmitter::SumLanes(Values vectors) {
  for (int distance = 1; vectors.size() > 1; distance *= 2) {
    Values next;
    for (size_t i = 0; i + 1 < vectors.size(); i += 2) {
      next.push_back(AddInterleaved(vectors[i], vectors[i + 1], distance));
    }
    vectors = std::move(next);
  }
  return vectors[0];
}

llvm::Value* IrEmitter::MaxF32(Value* x, Value* y) {
  // This is x86's max, which returns y unless x > y. It is one instruction, unlike llvm.maxnum.
  return b.CreateSelect(b.CreateFCmpOGT(x, y), x, y);
}

}  // namespace hpu::graph_compiler
