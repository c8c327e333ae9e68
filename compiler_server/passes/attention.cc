#include "compiler_server/passes/attention.h"

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

constexpr double kHidden = -1e30;
constexpr int64_t kMostFeatures = 512;  // one task holds a block of queries of all features

// What is added to scores: a value, or `where` of a condition with 0 and a hidden value.
struct Mask {
  Value* value = nullptr;
  Value* condition = nullptr;
  bool hides_if_true = false;
  double hidden = 0;
};

struct Pattern {
  Value* query = nullptr;
  Value* key = nullptr;
  bool key_is_transposed = false;  // [.., size, length]
  double scale = 1;
  std::vector<Mask> masks;
};

std::optional<double> Uniform(const Value* value) {
  const Node* full = value->producer;
  if (full == nullptr || full->op != OpKind::kFull) return std::nullopt;
  return full->Float(AttrKey::kValue);
}

class Matcher {
 public:
  explicit Matcher(const ir::Graph& graph) : uses_(graph.CountUses()) {}

  bool Match(const Node& product, Pattern* pattern) const {
    if (product.op != OpKind::kMatmul || product.Bool(AttrKey::kTransposeA)) return false;
    const int rank = product.type().rank();
    if (rank != 3 && rank != 4) return false;
    const Value* weights = product.operands[0];
    while (IsFloatCast(weights) && UsedOnce(weights)) weights = weights->producer->operands[0];
    const Node* softmax = weights->producer;
    if (softmax == nullptr || softmax->op != OpKind::kSoftmax || !UsedOnce(weights)) return false;
    if (softmax->Int(AttrKey::kDim) != rank - 1) return false;
    if (!MatchScores(softmax->operands[0], pattern)) return false;
    pattern->query = WithoutScale(pattern->query, &pattern->scale);
    pattern->key = WithoutScale(pattern->key, &pattern->scale);
    return Fits(product, *pattern);
  }

 private:
  // Values that this walk made are none of the pattern's.
  bool UsedOnce(const Value* value) const {
    return value->id < uses_.size() && uses_[value->id] == 1;
  }

  static bool IsFloatCast(const Value* value) {
    const Node* node = value->producer;
    return node != nullptr && node->op == OpKind::kCast && IsFloat(value->type.dtype) &&
           IsFloat(node->operands[0]->type.dtype);
  }

  // Walks from the softmax towards the product of query and key.
  bool MatchScores(const Value* scores, Pattern* pattern) const {
    const Node* node = scores->producer;
    if (node == nullptr || !UsedOnce(scores)) return false;
    switch (node->op) {
      case OpKind::kMatmul:
        if (node->Bool(AttrKey::kTransposeA)) return false;
        pattern->query = node->operands[0];
        pattern->key = node->operands[1];
        pattern->key_is_transposed = !node->Bool(AttrKey::kTransposeB);
        return true;
      case OpKind::kCast:
        return IsFloatCast(scores) && MatchScores(node->operands[0], pattern);
      case OpKind::kMul:
      case OpKind::kDiv:
        return MatchScale(*node, pattern);
      case OpKind::kAdd:
        return MatchAdd(*node, pattern);
      case OpKind::kWhere:
        return MatchWhere(*node, pattern);
      default:
        return false;
    }
  }

  bool MatchScale(const Node& node, Pattern* pattern) const {
    for (size_t i = 0; i < 2; ++i) {
      const auto factor = Uniform(node.operands[1 - i]);
      if (!factor || (node.op == OpKind::kDiv && i == 1)) continue;
      if (!MatchScores(node.operands[i], pattern)) return false;
      pattern->scale *= node.op == OpKind::kDiv ? 1 / *factor : *factor;
      return pattern->masks.empty();  // a mask below would be scaled too
    }
    return false;
  }

  bool MatchAdd(const Node& node, Pattern* pattern) const {
    for (size_t i = 0; i < 2; ++i) {
      if (node.operands[i]->type.sizes != node.type().sizes) continue;
      Pattern inner;
      if (!MatchScores(node.operands[i], &inner)) continue;
      inner.masks.push_back({.value = node.operands[1 - i]});
      *pattern = std::move(inner);
      return true;
    }
    return false;
  }

  bool MatchWhere(const Node& node, Pattern* pattern) const {
    for (size_t i = 1; i <= 2; ++i) {
      const auto hidden = Uniform(node.operands[3 - i]);
      if (!hidden || !(*hidden <= kHidden)) continue;
      if (node.operands[i]->type.sizes != node.type().sizes) return false;
      if (!MatchScores(node.operands[i], pattern)) return false;
      pattern->masks.push_back(
          {.condition = node.operands[0], .hides_if_true = i == 2, .hidden = *hidden});
      return true;
    }
    return false;
  }

