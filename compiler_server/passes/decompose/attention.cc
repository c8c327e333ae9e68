// Rewrites attention and its gradient.
#include <algorithm>
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

// ---- attention of torch.ops.hpu -----------------------------------------------------------------

// In the mode "fast" a card gives 1 / sum divided by this.
constexpr double kFastSum = 128;

double SumFactor(Call& call) { return call.Text("softmax_mode") == "fast" ? kFastSum : 1; }

// Returns the condition that hides keys from queries by window and valid length, with the rank of
// q; a null value if there is none.
Expr HiddenKeys(Call& call, const Value* q, const Value* k) {
  const int64_t rank = q->type.rank();
  const int64_t length = k->type.sizes[rank - 2];
  const Expr keys = Positions(call, length, DType::kI32);
  const Expr rows =
      Reshape(Positions(call, q->type.sizes[rank - 2], DType::kI32), {q->type.sizes[rank - 2], 1});
  Expr hidden{&call, nullptr};
  const auto add = [&](Expr condition) {
    hidden = hidden.value == nullptr ? condition : hidden | condition;
  };
  if (const Dims window = call.Ints("window_size"); window.size() == 2) {
    if (window[0] >= 0) add(rows - keys > static_cast<double>(window[0]));
    if (window[1] >= 0) add(keys - rows > static_cast<double>(window[1]));
  }
  if (call.Has("valid_seq_len")) {
    Value* lengths = call.b.Cast(call.Tensor("valid_seq_len"), DType::kI32);
    Dims sizes(static_cast<size_t>(rank), 1);
    sizes[0] = lengths->type.elements();
    const Expr valid{&call, call.b.Reshape(lengths, sizes)};
    const bool right = call.Text("seq_padding_type") == "right";
    add(right ? keys >= valid : keys < static_cast<double>(length) - valid);
  }
  return hidden;
}

// Returns the mask of FourDims(q): leading dimensions of q that the mask has one of are repeated.
Value* MergedMask(Call& call, Value* mask, const Value* q) {
  const size_t rank = q->type.sizes.size();
  if (mask == nullptr || mask->type.sizes.size() < 5) return mask;
  if (mask->type.sizes.size() != rank) {
    call.Refuse("mask ", ToText(mask->type), " for ", ToText(q->type));
    return mask;
  }
  Dims sizes = mask->type.sizes;
  std::copy_n(q->type.sizes.begin(), rank - 3, sizes.begin());
  return FourDims(call, call.b.Expand(mask, sizes));
}

// Returns all that hides keys from queries, as one additive mask; nullptr for nothing.
Value* KernelMask(Call& call, const Value* q, const Value* k) {
  Value* mask = AdditiveMask(call, call.OptionalTensor("attention_mask"), q, 0);
  const Expr hidden = call.Has("window_size") || call.Has("valid_seq_len") ? HiddenKeys(call, q, k)
                                                                           : Expr{&call, nullptr};
  if (call.refused()) return mask;
  if (hidden.value != nullptr) {
    const Expr like{&call, call.b.Scalar(0, q->type.dtype)};
    const Expr more = Where(hidden, -kInfinity, like);
    mask = mask == nullptr ? more.value : call.b.Binary(OpKind::kAdd, mask, more.value);
  }
  return MergedMask(call, mask, q);
}

struct KernelOperands {
  Value* q = nullptr;
  Value* k = nullptr;
  Value* v = nullptr;
  Value* mask = nullptr;
  int64_t key_heads = 0;  // before they are repeated for each head of q
};

KernelOperands OperandsOf(Call& call) {
  Value* q = call.Tensor("q");
  Value* k = call.Tensor("k");
  KernelOperands found;
  if (call.refused() || q->type.rank() < 3 || k->type.rank() != q->type.rank()) {
    call.Refuse("attention over ", ToText(q->type), " and ", ToText(k->type));
    return found;
  }
  if (call.Float("p") != 0) call.Refuse("attention with dropout");
  found.mask = KernelMask(call, q, k);
  found.q = FourDims(call, q);
  found.k = FourDims(call, k);
  found.v = FourDims(call, call.Tensor("v"));
  if (call.refused()) return found;
  found.key_heads = found.k->type.sizes[1];
  if (!HeadsAreGroups(found.q, found.k, found.v)) call.Refuse("attention that broadcasts heads");
  return found;
}

ir::Attrs KernelAttrs(Call& call) {
  return {{AttrKey::kScale, call.Float("scale")},
          {AttrKey::kCausal, call.Bool("is_causal")},
          {AttrKey::kBase, int64_t{0}},
          {AttrKey::kKeep, 1.0}};
}

