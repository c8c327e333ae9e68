// Matrix products and attention.
#include <cmath>
#include <limits>

#include "compiler_server/passes/decompose/call.h"

namespace hpu::compiler {
namespace {

constexpr Arg kSelf{0, "self"};

// torch.matmul: vectors are matrices with a dimension that goes away again.
Value* EmitMatmul(Call& call, Value* a, Value* b) {
  if (a->type.rank() == 0 || b->type.rank() == 0) {
    call.Refuse("matrix product of a 0-d tensor");
    return a;
  }
  const bool row = a->type.rank() == 1;
  const bool column = b->type.rank() == 1;
  if (row) a = call.b.Reshape(a, {1, a->type.sizes[0]});
  if (column) b = call.b.Reshape(b, {b->type.sizes[0], 1});
  // [batch, M, K] x [K, N] is one [batch * M, K] x [K, N].
  const Dims a_sizes = a->type.sizes;
  if (a->type.rank() > 2 && b->type.rank() == 2) {
    a = call.b.Reshape(
        a, {ir::ElementCount(std::span(a_sizes).first(a_sizes.size() - 1)), a_sizes.back()});
  }
  Value* y = call.b.Matmul(a, b);
  if (call.refused()) return y;
  Dims sizes = y->type.sizes;
  if (a->type.rank() != static_cast<int>(a_sizes.size())) {
    sizes.assign(a_sizes.begin(), a_sizes.end() - 1);
    sizes.push_back(y->type.sizes.back());
  }
  if (column) sizes.pop_back();
  if (row) sizes.erase(sizes.end() - (column ? 1 : 2));
  return call.b.Reshape(y, sizes);
}

void Matmul(Call& call) {
  call.Return(EmitMatmul(call, call.Tensor(kSelf), call.Tensor({1, "mat2"})));
}

// x[..., K] * weight[N, K] transposed + bias[N]
void Linear(Call& call) {
  Value* x = call.Tensor(kSelf);
  Value* weight = call.Tensor({1, "weight"});
  Value* bias = call.OptionalTensor({2, "bias"});
  if (call.refused()) return;
  if (weight->type.rank() != 2 || x->type.rank() < 1) return call.Refuse("linear of vectors");
  Dims sizes = x->type.sizes;
  const int64_t rows = ir::ElementCount(std::span(sizes).first(sizes.size() - 1));
  Value* y = call.b.Matmul(call.b.Reshape(x, {rows, sizes.back()}), weight, false, true);
  if (bias != nullptr) y = call.b.Binary(OpKind::kAdd, y, bias);
  sizes.back() = weight->type.sizes[0];
  call.Return(call.b.Reshape(y, sizes));
}

// beta * self + alpha * (a b)
void AddProduct(Call& call) {
  Value* y = EmitMatmul(call, call.Tensor({1, "mat1"}), call.Tensor({2, "mat2"}));
  const double alpha = call.Float({4, "alpha"}, 1);
  const double beta = call.Float({3, "beta"}, 1);
  if (alpha != 1) y = call.b.Binary(OpKind::kMul, y, alpha);
  // beta = 0 ignores self, even if it holds NaN.
  if (beta == 0) return call.Return(y);
  Value* self = call.Tensor(kSelf);
  if (beta != 1) self = call.b.Binary(OpKind::kMul, self, beta);
  call.Return(call.b.Binary(OpKind::kAdd, y, self));
}

void Dot(Call& call) {
  Value* y = call.b.Binary(OpKind::kMul, call.Tensor(kSelf), call.Tensor({1, "tensor"}));
  call.Return(call.b.Reduce(OpKind::kReduceSum, y, {0}, false));
}

void Outer(Call& call) {
  Value* x = call.Tensor(kSelf);
  Value* column = call.b.Reshape(x, {x->type.elements(), 1});
  call.Return(call.b.Binary(OpKind::kMul, column, call.Tensor({1, "vec2"})));
}

// [.., heads, length, size] with any number of leading dimensions, as rank 4.
Value* FourDims(Call& call, Value* x) {
  const Dims& sizes = x->type.sizes;
  const size_t rank = sizes.size();
  if (rank < 2) {
    call.Refuse("attention over ", ToText(x->type));
    return x;
  }
  const int64_t heads = rank >= 3 ? sizes[rank - 3] : 1;
  const int64_t batch = rank >= 4 ? ir::ElementCount(std::span(sizes).first(rank - 3)) : 1;
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

struct AttentionArgs {
  Arg mask;
  Arg dropout;
  Arg causal;
  Arg scale;
};

void EmitAttention(Call& call, const AttentionArgs& args, bool grouped) {
  Value* query = call.Tensor({0, "query"});
  if (call.Float(args.dropout, 0) != 0) return call.Refuse("attention with dropout");
  Value* mask_input = call.OptionalTensor(args.mask);
  const size_t leading = query->type.sizes.size() < 2 ? 0 : query->type.sizes.size() - 2;
  Value* q = FourDims(call, query);
  Value* k = FourDims(call, call.Tensor({1, "key"}));
  Value* v = FourDims(call, call.Tensor({2, "value"}));
  Value* mask = AdditiveMask(call, mask_input, q, leading);
  if (call.refused()) return;
  // One head for all queries (Falcon) is the same as groups of all heads.
  const bool one_head = k->type.sizes[1] == 1 && v->type.sizes[1] == 1;
  if (!grouped && !one_head && k->type.sizes[1] != q->type.sizes[1]) {
    return call.Refuse("attention that broadcasts heads");
  }
  const double scale = call.Float(args.scale, 1 / std::sqrt(static_cast<double>(q->type.sizes[3])));
  std::vector<Value*> operands = {q, k, v};
  if (mask != nullptr) operands.push_back(mask);
  Value* y =
      call.b.Emit(OpKind::kSdpa, std::move(operands),
                  {{AttrKey::kScale, scale}, {AttrKey::kCausal, call.Bool(args.causal, false)}});
  call.Return(call.b.Reshape(y, call.type().sizes));
}

// (q, k, v, attn_mask, dropout_p, is_causal, *, scale, enable_gqa)
void Attention(Call& call) {
  EmitAttention(call, {{3, "attn_mask"}, {4, "dropout_p"}, {5, "is_causal"}, {9, "scale"}},
                call.Bool({9, "enable_gqa"}, false));
}
// (q, k, v, dropout_p, is_causal, *, attn_mask, scale)
void FlashAttentionForCpu(Call& call) {
  EmitAttention(call, {{9, "attn_mask"}, {3, "dropout_p"}, {4, "is_causal"}, {9, "scale"}}, false);
}
// (q, k, v, dropout_p, is_causal, return_debug_mask, *, scale)
void FlashAttention(Call& call) {
  EmitAttention(call, {{9, ""}, {3, "dropout_p"}, {4, "is_causal"}, {9, "scale"}}, false);
}
// (q, k, v, attn_bias, compute_log_sumexp, dropout_p, is_causal, *, scale)
void EfficientAttention(Call& call) {
  EmitAttention(call, {{3, "attn_bias"}, {5, "dropout_p"}, {6, "is_causal"}, {9, "scale"}}, false);
}

constexpr HandlerRow kRows[] = {
    {"aten._scaled_dot_product_efficient_attention.default", EfficientAttention},
    {"aten._scaled_dot_product_flash_attention.default", FlashAttention},
    {"aten._scaled_dot_product_flash_attention_for_cpu.default", FlashAttentionForCpu},
    {"aten.addmm.default", AddProduct},
    {"aten.addmv.default", AddProduct},
    {"aten.baddbmm.default", AddProduct},
    {"aten.bmm.default", Matmul},
    {"aten.dot.default", Dot},
    {"aten.linear.default", Linear},
    {"aten.matmul.default", Matmul},
    {"aten.mm.default", Matmul},
    {"aten.mv.default", Matmul},
    {"aten.outer.default", Outer},
    {"aten.scaled_dot_product_attention.default", Attention},
};

}  // namespace

std::span<const HandlerRow> ContractRows() { return kRows; }

}  // namespace hpu::compiler
