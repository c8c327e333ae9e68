// Makes numbers of other distributions from uniform ones: exponential numbers by -log(1 - u), and
// normal ones by Box and Muller, sqrt(-2 log(1 - u)) cos(2 pi v).
//
// They use only operations for which IEEE 754 defines exactly one result, in one order, and no
// fused ones, so that every f32 implementation gets the same bits. The arithmetic (`a`) may be the
// host or a graph:
//
//   Value Add(Value, Value), Add(Value, float), Mul and Div likewise, Sqrt(Value), Floor(Value)
//   Value SelectLess(Value x, float limit, Value yes, Value no)   x < limit ? yes : no
#pragma once

#include <cmath>

namespace hpu {

// `coefficients` are those of a polynomial, the constant one first.
template <typename Arithmetic, typename Value, size_t count>
Value Polynomial(const Arithmetic& a, const Value& x, const float (&coefficients)[count]) {
  Value sum = a.Add(a.Mul(x, coefficients[count - 1]), coefficients[count - 2]);
  for (size_t i = count - 2; i-- > 0;) sum = a.Add(a.Mul(sum, x), coefficients[i]);
  return sum;
}

// Returns -log(1 - u) for u in [0, 1) with 24 bits: 1 - u = x 2^-e with x in [0.707, 1.414), and
// log x = 2 artanh((x - 1) / (x + 1)).
template <typename Arithmetic, typename Value>
Value MinusLogOfRest(const Arithmetic& a, const Value& u) {
  Value x = a.Add(a.Mul(u, -1.0F), 1.0F);
  Value exponent = a.Mul(u, 0.0F);
  const auto scale = [&](float limit, float by, float shift) {
    const Value scaled = a.Mul(x, by);
    exponent = a.SelectLess(x, limit, a.Add(exponent, shift), exponent);
    x = a.SelectLess(x, limit, scaled, x);
  };
  scale(0x1p-16F, 0x1p16F, 16);
  scale(0x1p-8F, 0x1p8F, 8);
  scale(0x1p-4F, 0x1p4F, 4);
  scale(0x1p-2F, 0x1p2F, 2);
  scale(0x1p-1F, 0x1p1F, 1);
  scale(0.70710677F, 0x1p1F, 1);
  const Value s = a.Div(a.Add(x, -1.0F), a.Add(x, 1.0F));
  // The first omitted term is s^10 / 11 < 2.1e-9 of the sum.
  const Value series = Polynomial(a, a.Mul(s, s), {2.0F, 2.0F / 3, 2.0F / 5, 2.0F / 7, 2.0F / 9});
  return a.Add(a.Mul(exponent, 0.6931472F), a.Mul(a.Mul(s, series), -1.0F));
}

// Returns a number of the exponential distribution whose mean is 1. It is never 0, because others
// divide by it: for u = 0, which stands for [0, 2^-24), it is the middle of that interval.
template <typename Arithmetic, typename Value>
Value ExponentialFromUniform(const Arithmetic& a, const Value& u) {
  const Value middle = a.Add(a.Mul(u, 0.0F), 0x1p-25F);
  return a.SelectLess(u, 0x1p-24F, middle, MinusLogOfRest(a, u));
}

// Returns the number of trials until the first success, at least 1. `scale` is -1 / log(1 - p) for
// trials that succeed with probability p.
template <typename Arithmetic, typename Value>
Value GeometricFromUniform(const Arithmetic& a, const Value& u, float scale) {
  const Value negative = a.Floor(a.Mul(ExponentialFromUniform(a, u), -scale));
  return a.Mul(negative, -1.0F);
}

// Returns cos(2 pi v) for v in [0, 1): within the nearest quarter turn it is Taylor's series up to
// y^9.
template <typename Arithmetic, typename Value>
Value CosineOfTurn(const Arithmetic& a, const Value& v) {
  const Value quarters = a.Mul(v, 4.0F);
  const Value nearest = a.Floor(a.Add(quarters, 0.5F));
  const Value y = a.Mul(a.Add(quarters, a.Mul(nearest, -1.0F)), 1.5707964F);
  const Value w = a.Mul(y, y);
  const Value cosine = Polynomial(a, w, {1.0F, -1.0F / 2, 1.0F / 24, -1.0F / 720, 1.0F / 40320});
  const Value sine =
      a.Mul(y, Polynomial(a, w, {1.0F, -1.0F / 6, 1.0F / 120, -1.0F / 5040, 1.0F / 362880}));
  Value result = a.SelectLess(nearest, 3.5F, sine, cosine);
  result = a.SelectLess(nearest, 2.5F, a.Mul(cosine, -1.0F), result);
  result = a.SelectLess(nearest, 1.5F, a.Mul(sine, -1.0F), result);
  return a.SelectLess(nearest, 0.5F, cosine, result);
}

template <typename Arithmetic, typename Value>
Value NormalFromUniform(const Arithmetic& a, const Value& u, const Value& v) {
  const Value radius = a.Sqrt(a.Mul(MinusLogOfRest(a, u), 2.0F));
  return a.Mul(radius, CosineOfTurn(a, v));
}

// Computes with the host's f32.
struct HostArithmetic {
  float Add(float x, float y) const { return x + y; }
  float Mul(float x, float y) const { return x * y; }
  float Div(float x, float y) const { return x / y; }
  float Sqrt(float x) const { return std::sqrt(x); }
  float Floor(float x) const { return std::floor(x); }
  float SelectLess(float x, float limit, float yes, float no) const { return x < limit ? yes : no; }
};

}  // namespace hpu
