#include "backend/torch/record/number_checks.h"

#include <ATen/ATen.h>

#include <limits>
#include <string>

namespace hpu::torch_backend {
namespace {

using c10::IValue;

// uniform_(self, from, to)
void CheckUniform(c10::ArrayRef<IValue> arguments) {
  const at::ScalarType type = arguments[0].toTensor().scalar_type();
  if (!at::isFloatingType(type)) return;
  const double from = arguments[1].toDouble();
  const double to = arguments[2].toDouble();
  double most = 0;
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, type, "uniform_", [&] {
    most = static_cast<double>(std::numeric_limits<scalar_t>::max());
  });
  const auto check = [&](double number, const char* name) {
    TORCH_CHECK(-most <= number && number <= most, name, " is out of bounds for ",
                caffe2::TypeMeta::fromScalarType(type).name());
  };
  check(from, "from");
  check(to, "to");
  TORCH_CHECK(from <= to, "uniform_ expects to return a [from, to) range, but found from=", from,
              " > to=", to);
  TORCH_CHECK(to - from <= most, "uniform_ expects to-from <= std::numeric_limits<", type,
              ">::max(), but found to=", to, " and from=", from,
              " which result in to-from to exceed the limit");
}

// bernoulli_(self, p)
void CheckBernoulli(c10::ArrayRef<IValue> arguments) {
  const double p = arguments[1].toDouble();
  TORCH_CHECK(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
}

// native_dropout(self, p, train)
void CheckDropout(c10::ArrayRef<IValue> arguments) {
  if (arguments[2].isBool() && !arguments[2].toBool()) return;
  const double p = arguments[1].toDouble();
  TORCH_CHECK(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", 1 - p);
}

struct Row {
  const char* op;
  NumberCheck check;
};
constexpr Row kRows[] = {
    {"aten::bernoulli.float_out", CheckBernoulli},
    {"aten::bernoulli.p", CheckBernoulli},
    {"aten::bernoulli_.float", CheckBernoulli},
    {"aten::native_dropout", CheckDropout},
    {"aten::uniform", CheckUniform},
    {"aten::uniform.out", CheckUniform},
    {"aten::uniform_", CheckUniform},
};

}  // namespace

NumberCheck NumberCheckOf(const c10::FunctionSchema& schema) {
  const std::string name = c10::toString(schema.operator_name());
  for (const Row& row : kRows) {
    if (name == row.op) return row.check;
  }
  return nullptr;
}

}  // namespace hpu::torch_backend
