#include "graph_compiler/codegen/arithmetic.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <functional>

#include "graph_compiler/codegen/convert.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Intrinsic::ID;

llvm::Value* Zero(llvm::Value* like) { return llvm::Constant::getNullValue(like->getType()); }

llvm::Value* IntLike(llvm::Value* like, int64_t value) {
  return llvm::ConstantInt::get(like->getType(), static_cast<uint64_t>(value), true);
}

// Returns whether the condition holds in any lane.
llvm::Value* Any(llvm::IRBuilder<>& b, llvm::Value* condition) {
  return condition->getType()->isVectorTy() ? b.CreateOrReduce(condition) : condition;
}

// Emits `while (any(condition(state))) state = step(state)` for all lanes together. `step` must not
// change lanes that have finished.
std::vector<llvm::Value*> EmitWhile(
    llvm::IRBuilder<>& b, std::vector<llvm::Value*> state,
    const std::function<llvm::Value*(const std::vector<llvm::Value*>&)>& condition,
    const std::function<std::vector<llvm::Value*>(const std::vector<llvm::Value*>&)>& step) {
  llvm::Function* function = b.GetInsertBlock()->getParent();
  llvm::BasicBlock* before = b.GetInsertBlock();
  auto* head = llvm::BasicBlock::Create(b.getContext(), "while", function);
  auto* body = llvm::BasicBlock::Create(b.getContext(), "while_body", function);
  auto* after = llvm::BasicBlock::Create(b.getContext(), "while_done", function);
  b.CreateBr(head);
  b.SetInsertPoint(head);
  std::vector<llvm::Value*> phis;
  for (llvm::Value* value : state) {
    llvm::PHINode* phi = b.CreatePHI(value->getType(), 2);
    phi->addIncoming(value, before);
    phis.push_back(phi);
  }
  b.CreateCondBr(Any(b, condition(phis)), body, after);
  b.SetInsertPoint(body);
  const std::vector<llvm::Value*> next = step(phis);
  for (size_t i = 0; i < phis.size(); ++i) {
    llvm::cast<llvm::PHINode>(phis[i])->addIncoming(next[i], b.GetInsertBlock());
  }
  b.CreateBr(head);
  b.SetInsertPoint(after);
  return phis;
}

// Computes the exact remainder of magnitudes in double. Each round subtracts a multiple of y whose
// quotient is cut to 29 bits, so that quotient * y (29 + 24 bits) and the difference are exact.
llvm::Value* FloatRemainder(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y) {
  llvm::Type* f32 = x->getType();
  llvm::Type* f64 = WithLanesOf(b.getDoubleTy(), f32);
  llvm::Type* i64 = WithLanesOf(b.getInt64Ty(), f32);
  const auto magnitude = [&](llvm::Value* value) {
    return b.CreateFPExt(b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, value), f64);
  };
  llvm::Value* infinity = llvm::ConstantFP::getInfinity(f64);
  llvm::Value* zero = llvm::ConstantFP::get(f64, 0.0);
  llvm::Value* numerator = magnitude(x);
  llvm::Value* divisor = magnitude(y);
  // Ordered comparisons end the loop at once for NaN. For infinities and y == 0 the result is NaN
  // or x.
  llvm::Value* regular =
      b.CreateAnd(b.CreateFCmpOLT(numerator, infinity), b.CreateFCmpOGT(divisor, zero));
  llvm::Value* start = b.CreateSelect(regular, numerator, zero);
  const auto rest = EmitWhile(
      b, {start},
      [&](const std::vector<llvm::Value*>& s) { return b.CreateFCmpOGE(s[0], divisor); },
      [&](const std::vector<llvm::Value*>& s) -> std::vector<llvm::Value*> {
        llvm::Value* quotient =
            b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, b.CreateFDiv(s[0], divisor));
        llvm::Value* cut = b.CreateAnd(b.CreateBitCast(quotient, i64),
                                       llvm::ConstantInt::get(i64, ~uint64_t{0xffffff}));
        llvm::Value* less = b.CreateFSub(s[0], b.CreateFMul(b.CreateBitCast(cut, f64), divisor));
        less = b.CreateSelect(b.CreateFCmpOLT(less, zero), b.CreateFAdd(less, divisor), less);
        return {b.CreateSelect(b.CreateFCmpOGE(s[0], divisor), less, s[0])};
      });
  llvm::Value* result = b.CreateFPTrunc(rest[0], f32);
  result = b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, result, x);
  llvm::Value* nan = llvm::ConstantFP::getNaN(f32);
  return b.CreateSelect(b.CreateAnd(regular, b.CreateFCmpORD(y, y)), result, nan);
}

