// Rewrites draws of random numbers to functions of the generator's state, which is an input of the
// graph. Each draw uses the blocks that follow those of the draws before it. So a graph gets the
// same numbers as the same calls one by one, which backend/torch/eager/random_kernels.cc runs.
#include "compiler_server/passes/decompose/random.h"

#include <algorithm>

#include "base/philox.h"
#include "compiler_server/passes/decompose/graph_arithmetic.h"

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

Value* DrawNormal(Call& call) {
  Value* first = Draw(call, call.type().sizes);
  Value* second = Draw(call, call.type().sizes);
  return NormalFromUniform(GraphArithmetic{call.b}, first, second);
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

void Randn(Call& call) { call.Return(call.b.Cast(DrawNormal(call), call.dtype())); }

// normal_functional(x, mean, std)
void Normal(Call& call) {
  Value* numbers = call.b.Binary(OpKind::kMul, DrawNormal(call), call.Float("std"));
  numbers = call.b.Binary(OpKind::kAdd, numbers, call.Float("mean"));
  call.Return(call.b.Cast(numbers, call.dtype()));
}

// Gives integers of [low, high). Those of small ranges are calculated as f32, which holds them
// exactly; the product may be rounded up to the range itself, so it is limited. Large ranges take
// the rest of 48 bits, which two draws give.
void GiveIntegers(Call& call, int64_t low, int64_t high) {
  const auto range = static_cast<double>(high - low);
  const Dims& sizes = call.type().sizes;
  Expr numbers{&call, Draw(call, sizes)};
  if (DrawsExactIntegers(low, high)) {
    numbers = Min(Apply(OpKind::kFloor, numbers * range), range - 1);
  } else {
    const auto bits = [](Expr u) { return Cast(u * 0x1p24, DType::kI64); };
    const Expr second{&call, Draw(call, sizes)};
    numbers = Apply(OpKind::kRemainder, bits(numbers) * 0x1p24 + bits(second), range);
  }
  Give(call, low == 0 ? numbers : numbers + static_cast<double>(low));
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

// Returns whether the range of the call is one that draws of its type may have.
bool DrawsItsRange(const ir::Node& node) {
  int64_t low = 0;
  int64_t high = 0;
  for (const auto& [name, argument] : node.aten->args) {
    const auto* number = std::get_if<int64_t>(&argument.value);
    if (number != nullptr && (name == "low" || name == "from")) low = *number;
    if (number != nullptr && (name == "high" || name == "to")) high = *number;
  }
  return DrawsIntegers(node.type().dtype, low, high);
}

bool IsHeldFloat(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

bool IsHeld(const Value* operand) {
  return operand == nullptr || DrawnIntegers(operand->type.dtype).high > 0;
}

bool HasHeldFloats(const ir::Node& node) {
  return std::ranges::all_of(node.operands, [](const Value* operand) {
    return operand == nullptr || IsHeldFloat(operand->type.dtype);
  });
}

}  // namespace

// A draw that is accepted here must not be refused later, because the draws after it would then
// begin at a wrong place.
bool RecipesDraw(const ir::Node& node) {
  const std::string_view target = node.aten->target;
  if (target.starts_with("hpu.cast_to_fp8_v2.")) return true;
  const auto is_among = [&](std::span<const HandlerRow> rows) {
    return std::ranges::any_of(rows, [&](const HandlerRow& row) { return row.target == target; });
  };
  if (!is_among(RandomRows()) && !is_among(DistributionRows())) return false;
  const DType dtype = node.type().dtype;
  if (target.starts_with("aten.randint") || target.starts_with("aten.random.")) {
    return DrawsItsRange(node);
  }
  if (target.starts_with("aten.randperm")) {
    return node.type().elements() <= DrawnIntegers(dtype).high;
  }
  if (target.starts_with("aten.multinomial")) {
    return HasHeldFloats(node) && node.operands[0]->type.elements() > 0;
  }
  if (target.starts_with("aten.bernoulli")) {
    return DrawnIntegers(dtype).high > 0 && std::ranges::all_of(node.operands, IsHeld);
  }
  if (target.starts_with("aten.geometric")) {
    return IsHeldFloat(dtype) || dtype == DType::kI32 || dtype == DType::kI64;
  }
  if (target.starts_with("aten.normal.")) return HasHeldFloats(node) && IsHeldFloat(dtype);
  return IsHeldFloat(dtype);
}

}  // namespace hpu::compiler
