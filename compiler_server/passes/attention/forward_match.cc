#include "compiler_server/passes/attention/forward_match.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "compiler_server/ir/rewrite.h"
#include "compiler_server/passes/attention/attention_conditions.h"

namespace hpu::compiler {
namespace {

using ir::AttrKey;
using ir::Dims;
using ir::Node;
using ir::OpKind;
using ir::Value;

constexpr double kHidden = -1e30;

// Whether neither operand of the product is broadcast, and the last two dimensions of the result
// are `matrix`.
bool IsPlainProduct(const Node& product, std::span<const int64_t> matrix) {
  const Dims& sizes = product.type().sizes;
  const auto batch_end = sizes.end() - 2;
  return std::equal(batch_end, sizes.end(), matrix.begin(), matrix.end()) &&
         std::ranges::all_of(product.operands, [&](const Value* operand) {
           const Dims& own = operand->type.sizes;
           return own.size() == sizes.size() && std::equal(sizes.begin(), batch_end, own.begin());
         });
}

class ForwardMatch {
 public:
  explicit ForwardMatch(MatchState& state) : state_(state), found_(state.found) {}

  bool Match(const Node& product) {
    if (product.op != OpKind::kMatmul || product.Bool(AttrKey::kTransposeA)) return false;
    const Dims& sizes = product.operands[0]->type.sizes;
    const Node* softmax = FindSoftmax(product.operands[0]);
    if (softmax == nullptr) return false;
    found_.scores = softmax->type().sizes;
    if (found_.scores.size() == 3) found_.scores.insert(found_.scores.begin(), 1);
    if (found_.scores.size() != 4 || sizes.size() < 3 || sizes.size() > 4 ||
        softmax->Int(AttrKey::kDim) != softmax->type().rank() - 1 ||
        !std::equal(sizes.end() - 2, sizes.end(), found_.scores.end() - 2)) {
      return false;
    }
    double factor = 1;
    state_.dropped = Core(product.operands[0]);
    state_.weights = state_.WithoutNoise(state_.dropped, &state_.kept, &factor);
    if (!TakeSoftmax() || !ReadNoise(factor)) return false;
    scores_sizes_ = softmax->type().sizes;
    if (!MatchScores(softmax->operands[0])) return false;
    if (!IsPlainProduct(product, std::span(product.type().sizes).last(2))) return false;
    state_.Take(&product);
    state_.products.insert(&product);
    found_.product = &product;
    found_.value = product.operands[1];
    found_.value_is_transposed = product.Bool(AttrKey::kTransposeB);
    return true;
  }

 private:
  // Finds the softmax that the weights are made from, through multiplications. It takes no nodes.
  static const Node* FindSoftmax(Value* value) {
    for (int steps = 0; steps < 4; ++steps) {
      const Node* node = Core(value)->producer;
      if (node == nullptr) return nullptr;
      if (node->op == OpKind::kSoftmax) return node;
      if (node->op == OpKind::kWhere) {
        value = node->operands[2];
      } else if (node->op == OpKind::kMul) {
        const bool first = node->operands[0]->type.elements() == node->type().elements() &&
                           !IsNoise(node->operands[0]);
        value = node->operands[first ? 0 : 1];
      } else {
        return nullptr;
      }
    }
    return nullptr;
  }

  static bool IsNoise(Value* value) {
    const Node* node = Core(value)->producer;
    return node != nullptr &&
           (node->op == OpKind::kFull ||
            (node->op == OpKind::kCast && node->operands[0]->type.dtype == DType::kBool) ||
            (node->op == OpKind::kWhere && Uniform(node->operands[2]) == 0 &&
             Uniform(node->operands[1]).has_value()));
  }

  // Accepts as the weights the softmax, or a softmax with zeros in the rows that hide all keys.
  bool TakeSoftmax() {
    const Node* node = state_.weights->producer;
    if (node == nullptr) return false;
    if (node->op == OpKind::kWhere) {
      const Node* hidden = MadeBy(node->operands[0], OpKind::kEq);
      const Node* peak =
          hidden == nullptr ? nullptr : MadeBy(hidden->operands[0], OpKind::kReduceMax);
      const Node* softmax = MadeBy(Core(node->operands[2]), OpKind::kSoftmax);
      if (peak == nullptr || softmax == nullptr || Uniform(node->operands[1]) != 0 ||
          Uniform(hidden->operands[1]) != -std::numeric_limits<double>::infinity() ||
          Core(peak->operands[0]) != Core(softmax->operands[0]) ||
          peak->Ints(AttrKey::kDims) != Dims{softmax->type().rank() - 1} ||
          !peak->Bool(AttrKey::kKeepdim)) {
        return false;
      }
      for (const Node* taken : {node, hidden, peak, softmax}) state_.Take(taken);
      return true;
    }
    if (node->op != OpKind::kSoftmax) return false;
    state_.Take(node);
    return true;
  }