// Returns whether a remainder with the sign of the dividend differs from the result of Python's %.
llvm::Value* HasOtherSign(llvm::IRBuilder<>& b, llvm::Value* rest, llvm::Value* y) {
  llvm::Value* opposite =
      b.CreateXor(b.CreateFCmpOLT(rest, Zero(rest)), b.CreateFCmpOLT(y, Zero(y)));
  return b.CreateAnd(b.CreateFCmpONE(rest, Zero(rest)), opposite);
}

llvm::Value* FloatFloorMod(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y) {
  llvm::Value* rest = FloatRemainder(b, x, y);
  return b.CreateSelect(HasOtherSign(b, rest, y), b.CreateFAdd(rest, y), rest);
}

// Computes floor(x / y) from the exact remainder, as Python does: (x - rest) / y rounded to the
// nearest integer, one less where the signs differ (x / -inf is -1), and x / y itself for y == 0. A
// zero has the sign of x / y.
llvm::Value* FloatFloorDiv(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y) {
  llvm::Value* rest = FloatRemainder(b, x, y);
  llvm::Value* quotient = b.CreateFDiv(b.CreateFSub(x, rest), y);
  llvm::Value* less = b.CreateFSub(quotient, llvm::ConstantFP::get(x->getType(), 1.0));
  quotient = b.CreateSelect(HasOtherSign(b, rest, y), less, quotient);
  llvm::Value* down = b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, quotient);
  llvm::Value* half = llvm::ConstantFP::get(x->getType(), 0.5);
  llvm::Value* up = b.CreateFAdd(down, llvm::ConstantFP::get(x->getType(), 1.0));
  llvm::Value* rounded =
      b.CreateSelect(b.CreateFCmpOGT(b.CreateFSub(quotient, down), half), up, down);
  llvm::Value* plain = b.CreateFDiv(x, y);
  llvm::Value* signed_zero = b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, Zero(x), plain);
  rounded = b.CreateSelect(b.CreateFCmpOEQ(quotient, Zero(x)), signed_zero, rounded);
  return b.CreateSelect(b.CreateFCmpOEQ(y, Zero(y)), plain, rounded);
}

struct IntDivision {
  llvm::Value* quotient;  // truncated
  llvm::Value* remainder;
};

// The divisors 0 and -1 would trap (-1 for the smallest integer), so they are replaced.
IntDivision DivideInts(llvm::IRBuilder<>& b, llvm::Value* x, llvm::Value* y) {
  llvm::Value* is_zero = b.CreateICmpEQ(y, Zero(y));
  llvm::Value* is_minus_one = b.CreateICmpEQ(y, IntLike(y, -1));
  llvm::Value* safe = b.CreateSelect(b.CreateOr(is_zero, is_minus_one), IntLike(y, 1), y);
  llvm::Value* quotient = b.CreateSDiv(x, safe);
  llvm::Value* remainder = b.CreateSub(x, b.CreateMul(quotient, safe));
  quotient = b.CreateSelect(is_minus_one, b.CreateNeg(x), quotient);
  quotient = b.CreateSelect(is_zero, Zero(x), quotient);
  return {quotient, remainder};
}

