#include "graph_compiler/contraction/attention/attention_dropout.h"

#include <cmath>

#include "graph_compiler/codegen/philox.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

// A number is below `keep` if its upper 24 bits are below this threshold: both are whole multiples
// of 2^-24, or `keep` lies between two.
uint32_t Threshold(float keep) {
  return static_cast<uint32_t>(std::ceil(static_cast<double>(keep) * 0x1p24)) << 8;
}

}  // namespace

KeptWeights::KeptWeights(IrEmitter& e, const KernelFrame& frame, const AttentionSpec& spec,
                         uint32_t seed, int64_t key_step)
    : e_(e), spec_(spec), aligned_(spec.n % kRows == 0 && key_step % kRows == 0) {
  const auto load = [&](uint32_t operand) -> Value* {
    return e_.b.CreateAlignedLoad(e_.b.getInt64Ty(), frame.Operand(e_.b, operand), llvm::Align(8));
  };
  seed_ = load(seed);
  first_ = e_.Add(load(seed + 1), load(seed + 2));
}

void KeptWeights::SetHead(Value* batch, Value* head) {
  head_ = e_.Add(e_.Mul(batch, spec_.heads), head);
}

KeptWeights::Column KeptWeights::At(Value* query, Value* key) {
  const int lanes = e_.lanes();
  Value* place = e_.Add(e_.Mul(e_.Add(e_.Mul(head_, spec_.m), query), spec_.n), key);
  const auto of_lanes = [&](llvm::Type* type, const std::function<int(int)>& lane) {
    llvm::SmallVector<llvm::Constant*, 16> steps;
    for (int i = 0; i < lanes; ++i) {
      steps.push_back(llvm::ConstantInt::get(type, static_cast<uint64_t>(lane(i) * spec_.n)));
    }
    Value* first = e_.b.CreateTrunc(place, type);
    return e_.b.CreateAdd(e_.b.CreateVectorSplat(static_cast<unsigned>(lanes), first),
                          llvm::ConstantVector::get(steps));
  };
  Value* places = of_lanes(e_.b.getInt64Ty(), [&](int i) { return PhiloxLane(i, lanes); });
  Column column;
  column.first_block = e_.b.CreateAdd(e_.b.CreateLShr(places, 2),
                                      e_.b.CreateVectorSplat(static_cast<unsigned>(lanes), first_));
  if (aligned_) return column;
  Value* in_block = of_lanes(e_.b.getInt32Ty(), [](int i) { return i; });
  const auto bit = [&](uint64_t mask) {
    llvm::Type* type = in_block->getType();
    return e_.b.CreateICmpNE(e_.b.CreateAnd(in_block, llvm::ConstantInt::get(type, mask)),
                             llvm::ConstantInt::get(type, 0));
  };
  column.odd = bit(1);
  column.second_half = bit(2);
  column.state = Words(column, e_.Int(0));
  return column;
}

Values KeptWeights::Words(const Column& column, Value* block) {
  Value* blocks = e_.b.CreateAdd(column.first_block,
                                 e_.b.CreateVectorSplat(static_cast<unsigned>(e_.lanes()), block));
  const auto words = EmitPhiloxBlocks(e_.b, seed_, blocks);
  return {words.begin(), words.end()};
}

Value* KeptWeights::Kept(Value* word) {
  return e_.b.CreateICmpULT(word, llvm::ConstantInt::get(word->getType(), Threshold(spec_.keep)));
}

Values KeptWeights::Next(const Column& column, Value* row, Values* state) {
  Value* block = e_.DivConst(row, kRows);
  Values words;
  if (aligned_) {
    words = Words(column, block);
  } else {
    Values both = std::move(*state);
    *state = Words(column, e_.Add(block, 1));
    both.insert(both.end(), state->begin(), state->end());
    for (int i = 0; i <= kRows; ++i) {
      both[i] = e_.b.CreateSelect(column.second_half, both[i + 2], both[i]);
    }
    for (int i = 0; i < kRows; ++i) {
      words.push_back(e_.b.CreateSelect(column.odd, both[i + 1], both[i]));
    }
  }
  for (Value*& word : words) word = Kept(word);
  return words;
}

}  // namespace hpu::graph_compiler
