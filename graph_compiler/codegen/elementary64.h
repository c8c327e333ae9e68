// Elementary functions in f64 for arguments that are f32 values.
#pragma once

#include <array>

#include "graph_compiler/codegen/float_math.h"

// Polynomial coefficients are minimax fits (Remez exchange in 40-digit arithmetic). The relative
// errors of all pieces are below 2^-35, so that the one rounding to f32 determines the error.

namespace hpu::graph_compiler {

inline constexpr double kPi = 3.1415926535897931;
inline constexpr double kHalfPi = 1.5707963267948966;

class Math64 : public FloatMath {
 public:
  using FloatMath::FloatMath;

  Value Exp(Value x) const {
    const Reduced reduced = Reduce(x);
    Value q = Polynomial(reduced.r, {0.49999999999520686, 0.16666666786577926, 0.041666667053571803,
                                     0.008333281285826342, 0.0013888796514504182,
                                     0.00019909233875352516, 2.4887571892622127e-5});
    Value square = Mul(reduced.r, reduced.r);
    return Mul(reduced.scale, Add(Const(1.0), Fma(square, q, reduced.r)));
  }

  Value Expm1(Value x) const {
    const Reduced reduced = Reduce(x);
    Value q = Polynomial(reduced.r, {0.49999999999520686, 0.16666666786577926, 0.041666667053571803,
                                     0.008333281285826342, 0.0013888796514504182,
                                     0.00019909233875352516, 2.4887571892622127e-5});
    Value minus_one = Fma(Mul(reduced.r, reduced.r), q, reduced.r);
    return Fma(reduced.scale, minus_one, Sub(reduced.scale, Const(1.0)));
  }

  // x = 2^e * m, m in [sqrt(1/2), sqrt(2)); log(m) = 2 atanh(s), s = (m - 1) / (m + 1).
  Value Log(Value x) const {
    const Split split = SplitExponent(x);
    return Finish(x, Fma(split.exponent, Const(kLn2), LogOfMantissa(split.mantissa)));
  }

  Value Log2(Value x) const {
    const Split split = SplitExponent(x);
    return Finish(x, Fma(LogOfMantissa(split.mantissa), Const(1.4426950408889634), split.exponent));
  }

  // Below 2^-10 the sum 1 + x would lose too much precision, so a series is used.
  Value Log1p(Value x) const {
    Value series = Fma(Mul(Mul(x, x), x), Const(1.0 / 3.0), Fma(Mul(x, x), Const(-0.5), x));
    return Select(Less(Abs(x), Const(0x1p-10)), series, Log(Add(Const(1.0), x)));
  }

  struct SinCos {
    Value sin;
    Value cos;
  };
  // `x32` is the f32 argument; the type of this object is the f64 type of the same shape.
  SinCos SinAndCos(Value x32) const {
    const Angle angle = ReduceAngle(x32);
    Value z = Mul(angle.r, angle.r);
    Value sin_tail = Polynomial(z, {-0.16666666641607526, 0.008333329383596101,
                                    -0.00019839334081536204, 2.7183041887561622e-6});
    Value sin = Fma(Mul(z, angle.r), sin_tail, angle.r);
    Value cos_tail = Polynomial(z, {0.041666666622793344, -0.0013888883750373782,
                                    2.4799519195931003e-5, -2.7210169687769023e-7});
    Value cos = Fma(Mul(z, z), cos_tail, Fma(z, Const(-0.5), Const(1.0)));
    // The (sin, cos) of the quadrants are 0: (s, c), 1: (c, -s), 2: (-s, -c), 3: (-c, s).
    Value odd = HasBit(angle.quadrant, 1);
    Value sin_negative = HasBit(angle.quadrant, 2);
    Value cos_negative = HasBit(b.CreateAdd(angle.quadrant, Int(1)), 2);
    Value first = Select(odd, cos, sin);
    Value second = Select(odd, sin, cos);
    // The reduction loses the sign of -0.
    sin = Select(Equal(angle.r, Const(0.0)), b.CreateFPExt(x32, type),
                 Select(sin_negative, Neg(first), first));
    return {sin, Select(cos_negative, Neg(second), second)};
  }

  // For x >= 0. Above tan(3 pi/8) the argument is reduced to the reciprocal, above tan(pi/8) to (x
  // - 1) / (x + 1).
  Value AtanPositive(Value x) const {
    Value big = Less(Const(2.4142135623730951), x);
    Value middle = Less(Const(0.41421356237309503), x);
    Value numerator = Select(big, Const(-1.0), Select(middle, Sub(x, Const(1.0)), x));
    Value denominator = Select(big, x, Select(middle, Add(x, Const(1.0)), Const(1.0)));
    Value base = Select(big, Const(kHalfPi), Select(middle, Const(kPi / 4), Const(0.0)));
    Value t = Div(numerator, denominator);
    Value z = Mul(t, t);
    Value tail = Polynomial(z, {-0.3333333251410928, 0.19999905139538855, -0.14282040642396519,
                                0.11045074892206882, -0.084782972199913647, 0.047480405073105423});
    return Add(base, Fma(Mul(z, t), tail, t));
  }

