#include "tests/graph_compiler/accuracy.h"

#include <fstream>
#include <sstream>

#include "base/error_function.h"

namespace hpu::graph_compiler {
namespace {

double Sigmoid(double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
double Softplus(double x) { return x > 40 ? x : std::log1p(std::exp(x)); }
// At the left end an infinite input gives NaN, because PyTorch's formulas multiply it by zero.
double Gated(double x, double gate) { return x == -HUGE_VAL ? NAN : x * gate; }
double Expm1Scaled(double x, double alpha, double scale) {
  return scale * (x > 0 ? x : alpha * std::expm1(x));
}

double FloorMod(double x, double y) {
  const double rest = std::fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

// These are f32 values, as in the kernels.
constexpr double kSeluAlpha = 1.6732632423543773f;
constexpr double kSeluScale = 1.0507009873554805f;

#define UNARY(function) [](double x, double) { return double(function); }
#define BINARY(function) [](double x, double y) { return double(function); }

const std::vector<Function>& Table() {
  static const auto* const table = new std::vector<Function>{
      {"exp", "exp_fwd", UNARY(std::exp(x))},
      {"expm1", "expm1_fwd", UNARY(std::expm1(x))},
      {"log", "log_fwd", UNARY(std::log(x))},
      {"log1p", "log1p_fwd", UNARY(std::log1p(x))},
      {"log2", "log2_fwd", UNARY(std::log2(x))},
      {"log10", "log10_fwd", UNARY(std::log10(x))},
      {"sqrt", "sqrt_fwd", UNARY(std::sqrt(x))},
      {"rsqrt", "rsqrt_fwd", UNARY(1 / std::sqrt(x))},
      {"reciprocal", "reciprocal_fwd", UNARY(1 / x)},
      {"sin", "sin_fwd", UNARY(std::sin(x))},
      {"cos", "cos_fwd", UNARY(std::cos(x))},
      {"tan", "tan_fwd", UNARY(std::tan(x))},
      {"asin", "asin_fwd", UNARY(std::asin(x))},
      {"acos", "acos_fwd", UNARY(std::acos(x))},
      {"atan", "atan_fwd", UNARY(std::atan(x))},
      {"sinh", "sinh_fwd", UNARY(std::sinh(x))},
      {"cosh", "cosh_fwd", UNARY(std::cosh(x))},
      {"tanh", "tanh_fwd", UNARY(std::tanh(x))},
      {"asinh", "asinh_fwd", UNARY(std::asinh(x))},
      {"acosh", "acosh_fwd", UNARY(std::acosh(x))},
      {"atanh", "atanh_fwd", UNARY(std::atanh(x))},
      {"erf", "erf_fwd", UNARY(std::erf(x))},
      {"erfc", "erfc_fwd", UNARY(std::erfc(x))},
      {"erfinv", "erfinv_fwd", UNARY(ErfInverse(x))},
      {"sigmoid", "sigmoid_fwd", UNARY(Sigmoid(x))},
      {"silu", "silu_fwd", UNARY(Gated(x, Sigmoid(x))), 1, ErrorUnit::kGated},
      {"softplus", "softplus_fwd", UNARY(Softplus(x))},
      {"mish", "mish_fwd", UNARY(Gated(x, std::tanh(Softplus(x)))), 1, ErrorUnit::kGated},
      {"elu", "elu_fwd", UNARY(Expm1Scaled(x, 1, 1))},
      {"selu", "selu_fwd", UNARY(Expm1Scaled(x, kSeluAlpha, kSeluScale))},
      {"gelu", "gelu_fwd", UNARY(Gated(x, 0.5 * std::erfc(-x * M_SQRT1_2))), 1, ErrorUnit::kInput},
      {"gelu_tanh",
       "gelu_fwd",
       UNARY(Gated(x, Sigmoid(2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)))),
       1,
       ErrorUnit::kInput,
       {1}},
      {"pow", "pow_fwd", BINARY(std::pow(x, y)), 2},
      {"atan2", "atan2_fwd", BINARY(std::atan2(x, y)), 2},
      {"hypot", "hypot_fwd", BINARY(std::hypot(x, y)), 2},
      {"fmod", "mod_fwd", BINARY(std::fmod(x, y)), 2},
      {"remainder", "rem_fwd", BINARY(FloorMod(x, y)), 2},
  };
  return *table;
}

}  // namespace

const std::vector<Function>& BoundedFunctions() { return Table(); }

std::map<std::string, double> DocumentedBounds() {
  std::map<std::string, double> bounds;
  std::ifstream file("docs/numerics.md");
  for (std::string line; std::getline(file, line);) {
    std::istringstream cells(line);
    std::string empty;
    std::string names;
    std::string bound;
    if (!std::getline(cells, empty, '|') || !std::getline(cells, names, '|') ||
        !std::getline(cells, bound, '|') || names.find('`') == std::string::npos) {
      continue;
    }
    for (size_t begin = names.find('`'); begin != std::string::npos;) {
      const size_t end = names.find('`', begin + 1);
      bounds[names.substr(begin + 1, end - begin - 1)] = std::strtod(bound.c_str(), nullptr);
      begin = names.find('`', end + 1);
    }
  }
  return bounds;
}

}  // namespace hpu::graph_compiler
