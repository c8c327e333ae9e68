// Rewrites calls that create tensors without an operand to calculate from.
#include <algorithm>
#include <cmath>

#include "compiler_server/passes/decompose/call.h"

namespace hpu::compiler {
namespace {

void Fill(Call& call, double value) {
  call.Return(call.b.Full(value, call.dtype(), call.type().sizes));
}
void Zeros(Call& call) { Fill(call, 0); }
void Ones(Call& call) { Fill(call, 1); }
// full(size, value), full_like(x, value)
void Full(Call& call) { Fill(call, call.Stored("fill_value", call.dtype())); }
// new_full(x, size, value)
void NewFull(Call& call) { Fill(call, call.Stored("fill_value", call.dtype())); }
void ScalarTensor(Call& call) { Fill(call, call.Stored("s", call.dtype())); }
// fill(x, value): the value is a number or a 0-d tensor.
void FillWith(Call& call) {
  call.Return(call.b.Expand(call.Chosen("value", call.dtype()), call.type().sizes));
}

// copy(x, source): the source in x's type and sizes.
void Copy(Call& call) {
  call.Return(call.b.Expand(call.Operand("src", call.dtype()), call.type().sizes));
}

void EmitRange(Call& call, double start, double step) {
  if (call.type().rank() != 1) return call.Refuse("range of rank ", call.type().rank());
  call.Return(call.b.Iota(start, step, call.dtype(), call.type().sizes[0]));
}
void Arange(Call& call) { EmitRange(call, 0, 1); }
void ArangeStart(Call& call) { EmitRange(call, call.Float("start"), 1); }
void ArangeStep(Call& call) { EmitRange(call, call.Float("start"), call.Float("step")); }

// Points from start to end at equal distances. Like PyTorch it calculates each from the nearer end,
// so that both ends are met.
class Points {
 public:
  Points(double start, double end, int64_t steps)
      : start_(start),
        end_(end),
        steps_(steps),
        step_(steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0) {}

  double At(int64_t i) const {
    return i < steps_ / 2 || steps_ == 1 ? start_ + step_ * static_cast<double>(i)
                                         : end_ - step_ * static_cast<double>(steps_ - 1 - i);
  }

  // Returns all of them as f32.
  Value* All(ir::Builder& b) const {
    const int64_t half = steps_ == 1 ? 1 : steps_ / 2;
    std::vector<Value*> parts;
    if (half > 0) parts.push_back(b.Iota(start_, step_, DType::kF32, half));
    if (steps_ > half) {
      Value* to_end =
          b.Iota(static_cast<double>(steps_ - 1 - half), -1, DType::kF32, steps_ - half);
      Value* distance = b.Binary(OpKind::kMul, to_end, b.Scalar(step_, DType::kF32));
      parts.push_back(b.Binary(OpKind::kSub, b.Scalar(end_, DType::kF32), distance));
    }
    return parts.size() == 1 ? parts[0] : b.Concat(std::move(parts), 0);
  }

 private:
  const double start_, end_;
  const int64_t steps_;
  const double step_;
};

// Gives integers one by one: `value` of each point, truncated. PyTorch truncates both ends and
// calculates in f64, which recipes do not have.
void GiveIntegers(Call& call, double start, double end, int64_t steps, auto value) {
  constexpr int64_t kMostSteps = 128;
  start = std::trunc(start);
  end = std::trunc(end);
  const double largest = std::max(std::abs(value(start)), std::abs(value(end)));
  if (steps > kMostSteps || !(largest < 0x1p53)) {
    return call.Refuse(steps, " integers up to ", largest);
  }
  if (steps == 0) return Zeros(call);
  const Points points(start, end, steps);
  std::vector<Value*> integers;
  for (int64_t i = 0; i < steps; ++i) {
    integers.push_back(call.b.Full(std::trunc(value(points.At(i))), call.dtype(), {1}));
  }
  call.Return(call.b.Concat(std::move(integers), 0));
}

// linspace(start, end, steps)
void Linspace(Call& call) {
  const double start = call.Float("start");
  const double end = call.Float("end");
  const int64_t steps = call.Int("steps");
  if (call.refused()) return;
  if (call.type().rank() != 1) return call.Refuse("range of rank ", call.type().rank());
  if (!IsFloat(call.dtype())) {
    return GiveIntegers(call, start, end, steps, [](double point) { return point; });
  }
  if (steps == 0) return Zeros(call);
  call.Return(call.b.Cast(Points(start, end, steps).All(call.b), call.dtype()));
}

// logspace(start, end, steps, base)
void Logspace(Call& call) {
  const double start = call.Float("start");
  const double end = call.Float("end");
  const double base = call.Float("base");
  const int64_t steps = call.Int("steps");
  if (call.refused() || call.type().rank() != 1 || base < 0) {
    return call.Refuse("powers of ", base);
  }
  if (!IsFloat(call.dtype())) {
    return GiveIntegers(call, start, end, steps,
                        [&](double point) { return std::pow(base, point); });
  }
  if (steps == 0) return Zeros(call);
  Value* exponents = Points(start, end, steps).All(call.b);
  Value* powers = call.b.Binary(OpKind::kPow, call.b.Scalar(base, DType::kF32), exponents);
  call.Return(call.b.Cast(powers, call.dtype()));
}

// eye(n), eye(n, m)
void Eye(Call& call) {
  const Dims& sizes = call.type().sizes;
  if (sizes.size() != 2) return call.Refuse("eye of rank ", sizes.size());
  Value* row = call.b.Reshape(call.b.Iota(0, 1, DType::kI32, sizes[0]), {sizes[0], 1});
  Value* column = call.b.Iota(0, 1, DType::kI32, sizes[1]);
  call.Return(call.b.Cast(call.b.Binary(OpKind::kEq, row, column), call.dtype()));
}

constexpr HandlerRow kSourceRows[] = {
    {"aten._efficientzerotensor.default", Zeros},
    {"aten.arange.default", Arange},
    {"aten.arange.start", ArangeStart},
    {"aten.arange.start_step", ArangeStep},
    {"aten.copy.default", Copy},
    {"aten.empty.memory_format", Zeros},
    {"aten.empty_like.default", Zeros},
    {"aten.eye.default", Eye},
    {"aten.eye.m", Eye},
    {"aten.fill.Scalar", FillWith},
    {"aten.fill.Tensor", FillWith},
    {"aten.full.default", Full},
    {"aten.full_like.default", Full},
    {"aten.linspace.default", Linspace},
    {"aten.logspace.default", Logspace},
    {"aten.new_empty.default", Zeros},
    {"aten.new_full.default", NewFull},
    {"aten.new_ones.default", Ones},
    {"aten.new_zeros.default", Zeros},
    {"aten.ones.default", Ones},
    {"aten.ones_like.default", Ones},
    {"aten.scalar_tensor.default", ScalarTensor},
    {"aten.zero.default", Zeros},
    {"aten.zeros.default", Zeros},
    {"aten.zeros_like.default", Zeros},
};

}  // namespace

std::span<const HandlerRow> SourceRows() { return kSourceRows; }

}  // namespace hpu::compiler
