// Rewrites products with quantised weights. For few rows it is one op that reads the quantised
// weights. For more rows the weights are widened first.
#include "compiler_server/passes/decompose/quantized_weights.h"

#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {
namespace {

// scales[N] has one factor for each column and is applied after the product.
void Int8PackMm(Call& call) {
  Value* x = call.Tensor("self");
  Value* weights = call.Tensor("mat2");
  Value* scales = call.Tensor("scales");
  if (call.refused()) return;
  if (weights->type.dtype != DType::kI8 || x->type.rank() != 2 || weights->type.rank() != 2) {
    return call.Refuse("weights ", ToText(weights->type), " for x ", ToText(x->type));
  }
  Value* y = x->type.sizes[0] <= kMostQuantizedRows
                 ? call.b.Emit(OpKind::kMatmulQuantized, {x, weights})
                 : call.b.Matmul(x, call.b.Cast(weights, x->type.dtype), false, true);
  call.Return(call.b.Binary(OpKind::kMul, y, scales));
}

// Returns weights [K, N] in `dtype` from blocks u8 [N / 2h, K, h] and factors [groups, N].
Value* WidenBlocks(Call& call, Value* blocks, Value* scale, Value* zero, DType dtype) {
  const Dims& sizes = blocks->type.sizes;
  const int64_t count = sizes[0], inner = sizes[1], columns = 2 * sizes[2];
  const int64_t groups = scale->type.sizes[0];
  const Expr bytes{&call, call.b.Cast(blocks, DType::kF32)};
  const Expr high = Apply(OpKind::kFloor, bytes * (1.0 / 16));
  const Expr low = bytes - high * 16.0;
  const Expr number = Expr{&call, call.b.Concat({low.value, high.value}, 2)} - 8.0;
  // The shape is [groups, group, blocks, columns].
  Value* weights = call.b.Reshape(call.b.Permute(number.value, {1, 0, 2}),
                                  {groups, inner / groups, count, columns});
  const auto factor = [&](Value* value) {
    Value* apart = call.b.Reshape(value, {groups, 1, count, columns});
    return Expr{&call, call.b.Cast(apart, DType::kF32)};
  };
  const Expr widened = Expr{&call, weights} * factor(scale) + factor(zero);
  return call.b.Cast(call.b.Reshape(widened.value, {inner, count * columns}), dtype);
}

// Weights of 4 bits have the layout of PyTorch's CPU kernels, in blocks of `columns`. Every group
// of `group` inner elements has a scale and a zero for each column: [K / group, N, 2].
void Int4Matmul(Call& call) {
  Value* x = call.Tensor("x");
  Value* weights = call.Tensor("weights");
  Value* factors = call.Tensor("scales_and_zeros");
  const int64_t group = call.Int("group");
  const int64_t columns = call.Int("columns");
  if (call.refused()) return;
  if (x->type.rank() != 2 || factors->type.rank() != 3 || factors->type.sizes[2] != 2 ||
      weights->type.dtype != DType::kU8 || weights->type.rank() != 2) {
    return call.Refuse("weights ", ToText(weights->type), " and factors ", ToText(factors->type),
                       " for x ", ToText(x->type));
  }
  const int64_t inner = x->type.sizes[1], all_columns = weights->type.sizes[0];
  if (columns < 2 || columns % 2 != 0 || all_columns % columns != 0 || group < 1 ||
      2 * weights->type.sizes[1] != inner || factors->type.sizes[0] * group != inner ||
      factors->type.sizes[1] != all_columns) {
    return call.Refuse("blocks of ", columns, " columns and groups of ", group, " in weights ",
                       ToText(weights->type));
  }
  Value* blocks = call.b.Reshape(weights, {all_columns / columns, inner, columns / 2});
  const auto factor = [&](int64_t which) {
    return call.b.Reshape(call.b.Slice(factors, 2, which, which + 1), {inner / group, all_columns});
  };
  Value* scale = factor(0);
  Value* zero = factor(1);
  if (x->type.sizes[0] <= kMostQuantizedRows) {
    return call.Return(call.b.Emit(OpKind::kMatmulQuantized, {x, blocks, scale, zero}));
  }
  call.Return(call.b.Matmul(x, WidenBlocks(call, blocks, scale, zero, x->type.dtype)));
}

constexpr HandlerRow kQuantizedWeightRows[] = {
    {"aten._weight_int8pack_mm.default", Int8PackMm},
    {"hpu.int4_matmul.default", Int4Matmul},
};

}  // namespace

std::span<const HandlerRow> QuantizedWeightRows() { return kQuantizedWeightRows; }

}  // namespace hpu::compiler