  bool ReadNoise(double factor) {
    if (state_.kept == nullptr) return factor == 1;
    const Node* below = MadeBy(state_.kept, OpKind::kLt);
    const Node* draw =
        below == nullptr ? nullptr : MadeBy(Unshaped(below->operands[0]), OpKind::kRandomUniform);
    const auto keep = below == nullptr ? std::nullopt : Uniform(below->operands[1]);
    if (draw == nullptr || !keep || !(*keep > 0 && *keep < 1) || !AreEqual(factor * *keep, 1) ||
        draw->type().elements() != NumElements(found_.scores)) {
      return false;
    }
    found_.keep = *keep;
    found_.draw = draw;
    return true;
  }

  // Walks from the softmax to the product of query and key.
  bool MatchScores(Value* scores) {
    const Node* node = Core(scores)->producer;
    if (node == nullptr) return false;
    switch (node->op) {
      case OpKind::kMatmul:
        if (node->Bool(AttrKey::kTransposeA) || !IsPlainProduct(*node, state_.Matrix()))
          return false;
        found_.query = node->operands[0];
        found_.key = node->operands[1];
        found_.key_is_transposed = !node->Bool(AttrKey::kTransposeB);
        state_.query_operand = Core(found_.query);
        state_.key_operand = Core(found_.key);
        break;
      case OpKind::kMul:
      case OpKind::kDiv:
        if (!MatchScale(*node)) return false;
        break;
      case OpKind::kAdd:
        if (!MatchAdd(*node)) return false;
        break;
      case OpKind::kWhere:
        if (!MatchWhere(*node)) return false;
        break;
      default:
        return false;
    }
    state_.Take(node);
    return true;
  }

  bool MatchScale(const Node& node) {
    for (size_t i = 0; i < 2; ++i) {
      const auto factor = Uniform(node.operands[1 - i]);
      if (!factor || (node.op == OpKind::kDiv && i == 1)) continue;
      if (!MatchScores(node.operands[i])) return false;
      found_.scale *= node.op == OpKind::kDiv ? 1 / *factor : *factor;
      return found_.masks.empty() && !found_.causal;  // a mask below it would be scaled too
    }
    return false;
  }

  bool MatchAdd(const Node& node) {
    if (node.type().sizes != scores_sizes_) return false;
    for (size_t i = 0; i < 2; ++i) {
      if (node.operands[i]->type.sizes != node.type().sizes) continue;
      const FoundAttention before = found_;
      const std::unordered_set<const Node*> taken = state_.taken;
      if (!MatchScores(node.operands[i])) {
        found_ = before;
        state_.taken = taken;
        continue;
      }
      AddMask(node.operands[1 - i]);
      return true;
    }
    return false;
  }

  void AddMask(Value* value) {
    const Node* where = MadeBy(value, OpKind::kWhere);
    const bool hides = where != nullptr && Uniform(where->operands[1]) == 0 &&
                       Uniform(where->operands[2]) == -std::numeric_limits<double>::infinity();
    if (hides && IsCausal(where->operands[0], state_.Matrix())) {
      found_.causal = true;
    } else {
      found_.masks.push_back({.value = value});
    }
  }

  bool MatchWhere(const Node& node) {
    if (node.type().sizes != scores_sizes_) return false;
    for (size_t i = 1; i <= 2; ++i) {
      const auto hidden = Uniform(node.operands[3 - i]);
      if (!hidden || !(*hidden <= kHidden)) continue;
      if (node.operands[i]->type.sizes != node.type().sizes) return false;
      if (!MatchScores(node.operands[i])) return false;
      found_.masks.push_back(
          {.condition = node.operands[0], .hides_if_true = i == 2, .hidden = *hidden});
      return true;
    }
    return false;
  }

  MatchState& state_;
  FoundAttention& found_;
  Dims scores_sizes_;  // the sizes that the softmax has
};

}  // namespace

bool MatchForward(const Node& product, MatchState& state) {
  return ForwardMatch(state).Match(product);
}

}  // namespace hpu::compiler
