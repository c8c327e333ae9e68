// Helpers that the f32 and the f64 half of math.cc share: constants, selections and polynomials of
// one floating-point shape.
#pragma once

#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>

#include <initializer_list>

#include "graph_compiler/codegen/arithmetic.h"
#include "graph_compiler/codegen/convert.h"

namespace hpu::graph_compiler {

inline constexpr double kLn2 = 0.69314718055994531;

class FloatMath {
 public:
  using Value = llvm::Value*;

  // `type` is float, double or a vector of one of them.
  FloatMath(llvm::IRBuilder<>& builder, const TargetInfo& target, llvm::Type* float_type)
      : b(builder), target_(target), type(float_type) {
    const bool is_double = type->getScalarType()->isDoubleTy();
    int_type = WithLanesOf(is_double ? b.getInt64Ty() : b.getInt32Ty(), type);
  }

  Value Const(double value) const { return llvm::ConstantFP::get(type, value); }
  Value Int(uint64_t value) const { return llvm::ConstantInt::get(int_type, value); }
  Value Bits(Value x) const { return b.CreateBitCast(x, int_type); }
  Value FromBits(Value x) const { return b.CreateBitCast(x, type); }
  Value Infinity() const { return llvm::ConstantFP::getInfinity(type); }
  Value Nan() const { return llvm::ConstantFP::getNaN(type); }
  Value Add(Value x, Value y) const { return b.CreateFAdd(x, y); }
  Value Sub(Value x, Value y) const { return b.CreateFSub(x, y); }
  Value Mul(Value x, Value y) const { return b.CreateFMul(x, y); }
  Value Div(Value x, Value y) const { return b.CreateFDiv(x, y); }
  Value Fma(Value x, Value y, Value z) const { return EmitFma(b, target_, x, y, z); }
  Value Abs(Value x) const { return b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x); }
  Value Neg(Value x) const { return b.CreateFNeg(x); }
  Value Sqrt(Value x) const { return b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x); }
  Value Trunc(Value x) const { return b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, x); }
  Value RoundEven(Value x) const { return b.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, x); }
  Value CopySign(Value x, Value sign) const {
    return b.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, x, sign);
  }
  Value Less(Value x, Value y) const { return b.CreateFCmpOLT(x, y); }
  Value Equal(Value x, Value y) const { return b.CreateFCmpOEQ(x, y); }
  Value Select(Value condition, Value x, Value y) const { return b.CreateSelect(condition, x, y); }
  // These limit x from above and from below; NaN stays NaN.
  Value AtMost(Value x, double limit) const {
    return Select(Less(Const(limit), x), Const(limit), x);
  }
  Value AtLeast(Value x, double limit) const {
    return Select(Less(x, Const(limit)), Const(limit), x);
  }
  // coefficients[0] + coefficients[1] x + ...
  Value Polynomial(Value x, std::initializer_list<double> coefficients) const {
    Value sum = nullptr;
    for (auto c = std::rbegin(coefficients); c != std::rend(coefficients); ++c) {
      sum = sum == nullptr ? Const(*c) : Fma(sum, x, Const(*c));
    }
    return sum;
  }

  llvm::IRBuilder<>& b;
  const TargetInfo& target_;
  llvm::Type* type;
  llvm::Type* int_type;
};

}  // namespace hpu::graph_compiler
