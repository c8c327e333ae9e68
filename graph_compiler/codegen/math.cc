#include "graph_compiler/codegen/math.h"

#include <cmath>

#include "graph_compiler/codegen/float_math.h"
#include "graph_compiler/codegen/math64.h"

// Polynomial coefficients are minimax fits (Remez exchange in 40-digit arithmetic) of the function
// and the interval named beside them. The fits of the normal distribution and of 2^r come from
// linear programming over some 2,000 to 4,000 points in f64.

namespace hpu::graph_compiler {
namespace {

constexpr double kLog2E = 1.4426950408889634;
// ln 2 in two parts; the first has few enough bits that n * kLn2High is exact for |n| < 2^13.
constexpr double kLn2High = 0.693359375;
constexpr double kLn2Low = -2.1219444005469058e-4;

class Math32 : public FloatMath {
 public:
  using FloatMath::FloatMath;

  // e^x = 2^n * e^r with |r| <= ln(2)/2. Results reach from 0 over denormals to infinity: 2^n is
  // applied in two factors, and only the second can round.
  Value Exp(Value x) const {
    x = AtLeast(AtMost(x, 89.0), -105.0);
    const Reduced reduced = Reduce(x);
    Value half = b.CreateAShr(reduced.n, Int(1));
    Value scaled = Mul(ExpReduced(reduced.r), PowerOfTwo(half));
    return Mul(scaled, PowerOfTwo(b.CreateSub(reduced.n, half)));
  }

  // e^x - 1 = 2^n (e^r - 1) + (2^n - 1). For small x, n is 0 and nothing cancels.
  Value Expm1(Value x) const {
    Value limited = AtLeast(AtMost(x, 89.0), -30.0);
    const Reduced reduced = Reduce(limited);
    Value minus_one = Fma(Mul(reduced.r, reduced.r), ExpTail(reduced.r), reduced.r);
    Value scale = PowerOfTwo(b.CreateSub(reduced.n, Int(1)));
    Value half = Fma(scale, minus_one, Sub(scale, Const(0.5)));
    return Select(Equal(x, Const(0.0)), x, Add(half, half));
  }

  // x = 2^e * m, m in [sqrt(1/2), sqrt(2)); log(m) = f - f^2/2 + f^3 q(f), f = m - 1.
  Value Log(Value x) const {
    Value tiny = Less(x, Const(1.17549435e-38));
    Value scaled = Select(tiny, Mul(x, Const(8388608.0)), x);
    Value shifted = b.CreateSub(Bits(scaled), Int(kSqrtHalfBits));
    Value exponent = b.CreateSIToFP(b.CreateAShr(shifted, Int(23)), type);
    exponent = Sub(exponent, Select(tiny, Const(23.0), Const(0.0)));
    Value mantissa = b.CreateAdd(b.CreateAnd(shifted, Int(0x7fffff)), Int(kSqrtHalfBits));
    Value f = Sub(FromBits(mantissa), Const(1.0));
    Value q = Polynomial(
        f, {0.33333312598381465, -0.25000009589688597, 0.20002119148040531, -0.16667996940655291,
            0.14219541924967372, -0.12405559961231193, 0.11888216747657245, -0.11675867763661709,
            0.067467842399457987});  // [sqrt(1/2) - 1, sqrt(2) - 1]
    Value square = Mul(f, f);
    Value tail = Mul(Mul(square, f), q);
    tail = Fma(exponent, Const(kLn2Low), tail);
    tail = Fma(square, Const(-0.5), tail);
    Value result = Fma(exponent, Const(kLn2High), Add(f, tail));
    result = Select(Less(x, Infinity()), result, x);
    Value not_positive = Select(Equal(x, Const(0.0)), Neg(Infinity()), Nan());
    return Select(Less(Const(0.0), x), result, not_positive);
  }

  // This is an odd polynomial near 0, and 1 - 2 / (e^2x + 1) elsewhere.
  Value Tanh(Value x) const {
    Value magnitude = Abs(x);
    Value square = Mul(x, x);
    Value q = Polynomial(square, {-0.33333283922480352, 0.13331491224463251, -0.053743493249793002,
                                  0.020650572111004801, -0.0057170284877870652});  // [0, 0.625]
    Value small = Fma(Mul(square, magnitude), q, magnitude);
    Value large = AtMost(magnitude, 10.0);
    const Power power = Split(Add(large, large), 0, Reduction::kCoarse);
    large = Sub(Const(1.0), Div(Const(2.0), Fma(power.sum, power.scale, Const(1.0))));
    return CopySign(Select(Less(magnitude, Const(0.625)), small, large), x);
  }

