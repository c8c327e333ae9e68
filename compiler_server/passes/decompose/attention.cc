// Rewrites attention and its gradient.
#include <cmath>
#include <limits>

#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {
namespace {

// Returns `x`, [.., heads, length, size] with any number of leading dimensions, with rank 4.
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

// Returns the mask as an additive one of q's type, which broadcasts to [batch, heads, q length, k
// length].
Value* AdditiveMask(Call& call, Value* mask, const Value* q, size_t leading) {
  if (mask == nullptr) return nullptr;
  if (mask->type.dtype == DType::kBool) {
    Value* zero = call.b.Scalar(0, q->type.dtype);
    Value* hidden = call.b.Scalar(-kInfinity, q->type.dtype);
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

std::vector<Value*> WithMask(std::vector<Value*> operands, Value* mask) {
  if (mask != nullptr) operands.push_back(mask);
  return operands;
}

ir::Attrs AttrsOf(Call& call, const Value* q) {
  return {{AttrKey::kScale, ScaleOf(call, q)}, {AttrKey::kCausal, call.Bool("is_causal")}};
}

// Returns true if each group of query heads shares one head of the keys and one of the values.
bool HeadsAreGroups(const Value* q, const Value* k, const Value* v) {
  const int64_t heads = k->type.sizes[1];
  return heads > 0 && heads == v->type.sizes[1] && q->type.sizes[1] % heads == 0;
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
  // If all queries share one head (Falcon), all heads are one group.
  const bool one_head = k->type.sizes[1] == 1 && v->type.sizes[1] == 1;
  const bool equal = k->type.sizes[1] == q->type.sizes[1];
  if (!equal && !one_head && !(grouped && HeadsAreGroups(q, k, v))) {
    return call.Refuse("attention that broadcasts heads");
  }
  std::vector<Value*> operands = WithMask({q, k, v}, mask);
  const ir::Attrs attrs = AttrsOf(call, q);
  if (call.result_count() < 2 || !call.used(1)) {
    Value* y = call.b.Emit(OpKind::kSdpa, std::move(operands), attrs);
    return call.Return(call.b.Reshape(y, call.type().sizes));
  }
  const ir::Node* node = call.b.EmitNode(OpKind::kSdpaLogsumexp, std::move(operands), attrs);
  if (call.refused()) return;
  call.Return(
      {call.b.Reshape(node->results[0], call.type().sizes),
       call.b.Cast(call.b.Reshape(node->results[1], call.type(1).sizes), call.type(1).dtype)});
}

void Attention(Call& call) {
  EmitAttention(call, call.OptionalTensor("attn_mask"), call.Bool("enable_gqa"));
}
void FlashAttentionForCpu(Call& call) {
  EmitAttention(call, call.OptionalTensor("attn_mask"), true);
}
void FlashAttention(Call& call) { EmitAttention(call, nullptr, false); }
void EfficientAttention(Call& call) {
  EmitAttention(call, call.OptionalTensor("attn_bias"), false);
}

// ForEachHead repeats each head of keys or values for all query heads that share it. SumOfGroup is
// its inverse for gradients: it sums over those query heads.
Value* ForEachHead(Call& call, Value* x, int64_t heads) {
  const Dims& sizes = x->type.sizes;
  if (sizes[1] == heads) return x;
  const Dims apart = {sizes[0], sizes[1], 1, sizes[2], sizes[3]};
  const Dims copied = {sizes[0], sizes[1], heads / sizes[1], sizes[2], sizes[3]};
  Value* expanded = call.b.Expand(call.b.Reshape(x, apart), copied);
  return call.b.Reshape(expanded, {sizes[0], heads, sizes[2], sizes[3]});
}
Value* SumOfGroup(Call& call, Value* x, int64_t heads) {
  const Dims& sizes = x->type.sizes;
  if (sizes[1] == heads) return x;
  const Dims apart = {sizes[0], heads, sizes[1] / heads, sizes[2], sizes[3]};
  return call.b.Reduce(OpKind::kReduceSum, call.b.Reshape(x, apart), {2}, false);
}

// Emits the gradients of query, key and value. The weights are computed again where they are used.
void EmitAttentionBackward(Call& call, std::string_view grad_name, Value* mask_input) {
  if (call.Float("dropout_p") != 0) return call.Refuse("attention with dropout");
  Value* query = call.Tensor("query");
  if (query->type.rank() < 2) return call.Refuse("attention over ", ToText(query->type));
  Value* q = FourDims(call, query);
  Value* k = FourDims(call, call.Tensor("key"));
  Value* v = FourDims(call, call.Tensor("value"));
  Value* mask = AdditiveMask(call, mask_input, q, query->type.sizes.size() - 2);
  Value* grad = FourDims(call, call.Tensor(grad_name));
  Value* out = FourDims(call, call.Tensor("out"));
  if (call.refused()) return;
  if (!HeadsAreGroups(q, k, v)) return call.Refuse("attention that broadcasts heads");
  const int64_t shared = k->type.sizes[1];
  k = ForEachHead(call, k, q->type.sizes[1]);
  v = ForEachHead(call, v, q->type.sizes[1]);
  const Dims rows = {q->type.sizes[0], q->type.sizes[1], q->type.sizes[2], 1};
  Value* logsumexp = call.b.Cast(call.Tensor("logsumexp"), Widened(q->type.dtype));
  const ir::Node* node = call.b.EmitNode(
      OpKind::kSdpaBackward, WithMask({grad, q, k, v, out, call.b.Reshape(logsumexp, rows)}, mask),
      AttrsOf(call, q));
  if (call.refused()) return;
  std::vector<Value*> results;
  for (size_t i = 0; i < 3; ++i) {
    Value* gradient = i == 0 ? node->results[i] : SumOfGroup(call, node->results[i], shared);
    results.push_back(call.b.Reshape(gradient, call.type(i).sizes));
  }
  call.Return(std::move(results));
}

void FlashAttentionForCpuBackward(Call& call) {
  EmitAttentionBackward(call, "grad_out", call.OptionalTensor("attn_mask"));
}

constexpr HandlerRow kAttentionRows[] = {
    {"aten._scaled_dot_product_efficient_attention.default", EfficientAttention},
    {"aten._scaled_dot_product_flash_attention.default", FlashAttention},
    {"aten._scaled_dot_product_flash_attention_for_cpu.default", FlashAttentionForCpu},
    {"aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
     FlashAttentionForCpuBackward},
    {"aten.scaled_dot_product_attention.default", Attention},
};

}  // namespace

std::span<const HandlerRow> AttentionRows() { return kAttentionRows; }

}  // namespace hpu::compiler