// sdpa_recomp_fwd gives the result, and the largest score and the inverse of the sum of each row.
void RecomputedAttention(Call& call) {
  const KernelOperands given = OperandsOf(call);
  if (call.refused()) return;
  Value* seed = call.b.Full(0, call.type(3).dtype, call.type(3).sizes);
  const bool sinks = call.Has("sinks");
  std::vector<Value*> operands = WithMask({given.q, given.k, given.v}, given.mask);
  if (!sinks && !call.used(1) && !call.used(2)) {
    const ir::Attrs attrs = {{AttrKey::kScale, call.Float("scale")},
                             {AttrKey::kCausal, call.Bool("is_causal")}};
    Value* y = call.b.Emit(OpKind::kSdpa, std::move(operands), attrs);
    Value* unused = call.b.Full(0, DType::kF32, call.type(1).sizes);
    return call.Return({call.b.Reshape(y, call.type().sizes), unused, unused, seed});
  }
  const int64_t heads = given.q->type.sizes[1];
  operands[1] = ForEachHead(call, given.k, heads);
  operands[2] = ForEachHead(call, given.v, heads);
  const ir::Node* node =
      call.b.EmitNode(OpKind::kSdpaTrain, std::move(operands), KernelAttrs(call));
  if (call.refused()) return;
  Expr y{&call, node->results[0]};
  const Expr maximum{&call, node->results[1]};
  Expr inverse{&call, node->results[2]};
  if (sinks) {
    // A sink adds exp(sink - maximum) to the sum.
    const Dims& sizes = call.Tensor("q")->type.sizes;
    Dims apart(sizes.begin() + 1, sizes.end() - 2);
    apart.insert(apart.end(), {1, 1});
    const Expr sink = Reshape(In(call, "sinks"), apart);
    const Expr peaks = Reshape(maximum, call.type(1).sizes);
    const Expr factor = 1.0 / (Reshape(inverse, call.type(2).sizes) * Exp(sink - peaks) + 1.0);
    const Expr wide{&call, call.b.Cast(y.value, Widened(y.dtype()))};
    y = wide * Reshape(factor, inverse.sizes());
    inverse = inverse * Reshape(factor, inverse.sizes());
  }
  inverse = inverse * (1 / SumFactor(call));
  Give(call, {Reshape(y, call.type().sizes),
              Reshape(maximum, call.type(1).sizes),
              Reshape(inverse, call.type(2).sizes),
              {&call, seed}});
}

void RecomputedAttentionBackward(Call& call) {
  const KernelOperands given = OperandsOf(call);
  Value* grad = FourDims(call, call.Tensor("grad"));
  Value* out = FourDims(call, call.Tensor("fwd_out"));
  if (call.refused()) return;
  const int64_t heads = given.q->type.sizes[1];
  const Dims rows = {given.q->type.sizes[0], heads, given.q->type.sizes[2], 1};
  const Expr maximum = Reshape(In(call, "m"), rows);
  const Expr inverse = Reshape(In(call, "linv"), rows) * SumFactor(call);
  const ir::Node* node = call.b.EmitNode(
      OpKind::kSdpaTrainBackward,
      WithMask({grad, given.q, ForEachHead(call, given.k, heads), ForEachHead(call, given.v, heads),
                out, maximum.value, inverse.value},
               given.mask),
      KernelAttrs(call));
  if (call.refused()) return;
  std::vector<Value*> results;
  for (size_t i = 0; i < 3; ++i) {
    Value* gradient =
        i == 0 ? node->results[i] : SumOfGroup(call, node->results[i], given.key_heads);
    results.push_back(call.b.Reshape(gradient, call.type(i).sizes));
  }
  call.Return(std::move(results));
}

constexpr HandlerRow kAttentionRows[] = {
    {"aten._scaled_dot_product_efficient_attention.default", EfficientAttention},
    {"aten._scaled_dot_product_flash_attention.default", FlashAttention},
    {"aten._scaled_dot_product_flash_attention_for_cpu.default", FlashAttentionForCpu},
    {"aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
     FlashAttentionForCpuBackward},
    {"aten.scaled_dot_product_attention.default", Attention},
    {"hpu.sdpa_recomp_bwd.default", RecomputedAttentionBackward},
    {"hpu.sdpa_recomp_fwd.default", RecomputedAttention},
};

}  // namespace

std::span<const HandlerRow> AttentionRows() { return kAttentionRows; }

}  // namespace hpu::compiler