  // This is an odd polynomial near 0, and elsewhere 1 - e^p(x), where p is fitted to log(erfc). erf
  // rounds to 1 beyond 4.
  Value Erf(Value x) const {
    Value magnitude = Abs(x);
    Value square = Mul(x, x);
    Value q = Polynomial(square, {0.12837916572561574, -0.37612625820572649, 0.11283585118207017,
                                  -0.026853810877306164, 0.0051883259087733464,
                                  -0.00080101793328258655, 7.8538171669385804e-5});  // [0, 1]
    Value small = Fma(magnitude, q, magnitude);
    Value large = AtMost(magnitude, 4.0);
    Value p = Polynomial(
        large, {-1.1286370775710841, -0.6351980234700039, -0.10615906883058778, 0.02369458459305183,
                -0.0036103516095417674, 0.00031486072024675, -1.0433401851355034e-5});  // [0.9, 4]
    const Power power = Split(Mul(large, p), 0, Reduction::kCoarse);
    large = Sub(Const(1.0), Mul(power.sum, power.scale));
    return CopySign(Select(Less(magnitude, Const(0.95)), small, large), x);
  }

  // 1 / (1 + e^-x). Both parts of the quotient are scaled, so that its divisor is finite where the
  // quotient is a denormal. Beyond 20 nothing is added to 1.
  Value Sigmoid(Value x) const {
    return SigmoidOf(Split(SigmoidRange(x), kSigmoidScale, Reduction::kFine));
  }
  Value SigmoidBf16(Value x) const {
    return SigmoidOf(SplitBase2(Mul(SigmoidRange(x), Const(kLog2E)), kSigmoidScale, kRoughExp2));
  }

  // The tail beyond |x| is 2^(|x| p(|x|) - 1), where p is fitted to log2(2 tail) / |x| on [0, 5.6].
  // The fit minimises the relative error of the tail times max(2 tail, 1e-3); the fit of the rough
  // form minimises the relative error.
  Value NormalCdf(Value x) const {
    return NormalCdfOf(x,
                       {-1.1511055690764025, -0.45920455083638023, -0.05250620068562578,
                        0.007070429670710239, -0.00012864091267078347, -0.00020172102880670385,
                        4.851270475623362e-05, -5.174120630246584e-06, 2.2051728159566107e-07},
                       {1.0, 0.6931469776025202, 0.24022242085494985, 0.05550733737246983,
                        0.009671512639857669, 0.001326472909569322});  // 2^r on [-1/2, 1/2]
  }
  Value NormalCdfBf16(Value x) const {
    return NormalCdfOf(x,
                       {-1.1474270443461179, -0.46870131671597043, -0.04490885931640205,
                        0.004907412424869489, -0.00023446930415007853},
                       kRoughExp2);
  }

  // Returns e^x where the result is normal and finite.
  Value ExpInRange(Value x) const {
    const Power power = Split(x, 0, Reduction::kFine);
    return Mul(power.sum, power.scale);
  }

 private:
  static constexpr uint64_t kSqrtHalfBits = 0x3f3504f3;
  // Coefficients of 2^r on [-1/2, 1/2], within 1e-4.
  static constexpr std::initializer_list<double> kRoughExp2 = {
      1.0, 0.6932829269708877, 0.2422109595111248, 0.055008931790532574};

  struct Reduced {
    Value n;  // integer
    Value r;  // x - n ln 2
  };

  // The error of r for a large n: kFine rounds once, kCoarse has an error of n * 2e-9 (where n is
  // large, e^x counts for less).
  enum class Reduction { kFine, kCoarse };

  // Adding 1.5 * 2^23 leaves the rounded integer in the low bits of the sum.
  static constexpr double kMagic = 12582912.0;

  Value Remainder(Value x, Value n, Reduction reduction) const {
    if (reduction == Reduction::kCoarse) return Fma(n, Const(-kLn2), x);
    return Fma(n, Const(-kLn2Low), Fma(n, Const(-kLn2High), x));
  }

  Reduced Reduce(Value x) const {
    Value shifted = Fma(x, Const(kLog2E), Const(kMagic));
    Value r = Remainder(x, Sub(shifted, Const(kMagic)), Reduction::kFine);
    return {b.CreateSub(Bits(shifted), Bits(Const(kMagic))), r};
  }

  // 2^exponent e^x = sum * scale.
  struct Power {
    Value sum;    // e^r
    Value scale;  // 2^(n + exponent)
  };