  // Returns asin(s) for s in [0, 0.5], given s and s^2.
  Value AsinSmall(Value s, Value square) const {
    Value tail =
        Polynomial(square, {0.16666667191550371, 0.074999480086945553, 0.044660205415165074,
                            0.030109709930802181, 0.024621897800678062, 0.0074578635747112748,
                            0.034706930800514408});
    return Fma(Mul(square, s), tail, s);
  }

  // acos(x) = 2 asin(sqrt((1 - x) / 2)).
  Value Asin(Value x) const {
    const Arc arc = ReduceArc(x);
    Value large = Sub(Const(kHalfPi), Add(arc.asin, arc.asin));
    return CopySign(Select(arc.is_small, arc.asin, large), x);
  }
  Value Acos(Value x) const {
    const Arc arc = ReduceArc(x);
    Value twice = Add(arc.asin, arc.asin);
    Value large = Select(Less(x, Const(0.0)), Sub(Const(kPi), twice), twice);
    return Select(arc.is_small, Sub(Const(kHalfPi), CopySign(arc.asin, x)), large);
  }

  Value Atan2(Value y, Value x) const {
    Value abs_x = Abs(x);
    Value abs_y = Abs(y);
    Value steep = Less(abs_x, abs_y);
    Value small = Select(steep, abs_x, abs_y);
    Value large = Select(steep, abs_y, abs_x);
    Value ratio = Select(Equal(small, large), Const(1.0), Div(small, large));
    ratio = Select(Equal(small, Const(0.0)), Const(0.0), ratio);
    Value angle = AtanPositive(ratio);
    angle = Select(steep, Sub(Const(kHalfPi), angle), angle);
    Value x_negative = b.CreateICmpSLT(Bits(x), Int(0));
    angle = CopySign(Select(x_negative, Sub(Const(kPi), angle), angle), y);
    return Select(b.CreateFCmpUNO(x, y), Nan(), angle);
  }

  // Computes |x|^y by exp and log, and then the sign and the special cases of C's pow.
  Value Pow(Value x, Value y) const {
    Value log = Log(Abs(x));
    Value product = Mul(y, log);
    product = Select(Equal(log, Const(0.0)), Const(0.0), product);
    Value result = Exp(product);
    Value y_is_integer = Equal(Trunc(y), y);
    Value half = Mul(y, Const(0.5));
    Value y_is_odd = b.CreateAnd(y_is_integer, b.CreateFCmpUNE(Trunc(half), half));
    Value x_negative = b.CreateICmpSLT(Bits(x), Int(0));
    result = Select(b.CreateAnd(x_negative, y_is_odd), Neg(result), result);
    Value finite_negative = b.CreateAnd(Less(x, Const(0.0)), Less(Neg(Infinity()), x));
    result = Select(b.CreateAnd(finite_negative, b.CreateNot(y_is_integer)), Nan(), result);
    Value one = b.CreateOr(Equal(x, Const(1.0)), Equal(y, Const(0.0)));
    return Select(one, Const(1.0), result);
  }

 private:
  static constexpr uint64_t kSqrtHalfBits = 0x3fe6a09e667f3bcd;
  static constexpr uint64_t kOneBits = 0x3ff0000000000000;

  struct Reduced {
    Value scale;  // 2^n
    Value r;
  };
  // The limits keep 2^n normal; results beyond them overflow or underflow in f32 anyway.
  Reduced Reduce(Value x) const {
    constexpr double kMagic = 0x1.8p52;
    x = AtLeast(AtMost(x, 300.0), -300.0);
    Value shifted = Add(Mul(x, Const(1.4426950408889634)), Const(kMagic));
    Value n = Sub(shifted, Const(kMagic));
    Value r = Fma(n, Const(-0x1.62e42fefap-1), x);  // high part: 35 bits, products exact
    r = Fma(n, Const(-0x1.cf79abc9e3b39p-40), r);
    Value scale = FromBits(b.CreateAdd(b.CreateShl(Bits(shifted), Int(52)), Int(kOneBits)));
    return {scale, r};
  }

  struct Split {
    Value exponent;
    Value mantissa;
  };
  Split SplitExponent(Value x) const {
    Value shifted = b.CreateAdd(Bits(x), Int(kOneBits - kSqrtHalfBits));
    Value biased = b.CreateLShr(shifted, Int(52));
    Value exponent =
        Sub(FromBits(b.CreateOr(biased, Int(0x4330000000000000))), Const(0x1p52 + 1023.0));
    Value mantissa = b.CreateAdd(b.CreateAnd(shifted, Int(0xfffffffffffff)), Int(kSqrtHalfBits));
    return {exponent, FromBits(mantissa)};
  }
  Value LogOfMantissa(Value mantissa) const {
    Value s = Div(Sub(mantissa, Const(1.0)), Add(mantissa, Const(1.0)));
    Value z = Mul(s, s);
    Value q = Polynomial(z, {0.66666666675804352, 0.39999995620809857, 0.28572109255751982,
                             0.22176185021156688, 0.19584199696440115});
    return Fma(Mul(z, s), q, Add(s, s));
  }
  // Inserts the log of 0, of negatives, of infinity and of NaN.
  Value Finish(Value x, Value log) const {
    log = Select(Less(x, Infinity()), log, x);
    Value not_positive = Select(Equal(x, Const(0.0)), Neg(Infinity()), Nan());
    return Select(Less(Const(0.0), x), log, not_positive);
  }