llvm::Value* IntFloor(llvm::IRBuilder<>& b, bool want_quotient, llvm::Value* x, llvm::Value* y) {
  const IntDivision division = DivideInts(b, x, y);
  llvm::Value* opposite = b.CreateICmpSLT(b.CreateXor(x, y), Zero(x));
  llvm::Value* adjust = b.CreateAnd(b.CreateICmpNE(division.remainder, Zero(x)), opposite);
  if (want_quotient) {
    return b.CreateSelect(adjust, b.CreateSub(division.quotient, IntLike(x, 1)), division.quotient);
  }
  return b.CreateSelect(adjust, b.CreateAdd(division.remainder, y), division.remainder);
}

llvm::Value* IntPower(llvm::IRBuilder<>& b, llvm::Value* base, llvm::Value* exponent) {
  llvm::Value* one = IntLike(base, 1);
  llvm::Value* zero = Zero(base);
  const auto state = EmitWhile(
      b, {one, base, b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, exponent, zero)},
      [&](const std::vector<llvm::Value*>& s) { return b.CreateICmpNE(s[2], zero); },
      [&](const std::vector<llvm::Value*>& s) -> std::vector<llvm::Value*> {
        llvm::Value* odd = b.CreateICmpNE(b.CreateAnd(s[2], one), zero);
        return {b.CreateSelect(odd, b.CreateMul(s[0], s[1]), s[0]), b.CreateMul(s[1], s[1]),
                b.CreateLShr(s[2], one)};
      });
  // For a negative exponent the result is 1 / base^n truncated, which is 0 except for the bases 1
  // and -1.
  llvm::Value* odd = b.CreateICmpNE(b.CreateAnd(exponent, one), zero);
  llvm::Value* minus_one = IntLike(base, -1);
  llvm::Value* inverse = b.CreateSelect(
      b.CreateICmpEQ(base, one), one,
      b.CreateSelect(b.CreateICmpEQ(base, minus_one), b.CreateSelect(odd, minus_one, one), zero));
  return b.CreateSelect(b.CreateICmpSLT(exponent, zero), inverse, state[0]);
}

llvm::Value* Shift(llvm::IRBuilder<>& b, bool left, llvm::Value* x, llvm::Value* count) {
  const auto width = static_cast<int64_t>(x->getType()->getScalarSizeInBits());
  llvm::Value* in_range = b.CreateICmpULT(count, IntLike(count, width));
  if (!left) {
    return b.CreateAShr(x, b.CreateSelect(in_range, count, IntLike(count, width - 1)));
  }
  llvm::Value* safe = b.CreateSelect(in_range, count, Zero(count));
  return b.CreateSelect(in_range, b.CreateShl(x, safe), Zero(x));
}

// Returns whether `x` is a constant that is not NaN in any lane.
bool IsNumber(const llvm::Value* x) {
  const auto* constant = llvm::dyn_cast<llvm::Constant>(x);
  if (constant == nullptr) return false;
  if (constant->getType()->isVectorTy()) constant = constant->getSplatValue();
  const auto* number = llvm::dyn_cast_or_null<llvm::ConstantFP>(constant);
  return number != nullptr && !number->isNaN();
}

llvm::Value* FloatExtremum(llvm::IRBuilder<>& b, bool max, llvm::Value* x, llvm::Value* y) {
  // The machine's instruction returns its second operand when either is NaN, so a constant goes
  // first and a variable first operand needs one more selection.
  if (IsNumber(y)) std::swap(x, y);
  llvm::Value* first = max ? b.CreateFCmpOGT(x, y) : b.CreateFCmpOLT(x, y);
  llvm::Value* result = b.CreateSelect(first, x, y);
  if (IsNumber(x)) return result;
  return b.CreateSelect(b.CreateFCmpUNO(x, x), x, result);
}

