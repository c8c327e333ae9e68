// Rewrites draws of random numbers to functions of the generator's state, which is an input of the
// graph. Each draw uses the blocks that follow those of the draws before it. So a graph gets the
// same numbers as the same calls one by one, which backend/torch/eager/random_kernels.cc runs.
#include "compiler_server/passes/decompose/random.h"

#include <algorithm>

#include "base/normal.h"
#include "base/philox.h"
#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {

Value* Draw(Call& call, const Dims& sizes) {
  ir::Graph& graph = call.b.graph();
  const ir::Graph::RandomState state = graph.AddRandomState();
  const TensorType type = ir::Contiguous(DType::kF32, sizes);
  Value* numbers = call.b.Emit(OpKind::kRandomUniform, {state.seed, state.offset},
                               {{AttrKey::kBase, static_cast<int64_t>(graph.draws)}}, &type);
  graph.draws += PhiloxBlocks(static_cast<uint64_t>(type.elements()));
  return numbers;
}

namespace {

// Returns a condition that is true with probability `p`, which is f32.
Value* Chance(Call& call, Value* p) {
  const Dims& sizes = call.type().sizes;
  return call.b.Binary(OpKind::kLt, Draw(call, sizes), call.b.Expand(p, sizes));
}
Value* Chance(Call& call, double p) { return Chance(call, call.b.Scalar(p, DType::kF32)); }

// A type with fewer bits than f32 gets numbers that fit into them from the start. If they were
// rounded, the numbers near 1 would become 1.
Value* DrawUniform(Call& call) {
  Value* numbers = Draw(call, call.type().sizes);
  const DType dtype = call.dtype();
  if (dtype == DType::kF32) return numbers;
  const double values = dtype == DType::kBF16 ? 0x1p8 : 0x1p11;
  numbers = call.b.Unary(OpKind::kFloor, call.b.Binary(OpKind::kMul, numbers, values));
  return call.b.Binary(OpKind::kMul, numbers, 1 / values);
}

void Rand(Call& call) { call.Return(call.b.Cast(DrawUniform(call), call.dtype())); }

// uniform(x, from, to)
void Uniform(Call& call) {
  const double from = call.Float("from");
  const double to = call.Float("to");
  Value* numbers = DrawUniform(call);
  if (to - from != 1) numbers = call.b.Binary(OpKind::kMul, numbers, to - from);
  if (from != 0) numbers = call.b.Binary(OpKind::kAdd, numbers, from);
  call.Return(call.b.Cast(numbers, call.dtype()));
}

// bernoulli(x, p): x determines only the type and the sizes.
void BernoulliP(Call& call) {
  call.Return(call.b.Cast(Chance(call, call.Float("p")), call.dtype()));
}
void BernoulliOf(Call& call, std::string_view p) {
  call.Return(call.b.Cast(Chance(call, call.Operand(p, DType::kF32)), call.dtype()));
}
void Bernoulli(Call& call) { BernoulliOf(call, "self"); }
void BernoulliTensor(Call& call) { BernoulliOf(call, "p"); }

// The arithmetic that base/normal.h needs, as nodes of a graph.
struct GraphArithmetic {
  ir::Builder& b;
  Value* Add(Value* x, Value* y) const { return b.Binary(OpKind::kAdd, x, y); }
  Value* Add(Value* x, float y) const { return b.Binary(OpKind::kAdd, x, double{y}); }
  Value* Mul(Value* x, Value* y) const { return b.Binary(OpKind::kMul, x, y); }
  Value* Mul(Value* x, float y) const { return b.Binary(OpKind::kMul, x, double{y}); }
  Value* Div(Value* x, Value* y) const { return b.Binary(OpKind::kDiv, x, y); }
  Value* Sqrt(Value* x) const { return b.Unary(OpKind::kSqrt, x); }
  Value* Floor(Value* x) const { return b.Unary(OpKind::kFloor, x); }
  Value* SelectLess(Value* x, float limit, Value* yes, Value* no) const {
    return b.Emit(OpKind::kWhere, {b.Binary(OpKind::kLt, x, double{limit}), yes, no});
  }
};

// Normal numbers need two draws: one of the first numbers of all elements, then one of the second
// numbers.
Value* DrawNormal(Call& call) {
  Value* first = Draw(call, call.type().sizes);
  Value* second = Draw(call, call.type().sizes);
  return NormalFromUniform(GraphArithmetic{call.b}, first, second);
}

void Randn(Call& call) { call.Return(call.b.Cast(DrawNormal(call), call.dtype())); }

// normal_functional(x, mean, std)
void Normal(Call& call) {
  Value* numbers = call.b.Binary(OpKind::kMul, DrawNormal(call), call.Float("std"));
  numbers = call.b.Binary(OpKind::kAdd, numbers, call.Float("mean"));
  call.Return(call.b.Cast(numbers, call.dtype()));
}

// The integers are calculated as f32, which holds them exactly. The product may be rounded up to
// the range itself, so it is limited.
void GiveIntegers(Call& call, int64_t low, int64_t high) {
  const auto range = static_cast<double>(high - low);
  Value* numbers = call.b.Binary(OpKind::kMul, Draw(call, call.type().sizes), range);
  numbers = call.b.Binary(OpKind::kMin, call.b.Unary(OpKind::kFloor, numbers), range - 1);
  if (low != 0) numbers = call.b.Binary(OpKind::kAdd, numbers, static_cast<double>(low));
  call.Return(call.b.Cast(numbers, call.dtype()));
}
void Integers(Call& call) {
  GiveIntegers(call, call.Has("low") ? call.Int("low") : 0, call.Int("high"));
}
// random.from(x, from, to) and random.to(x, to)
void Random(Call& call) {
  GiveIntegers(call, call.Has("from") ? call.Int("from") : 0, call.Int("to"));
}

double KeptScale(double p) { return p == 1 ? 0 : 1 / (1 - p); }

void Dropout(Call& call) {
  Value* x = call.Tensor("input");
  const double p = call.Float("p");
  if (!call.Bool("train") || p == 0) return call.Return(x);
  if (p == 1) return call.Return(call.b.Binary(OpKind::kMul, x, 0.0));
  const Expr kept{&call, call.b.Cast(Chance(call, 1 - p), Widened(call.dtype()))};
  Give(call, In(call, x) * (kept / (1 - p)));
}

// native_dropout(x, p, train) returns x masked and scaled, and the mask.
void NativeDropout(Call& call) {
  Value* x = call.Tensor("input");
  if (!call.Bool("train", true)) {
    return call.Return({x, call.b.Full(1, DType::kBool, x->type.sizes)});
  }
  const double p = call.Float("p");
  Value* mask = Chance(call, 1 - p);
  Value* kept = call.b.Binary(OpKind::kMul, x, call.b.Cast(mask, call.dtype()));
  call.Return({call.b.Binary(OpKind::kMul, kept, KeptScale(p)), mask});
}

constexpr HandlerRow kRandomRows[] = {
    {"aten.bernoulli.Tensor", BernoulliTensor},
    {"aten.bernoulli.default", Bernoulli},
    {"aten.bernoulli.p", BernoulliP},
    {"aten.dropout.default", Dropout},
    {"aten.native_dropout.default", NativeDropout},
    {"aten.normal_functional.default", Normal},
    {"aten.rand.default", Rand},
    {"aten.rand_like.default", Rand},
    {"aten.randint.default", Integers},
    {"aten.randint.low", Integers},
    {"aten.randint_like.default", Integers},
    {"aten.randint_like.low_dtype", Integers},
    {"aten.randn.default", Randn},
    {"aten.randn_like.default", Randn},
    {"aten.random.from", Random},
    {"aten.random.to", Random},
    {"aten.uniform.default", Uniform},
};

}  // namespace

