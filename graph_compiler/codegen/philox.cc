#include "graph_compiler/codegen/philox.h"

#include <array>

#include "base/philox.h"

namespace hpu::graph_compiler {
namespace {

// Words are the lower halves of i64 lanes, because those are what the machine multiplies; the upper
// halves hold anything.
using Words = std::array<llvm::Value*, 4>;

llvm::Value* Constant(llvm::Type* type, uint64_t value) {
  return llvm::ConstantInt::get(type, value);
}

llvm::Value* SplatLike(llvm::IRBuilder<>& b, llvm::Value* scalar, llvm::Type* type) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  return vector == nullptr ? scalar : b.CreateVectorSplat(vector->getNumElements(), scalar);
}

llvm::Value* High(llvm::IRBuilder<>& b, llvm::Value* value) { return b.CreateLShr(value, 32); }

Words EmitBlocks(llvm::IRBuilder<>& b, llvm::Value* seed, llvm::Value* block) {
  llvm::Type* type = block->getType();
  llvm::Value* zero = Constant(type, 0);
  Words words = {block, High(b, block), zero, zero};
  const auto multiplied = [&](llvm::Value* word, uint32_t factor) {
    return b.CreateMul(b.CreateAnd(word, Constant(type, 0xFFFFFFFF)), Constant(type, factor));
  };
  std::array<llvm::Value*, 2> key = {seed, High(b, seed)};
  for (int round = 0; round < kPhiloxRounds; ++round) {
    llvm::Value* first = multiplied(words[0], kPhiloxMultipliers[0]);
    llvm::Value* second = multiplied(words[2], kPhiloxMultipliers[1]);
    const auto mixed = [&](llvm::Value* product, llvm::Value* word, size_t half) {
      return b.CreateXor(b.CreateXor(High(b, product), word), SplatLike(b, key[half], type));
    };
    words = {mixed(second, words[1], 0), second, mixed(first, words[3], 1), first};
    for (size_t half = 0; half < 2; ++half) {
      key[half] = b.CreateAdd(key[half], b.getInt64(kPhiloxKeySteps[half]));
    }
  }
  return words;
}

llvm::Value* AsUniform(llvm::IRBuilder<>& b, llvm::Value* bits) {
  llvm::Type* type = b.getFloatTy();
  if (const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(bits->getType())) {
    type = llvm::FixedVectorType::get(type, vector->getNumElements());
  }
  // The number has 24 bits and no sign.
  llvm::Value* number = b.CreateSIToFP(b.CreateLShr(bits, 8), type);
  return b.CreateFMul(number, llvm::ConstantFP::get(type, 0x1p-24));
}

llvm::Value* Words32(llvm::IRBuilder<>& b, llvm::Value* words) {
  llvm::Type* type = b.getInt32Ty();
  if (const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(words->getType())) {
    type = llvm::FixedVectorType::get(type, vector->getNumElements());
  }
  return b.CreateTrunc(words, type);
}

// Each lane calculates its block and takes one word of it.
llvm::Value* EmitLaneByLane(llvm::IRBuilder<>& b, llvm::Value* seed, llvm::Value* first,
                            llvm::Value* index) {
  llvm::Type* type = index->getType();
  llvm::Value* block = b.CreateAdd(SplatLike(b, first, type), b.CreateLShr(index, 2));
  const Words words = EmitBlocks(b, seed, block);
  const auto bit = [&](uint64_t mask) {
    return b.CreateICmpNE(b.CreateAnd(index, Constant(type, mask)), Constant(type, 0));
  };
  llvm::Value* odd = bit(1);
  llvm::Value* word = b.CreateSelect(bit(2), b.CreateSelect(odd, words[3], words[2]),
                                     b.CreateSelect(odd, words[1], words[0]));
  return Words32(b, word);
}

// The first lane begins a block.
llvm::Value* EmitWholeBlocks(llvm::IRBuilder<>& b, llvm::Value* seed, llvm::Value* first,
                             llvm::Value* start, int lanes) {
  const int blocks = lanes / 4;
  llvm::Type* type = llvm::FixedVectorType::get(b.getInt64Ty(), static_cast<unsigned>(blocks));
  llvm::SmallVector<llvm::Constant*, 16> steps;
  for (int i = 0; i < blocks; ++i) steps.push_back(b.getInt64(static_cast<uint64_t>(i)));
  llvm::Value* block = SplatLike(b, b.CreateAdd(first, b.CreateLShr(start, 2)), type);
  block = b.CreateAdd(block, llvm::ConstantVector::get(steps));
  const Words words = EmitBlocks(b, seed, block);
  llvm::SmallVector<int, 16> joined, order;
  for (int i = 0; i < 2 * blocks; ++i) joined.push_back(i);
  llvm::Value* low = b.CreateShuffleVector(Words32(b, words[0]), Words32(b, words[1]), joined);
  llvm::Value* high = b.CreateShuffleVector(Words32(b, words[2]), Words32(b, words[3]), joined);
  for (int i = 0; i < lanes; ++i) order.push_back(i % 4 * blocks + i / 4);
  return b.CreateShuffleVector(low, high, order);
}

}  // namespace

std::array<llvm::Value*, 4> EmitPhiloxBlocks(llvm::IRBuilder<>& b, llvm::Value* seed,
                                             llvm::Value* blocks) {
  Words words = EmitBlocks(b, seed, blocks);
  const auto lanes = llvm::cast<llvm::FixedVectorType>(blocks->getType())->getNumElements();
  auto* halves = llvm::FixedVectorType::get(b.getInt32Ty(), 2 * lanes);
  llvm::SmallVector<int, 16> order;  // lower halves of the words
  for (int i = 0; i < static_cast<int>(lanes); ++i) {
    order.push_back(i % 2 == 0 ? i : static_cast<int>(lanes) + i - 1);
  }
  for (llvm::Value*& word : words) {
    word = b.CreateShuffleVector(b.CreateBitCast(word, halves), order);
  }
  return words;
}

llvm::Value* EmitPhiloxUniform(llvm::IRBuilder<>& b, llvm::Value* seed, llvm::Value* first,
                               llvm::Value* index, bool consecutive) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(index->getType());
  const int lanes = vector == nullptr ? 1 : static_cast<int>(vector->getNumElements());
  if (!consecutive || lanes % 4 != 0) return AsUniform(b, EmitLaneByLane(b, seed, first, index));
  llvm::Value* start = b.CreateExtractElement(index, uint64_t{0});
  llvm::LLVMContext& context = b.getContext();
  llvm::Function* function = b.GetInsertBlock()->getParent();
  auto* whole = llvm::BasicBlock::Create(context, "whole_blocks", function);
  auto* parts = llvm::BasicBlock::Create(context, "lane_by_lane", function);
  auto* done = llvm::BasicBlock::Create(context, "drawn", function);
  b.CreateCondBr(b.CreateICmpEQ(b.CreateAnd(start, 3), b.getInt64(0)), whole, parts);
  b.SetInsertPoint(whole);
  llvm::Value* of_whole = EmitWholeBlocks(b, seed, first, start, lanes);
  b.CreateBr(done);
  b.SetInsertPoint(parts);
  llvm::Value* of_parts = EmitLaneByLane(b, seed, first, index);
  b.CreateBr(done);
  b.SetInsertPoint(done);
  llvm::PHINode* bits = b.CreatePHI(of_whole->getType(), 2);
  bits->addIncoming(of_whole, whole);
  bits->addIncoming(of_parts, parts);
  return AsUniform(b, bits);
}

}  // namespace hpu::graph_compiler