  // x, if the value is x times a number and nothing else reads it.
  Value* WithoutScale(Value* value, double* scale) const {
    const Node* node = value->producer;
    if (node == nullptr || node->op != OpKind::kMul || !UsedOnce(value)) return value;
    for (size_t i = 0; i < 2; ++i) {
      const auto factor = Uniform(node->operands[1 - i]);
      if (!factor || node->operands[i]->type != value->type) continue;
      *scale *= *factor;
      return node->operands[i];
    }
    return value;
  }

  // One batch and head count, one float type, masks that the type holds.
  static bool Fits(const Node& product, const Pattern& pattern) {
    const ir::TensorType& q = pattern.query->type;
    const ir::TensorType& k = pattern.key->type;
    const ir::TensorType& v = product.operands[1]->type;
    const auto batch = [](const ir::TensorType& type) {
      return Dims(type.sizes.begin(), type.sizes.end() - 2);
    };
    if (q.rank() != product.type().rank() || k.rank() != q.rank() || v.rank() != q.rank()) {
      return false;
    }
    if (batch(q) != batch(k) || batch(q) != batch(v)) return false;
    if (!IsFloat(q.dtype) || k.dtype != q.dtype || v.dtype != q.dtype) return false;
    if (product.type().dtype != q.dtype) return false;
    if (q.sizes.back() > kMostFeatures || product.type().sizes.back() > kMostFeatures) return false;
    for (const Mask& mask : pattern.masks) {
      const Value* value = mask.value;
      if (value == nullptr) continue;
      if (!IsFloat(value->type.dtype) || DTypeSize(value->type.dtype) > DTypeSize(q.dtype)) {
        return false;
      }
    }
    return true;
  }

  const std::vector<uint32_t> uses_;
};

Value* EmitMask(Builder& b, const Mask& mask, DType dtype) {
  if (mask.value != nullptr) return b.Cast(mask.value, dtype);
  Value* shown = b.Scalar(0, dtype);
  Value* hidden = b.Scalar(mask.hidden, dtype);
  return b.Emit(OpKind::kWhere, {mask.condition, mask.hides_if_true ? hidden : shown,
                                 mask.hides_if_true ? shown : hidden});
}

Value* SwapLastTwo(Builder& b, Value* x) {
  Dims perm;
  for (int64_t i = 0; i < x->type.rank(); ++i) perm.push_back(i);
  std::swap(perm[perm.size() - 2], perm[perm.size() - 1]);
  return b.Permute(x, std::move(perm));
}

Value* AsRank4(Builder& b, Value* x) {
  Dims sizes = x->type.sizes;
  if (sizes.size() == 3) sizes.insert(sizes.begin(), 1);
  return b.Reshape(x, std::move(sizes));
}

Node* EmitAttention(Builder& b, const Node& product, const Pattern& pattern) {
  Value* key = pattern.key_is_transposed ? SwapLastTwo(b, pattern.key) : pattern.key;
  Value* value = product.operands[1];
  if (product.Bool(AttrKey::kTransposeB)) value = SwapLastTwo(b, value);
  std::vector<Value*> operands = {AsRank4(b, pattern.query), AsRank4(b, key), AsRank4(b, value)};
  Value* sum = nullptr;
  for (const Mask& mask : pattern.masks) {
    Value* term = EmitMask(b, mask, pattern.query->type.dtype);
    sum = sum == nullptr ? term : b.Binary(OpKind::kAdd, sum, term);
  }
  if (sum != nullptr) operands.push_back(sum);
  return b.EmitNode(OpKind::kSdpa, std::move(operands),
                    {{AttrKey::kScale, pattern.scale}, {AttrKey::kCausal, false}});
}

}  // namespace

absl::Status RecogniseAttention(ir::Graph& graph, const PassContext& context) {
  const Matcher matcher(graph);
  ir::Rewriter rewriter(graph);
  return rewriter.Run([&](Node& node) -> absl::StatusOr<ir::Visit> {
    Pattern pattern;
    if (!matcher.Match(node, &pattern)) return ir::Visit::kKeep;
    Builder& b = rewriter.builder();
    const size_t mark = b.Mark();
    const Node* attention = EmitAttention(b, node, pattern);
    RETURN_IF_ERROR(b.status());
    if (!context.accept(*attention).ok()) {
      b.Rewind(mark);
      return ir::Visit::kKeep;
    }
    rewriter.Replace(node.result(), b.Reshape(attention->result(), node.type().sizes));
    return ir::Visit::kDrop;
  });
}

}  // namespace hpu::compiler