  Value HasBit(Value value, uint64_t bit) const {
    return b.CreateICmpNE(b.CreateAnd(value, Int(bit)), Int(0));
  }

  struct Arc {
    Value is_small;  // |x| <= 0.5
    Value asin;      // of |x|, or of sqrt((1 - |x|) / 2)
  };
  Arc ReduceArc(Value x) const {
    Value magnitude = Abs(x);
    Value is_small = Less(magnitude, Const(0.5));
    Value rest = Mul(Sub(Const(1.0), magnitude), Const(0.5));
    Value square = Select(is_small, Mul(x, x), rest);
    Value s = Select(is_small, magnitude, Sqrt(rest));
    return {is_small, AsinSmall(s, square)};
  }

  struct Angle {
    Value quadrant;  // an integer, of which the low two bits count
    Value r;         // in [-pi/4, pi/4] up to rounding
  };
  // Arguments up to 2^20 are reduced by subtracting n pi/2 in three parts. A branch serves vectors
  // with larger ones.
  Angle ReduceAngle(Value x32) const {
    Value x = b.CreateFPExt(x32, type);
    Value n = RoundEven(Mul(x, Const(2.0 / kPi)));
    Value r = Fma(n, Const(-0x1.921fb544p+0), x);
    r = Fma(n, Const(-0x1.0b4611ap-34), r);
    r = Fma(n, Const(-0x1.898cc51701b84p-64), r);
    // The comparison is ordered: NaN and infinity need no care, because they give NaN either way.
    Value large = Less(Const(0x1p20), Abs(x));
    Value any = large->getType()->isVectorTy() ? b.CreateOrReduce(large) : large;
    llvm::Function* function = b.GetInsertBlock()->getParent();
    llvm::BasicBlock* before = b.GetInsertBlock();
    auto* slow = llvm::BasicBlock::Create(b.getContext(), "large_angle", function);
    auto* join = llvm::BasicBlock::Create(b.getContext(), "angle", function);
    b.CreateCondBr(any, slow, join);
    b.SetInsertPoint(slow);
    const Product product = TimesTwoOverPi(x);
    Value slow_n = RoundEven(product.high);
    Value slow_r = Mul(Add(Sub(product.high, slow_n), product.low), Const(kHalfPi));
    Value chosen_n = Select(large, slow_n, n);
    Value chosen_r = Select(large, slow_r, r);
    b.CreateBr(join);
    llvm::BasicBlock* slow_end = b.GetInsertBlock();
    b.SetInsertPoint(join);
    llvm::PHINode* n_phi = b.CreatePHI(type, 2);
    n_phi->addIncoming(n, before);
    n_phi->addIncoming(chosen_n, slow_end);
    llvm::PHINode* r_phi = b.CreatePHI(type, 2);
    r_phi->addIncoming(r, before);
    r_phi->addIncoming(chosen_r, slow_end);
    // Adding 1.5 * 2^52 leaves the integer in the low bits.
    return {Bits(Add(n_phi, Const(0x1.8p52))), r_phi};
  }

  struct Product {
    Value high;
    Value low;
  };
  // Computes x * 2/pi modulo 4 as an unevaluated sum. 2/pi is cut into pieces of 28 bits, so that
  // their products with the 24 bits of x are exact, and taking them modulo 4 is exact too. The sum
  // is compensated.
  Product TimesTwoOverPi(Value x) const {
    static constexpr std::array<double, 8> kTwoOverPi = {
        0x1.45f306cp-1,   0x1.c9c882ap-29, 0x1.4fe13a8p-59,  0x1.f47d4dp-86,
        0x1.bb81b6cp-113, 0x1.4acc9ep-143, 0x1.0e4107cp-170, 0x1.ca2c756p-197};
    Value high = Const(0.0);
    Value low = Const(0.0);
    for (const double piece : kTwoOverPi) {
      Value product = Mul(x, Const(piece));
      Value whole = Mul(Trunc(Mul(product, Const(0.25))), Const(4.0));
      Value term = Sub(product, whole);
      Value sum = Add(high, term);
      Value shadow = Sub(sum, high);
      Value error = Add(Sub(high, Sub(sum, shadow)), Sub(term, shadow));
      low = Add(low, error);
      high = sum;
    }
    return {high, low};
  }
};

}  // namespace hpu::graph_compiler