std::span<const HandlerRow> RandomRows() { return kRandomRows; }

namespace {

// Returns true for integers that f32 holds exactly, of a type that recipes have.
bool DrawsIntegers(const ir::Node& node) {
  const DType dtype = node.type().dtype;
  int64_t low = 0;
  int64_t high = 0;
  for (const auto& [name, argument] : node.aten->args) {
    const auto* number = std::get_if<int64_t>(&argument.value);
    if (number != nullptr && (name == "low" || name == "from")) low = *number;
    if (number != nullptr && (name == "high" || name == "to")) high = *number;
  }
  return (dtype == DType::kI64 || dtype == DType::kI32) && DrawsExactIntegers(low, high);
}

}  // namespace

bool RecipesDraw(const ir::Node& node) {
  if (node.aten->target.starts_with("hpu.cast_to_fp8_v2.")) return true;
  const auto known = [&](const HandlerRow& row) { return row.target == node.aten->target; };
  if (std::none_of(std::begin(kRandomRows), std::end(kRandomRows), known)) return false;
  const bool integers = node.aten->target.starts_with("aten.randint") ||
                        node.aten->target.starts_with("aten.random.");
  if (integers) return DrawsIntegers(node);
  const DType dtype = node.type().dtype;
  const bool chance = node.aten->target.starts_with("aten.bernoulli");
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16 ||
         (chance && dtype == DType::kBool);
}

}  // namespace hpu::compiler
