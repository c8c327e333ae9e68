#include "graph_compiler/contraction/gemm/quantized_gemm.h"

#include "graph_compiler/contraction/tiles/epilogue.h"
#include "graph_compiler/contraction/tiles/matrix_copy.h"
#include "graph_compiler/contraction/tiles/tiling.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

constexpr int64_t kTasks = 32;  // of 8-bit weights: enough to balance, long runs to stream

}  // namespace

bool QuantizedGemm::TakesPairs(const TargetInfo& target, const QuantizedGemmSpec& spec) {
  return target.avx512_bf16 && spec.half != 0 && spec.x.type == MemoryType::kBF16 &&
         spec.x.col_stride == 1 && spec.group % 2 == 0;
}

bool QuantizedGemm::CopiesRows(const TargetInfo& target, const QuantizedGemmSpec& spec) {
  if (TakesPairs(target, spec)) return false;
  return spec.x.type != MemoryType::kF32 || spec.x.col_stride != 1;
}

int64_t QuantizedGemm::CopiedBytes(const TargetInfo& target, const QuantizedGemmSpec& spec) {
  return CopiesRows(target, spec) ? spec.m * RoundUp(spec.k, target.f32_lanes) * 4 : 0;
}

bool QuantizedGemm::HasScale(const QuantizedGemmSpec& spec) {
  return spec.scale.buffer.kind != OperandRef::Kind::kNull;
}

bool QuantizedGemm::HasZero(const QuantizedGemmSpec& spec) {
  return spec.zero.buffer.kind != OperandRef::Kind::kNull;
}

uint64_t QuantizedGemm::ScratchBytes(const TargetInfo& target, const QuantizedGemmSpec& spec) {
  const int64_t sums = HasZero(spec) ? spec.m * (spec.k / spec.group) * 4 : 0;
  return static_cast<uint64_t>(CopiedBytes(target, spec) + sums);
}

int64_t QuantizedGemm::ColumnsPerTask(const TargetInfo& target, const QuantizedGemmSpec& spec) {
  if (spec.half != 0) return 2 * spec.half;
  return RoundUp(CeilDiv(spec.n, kTasks), target.f32_lanes);
}

void QuantizedGemm::PrepareRows() {
  rows_ = {frame_.Operand(e_.b, kX), spec_.x.type, spec_.x.row_stride};
  sums_of_x_ = e_.Address(frame_.scratch, CopiedBytes(e_.target(), spec_));
  if (CopiesRows(e_.target(), spec_)) {
    const int64_t stride = RoundUp(spec_.k, e_.lanes());
    EmitMatrixCopy(e_, {rows_.base, spec_.x.type, spec_.x.row_stride, spec_.x.col_stride},
                   {frame_.scratch, stride, stride}, e_.Int(spec_.m), e_.Int(spec_.k));
    rows_ = {frame_.scratch, MemoryType::kF32, stride};
  }
  if (HasZero(spec_)) SumGroups();
}

Value* QuantizedGemm::RowAddress(Value* row, int64_t further, Value* k) {
  const int64_t size = MemoryTypeSize(rows_.type);
  Value* base = e_.Address(rows_.base, e_.Mul(row, rows_.stride * size));
  return e_.Address(e_.Address(base, e_.Mul(k, size)), further * rows_.stride * size);
}

Value* QuantizedGemm::SumOfX(Value* row, int64_t further, Value* group) {
  Value* place = e_.Add(e_.Mul(e_.Add(row, further), groups_), group);
  return e_.Address(sums_of_x_, e_.Mul(place, 4));
}

void QuantizedGemm::SumGroups() {
  e_.For(e_.Int(0), e_.Int(spec_.m), 1, [&](Value* row) {
    e_.For(e_.Int(0), e_.Int(groups_), 1, [&](Value* group) {
      const Values sums =
          EachOfGroup(e_.Mul(group, spec_.group), e_.lanes(), {e_.Zero(e_.lanes())},
                      [&](Value* k, int64_t, Value* mask, const Values& s) -> Values {
                        Value* x = e_.LoadWide(RowAddress(row, 0, k), rows_.type, e_.lanes(), mask);
                        return {e_.b.CreateFAdd(s[0], x)};
                      });
      Value* sum = e_.SumLanes(Values(static_cast<size_t>(e_.lanes()), sums[0]));
      e_.StoreF32(SumOfX(row, 0, group), e_.b.CreateExtractElement(sum, uint64_t{0}));
    });
  });
}

Value* QuantizedGemm::FactorAddress(uint32_t operand, const MatrixAccess& factor, Value* group,
                                    Value* col) {
  Value* place = e_.Add(e_.Mul(group, factor.row_stride), e_.Mul(col, factor.col_stride));
  return e_.Address(frame_.Operand(e_.b, operand), e_.Mul(place, MemoryTypeSize(factor.type)));
}

Value* QuantizedGemm::AddScaled(Value* total, Value* scale, Value* sum) {
  return scale == nullptr ? e_.b.CreateFAdd(total, sum) : e_.Fma(scale, sum, total);
}

void QuantizedGemm::Finish(Value* row, Value* col, Value* sums) {
  EmitRowEpilogue(e_, frame_, spec_.epilogue, {row, col}, spec_.n, sums);
}

}  // namespace hpu::graph_compiler
