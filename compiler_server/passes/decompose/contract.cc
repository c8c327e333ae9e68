// Matrix products and attention.
#include <cmath>
#include <limits>

#include "compiler_server/passes/decompose/call.h"

namespace hpu::compiler {
namespace {

constexpr std::string_view kSelf = "self";

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
    a = call.b.Reshape(a,
                       {NumElements(std::span(a_sizes).first(a_sizes.size() - 1)), a_sizes.back()});
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

void ProductWith(Call& call, std::string_view other) {
  call.Return(EmitMatmul(call, call.Tensor(kSelf), call.Tensor(other)));
}
void Mm(Call& call) { ProductWith(call, "mat2"); }
void Mv(Call& call) { ProductWith(call, "vec"); }
void Matmul(Call& call) { ProductWith(call, "other"); }

// x[..., K] * weight[N, K] transposed + bias[N]
void Linear(Call& call) {
  Value* x = call.Tensor("input");
  Value* weight = call.Tensor("weight");
  Value* bias = call.OptionalTensor("bias");
  if (call.refused()) return;
  if (weight->type.rank() != 2 || x->type.rank() < 1) return call.Refuse("linear of vectors");
  Dims sizes = x->type.sizes;
  const int64_t rows = NumElements(std::span(sizes).first(sizes.size() - 1));
  Value* y = call.b.Matmul(call.b.Reshape(x, {rows, sizes.back()}), weight, false, true);
  if (bias != nullptr) y = call.b.Binary(OpKind::kAdd, y, bias);
  sizes.back() = weight->type.sizes[0];
  call.Return(call.b.Reshape(y, sizes));
}

// beta * self + alpha * (a b)
void AddProduct(Call& call, std::string_view a, std::string_view b) {
  Value* y = EmitMatmul(call, call.Tensor(a), call.Tensor(b));
  const double alpha = call.Float("alpha");
  const double beta = call.Float("beta");
  if (alpha != 1) y = call.b.Binary(OpKind::kMul, y, alpha);
  // beta = 0 ignores self, even if it holds NaN.
  if (beta == 0) return call.Return(y);
  Value* self = call.Tensor(kSelf);
  if (beta != 1) self = call.b.Binary(OpKind::kMul, self, beta);
  call.Return(call.b.Binary(OpKind::kAdd, y, self));
}

void Addmm(Call& call) { AddProduct(call, "mat1", "mat2"); }
void Addmv(Call& call) { AddProduct(call, "mat", "vec"); }
void Baddbmm(Call& call) { AddProduct(call, "batch1", "batch2"); }

void Dot(Call& call) {
  Value* y = call.b.Binary(OpKind::kMul, call.Tensor(kSelf), call.Tensor("tensor"));
  call.Return(call.b.Reduce(OpKind::kReduceSum, y, {0}, false));
}

void Outer(Call& call) {
  Value* x = call.Tensor(kSelf);
  Value* column = call.b.Reshape(x, {x->type.elements(), 1});
  call.Return(call.b.Binary(OpKind::kMul, column, call.Tensor("vec2")));
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
  const double scale = call.Float("scale", 1 / std::sqrt(static_cast<double>(q->type.sizes[3])));
  std::vector<Value*> operands = {q, k, v};
  if (mask != nullptr) operands.push_back(mask);
  Value* y = call.b.Emit(OpKind::kSdpa, std::move(operands),
                         {{AttrKey::kScale, scale}, {AttrKey::kCausal, call.Bool("is_causal")}});
  call.Return(call.b.Reshape(y, call.type().sizes));
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

constexpr HandlerRow kRows[] = {
    {"aten._scaled_dot_product_efficient_attention.default", EfficientAttention},
    {"aten._scaled_dot_product_flash_attention.default", FlashAttention},
    {"aten._scaled_dot_product_flash_attention_for_cpu.default", FlashAttentionForCpu},
    {"aten.addmm.default", Addmm},
    {"aten.addmv.default", Addmv},
    {"aten.baddbmm.default", Baddbmm},
    {"aten.bmm.default", Mm},
    {"aten.dot.default", Dot},
    {"aten.linear.default", Linear},
    {"aten.matmul.default", Matmul},
    {"aten.mm.default", Mm},
    {"aten.mv.default", Mv},
    {"aten.outer.default", Outer},
    {"aten.scaled_dot_product_attention.default", Attention},
};

}  // namespace

std::span<const HandlerRow> ContractRows() { return kRows; }

}  // namespace hpu::compiler
