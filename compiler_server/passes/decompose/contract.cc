// Rewrites matrix products.
#include <algorithm>

#include "compiler_server/passes/decompose/vector_norm.h"

namespace hpu::compiler {
namespace {

// The device multiplies matrices of floating-point numbers. Products of integer matrices are sums
// of products, and wrap around.
Value* IntegerProduct(Call& call, Value* a, Value* b) {
  Dims left = a->type.sizes;
  Dims right = b->type.sizes;
  left.push_back(1);
  right.insert(right.end() - 2, 1);
  const Expr terms = Reshape({&call, a}, left) * Reshape({&call, b}, right);
  return Cast(Sum(terms, {terms.rank() - 2}, false), a->type.dtype).value;
}
Value* Product(Call& call, Value* a, Value* b) {
  if (!IsInteger(a->type.dtype) || a->type.dtype != b->type.dtype) return call.b.Matmul(a, b);
  const bool fits = a->type.sizes.back() == b->type.sizes[b->type.rank() - 2];
  return fits ? IntegerProduct(call, a, b) : call.b.Matmul(a, b);
}

// torch.matmul treats a vector as a matrix with an additional dimension, which the result does not
// have.
Value* EmitMatmul(Call& call, Value* a, Value* b) {
  if (a->type.rank() == 0 || b->type.rank() == 0) {
    call.Refuse("matrix product of a 0-d tensor");
    return a;
  }
  const bool row = a->type.rank() == 1;
  const bool column = b->type.rank() == 1;
  if (row) a = call.b.Reshape(a, {1, a->type.sizes[0]});
  if (column) b = call.b.Reshape(b, {b->type.sizes[0], 1});
  // [batch, M, K] x [K, N] is calculated as one [batch * M, K] x [K, N].
  const Dims a_sizes = a->type.sizes;
  if (a->type.rank() > 2 && b->type.rank() == 2) {
    a = call.b.Reshape(a,
                       {NumElements(std::span(a_sizes).first(a_sizes.size() - 1)), a_sizes.back()});
  }
  Value* y = Product(call, a, b);
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
  x = call.b.Reshape(x, {rows, sizes.back()});
  Value* y = IsInteger(x->type.dtype) ? Product(call, x, call.b.Permute(weight, {1, 0}))
                                      : call.b.Matmul(x, weight, false, true);
  if (bias != nullptr) y = call.b.Binary(OpKind::kAdd, y, bias);
  sizes.back() = weight->type.sizes[0];
  call.Return(call.b.Reshape(y, sizes));
}

// Gives beta * self + alpha * y.
void AddTo(Call& call, Value* y) {
  const double alpha = call.Stored("alpha", call.dtype());
  const double beta = call.Stored("beta", call.dtype());
  // beta = 0 ignores self, even if it holds NaN.
  if (beta == 1 && alpha == 1) {
    return call.Return(call.b.Binary(OpKind::kAdd, y, call.Tensor(kSelf)));
  }
  const Expr product = Wide(call, y) * alpha;
  Give(call, beta == 0 ? product : product + Wide(call, call.Tensor(kSelf)) * beta);
}

void AddProduct(Call& call, std::string_view a, std::string_view b) {
  AddTo(call, EmitMatmul(call, call.Tensor(a), call.Tensor(b)));
}
void Addmm(Call& call) { AddProduct(call, "mat1", "mat2"); }
void Addmv(Call& call) { AddProduct(call, "mat", "vec"); }
void Baddbmm(Call& call) { AddProduct(call, "batch1", "batch2"); }

// addbmm(x, batch1, batch2, beta, alpha) adds the products of all pairs of matrices: one product
// whose inner dimension is the batch and the matrices' own.
void Addbmm(Call& call) {
  const Expr left{&call, call.Tensor("batch1")};
  const Expr right{&call, call.Tensor("batch2")};
  if (call.refused()) return;
  const Dims& l = left.sizes();
  const Dims& r = right.sizes();
  const Expr rows = Reshape({&call, call.b.Permute(left.value, {1, 0, 2})}, {l[1], l[0] * l[2]});
  const Expr columns = Reshape(right, {r[0] * r[1], r[2]});
  AddTo(call, Product(call, rows.value, columns.value));
}

void Dot(Call& call) {
  const Expr terms = Wide(call, call.Tensor(kSelf)) * Wide(call, call.Tensor(call.name(1)));
  Give(call, Sum(terms, {0}, false));
}

void Outer(Call& call) {
  Value* x = call.Tensor(kSelf);
  Value* column = call.b.Reshape(x, {x->type.elements(), 1});
  call.Return(call.b.Binary(OpKind::kMul, column, call.Tensor("vec2")));
}

// Returns x with dimensions of size 1 inserted at the places `dims` of the result.
Expr WithDims(Expr x, Dims dims) {
  Dims sizes = x.sizes();
  const auto rank = static_cast<int64_t>(sizes.size() + dims.size());
  for (int64_t& dim : dims) dim = x.call->WrapDim(dim, rank);
  std::sort(dims.begin(), dims.end());
  if (x.call->refused()) return x;
  for (const int64_t dim : dims) {
    if (dim > static_cast<int64_t>(sizes.size())) {
      x.call->Refuse("dimension ", dim, " of ", ToText(x.value->type));
      return x;
    }
    sizes.insert(sizes.begin() + dim, 1);
  }
  return Reshape(x, sizes);
}

// _trilinear(i1, i2, i3, expand1, expand2, expand3, sumdim, unroll_dim) sums the product of three
// factors.
void Trilinear(Call& call) {
  const auto factor = [&](std::string_view name, std::string_view dims) {
    return WithDims(Wide(call, call.Tensor(name)), call.Ints(dims));
  };
  const Expr product = factor("i1", "expand1") * factor("i2", "expand2") * factor("i3", "expand3");
  const Dims summed = call.Ints("sumdim");
  if (call.refused()) return;
  if (summed.empty()) return Give(call, product);
  Give(call, Sum(product, call.ReducedDims("sumdim", product.rank()), false));
}

// x1 [.., P, M] - x2 [.., R, M]: [.., P, R, M]
Expr Differences(Call& call) {
  const Expr x1 = In(call, "x1");
  const Expr x2 = In(call, "x2");
  if (call.refused() || x1.rank() < 2 || x2.rank() < 2) {
    call.Refuse("distances of ", ToText(x1.value->type));
    return x1;
  }
  return WithDims(x1, {x1.rank() - 1}) - WithDims(x2, {x2.rank() - 2});
}

// _cdist_forward(x1, x2, p, compute_mode)
void Distances(Call& call) {
  const Expr difference = Differences(call);
  if (call.refused()) return;
  Give(call, VectorNorm(difference, call.Float("p"), {difference.rank() - 1}, false));
}

// _cdist_backward(grad, x1, x2, p, distances): the distance of equal points has no gradient, so
// theirs is 0. PyTorch 2.14 renamed its first argument to grad_output.
void DistancesBackward(Call& call) {
  const Expr difference = Differences(call);
  const Expr distance = In(call, "cdist");
  if (call.refused() || call.Float("p") != 2) {
    return call.Refuse("gradient of distances by p = ", call.Float("p"));
  }
  const Expr share = Where(distance == 0.0, 0.0, In(call, call.name(0)) / distance);
  const Expr each = WithDims(share, {share.rank()}) * difference;
  if (call.refused()) return;
  Give(call, Expand(Sum(each, {each.rank() - 2}, false), call.type().sizes));
}

// addr(x, vec1, vec2, beta, alpha): beta = 0 ignores x, even if it holds NaN.
void Addr(Call& call) {
  if (call.dtype() == DType::kBool) return call.Refuse("arithmetic on booleans");
  const Expr row = Wide(call, call.Tensor("vec2"));
  const Expr column = Wide(call, call.Tensor("vec1"));
  const Expr product = Reshape(column, {column.sizes()[0], 1}) * row * call.Float("alpha");
  const double beta = call.Float("beta");
  if (beta == 0) return Give(call, product);
  Give(call, product + Wide(call, call.Tensor(kSelf)) * beta);
}

// Emits rows by the matrix of their group ([M, K] x [G, K, N]), ranges of the inner dimension ([M,
// K] x [K, N]), or columns ([G, M, K] x [K, N]), which is the first form transposed. Without ends
// it is a batch of products.
void EmitGrouped(Call& call, Value* a, Value* b, Value* ends) {
  if (ends == nullptr) return call.Return(call.b.Matmul(a, b));
  const bool of_columns = a->type.rank() == 3;
  if (of_columns) {
    std::swap(a, b);
    a = call.b.Permute(a, {1, 0});
    b = call.b.Permute(b, {0, 2, 1});
  }
  ends = call.b.Cast(ends, DType::kI32);
  if (call.refused()) return;
  if (call.type().elements() == 0 || a->type.elements() == 0 || ends->type.elements() == 0) {
    return call.Return(call.b.Full(0, call.dtype(), call.type().sizes));
  }
  Value* y = call.b.GroupedMatmul(a, ends, {b}, b->type.rank() == 2);
  call.Return(of_columns ? call.b.Permute(y, {1, 0}) : y);
}

void GroupedMm(Call& call) {
  if (call.Has("bias")) return call.Refuse("a product of groups with a bias");
  EmitGrouped(call, call.Tensor(kSelf), call.Tensor("mat2"), call.OptionalTensor("offs"));
}

// The product of groups in transformers for types that PyTorch's own does not take.
void TransformersGroupedMm(Call& call) {
  EmitGrouped(call, call.Tensor("input"), call.Tensor("weight"), call.Tensor("offs"));
}

// Its gradients: [S, K] by columns of the weights, and [G, K, N] from ranges of S.
void TransformersGroupedMmBackward(Call& call) {
  Value* x = call.Tensor("input");
  Value* weight = call.Tensor("weight");
  Value* dy = call.Tensor("grad_output");
  Value* ends = call.b.Cast(call.Tensor("offs"), DType::kI32);
  if (call.refused()) return;
  if (x->type.elements() == 0 || weight->type.elements() == 0) {
    return call.Return({call.b.Full(0, call.dtype(), x->type.sizes),
                        call.b.Full(0, call.dtype(), weight->type.sizes)});
  }
  Value* dx = call.b.GroupedMatmul(dy, ends, {call.b.Permute(weight, {0, 2, 1})}, false);
  Value* dw = call.b.GroupedMatmul(call.b.Permute(x, {1, 0}), ends, {dy}, true);
  call.Return({dx, dw});
}

// linalg_cross(x, y, dim)
void Cross(Call& call) {
  const int64_t dim = call.Dim("dim", call.type().rank());
  if (call.refused() || call.type().sizes[dim] != 3) return call.Refuse("no vectors of three");
  const auto part = [&](std::string_view name, int64_t i) {
    const Expr x = Expand(Wide(call, call.Tensor(name)), call.type().sizes);
    return Slice(x, dim, i % 3, i % 3 + 1);
  };
  std::vector<Value*> parts;
  for (int64_t i = 0; i < 3; ++i) {
    const Expr first = part(kSelf, i + 1) * part("other", i + 2);
    parts.push_back((first - part(kSelf, i + 2) * part("other", i + 1)).value);
  }
  Give(call, {&call, call.b.Concat(std::move(parts), dim)});
}

constexpr HandlerRow kContractRows[] = {
    {"aten._cdist_backward.default", DistancesBackward},
    {"aten._cdist_forward.default", Distances},
    {"aten._grouped_mm.default", GroupedMm},
    {"aten._trilinear.default", Trilinear},
    {"aten.addbmm.default", Addbmm},
    {"aten.addmm.default", Addmm},
    {"aten.addmv.default", Addmv},
    {"aten.addr.default", Addr},
    {"aten.baddbmm.default", Baddbmm},
    {"aten.bmm.default", Mm},
    {"aten.dot.default", Dot},
    {"aten.linalg_cross.default", Cross},
    {"aten.linear.default", Linear},
    {"aten.matmul.default", Matmul},
    {"aten.mm.default", Mm},
    {"aten.mv.default", Mv},
    {"aten.outer.default", Outer},
    {"aten.vdot.default", Dot},
    {"transformers.grouped_mm_fallback.default", TransformersGroupedMm},
    {"transformers.grouped_mm_fallback_backward.default", TransformersGroupedMmBackward},
};

}  // namespace

std::span<const HandlerRow> ContractRows() { return kContractRows; }

}  // namespace hpu::compiler
