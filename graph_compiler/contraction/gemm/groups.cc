#include "graph_compiler/contraction/gemm/groups.h"

#include <llvm/IR/Intrinsics.h>

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

Value* EndOf(IrEmitter& e, Value* ends, Value* group) {
  Value* address = e.Address(ends, e.Mul(group, 4));
  Value* end = e.b.CreateAlignedLoad(e.b.getInt32Ty(), address, llvm::Align(4));
  return e.b.CreateSExt(end, e.b.getInt64Ty());
}

// Returns the largest of the first `count` ends, and 0 if it is less.
Value* LargestEnd(IrEmitter& e, Value* ends, Value* count) {
  llvm::Type* type = e.I32(e.lanes());
  Value* none = llvm::Constant::getNullValue(type);
  const Values largest =
      e.For(e.Int(0), count, e.lanes(), {none}, [&](Value* g, const Values& before) {
        Value* mask = e.LaneMask(e.Sub(count, g), e.lanes());
        Value* some =
            e.b.CreateMaskedLoad(type, e.Address(ends, e.Mul(g, 4)), llvm::Align(4), mask, none);
        return Values{e.b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, before[0], some)};
      });
  Value* end = e.b.CreateIntMaxReduce(largest[0], /*IsSigned=*/true);
  return e.b.CreateSExt(end, e.b.getInt64Ty());
}

}  // namespace

Value* MatrixOfGroup(IrEmitter& e, const KernelFrame& frame, Value* group, int64_t bytes_between) {
  if (bytes_between != 0) {
    return e.Address(frame.Operand(e.b, kFirstMatrix), e.Mul(group, bytes_between));
  }
  llvm::Type* pointer = e.b.getPtrTy();
  Value* number = e.Add(group, kFirstMatrix);
  return e.b.CreateLoad(pointer, e.b.CreateGEP(pointer, frame.operands, number));
}

GroupRange RangeOfGroup(IrEmitter& e, Value* ends, int64_t groups, Value* group, int64_t limit) {
  Value* begin = e.Min(LargestEnd(e, ends, group), e.Int(limit));
  // The end that is read for the range behind the last group is the last one, which exists.
  Value* end = EndOf(e, ends, e.Min(group, e.Int(groups - 1)));
  end = e.Min(e.Max(begin, end), e.Int(limit));
  Value* has_end = e.b.CreateICmpSLT(group, e.Int(groups));
  return {begin, e.b.CreateSelect(has_end, end, e.Int(limit))};
}

Value* GroupOfRow(IrEmitter& e, Value* ends, int64_t groups, Value* row) {
  const Values state =
      e.For(e.Int(0), e.Int(groups), 1, {e.Int(0), e.Int(0)}, [&](Value* g, const Values& before) {
        Value* end = e.Max(before[0], EndOf(e, ends, g));
        Value* is_before = e.b.CreateICmpSLE(end, row);
        Value* one = e.b.CreateZExt(is_before, e.b.getInt64Ty());
        return Values{end, e.Add(before[1], one)};
      });
  return state[1];
}

}  // namespace hpu::graph_compiler
