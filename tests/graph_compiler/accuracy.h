// The functions whose error docs/numerics.md bounds: the node, the exact value, and how errors are
// counted.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace hpu::graph_compiler {

inline float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline uint32_t ToBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// A binary floating-point format; kFloat is the format of f32 results.
struct FloatFormat {
  int precision;     // significant bits including the leading one
  int min_exponent;  // of the smallest normal number
  int max_exponent;  // of the largest finite number
};
inline constexpr FloatFormat kFloat{24, -126, 127};
inline constexpr FloatFormat kBfloat{8, -126, 127};
inline constexpr FloatFormat kHalf{11, -14, 15};

inline constexpr double kWrong = 1e9;  // a special value is wrong

// Returns the distance of two values of one format in units in the last place of `unit` (the exact
// result, or the value that the bound is relative to). Infinity counts as the next power of two;
// the sign of a zero counts where the exact result is a zero.
inline double UlpError(double got, double exact, double unit, const FloatFormat& format) {
  if (std::isnan(exact) || std::isnan(got)) {
    return std::isnan(exact) && std::isnan(got) ? 0 : kWrong;
  }
  if (exact == 0) return got == 0 && std::signbit(got) == std::signbit(exact) ? 0 : kWrong;
  const double infinity = std::ldexp(1.0, format.max_exponent + 1);
  if (std::isinf(exact) && std::isinf(unit)) return got == exact ? 0 : kWrong;
  const double limited = std::max(-infinity, std::min(infinity, exact));
  if (std::isinf(got)) got = std::copysign(infinity, got);
  int exponent = 0;
  std::frexp(std::max(-infinity, std::min(infinity, unit)), &exponent);
  exponent = std::min(std::max(exponent - 1, format.min_exponent), format.max_exponent);
  return std::fabs(got - limited) / std::ldexp(1.0, exponent - format.precision + 1);
}

// The value in whose last place an error is counted.
enum class ErrorUnit {
  kResult,
  kInput,  // x: for x * gate(x) with a gate that cancels, as PyTorch's gelu does
  // The result, but at least x times the smallest normal number, for x times a denormal gate.
  kGated,
};

struct Function {
  const char* name;  // the row in docs/numerics.md
  const char* guid;  // without a type suffix
  double (*exact)(double, double);
  int arity = 1;
  ErrorUnit unit = ErrorUnit::kResult;
  std::vector<uint8_t> params = {};
};

const std::vector<Function>& BoundedFunctions();

// Returns the column "f32, ulp" of the table in docs/numerics.md by function name.
std::map<std::string, double> DocumentedBounds();

}  // namespace hpu::graph_compiler