llvm::Value* Compare(llvm::IRBuilder<>& b, Opcode op, ScalarType type, llvm::Value* x,
                     llvm::Value* y) {
  using P = llvm::CmpInst;
  struct Predicates {
    P::Predicate floats, ints, bools;
  };
  const auto [floats, ints, bools] = [&]() -> Predicates {
    switch (op) {
      case Opcode::kEq:
        return {P::FCMP_OEQ, P::ICMP_EQ, P::ICMP_EQ};
      case Opcode::kNe:
        return {P::FCMP_UNE, P::ICMP_NE, P::ICMP_NE};
      case Opcode::kLt:
        return {P::FCMP_OLT, P::ICMP_SLT, P::ICMP_ULT};
      case Opcode::kLe:
        return {P::FCMP_OLE, P::ICMP_SLE, P::ICMP_ULE};
      case Opcode::kGt:
        return {P::FCMP_OGT, P::ICMP_SGT, P::ICMP_UGT};
      default:
        return {P::FCMP_OGE, P::ICMP_SGE, P::ICMP_UGE};
    }
  }();
  if (type == ScalarType::kF32) return b.CreateFCmp(floats, x, y);
  return b.CreateICmp(type == ScalarType::kBool ? bools : ints, x, y);
}

llvm::Value* EmitFloat(llvm::IRBuilder<>& b, const TargetInfo& target, Opcode op,
                       const std::vector<llvm::Value*>& a) {
  switch (op) {
    case Opcode::kAdd:
      return b.CreateFAdd(a[0], a[1]);
    case Opcode::kSub:
      return b.CreateFSub(a[0], a[1]);
    case Opcode::kMul:
      return b.CreateFMul(a[0], a[1]);
    case Opcode::kDiv:
      return b.CreateFDiv(a[0], a[1]);
    case Opcode::kMin:
      return FloatExtremum(b, false, a[0], a[1]);
    case Opcode::kMax:
      return FloatExtremum(b, true, a[0], a[1]);
    case Opcode::kNeg:
      return b.CreateFNeg(a[0]);
    case Opcode::kAbs:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a[0]);
    case Opcode::kFma:
      return EmitFma(b, target, a[0], a[1], a[2]);
    case Opcode::kRem:
      return FloatRemainder(b, a[0], a[1]);
    case Opcode::kFloorDiv:
      return FloatFloorDiv(b, a[0], a[1]);
    case Opcode::kFloorMod:
      return FloatFloorMod(b, a[0], a[1]);
    case Opcode::kFloor:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, a[0]);
    case Opcode::kCeil:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::ceil, a[0]);
    case Opcode::kTrunc:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, a[0]);
    case Opcode::kRound:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, a[0]);
    case Opcode::kSqrt:
      return b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a[0]);
    case Opcode::kSign: {
      llvm::Type* type = a[0]->getType();
      llvm::Value* positive = b.CreateUIToFP(b.CreateFCmpOGT(a[0], Zero(a[0])), type);
      return b.CreateFSub(positive, b.CreateUIToFP(b.CreateFCmpOLT(a[0], Zero(a[0])), type));
    }
    default:
      return nullptr;
  }
}

llvm::Value* EmitInt(llvm::IRBuilder<>& b, Opcode op, const std::vector<llvm::Value*>& a) {
  switch (op) {
    case Opcode::kAdd:
      return b.CreateAdd(a[0], a[1]);
    case Opcode::kSub:
      return b.CreateSub(a[0], a[1]);
    case Opcode::kMul:
      return b.CreateMul(a[0], a[1]);
    case Opcode::kFma:
      return b.CreateAdd(b.CreateMul(a[0], a[1]), a[2]);
    case Opcode::kDiv:
      return DivideInts(b, a[0], a[1]).quotient;
    case Opcode::kRem:
      return DivideInts(b, a[0], a[1]).remainder;
    case Opcode::kFloorDiv:
      return IntFloor(b, true, a[0], a[1]);
    case Opcode::kFloorMod:
      return IntFloor(b, false, a[0], a[1]);
    case Opcode::kPow:
      return IntPower(b, a[0], a[1]);
    case Opcode::kMin:
      return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a[0], a[1]);
    case Opcode::kMax:
      return b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, a[0], a[1]);
    case Opcode::kNeg:
      return b.CreateNeg(a[0]);
    case Opcode::kAbs:
      return b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, a[0], b.getFalse());
    case Opcode::kShl:
      return Shift(b, true, a[0], a[1]);
    case Opcode::kShr:
      return Shift(b, false, a[0], a[1]);
    case Opcode::kFloor:
    case Opcode::kCeil:
    case Opcode::kTrunc:
    case Opcode::kRound:
      return a[0];
    case Opcode::kSign: {
      llvm::Value* one = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a[0], IntLike(a[0], 1));
      return b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, one, IntLike(a[0], -1));
    }
    default:
      return nullptr;
  }
}