  // The scale must be a normal number: its biased exponent is in the low bits of `shifted`, and the
  // shift drops the other bits.
  Power Split(Value x, int exponent, Reduction reduction) const {
    const double magic = kMagic + 127 + exponent;
    Value shifted = Fma(x, Const(kLog2E), Const(magic));
    Value r = Remainder(x, Sub(shifted, Const(magic)), reduction);
    return {ExpReduced(r), FromBits(b.CreateShl(Bits(shifted), Int(23)))};
  }

  // Splits 2^(y + exponent) in the same way, with coefficients of 2^r.
  Power SplitBase2(Value y, int exponent, std::initializer_list<double> exp2) const {
    const double magic = kMagic + 127 + exponent;
    Value shifted = Add(y, Const(magic));
    Value r = Sub(y, Sub(shifted, Const(magic)));
    return {Polynomial(r, exp2), FromBits(b.CreateShl(Bits(shifted), Int(23)))};
  }

  static constexpr int kSigmoidScale = -24;
  Value SigmoidRange(Value x) const { return Neg(AtLeast(AtMost(x, 20.0), -105.0)); }
  Value SigmoidOf(const Power& power) const {
    Value one = Const(std::ldexp(1.0, kSigmoidScale));
    return Div(one, Fma(power.sum, power.scale, one));
  }

  Value NormalCdfOf(Value x, std::initializer_list<double> tail,
                    std::initializer_list<double> exp2) const {
    Value magnitude = Abs(x);
    const Power power = SplitBase2(Mul(magnitude, Polynomial(magnitude, tail)), -1, exp2);
    Value below = Mul(power.sum, power.scale);
    // This gives 0 for a NaN too, because the factor that multiplies it is that NaN.
    below = Select(Less(magnitude, Const(5.6)), below, Const(0.0));
    return Select(Less(Const(0.0), x), Sub(Const(1.0), below), below);
  }

  // (e^r - 1 - r) / r^2.
  Value ExpTail(Value r) const {
    return Polynomial(r, {0.50000000959505833, 0.16666518703777488, 0.04166620304075163,
                          0.0083689058347831433, 0.0013950703007467558});  // [-ln2/2, ln2/2]
  }

  // e^r.
  Value ExpReduced(Value r) const { return Add(Const(1.0), Fma(Mul(r, r), ExpTail(r), r)); }

  Value PowerOfTwo(Value n) const {
    return FromBits(b.CreateShl(b.CreateAdd(n, Int(127)), Int(23)));
  }
};

}  // namespace

bool IsMathOpcode(Opcode op) {
  switch (op) {
    case Opcode::kExp:
    case Opcode::kExpm1:
    case Opcode::kLog:
    case Opcode::kTanh:
    case Opcode::kErf:
    case Opcode::kSigmoid:
    case Opcode::kSigmoidBf16:
    case Opcode::kNormalCdf:
    case Opcode::kNormalCdfBf16:
    case Opcode::kRsqrt:
    case Opcode::kReciprocal:
      return true;
    default:
      return IsMath64Opcode(op);
  }
}

llvm::Value* EmitExpInRange(llvm::IRBuilder<>& builder, const TargetInfo& target, llvm::Value* x) {
  return Math32(builder, target, x->getType()).ExpInRange(x);
}

llvm::Value* EmitMath(llvm::IRBuilder<>& builder, const TargetInfo& target, Opcode op,
                      const std::vector<llvm::Value*>& args) {
  llvm::Value* x = args[0];
  const Math32 m(builder, target, x->getType());
  switch (op) {
    case Opcode::kExp:
      return m.Exp(x);
    case Opcode::kExpm1:
      return m.Expm1(x);
    case Opcode::kLog:
      return m.Log(x);
    case Opcode::kTanh:
      return m.Tanh(x);
    case Opcode::kErf:
      return m.Erf(x);
    case Opcode::kSigmoid:
      return m.Sigmoid(x);
    case Opcode::kSigmoidBf16:
      return m.SigmoidBf16(x);
    case Opcode::kNormalCdf:
      return m.NormalCdf(x);
    case Opcode::kNormalCdfBf16:
      return m.NormalCdfBf16(x);
    case Opcode::kRsqrt:
      return m.Div(m.Const(1.0), m.Sqrt(x));
    case Opcode::kReciprocal:
      return m.Div(m.Const(1.0), x);
    default:
      return EmitMath64(builder, target, op, args);
  }
}

}  // namespace hpu::graph_compiler
