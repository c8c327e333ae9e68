#include "graph_compiler/contraction/attention/attention_mask.h"

#include <cmath>

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

// Returns the positions in the sequence of the queries in lanes row, row + 1, ...
Value* QueryNumbers(IrEmitter& e, const ScoreBlock& block, Value* row) {
  std::vector<llvm::Constant*> lane_numbers;
  for (int i = 0; i < e.lanes(); ++i) lane_numbers.push_back(e.b.getInt32(i));
  Value* first = e.Splat(e.b.CreateTrunc(row, e.b.getInt32Ty()), e.lanes());
  Value* rows = e.b.CreateAdd(first, llvm::ConstantVector::get(lane_numbers));
  if (block.queries_per_head == 0) return rows;
  return e.b.CreateURem(
      rows, llvm::ConstantInt::get(rows->getType(), static_cast<uint64_t>(block.queries_per_head)));
}

}  // namespace

AttentionMask MaskOf(const AttentionSpec& spec) {
  if (spec.mask.kind == OperandRef::Kind::kNull) return AttentionMask::kNone;
  return spec.m > 1 && spec.mask_strides[2] != 0 ? AttentionMask::kPerQuery
                                                 : AttentionMask::kPerKey;
}

Value* EmitMaskedScore(IrEmitter& e, const AttentionSpec& spec, const ScoreBlock& block,
                       Value* score, Value* key, Value* query) {
  const int lanes = e.lanes();
  Value* scale = e.F32Const(spec.scale, lanes);
  if (block.mask == AttentionMask::kPerKey) {
    Value* offset = e.Mul(key, spec.mask_strides[3] * MemoryTypeSize(spec.mask_type));
    Value* address = e.Address(block.mask_base, offset);
    score = e.Fma(score, scale, e.Splat(e.LoadWide(address, spec.mask_type, 1), lanes));
  } else if (block.mask == AttentionMask::kPerQuery) {
    Value* at = e.Add(e.Mul(key, block.stride), e.Mul(query, 4));
    score = e.Fma(score, scale, e.LoadF32(e.Address(block.mask_base, at), lanes));
  } else {
    score = e.b.CreateFMul(score, scale);
  }
  if (!spec.causal) return score;
  Value* key_number = e.b.CreateTrunc(e.Add(block.first_key, key), e.b.getInt32Ty());
  Value* visible = e.b.CreateICmpSLE(e.Splat(key_number, lanes),
                                     QueryNumbers(e, block, e.Add(block.first_query, query)));
  return e.b.CreateSelect(visible, score, e.F32Const(-INFINITY, lanes));
}

}  // namespace hpu::graph_compiler
