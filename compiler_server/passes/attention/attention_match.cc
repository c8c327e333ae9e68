#include "compiler_server/passes/attention/attention_match.h"

#include <algorithm>
#include <optional>

#include "compiler_server/ir/rewrite.h"
#include "compiler_server/passes/attention/attention_conditions.h"
#include "compiler_server/passes/attention/forward_match.h"
#include "compiler_server/passes/attention/gradient_match.h"
#include "compiler_server/passes/attention/match_state.h"

namespace hpu::compiler {
namespace {

using ir::Node;
using ir::OpKind;
using ir::Value;

constexpr int64_t kMostFeatures = 512;  // a task holds all features of a block of queries

// A candidate for attention: the product of weights and values.
class Match {
 public:
  explicit Match(const Readers& readers) : state_(readers), found_(state_.found) {}

  std::optional<FoundAttention> Run(const Node& product) {
    if (!MatchForward(product, state_)) return std::nullopt;
    if (MatchGradient(state_) == GradientMatch::kOfAnotherForm) return std::nullopt;
    TakeScaleOf(&found_.query, found_.query_gradient);
    TakeScaleOf(&found_.key, found_.key_gradient);
    if (!Fits() || !OnlyTheseRead()) return std::nullopt;
    return found_;
  }

 private:
  // If a query or key is x times a number, replaces it by x, provided that nothing else reads the
  // product and its gradient is multiplied by the number as well.
  void TakeScaleOf(Value** operand, FoundGradient& gradient) {
    Value* scaled = Unshaped(*operand);
    const Node* node = MadeBy(scaled, OpKind::kMul);
    if (node == nullptr || state_.Leaves(scaled)) return;
    const std::vector<Node*> reads = state_.ReadersOf(scaled);
    if (!std::all_of(reads.begin(), reads.end(),
                     [&](const Node* reader) { return state_.taken.contains(reader); })) {
      return;
    }
    for (size_t i = 0; i < 2; ++i) {
      const auto factor = Uniform(node->operands[1 - i]);
      if (!factor || node->operands[i]->type != scaled->type) continue;
      if (gradient.value != nullptr) {
        const std::vector<Node*> next = state_.ReadersOf(gradient.value);
        if (next.size() != 1 || next[0]->op != OpKind::kMul || state_.Leaves(gradient.value))
          return;
        const bool first = Core(next[0]->operands[0]) == gradient.value;
        if (Uniform(next[0]->operands[first ? 1 : 0]) != factor) return;
        if (next[0]->type().dtype != gradient.value->type.dtype) return;
        gradient.value = next[0]->result();
      }
      found_.scale *= *factor;
      *operand = node->operands[i];
      return;
    }
  }

  // Requires one float type, and masks that this type can hold.
  bool Fits() const {
    const DType dtype = found_.query->type.dtype;
    const int64_t heads = found_.scores[0] * found_.scores[1];
    const int64_t queries = heads * found_.scores[2], keys = heads * found_.scores[3];
    if (!IsFloat(dtype) || queries == 0 || keys == 0) return false;
    for (const Value* value :
         {found_.key, found_.value, found_.product->result(), found_.result_gradient,
          found_.query_gradient.value, found_.key_gradient.value, found_.value_gradient.value}) {
      if (value != nullptr && value->type.dtype != dtype) return false;
    }
    const int64_t size = found_.query->type.elements() / queries;
    const int64_t width = found_.product->type().elements() / queries;
    if (size * queries != found_.query->type.elements() ||
        size * keys != found_.key->type.elements() ||
        width * keys != found_.value->type.elements() || std::max(size, width) > kMostFeatures) {
      return false;
    }
    for (const ScoreMask& mask : found_.masks) {
      const Value* value = mask.value;
      if (value == nullptr) continue;
      if (!IsFloat(value->type.dtype) || DTypeSize(value->type.dtype) > DTypeSize(dtype)) {
        return false;
      }
    }
    return found_.gradient == nullptr ||
           state_.readers.Position(found_.product) < state_.readers.Position(found_.gradient);
  }

  // Checks that only the replaced nodes read the replaced values.
  bool OnlyTheseRead() const {
    for (const Node* node : state_.taken) {
      if (state_.products.contains(node)) continue;
      if (state_.Leaves(node->result())) return false;
      const std::vector<Node*> reads = state_.ReadersOf(node->result());
      if (!std::all_of(reads.begin(), reads.end(),
                       [&](const Node* reader) { return state_.taken.contains(reader); })) {
        return false;
      }
    }
    return true;
  }

  MatchState state_;
  FoundAttention& found_;
};

}  // namespace

std::vector<FoundAttention> FindAttention(const ir::Graph& graph, const Readers& readers) {
  std::vector<FoundAttention> all;
  for (const Node* node : graph.nodes()) {
    if (auto found = Match(readers).Run(*node)) all.push_back(*std::move(found));
  }
  return all;
}

}  // namespace hpu::compiler
