// Attention and its gradient.
#include <cmath>
#include <limits>

#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {
namespace {

// [.., heads, length, size] with any number of leading dimensions, as rank 4.
Value* FourDims(Call& call, Value* x) {
  const Dims& sizes = x->type.sizes;
  const size_t rank = sizes.size();
  if (rank < 2) {
    call.Refuse("attention over ", ToText(x->type));
    return x;
  }
  const int64_t heads = rank >= 3 ? sizes[rank - 3] : 1;
  const int64_t batch = rank >= 4 ? NumElements(std::span(sizes).first(rank - 3)) : 1;
  return call.b.Reshape(x, {batch, heads, sizes[rank - 2], sizes[rank - 1]});
}

// Additive mask of q's type, broadcastable to [batch, heads, q length, k length].
Value* AdditiveMask(Call& call, Value* mask, const Value* q, size_t leading) {
  if (mask == nullptr) return nullptr;
  if (mask->type.dtype == DType::kBool) {
    Value* zero = call.b.Scalar(0, q->type.dtype);
    Value* hidden = call.b.Scalar(-std::numeric_limits<double>::infinity(), q->type.dtype);
    mask = call.b.Emit(OpKind::kWhere, {mask, zero, hidden});
  }
  mask = call.b.Cast(mask, q->type.dtype);
  if (leading > 2 && mask->type.rank() > 3) {
    call.Refuse("attention mask over several batch dimensions");
  }
  return mask;
}

double ScaleOf(Call& call, const Value* q) {
  return call.Float("scale", 1 / std::sqrt(static_cast<double>(q->type.sizes[3])));
}

struct Operands {
  Value* q = nullptr;
  Value* k = nullptr;
  Value* v = nullptr;
  Value* mask = nullptr;  // additive
};

// Scaled and masked products of queries and keys in f32.
Expr Scores(Call& call, const Operands& in) {
  Expr scores = In(call, call.b.Matmul(in.q, in.k, false, true)) * ScaleOf(call, in.q);
  if (in.mask != nullptr) scores = scores + In(call, in.mask);
  if (!call.Bool("is_causal") || call.refused()) return scores;
  const int64_t rows = in.q->type.sizes[2];
  Value* row = call.b.Reshape(call.b.Iota(0, 1, DType::kI32, rows), {rows, 1});
  Value* column = call.b.Iota(0, 1, DType::kI32, in.k->type.sizes[2]);
  const Expr visible{&call, call.b.Binary(OpKind::kLe, column, row)};
  return Where(visible, scores, -std::numeric_limits<double>::infinity());
}

// exp(scores - peak) and the sum of each row; a row that the mask hides gives zeros.
struct Powers {
  Expr power, sum, peak;
};
Powers PowersOf(Call& call, const Operands& in) {
  const Expr scores = Scores(call, in);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Expr peak{&call, call.b.Reduce(OpKind::kReduceMax, scores.value, {3}, true)};
  if (in.mask != nullptr) peak = Where(peak == -kInfinity, 0.0, peak);
  const Expr power = Exp(scores - peak);
  return {power, Sum(power, {3}), peak};
}

Value* LogSumExp(Call& call, const Operands& in) {
  const Powers powers = PowersOf(call, in);
  const Expr all = Reshape(Log(powers.sum) + powers.peak, call.type(1).sizes);
  return Declared(call, 1, all);
}

void EmitAttention(Call& call, Value* mask_input, bool grouped) {
  Value* query = call.Tensor("query");
  if (call.Float("dropout_p") != 0) return call.Refuse("attention with dropout");
  const size_t leading = query->type.sizes.size() < 2 ? 0 : query->type.sizes.size() - 2;
  Value* q = FourDims(call, query);
  Value* k = FourDims(call, call.Tensor("key"));
  Value* v = FourDims(call, call.Tensor("value"));
  Value* mask = AdditiveMask(call, mask_input, q, leading);
  if (call.refused()) return;
  // One head for all queries (Falcon) is the same as groups of all heads.
  const bool one_head = k->type.sizes[1] == 1 && v->type.sizes[1] == 1;
  if (!grouped && !one_head && k->type.sizes[1] != q->type.sizes[1]) {
    return call.Refuse("attention that broadcasts heads");
  }
  const double scale = ScaleOf(call, q);
  std::vector<Value*> operands = {q, k, v};
  if (mask != nullptr) operands.push_back(mask);
  Value* y = call.b.Emit(OpKind::kSdpa, std::move(operands),
                         {{AttrKey::kScale, scale}, {AttrKey::kCausal, call.Bool("is_causal")}});
  std::vector<Value*> results = {call.b.Reshape(y, call.type().sizes)};
  // For a gradient that asks for it; ours does not, so nobody computes this then.
  if (call.result_count() > 1 && call.used(1)) results.push_back(LogSumExp(call, {q, k, v, mask}));
  call.Return(std::move(results));
}

void Attention(Call& call) {
  EmitAttention(call, call.OptionalTensor("attn_mask"), call.Bool("enable_gqa"));
}
void FlashAttentionForCpu(Call& call) {
  EmitAttention(call, call.OptionalTensor("attn_mask"), false);
}
void FlashAttention(Call& call) { EmitAttention(call, nullptr, false); }
void EfficientAttention(Call& call) {
  EmitAttention(call, call.OptionalTensor("attn_bias"), false);
}

// Gradients of query, key and value, and of the additive mask where it is wanted. The weights are
// computed again: they are as large as the scores, and what the forward pass would have to keep.
void EmitAttentionBackward(Call& call, std::string_view grad_name, Value* mask_input) {
  if (call.Float("dropout_p") != 0) return call.Refuse("attention with dropout");
  Value* query = call.Tensor("query");
  if (query->type.rank() < 2) return call.Refuse("attention over ", ToText(query->type));
  Operands in;
  in.q = FourDims(call, query);
  in.k = FourDims(call, call.Tensor("key"));
  in.v = FourDims(call, call.Tensor("value"));
  in.mask = AdditiveMask(call, mask_input, in.q, query->type.sizes.size() - 2);
  Value* grad = FourDims(call, call.Tensor(grad_name));
  Value* out = FourDims(call, call.Tensor("out"));
  if (call.refused()) return;
  if (in.k->type.sizes[1] != in.q->type.sizes[1]) return call.Refuse("gradient of grouped heads");
  const DType dtype = in.q->type.dtype;
  const Powers powers = PowersOf(call, in);
  const Expr weights =
      powers.power / (in.mask == nullptr ? powers.sum : Where(powers.sum == 0.0, 1.0, powers.sum));
  const Expr dot = Sum(In(call, grad) * In(call, out), {3});
  const Expr slope = weights * (In(call, call.b.Matmul(grad, in.v, false, true)) - dot);
  Value* scaled = Cast(slope * ScaleOf(call, in.q), dtype).value;
  Value* value_grad = call.b.Matmul(Cast(weights, dtype).value, grad, true, false);
  std::vector<Value*> results = {call.b.Matmul(scaled, in.k), call.b.Matmul(scaled, in.q, true),
                                 value_grad};
  for (size_t i = 0; i < results.size(); ++i) {
    results[i] = call.b.Reshape(results[i], call.type(i).sizes);
  }
  call.Return(std::move(results));
}

void FlashAttentionForCpuBackward(Call& call) {
  EmitAttentionBackward(call, "grad_out", call.OptionalTensor("attn_mask"));
}

constexpr HandlerRow kRows[] = {
    {"aten._scaled_dot_product_efficient_attention.default", EfficientAttention},
    {"aten._scaled_dot_product_flash_attention.default", FlashAttention},
    {"aten._scaled_dot_product_flash_attention_for_cpu.default", FlashAttentionForCpu},
    {"aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
     FlashAttentionForCpuBackward},
    {"aten.scaled_dot_product_attention.default", Attention},
};

}  // namespace

std::span<const HandlerRow> AttentionRows() { return kRows; }

}  // namespace hpu::compiler
