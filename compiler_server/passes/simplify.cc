#include "compiler_server/passes/simplify.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "compiler_server/ir/rewrite.h"

namespace hpu::compiler {
namespace {

using ir::AttrKey;
using ir::Builder;
using ir::Dims;
using ir::Node;
using ir::OpKind;
using ir::Value;

std::optional<double> Uniform(const Value* value) {
  const Node* full = MadeBy(value, OpKind::kFull);
  return full == nullptr ? std::nullopt : std::optional(full->Float(AttrKey::kValue));
}

// Each rule returns the value that replaces the node's result, or nullptr.
using Rule = Value* (*)(Node& node, Builder& b);

Value* SimplifyReshape(Node& node, Builder& b) {
  Value* x = node.operands[0];
  while (const Node* inner = MadeBy(x, OpKind::kReshape)) x = inner->operands[0];
  if (const auto value = Uniform(x)) return b.Full(*value, x->type.dtype, node.type().sizes);
  if (x->type.sizes == node.type().sizes) return x;
  return x == node.operands[0] ? nullptr : b.Reshape(x, node.type().sizes);
}

// Whether only dimensions of size 1 change place.
bool MovesOnlyOnes(const Dims& perm, const Dims& sizes) {
  int64_t last = -1;
  for (int64_t dim : perm) {
    if (sizes[dim] == 1) continue;
    if (dim < last) return false;
    last = dim;
  }
  return true;
}

Value* SimplifyPermute(Node& node, Builder& b) {
  Value* x = node.operands[0];
  Dims perm = node.Ints(AttrKey::kPerm);
  while (const Node* inner = MadeBy(x, OpKind::kPermute)) {
    for (int64_t& dim : perm) dim = inner->Ints(AttrKey::kPerm)[dim];
    x = inner->operands[0];
  }
  if (const auto value = Uniform(x)) return b.Full(*value, x->type.dtype, node.type().sizes);
  if (MovesOnlyOnes(perm, x->type.sizes)) {
    if (const Node* inner = MadeBy(x, OpKind::kReshape)) x = inner->operands[0];
    return b.Reshape(x, node.type().sizes);
  }
  return x == node.operands[0] ? nullptr : b.Permute(x, std::move(perm));
}

Value* SimplifyExpand(Node& node, Builder& b) {
  Value* x = node.operands[0];
  while (const Node* inner = MadeBy(x, OpKind::kExpand)) x = inner->operands[0];
  if (const auto value = Uniform(x)) return b.Full(*value, x->type.dtype, node.type().sizes);
  if (x->type.sizes == node.type().sizes) return x;
  return x == node.operands[0] ? nullptr : b.Expand(x, node.type().sizes);
}

Value* SimplifySlice(Node& node, Builder& b) {
  Value* x = node.operands[0];
  if (node.type().sizes == x->type.sizes) return x;
  if (const auto value = Uniform(x)) return b.Full(*value, x->type.dtype, node.type().sizes);
  const Node* inner = MadeBy(x, OpKind::kSlice);
  if (inner == nullptr) return nullptr;
  Dims starts = inner->Ints(AttrKey::kStarts);
  Dims limits = starts;
  Dims steps = inner->Ints(AttrKey::kSteps);
  for (size_t i = 0; i < starts.size(); ++i) {
    starts[i] += node.Ints(AttrKey::kStarts)[i] * steps[i];
    steps[i] *= node.Ints(AttrKey::kSteps)[i];
    const int64_t count = node.type().sizes[i];
    limits[i] = count == 0 ? starts[i] : starts[i] + (count - 1) * steps[i] + 1;
  }
  return b.Emit(OpKind::kSlice, {inner->operands[0]},
                {{AttrKey::kStarts, std::move(starts)},
                 {AttrKey::kLimits, std::move(limits)},
                 {AttrKey::kSteps, std::move(steps)}});
}

Value* SimplifyConcat(Node& node, Builder&) {
  return node.operands.size() == 1 ? node.operands[0] : nullptr;
}

// Whether every value of `narrow` is a value of `wide`.
bool Holds(DType wide, DType narrow) {
  if (narrow == wide || narrow == DType::kBool) return true;
  if (IsFloat(wide) && IsFloat(narrow)) {
    return DTypeSize(wide) > DTypeSize(narrow) && DTypeSize(narrow) >= 2;
  }
  const bool wide_signed = wide == DType::kI16 || wide == DType::kI32 || wide == DType::kI64;
  return wide_signed && IsInteger(narrow) && DTypeSize(wide) > DTypeSize(narrow);
}

Value* WithoutDetour(Value* x, DType dtype, Builder& b);

// Joins values of which at least one was widened: the others are narrowed first.
Value* JoinedWithoutDetour(const Node& concat, DType dtype, Builder& b) {
  std::vector<Value*> sources;
  for (Value* operand : concat.operands) sources.push_back(WithoutDetour(operand, dtype, b));
  if (std::ranges::none_of(sources, [](const Value* source) { return source != nullptr; })) {
    return nullptr;
  }
  for (size_t i = 0; i < sources.size(); ++i) {
    if (sources[i] == nullptr) sources[i] = b.Cast(concat.operands[i], dtype);
  }
  return b.Concat(std::move(sources), concat.Int(AttrKey::kDim));
}

// Removes the casts around a value that was widened, moved (reshaped, permuted, repeated, joined)
// and narrowed again.
Value* WithoutDetour(Value* x, DType dtype, Builder& b) {
  Node* move = x->producer;
  if (move == nullptr || move->operands.empty()) return nullptr;
  Value* from = move->operands[0];
  const auto source = [&] { return WithoutDetour(from, dtype, b); };
  switch (move->op) {
    case OpKind::kCast:
      return from->type.dtype == dtype && Holds(x->type.dtype, dtype) ? from : nullptr;
    case OpKind::kConcat:
      return JoinedWithoutDetour(*move, dtype, b);
    case OpKind::kPermute: {
      Value* moved = source();
      return moved == nullptr ? nullptr : b.Permute(moved, move->Ints(AttrKey::kPerm));
    }
    case OpKind::kReshape: {
      Value* moved = source();
      return moved == nullptr ? nullptr : b.Reshape(moved, x->type.sizes);
    }
    case OpKind::kResize: {
      // Booleans and integers can be resized only as floats.
      if (move->Text(AttrKey::kMode) == "linear" || !IsFloat(dtype)) return nullptr;
      Value* moved = source();
      const ir::TensorType type = ir::Contiguous(dtype, x->type.sizes);
      return moved == nullptr ? nullptr : b.Emit(OpKind::kResize, {moved}, move->attrs, &type);
    }
    default:
      return nullptr;
  }
}

Value* SimplifyCast(Node& node, Builder& b) {
  Value* x = node.operands[0];
  const DType dtype = node.type().dtype;
  if (x->type.dtype == dtype) return x;
  if (const Node* inner = MadeBy(x, OpKind::kCast)) {
    Value* source = inner->operands[0];
    if (Holds(x->type.dtype, source->type.dtype)) return b.Cast(source, dtype);
  }
  if (Value* narrow = WithoutDetour(x, dtype, b)) return narrow;
  const auto value = Uniform(x);
  // Small whole numbers are the same in every type but bool.
  const bool whole = value && *value == static_cast<int>(*value) && *value >= 0 && *value <= 127;
  if (whole && dtype != DType::kBool) return b.Full(*value, dtype, node.type().sizes);
  if (const Node* expand = MadeBy(x, OpKind::kExpand)) {
    return b.Expand(b.Cast(expand->operands[0], dtype), node.type().sizes);
  }
  return nullptr;
}

Value* SimplifyMatmul(Node& node, Builder& b) {
  Value* operands[2] = {node.operands[0], node.operands[1]};
  bool transpose[2] = {node.Bool(AttrKey::kTransposeA), node.Bool(AttrKey::kTransposeB)};
  bool changed = false;
  for (int i = 0; i < 2; ++i) {
    const Node* inner = MadeBy(operands[i], OpKind::kPermute);
    if (inner == nullptr) continue;
    Dims perm = inner->Ints(AttrKey::kPerm);
    std::swap(perm[perm.size() - 2], perm[perm.size() - 1]);
    if (!std::is_sorted(perm.begin(), perm.end())) continue;
    operands[i] = inner->operands[0];
    transpose[i] = !transpose[i];
    changed = true;
  }
  return changed ? b.Matmul(operands[0], operands[1], transpose[0], transpose[1]) : nullptr;
}

// x op identity is x, if x already has the sizes of the result.
Value* WithoutIdentity(const Node& node) {
  if (node.operands.size() != 2) return nullptr;
  double identity = 0;
  bool commutes = true;
  switch (node.op) {
    case OpKind::kAdd:
      break;
    case OpKind::kSub:
      commutes = false;
      break;
    case OpKind::kMul:
      identity = 1;
      break;
    case OpKind::kDiv:
    case OpKind::kPow:
      identity = 1;
      commutes = false;
      break;
    default:
      return nullptr;
  }
  for (size_t i = 0; i < 2; ++i) {
    if (i == 0 && !commutes) continue;
    Value* other = node.operands[1 - i];
    if (Uniform(node.operands[i]) == identity && other->type.sizes == node.type().sizes &&
        other->type.dtype == node.type().dtype) {
      return other;
    }
  }
  return nullptr;
}

// A mask that is divided by a number, as dropout does, becomes one of two numbers without a
// division per element.
Value* SimplifyMaskQuotient(Node& node, Builder& b) {
  const Node* cast = MadeBy(node.operands[0], OpKind::kCast);
  const auto divisor = Uniform(node.operands[1]);
  if (cast == nullptr || !divisor.has_value() || node.type().dtype != DType::kF32) return nullptr;
  Value* mask = cast->operands[0];
  const auto by = static_cast<float>(*divisor);
  if (mask->type.dtype != DType::kBool || mask->type.sizes != node.type().sizes || by == 0 ||
      !std::isfinite(by)) {
    return nullptr;
  }
  Value* one = b.Scalar(double{1 / by}, DType::kF32);
  Value* zero = b.Scalar(double{0 / by}, DType::kF32);
  return b.Emit(OpKind::kWhere, {mask, one, zero});
}

// The value before it was expanded, or a scalar if all of its elements are equal.
Value* Unexpanded(Value* x, Builder& b) {
  if (const Node* expand = MadeBy(x, OpKind::kExpand)) return expand->operands[0];
  const auto uniform = x->type.rank() > 0 ? Uniform(x) : std::nullopt;
  return uniform ? b.Scalar(*uniform, x->type.dtype) : x;
}

Dims Broadcast(const std::vector<Value*>& values) {
  Dims sizes;
  for (const Value* value : values) {
    sizes = BroadcastSizes(sizes, value->type.sizes).value_or(sizes);
  }
  return sizes;
}

// Elementwise ops broadcast by themselves, so operands need not be expanded for them. If all
// operands are constant along a dimension, one element is enough and the result is expanded
// instead, which can then have any layout.
Value* SimplifyElementwise(Node& node, Builder& b) {
  if (Value* x = WithoutIdentity(node)) return x;
  if (node.op == OpKind::kDiv) {
    if (Value* chosen = SimplifyMaskQuotient(node, b)) return chosen;
  }
  std::vector<Value*> operands;
  for (Value* operand : node.operands) operands.push_back(Unexpanded(operand, b));
  if (operands == node.operands) return nullptr;
  const ir::TensorType type = ir::Contiguous(node.type().dtype, Broadcast(operands));
  return b.Expand(b.Emit(node.op, std::move(operands), node.attrs, &type), node.type().sizes);
}

// Zeros around the pixels become the convolution's own padding. x is [N, spatial, C], perhaps after
// a permute of the padded value.
Value* SimplifyConv(Node& node, Builder& b) {
  Value* x = node.operands[0];
  const int rank = x->type.rank();
  Dims perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  const Node* permute = MadeBy(x, OpKind::kPermute);
  if (permute != nullptr) perm = permute->Ints(AttrKey::kPerm);
  const Node* pad = MadeBy(permute != nullptr ? permute->operands[0] : x, OpKind::kPad);
  if (pad == nullptr || pad->Float(AttrKey::kValue) != 0) return nullptr;
  const Dims& low = pad->Ints(AttrKey::kLow);
  const Dims& high = pad->Ints(AttrKey::kHigh);
  Dims pads = node.Ints(AttrKey::kPads);
  for (size_t d = 0; d < perm.size(); ++d) {
    const auto from = static_cast<size_t>(perm[d]);
    const bool spatial = d > 0 && d + 1 < perm.size();
    if (low[from] < 0 || high[from] < 0) return nullptr;
    if (!spatial && (low[from] != 0 || high[from] != 0)) return nullptr;
    if (!spatial) continue;
    pads[2 * (d - 1)] += low[from];
    pads[2 * (d - 1) + 1] += high[from];
  }
  std::vector<Value*> operands = node.operands;
  operands[0] = permute == nullptr ? pad->operands[0] : b.Permute(pad->operands[0], perm);
  ir::Attrs attrs = node.attrs;
  attrs.Set(AttrKey::kPads, std::move(pads));
  return b.Emit(node.op, std::move(operands), std::move(attrs));
}

Rule RuleFor(OpKind op) {
  switch (op) {
    case OpKind::kCast:
      return SimplifyCast;
    case OpKind::kConcat:
      return SimplifyConcat;
    case OpKind::kConv:
      return SimplifyConv;
    case OpKind::kExpand:
      return SimplifyExpand;
    case OpKind::kMatmul:
      return SimplifyMatmul;
    case OpKind::kPermute:
      return SimplifyPermute;
    case OpKind::kReshape:
      return SimplifyReshape;
    case OpKind::kSlice:
      return SimplifySlice;
    default:
      return ir::IsElementwise(op) ? SimplifyElementwise : nullptr;
  }
}

}  // namespace

absl::Status Simplify(ir::Graph& graph, const PassContext&) {
  ir::Rewriter rewriter(graph);
  return rewriter.Run([&](ir::Node& node) -> absl::StatusOr<ir::Visit> {
    const Rule rule = RuleFor(node.op);
    if (rule == nullptr) return ir::Visit::kKeep;
    Value* replacement = rule(node, rewriter.builder());
    RETURN_IF_ERROR(rewriter.builder().status());
    if (replacement == nullptr) return ir::Visit::kKeep;
    rewriter.Replace(node.results[0], replacement);
    return ir::Visit::kDrop;
  });
}

}  // namespace hpu::compiler
