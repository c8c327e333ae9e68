#include "compiler_server/ir/build.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler_server/ir/host_tensor.h"
#include "compiler_server/ir/infer.h"

namespace hpu::ir {

Builder::Builder(Graph& graph, std::vector<Node*>* order) : graph_(graph), order_(order) {}

void Builder::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void Builder::Rewind(size_t mark) {
  order_->resize(mark);
  status_ = absl::OkStatus();
}

void Builder::SetContext(uint32_t source, uint32_t origin) {
  source_ = source;
  origin_ = origin;
}

Node* Builder::EmitNode(OpKind op, std::vector<Value*> operands, Attrs attrs,
                        const TensorType* declared) {
  if (status_.ok()) {
    auto types = InferTypes(op, operands, attrs, declared);
    if (types.ok()) {
      Node* node = graph_.CreateNode(op, std::move(operands), std::move(attrs), *std::move(types));
      node->source = source_;
      node->origin = origin_;
      order_->push_back(node);
      return node;
    }
    status_ = types.status();
  }
  if (placeholder_ == nullptr) {
    const TensorType scalar = Contiguous(DType::kF32, {});
    placeholder_ = graph_.CreateNode(OpKind::kFull, {}, {{AttrKey::kValue, 0.0}}, {scalar, scalar});
  }
  return placeholder_;
}

Value* Builder::Emit(OpKind op, std::vector<Value*> operands, Attrs attrs,
                     const TensorType* declared) {
  const auto is_bool = [](const Value* x) { return x != nullptr && x->type.dtype == DType::kBool; };
  if ((op == OpKind::kMax || op == OpKind::kMin) && std::ranges::all_of(operands, is_bool)) {
    op = op == OpKind::kMax ? OpKind::kLogicalOr : OpKind::kLogicalAnd;
  }
  const OpClass op_class = Traits(op).op_class;
  const bool calculates =
      (op_class == OpClass::kElementwise && op != OpKind::kCast) || op_class == OpClass::kReduce;
  const auto is_f8 = [](const Value* x) { return x != nullptr && IsFloat8(x->type.dtype); };
  const auto first = std::ranges::find_if(operands, is_f8);
  if (!calculates || first == operands.end()) {
    return EmitNode(op, std::move(operands), std::move(attrs), declared)->result();
  }
  const DType narrow = (*first)->type.dtype;
  for (Value*& operand : operands) {
    if (is_f8(operand)) operand = Cast(operand, DType::kF32);
  }
  Value* result = EmitNode(op, std::move(operands), std::move(attrs), declared)->result();
  return result->type.dtype == DType::kF32 ? Cast(result, narrow) : result;
}

Value* Builder::Cast(Value* x, DType dtype) {
  if (x->type.dtype == dtype) return x;
  const TensorType type = Contiguous(dtype, x->type.sizes);
  return Emit(OpKind::kCast, {x}, {}, &type);
}

Value* Builder::Reshape(Value* x, Dims sizes) {
  if (x->type.sizes == sizes) return x;
  const TensorType type = Contiguous(x->type.dtype, std::move(sizes));
  return Emit(OpKind::kReshape, {x}, {}, &type);
}

Value* Builder::Permute(Value* x, Dims perm) {
  Dims identity(perm.size());
  std::iota(identity.begin(), identity.end(), 0);
  if (perm == identity) return x;
  return Emit(OpKind::kPermute, {x}, {{AttrKey::kPerm, std::move(perm)}});
}

Value* Builder::Expand(Value* x, Dims sizes) {
  if (x->type.sizes == sizes) return x;
  const TensorType type = Contiguous(x->type.dtype, std::move(sizes));
  return Emit(OpKind::kExpand, {x}, {}, &type);
}

Value* Builder::Slice(Value* x, int64_t dim, int64_t start, int64_t limit, int64_t step) {
  if (start == 0 && step == 1 && dim < x->type.rank() && limit == x->type.sizes[dim]) return x;
  Dims starts(x->type.rank(), 0);
  Dims limits = x->type.sizes;
  Dims steps(x->type.rank(), 1);
  if (dim < x->type.rank()) {
    starts[dim] = start;
    limits[dim] = limit;
    steps[dim] = step;
  }
  return Emit(OpKind::kSlice, {x},
              {{AttrKey::kStarts, std::move(starts)},
               {AttrKey::kLimits, std::move(limits)},
               {AttrKey::kSteps, std::move(steps)}});
}

Value* Builder::Pad(Value* x, Dims low, Dims high, double value) {
  return Emit(OpKind::kPad, {x},
              {{AttrKey::kLow, std::move(low)},
               {AttrKey::kHigh, std::move(high)},
               {AttrKey::kValue, value}});
}

Value* Builder::Reduce(OpKind op, Value* x, Dims dims, bool keepdim) {
  return Emit(op, {x}, {{AttrKey::kDims, std::move(dims)}, {AttrKey::kKeepdim, keepdim}});
}

Value* Builder::Matmul(Value* a, Value* b, bool transpose_a, bool transpose_b) {
  return Emit(OpKind::kMatmul, {a, b},
              {{AttrKey::kTransposeA, transpose_a}, {AttrKey::kTransposeB, transpose_b}});
}

Value* Builder::GroupedMatmul(Value* a, Value* ends, const std::vector<Value*>& bs, bool inner) {
  std::vector<Value*> operands = {a, ends};
  operands.insert(operands.end(), bs.begin(), bs.end());
  return Emit(OpKind::kMatmulGrouped, std::move(operands), {{AttrKey::kInner, inner}});
}

Value* Builder::Concat(std::vector<Value*> values, int64_t dim) {
  if (values.size() == 1) return values[0];
  return Emit(OpKind::kConcat, std::move(values), {{AttrKey::kDim, dim}});
}

Value* Builder::Gather(Value* x, Value* index, int64_t dim) {
  return Emit(OpKind::kGather, {x, index}, {{AttrKey::kDim, dim}});
}

Value* Builder::Full(double value, DType dtype, Dims sizes) {
  const TensorType type = Contiguous(dtype, std::move(sizes));
  if (dtype == DType::kBool) value = value != 0 ? 1 : 0;
  return Emit(OpKind::kFull, {}, {{AttrKey::kValue, value}}, &type);
}

Value* Builder::Number(double value, DType dtype, OpKind op) {
  const bool narrow = IsNarrowFloat(dtype) || IsFloat8(dtype);
  const bool wide = narrow && Has(op, OpFlag::kKeepsNumbers) && !std::isnan(value) &&
                    RoundTo(dtype, value) != value;
  return Scalar(value, wide ? DType::kF32 : dtype);
}

Value* Builder::Iota(double start, double step, DType dtype, int64_t count) {
  const TensorType type = Contiguous(dtype, {count});
  return Emit(OpKind::kIota, {}, {{AttrKey::kStart, start}, {AttrKey::kStep, step}}, &type);
}

}  // namespace hpu::ir