// Arithmetic of booleans is arithmetic on {0, 1} with "or" for + and max, and "and" for * and min.
llvm::Value* EmitBool(llvm::IRBuilder<>& b, Opcode op, const std::vector<llvm::Value*>& a) {
  switch (op) {
    case Opcode::kAdd:
    case Opcode::kMax:
      return b.CreateOr(a[0], a[1]);
    case Opcode::kMul:
    case Opcode::kMin:
      return b.CreateAnd(a[0], a[1]);
    case Opcode::kSub:
      return b.CreateXor(a[0], a[1]);
    case Opcode::kShr:
      return b.CreateAnd(a[0], b.CreateNot(a[1]));
    default:
      return a[0];
  }
}

llvm::Value* EmitTyped(llvm::IRBuilder<>& b, const TargetInfo& target, Opcode op, ScalarType type,
                       const std::vector<llvm::Value*>& args) {
  if (type == ScalarType::kF32) return EmitFloat(b, target, op, args);
  if (type == ScalarType::kBool) return EmitBool(b, op, args);
  return EmitInt(b, op, args);
}

}  // namespace

llvm::Value* EmitFma(llvm::IRBuilder<>& builder, const TargetInfo& target, llvm::Value* a,
                     llvm::Value* b, llvm::Value* c) {
  if (!target.fma) return builder.CreateFAdd(builder.CreateFMul(a, b), c);
  return builder.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
}

llvm::Value* EmitArithmetic(llvm::IRBuilder<>& builder, const TargetInfo& target, Opcode op,
                            ScalarType type, ScalarType arg_type,
                            const std::vector<llvm::Value*>& args) {
  switch (op) {
    case Opcode::kAnd:
      return builder.CreateAnd(args[0], args[1]);
    case Opcode::kOr:
      return builder.CreateOr(args[0], args[1]);
    case Opcode::kXor:
      return builder.CreateXor(args[0], args[1]);
    case Opcode::kNot:
      return builder.CreateNot(args[0]);
    case Opcode::kSelect:
      return builder.CreateSelect(args[0], args[1], args[2]);
    case Opcode::kCast:
      return ConvertScalar(builder, args[0], arg_type, type);
    case Opcode::kEq:
    case Opcode::kNe:
    case Opcode::kLt:
    case Opcode::kLe:
    case Opcode::kGt:
    case Opcode::kGe:
      return Compare(builder, op, arg_type, args[0], args[1]);
    case Opcode::kIsNan:
      return builder.CreateFCmpUNO(args[0], args[0]);
    case Opcode::kIsInf:
    case Opcode::kIsFinite: {
      llvm::Value* magnitude = builder.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, args[0]);
      llvm::Value* infinity = llvm::ConstantFP::getInfinity(magnitude->getType());
      return op == Opcode::kIsInf ? builder.CreateFCmpOEQ(magnitude, infinity)
                                  : builder.CreateFCmpOLT(magnitude, infinity);
    }
    default:
      return EmitTyped(builder, target, op, type, args);
  }
}

}  // namespace hpu::graph_compiler
