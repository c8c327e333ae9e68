#include "graph_compiler/contraction/tiles/int8.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

constexpr int kCopiedAtOnce = 32;  // elements

llvm::Type* IntVector(IrEmitter& e, unsigned bits, int lanes) {
  llvm::Type* type = e.b.getIntNTy(bits);
  return lanes == 1 ? type : llvm::FixedVectorType::get(type, static_cast<unsigned>(lanes));
}

uint32_t OnesDword(PanelType type) { return ZeroDword(type, 1); }

}  // namespace

uint32_t ZeroDword(PanelType type, int64_t a_zero) {
  const auto zero = static_cast<uint32_t>(a_zero);
  return zero * (type == PanelType::kI8Quads ? 0x01010101u : 0x00010001u);
}

void EmitIntegerRows(IrEmitter& e, PanelType type, const MatrixAccess& a, int64_t cols,
                     int64_t filled_cols, int64_t a_zero, Value* from, Value* to,
                     int64_t to_row_bytes, Value* rows) {
  const int64_t size = PackedSize(type);
  const auto bits = static_cast<unsigned>(8 * size);
  const int64_t at_once = a.col_stride == 1 ? cols / kCopiedAtOnce * kCopiedAtOnce : 0;
  e.For(e.Int(0), rows, 1, [&](Value* row) {
    Value* source = e.Address(from, e.Mul(row, a.row_stride));
    Value* target = e.Address(to, e.Mul(row, to_row_bytes));
    const auto copy = [&](Value* col, int lanes) {
      Value* bytes = e.b.CreateAlignedLoad(
          IntVector(e, 8, lanes), e.Address(source, e.Mul(col, a.col_stride)), llvm::Align(1));
      e.b.CreateAlignedStore(e.b.CreateZExt(bytes, IntVector(e, bits, lanes)),
                             e.Address(target, e.Mul(col, size)),
                             llvm::Align(static_cast<uint64_t>(size)));
    };
    e.For(e.Int(0), e.Int(at_once), kCopiedAtOnce, [&](Value* col) { copy(col, kCopiedAtOnce); });
    constexpr int64_t kUnrolled = 8;
    if (cols - at_once <= kUnrolled) {
      for (int64_t col = at_once; col < cols; ++col) copy(e.Int(col), 1);
    } else {
      e.For(e.Int(at_once), e.Int(cols), 1, [&](Value* col) { copy(col, 1); });
    }
    llvm::Type* element = e.b.getIntNTy(bits);
    e.For(e.Int(cols), e.Int(filled_cols), 1, [&](Value* col) {
      e.b.CreateAlignedStore(llvm::ConstantInt::get(element, static_cast<uint64_t>(a_zero)),
                             e.Address(target, e.Mul(col, size)),
                             llvm::Align(static_cast<uint64_t>(size)));
    });
  });
}

void PanelZeros::Enter(Value* sums, Value* b_zero, Value* columns) {
  const int lanes = e_.lanes();
  llvm::Type* dwords = e_.I32(lanes);
  begin_.clear();
  b_zero_.clear();
  any_b_zero_ = nullptr;
  for (int v = 0; v < vectors_; ++v) {
    if (zeros_.a == 0) {
      begin_.push_back(e_.Zero(lanes));
    } else {
      Value* sum = e_.b.CreateAlignedLoad(dwords, e_.Address(sums, v * lanes * 4), llvm::Align(4));
      Value* factor = llvm::ConstantInt::getSigned(dwords, -zeros_.a);
      begin_.push_back(e_.b.CreateBitCast(e_.b.CreateMul(sum, factor), e_.F32(lanes)));
    }
  }
  if (!zeros_.has_b()) return;
  llvm::Type* quads = IntVector(e_, 64, lanes);
  for (int v = 0; v < vectors_; ++v) {
    Value* mask = e_.LaneMask(e_.Add(columns, -v * lanes), lanes);
    Value* zero = e_.b.CreateMaskedLoad(quads, e_.Address(b_zero, v * lanes * 8), llvm::Align(8),
                                        mask, llvm::Constant::getNullValue(quads));
    b_zero_.push_back(e_.b.CreateTrunc(zero, dwords));
    Value* any = e_.b.CreateICmpNE(e_.b.CreateOrReduce(b_zero_.back()), e_.b.getInt32(0));
    any_b_zero_ = any_b_zero_ == nullptr ? any : e_.b.CreateOr(any_b_zero_, any);
  }
}

Values PanelZeros::Begin(TileShape shape) const {
  Values tile;
  for (int r = 0; r < shape.rows; ++r) tile.insert(tile.end(), begin_.begin(), begin_.end());
  return tile;
}

void PanelZeros::StoreBegin(Value* row) const { StoreTile(e_, {1, vectors_}, row, 0, begin_); }

void PanelZeros::Finish(Value* sums, Value* rows, int64_t k, const SumRow& sum_row) const {
  if (!zeros_.has_b()) return;
  const int lanes = e_.lanes();
  llvm::Type* dwords = e_.I32(lanes);
  e_.If(any_b_zero_, [&] {
    Value* slot = frame_.StackSlot(64);
    Value* ones = e_.Splat(e_.b.getInt32(OnesDword(type_)), lanes);
    e_.StoreF32(slot, e_.b.CreateBitCast(ones, e_.F32(lanes)));
    TileB b;
    b.base = slot;
    b.type = type_;
    e_.For(e_.Int(0), rows, 1, [&](Value* row) {
      Value* sum = e_.b.CreateBitCast(sum_row(row, b), dwords);
      sum = e_.b.CreateSub(sum, llvm::ConstantInt::getSigned(dwords, k * zeros_.a));
      for (int v = 0; v < vectors_; ++v) {
        Value* place = e_.Address(sums, e_.Add(e_.Mul(row, vectors_ * lanes * 4), v * lanes * 4));
        Value* before = e_.b.CreateAlignedLoad(dwords, place, llvm::Align(4));
        Value* after = e_.b.CreateSub(before, e_.b.CreateMul(b_zero_[v], sum));
        e_.b.CreateAlignedStore(after, place, llvm::Align(4));
      }
    });
  });
}

}  // namespace hpu::graph_compiler
