#include "compiler_server/passes/attention/gradient_match.h"

#include <algorithm>
#include <cmath>

#include "compiler_server/ir/rewrite.h"
#include "compiler_server/passes/attention/attention_conditions.h"

namespace hpu::compiler {
namespace {

using ir::AttrKey;
using ir::Dims;
using ir::Node;
using ir::OpKind;
using ir::Value;

class GradientMatcher {
 public:
  explicit GradientMatcher(MatchState& state) : state_(state), found_(state.found) {}

  GradientMatch Run() {
    const Node* difference = MatchSoftmaxGradient();
    if (difference == nullptr) return GradientMatch::kNone;
    const bool found = MatchWeightsGradient() && MatchScoresGradient(difference->result());
    return found && GradientStops() ? GradientMatch::kFound : GradientMatch::kOfAnotherForm;
  }

 private:
  // Matches W * t - W * sum(W * t), and returns the difference and t.
  const Node* MatchSoftmaxGradient() {
    for (const Node* scaled : state_.ReadersOf(state_.weights)) {
      if (scaled->op != OpKind::kMul) continue;
      for (size_t i = 0; i < 2; ++i) {
        const Node* sum = MadeBy(Core(scaled->operands[i]), OpKind::kReduceSum);
        if (sum == nullptr || Core(scaled->operands[1 - i]) != state_.weights) continue;
        const Node* share = MadeBy(Core(sum->operands[0]), OpKind::kMul);
        const std::vector<Node*> next = state_.ReadersOf(scaled->result());
        if (share == nullptr || next.size() != 1 || next[0]->op != OpKind::kSub ||
            Core(next[0]->operands[0]) != share->result() ||
            Core(next[0]->operands[1]) != scaled->result() ||
            sum->Ints(AttrKey::kDims) != Dims{sum->operands[0]->type.rank() - 1} ||
            sum->operands[0]->type.sizes.back() != found_.scores[3]) {
          continue;
        }
        const bool first = Core(share->operands[0]) == state_.weights;
        if (!first && Core(share->operands[1]) != state_.weights) continue;
        weights_gradient_ = share->operands[first ? 1 : 0];
        for (const Node* taken : {scaled, sum, share, static_cast<const Node*>(next[0])}) {
          state_.Take(taken);
        }
        return next[0];
      }
    }
    return nullptr;
  }

  // Matches the gradient of the product of weights and values: by the weights, with the noise, and
  // by the values.
  bool MatchWeightsGradient() {
    Value* kept = state_.kept;
    double factor = 1;
    Value* core = state_.WithoutNoise(weights_gradient_, &kept, &factor);
    const Node* by_weights = MadeBy(core, OpKind::kMatmul);
    if (by_weights == nullptr || kept != state_.kept || !AreEqual(factor * found_.keep, 1))
      return false;
    if (by_weights->Bool(AttrKey::kTransposeA) ||
        by_weights->Bool(AttrKey::kTransposeB) == found_.value_is_transposed ||
        Core(by_weights->operands[1]) != Core(found_.value)) {
      return false;
    }
    state_.Take(by_weights);
    found_.gradient = by_weights;
    found_.result_gradient = by_weights->operands[0];
    for (const Node* reader : state_.ReadersOf(state_.dropped)) {
      if (reader == found_.product || state_.taken.contains(reader)) continue;
      const auto is = [&](size_t i, Value* value) {
        return Core(reader->operands[i]) == Core(value);
      };
      const bool plain = reader->op == OpKind::kMatmul && reader->Bool(AttrKey::kTransposeA) &&
                         !reader->Bool(AttrKey::kTransposeB);
      const bool swapped = plain && is(0, found_.result_gradient) && is(1, state_.dropped);
      if (!swapped && !(plain && is(0, state_.dropped) && is(1, found_.result_gradient)))
        return false;
      if (!TakeGradient(*reader, swapped, &found_.value_gradient)) return false;
    }
    return true;
  }

  bool TakeGradient(const Node& node, bool transposed, FoundGradient* gradient) {
    if (gradient->value != nullptr) return false;
    *gradient = {node.result(), transposed};
    state_.Take(&node);
    state_.products.insert(&node);
    if (state_.readers.Position(&node) < state_.readers.Position(found_.gradient))
      found_.gradient = &node;
    return true;
  }

  // After the softmax, the masks and the scale apply once more; then come the products with key and
  // query.
  bool MatchScoresGradient(Value* slopes) {
    double factor = 1;
    std::vector<Node*> reads = state_.ReadersOf(slopes);
    while (reads.size() == 1 && reads[0]->op != OpKind::kMatmul) {
      const Node& node = *reads[0];
      if (node.op == OpKind::kMul || node.op == OpKind::kDiv) {
        const bool first = Core(node.operands[0]) == slopes;
        const auto number = Uniform(node.operands[first ? 1 : 0]);
        if (!number || (!first && node.op == OpKind::kDiv)) return false;
        factor *= node.op == OpKind::kDiv ? 1 / *number : *number;
      } else if (!HidesAgain(node, slopes)) {
        return false;
      }
      state_.Take(&node);
      slopes = node.result();
      reads = state_.ReadersOf(slopes);
    }
    if (!AreEqual(factor, found_.scale)) return false;
    for (const Node* node : reads) {
      if (!TakeProductOfSlopes(*node, slopes)) return false;
    }
    return true;
  }

  // Matches where(condition, 0, slopes) for one of the masks.
  bool HidesAgain(const Node& node, const Value* slopes) const {
    if (node.op != OpKind::kWhere) return false;
    return std::any_of(found_.masks.begin(), found_.masks.end(), [&](const ScoreMask& mask) {
      const size_t shown = mask.hides_if_true ? 2 : 1;
      return mask.condition != nullptr && node.operands[0] == mask.condition &&
             Core(node.operands[shown]) == slopes && Uniform(node.operands[3 - shown]) == 0;
    });
  }

  bool TakeProductOfSlopes(const Node& node, const Value* slopes) {
    if (node.op != OpKind::kMatmul) return false;
    const bool ta = node.Bool(AttrKey::kTransposeA);
    const bool tb = node.Bool(AttrKey::kTransposeB);
    const Value* left = Core(node.operands[0]);
    const Value* right = Core(node.operands[1]);
    if (left == slopes && !ta && right == state_.key_operand && tb == found_.key_is_transposed) {
      return TakeGradient(node, false, &found_.query_gradient);
    }
    if (ta && !tb &&
        ((left == slopes && right == state_.query_operand) ||
         (left == state_.query_operand && right == slopes))) {
      return TakeGradient(node, right == slopes, &found_.key_gradient);
    }
    return false;
  }

  // A query whose keys all have one finite hidden value has equal weights, and no gradient of them
  // may reach the scores. `where` stops the gradient. An added mask does not, so there must be no
  // such query.
  bool GradientStops() const {
    return std::ranges::all_of(found_.masks, [&](const ScoreMask& mask) {
      if (mask.condition == nullptr || std::isinf(mask.hidden)) return true;
      return mask.hides_if_true ? HidesLaterKeys(mask.condition, state_.Matrix())
                                : IsCausal(mask.condition, state_.Matrix());
    });
  }

  MatchState& state_;
  FoundAttention& found_;
  Value* weights_gradient_ = nullptr;  // the gradient of the weights before dropout
};

}  // namespace

GradientMatch MatchGradient(MatchState& state) { return GradientMatcher(state).Run(); }

}  // namespace hpu::compiler
