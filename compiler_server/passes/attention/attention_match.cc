#include "compiler_server/passes/attention/attention_match.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <unordered_set>

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
constexpr int64_t kMostFeatures = 512;  // a task holds all features of a block of queries

bool IsFloatCast(const Node& node) {
  return node.op == OpKind::kCast && IsFloat(node.type().dtype) &&
         IsFloat(node.operands[0]->type.dtype);
}

// Whether the node keeps the same elements in the same order.
bool KeepsOrder(const Node& node) { return node.op == OpKind::kReshape || IsFloatCast(node); }

Value* Core(Value* value) {
  while (value->producer != nullptr && KeepsOrder(*value->producer)) {
    value = value->producer->operands[0];
  }
  return value;
}

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

bool AreEqual(double x, double y) { return std::fabs(x - y) <= 1e-5 * std::fabs(y); }

// A candidate for attention: the product of weights and values.
class Match {
 public:
  Match(const Readers& readers, const Node& product) : readers_(readers), product_(product) {}

  std::optional<FoundAttention> Run() {
    if (!MatchForward()) return std::nullopt;
    if (!MatchGradient() && gradient_nodes_) return std::nullopt;
    if (gradient_nodes_ && !GradientStops()) return std::nullopt;
    TakeScaleOf(&found_.query, found_.query_gradient);
    TakeScaleOf(&found_.key, found_.key_gradient);
    if (!Fits() || !OnlyTheseRead()) return std::nullopt;
    return found_;
  }

 private:
  using Reads = std::vector<Node*>;

  // The sizes [queries, keys].
  std::span<const int64_t> Matrix() const { return std::span(found_.scores).last(2); }

  void Take(const Node* node) { taken_.insert(node); }

  // The readers of the value, also through reshapes and casts.
  Reads ReadersOf(const Value* value) const {
    Reads all;
    for (Node* reader : readers_.Of(value)) {
      if (!KeepsOrder(*reader)) {
        all.push_back(reader);
        continue;
      }
      const Reads inner = ReadersOf(reader->result());
      all.insert(all.end(), inner.begin(), inner.end());
    }
    return all;
  }

  bool Leaves(const Value* value) const {
    const Reads& own = readers_.Of(value);
    return readers_.LeavesGraph(value) ||
           std::any_of(own.begin(), own.end(), [&](const Node* reader) {
             return KeepsOrder(*reader) && Leaves(reader->result());
           });
  }

  // Matches the factor of dropout: 1 or `scale` where a number is below `keep`, else 0.
  bool MatchNoise(Value* noise, Value** kept, double* factor) const {
    const Node* node = Core(noise)->producer;
    if (node == nullptr) return false;
    Value* mask = node->operands.empty() ? nullptr : node->operands[0];
    if (node->op == OpKind::kWhere && Uniform(node->operands[2]) == 0) {
      const auto scale = Uniform(node->operands[1]);
      if (!scale) return false;
      *factor *= *scale;
    } else if (node->op != OpKind::kCast) {
      return false;
    }
    if (mask->type.dtype != DType::kBool || (*kept != nullptr && *kept != mask)) return false;
    if (mask->type.elements() != NumElements(found_.scores)) return false;
    *kept = mask;
    return true;
  }

  // Walks from x * noise * numbers to x.
  Value* WithoutNoise(Value* value, Value** kept, double* factor) {
    for (value = Core(value); const Node* node = MadeBy(value, OpKind::kMul);) {
      bool found = false;
      for (size_t i = 0; i < 2 && !found; ++i) {
        Value* other = node->operands[1 - i];
        if (node->operands[i]->type.elements() != node->type().elements()) continue;
        if (const auto number = Uniform(other)) {
          *factor *= *number;
        } else if (!MatchNoise(other, kept, factor)) {
          continue;
        }
        Take(node);
        value = Core(node->operands[i]);
        found = true;
      }
      if (!found) break;
    }
    return value;
  }

  bool MatchForward() {
    const Node& product = product_;
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
    dropped_ = Core(product.operands[0]);
    weights_ = WithoutNoise(dropped_, &kept_, &factor);
    if (!TakeSoftmax() || !ReadNoise(factor)) return false;
    scores_sizes_ = softmax->type().sizes;
    if (!MatchScores(softmax->operands[0])) return false;
    if (!IsPlainProduct(product, std::span(product.type().sizes).last(2))) return false;
    Take(&product);
    products_.insert(&product);
    found_.product = &product;
    found_.value = product.operands[1];
    found_.value_is_transposed = product.Bool(AttrKey::kTransposeB);
    return true;
  }

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

  // Accepts as weights_ the softmax, or a softmax with zeros in the rows that hide all keys.
  bool TakeSoftmax() {
    const Node* node = weights_->producer;
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
      for (const Node* taken : {node, hidden, peak, softmax}) Take(taken);
      return true;
    }
    if (node->op != OpKind::kSoftmax) return false;
    Take(node);
    return true;
  }

  bool ReadNoise(double factor) {
    if (kept_ == nullptr) return factor == 1;
    const Node* below = MadeBy(kept_, OpKind::kLt);
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
        if (node->Bool(AttrKey::kTransposeA) || !IsPlainProduct(*node, Matrix())) return false;
        found_.query = node->operands[0];
        found_.key = node->operands[1];
        found_.key_is_transposed = !node->Bool(AttrKey::kTransposeB);
        query_operand_ = Core(found_.query);
        key_operand_ = Core(found_.key);
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
    Take(node);
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
      const std::unordered_set<const Node*> taken = taken_;
      if (!MatchScores(node.operands[i])) {
        found_ = before;
        taken_ = taken;
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
    if (hides && IsCausal(where->operands[0], Matrix())) {
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

  // Matches the gradient, starting from the gradient of the softmax. Returns false if there is
  // none, or if it has another form (gradient_nodes_).
  bool MatchGradient() {
    const Node* difference = MatchSoftmaxGradient();
    if (difference == nullptr) return false;
    gradient_nodes_ = true;
    return MatchWeightsGradient() && MatchScoresGradient(difference->result());
  }

  // Matches W * t - W * sum(W * t), and returns the difference and t.
  const Node* MatchSoftmaxGradient() {
    for (const Node* scaled : ReadersOf(weights_)) {
      if (scaled->op != OpKind::kMul) continue;
      for (size_t i = 0; i < 2; ++i) {
        const Node* sum = MadeBy(Core(scaled->operands[i]), OpKind::kReduceSum);
        if (sum == nullptr || Core(scaled->operands[1 - i]) != weights_) continue;
        const Node* share = MadeBy(Core(sum->operands[0]), OpKind::kMul);
        const Reads next = ReadersOf(scaled->result());
        if (share == nullptr || next.size() != 1 || next[0]->op != OpKind::kSub ||
            Core(next[0]->operands[0]) != share->result() ||
            Core(next[0]->operands[1]) != scaled->result() ||
            sum->Ints(AttrKey::kDims) != Dims{sum->operands[0]->type.rank() - 1} ||
            sum->operands[0]->type.sizes.back() != found_.scores[3]) {
          continue;
        }
        const bool first = Core(share->operands[0]) == weights_;
        if (!first && Core(share->operands[1]) != weights_) continue;
        weights_gradient_ = share->operands[first ? 1 : 0];
        for (const Node* taken : {scaled, sum, share, static_cast<const Node*>(next[0])}) {
          Take(taken);
        }
        return next[0];
      }
    }
    return nullptr;
  }

  // Matches the gradient of the product of weights and values: by the weights, with the noise, and
  // by the values.
  bool MatchWeightsGradient() {
    Value* kept = kept_;
    double factor = 1;
    Value* core = WithoutNoise(weights_gradient_, &kept, &factor);
    const Node* by_weights = MadeBy(core, OpKind::kMatmul);
    if (by_weights == nullptr || kept != kept_ || !AreEqual(factor * found_.keep, 1)) return false;
    if (by_weights->Bool(AttrKey::kTransposeA) ||
        by_weights->Bool(AttrKey::kTransposeB) == found_.value_is_transposed ||
        Core(by_weights->operands[1]) != Core(found_.value)) {
      return false;
    }
    Take(by_weights);
    found_.gradient = by_weights;
    found_.result_gradient = by_weights->operands[0];
    for (const Node* reader : ReadersOf(dropped_)) {
      if (reader == found_.product || taken_.contains(reader)) continue;
      const auto is = [&](size_t i, Value* value) {
        return Core(reader->operands[i]) == Core(value);
      };
      const bool plain = reader->op == OpKind::kMatmul && reader->Bool(AttrKey::kTransposeA) &&
                         !reader->Bool(AttrKey::kTransposeB);
      const bool swapped = plain && is(0, found_.result_gradient) && is(1, dropped_);
      if (!swapped && !(plain && is(0, dropped_) && is(1, found_.result_gradient))) return false;
      if (!TakeGradient(*reader, swapped, &found_.value_gradient)) return false;
    }
    return true;
  }

  bool TakeGradient(const Node& node, bool transposed, FoundGradient* gradient) {
    if (gradient->value != nullptr) return false;
    *gradient = {node.result(), transposed};
    Take(&node);
    products_.insert(&node);
    if (readers_.Position(&node) < readers_.Position(found_.gradient)) found_.gradient = &node;
    return true;
  }

  // After the softmax, the masks and the scale apply once more; then come the products with key and
  // query.
  bool MatchScoresGradient(Value* slopes) {
    double factor = 1;
    Reads reads = ReadersOf(slopes);
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
      Take(&node);
      slopes = node.result();
      reads = ReadersOf(slopes);
    }
    if (!AreEqual(factor, found_.scale)) return false;
    for (const Node* node : reads) {
      if (!TakeProductOfSlopes(*node, slopes)) return false;
    }
    return true;
  }

  // A query whose keys all have one finite hidden value has equal weights, and no gradient of them
  // may reach the scores. `where` stops the gradient. An added mask does not, so there must be no
  // such query.
  bool GradientStops() const {
    return std::ranges::all_of(found_.masks, [&](const ScoreMask& mask) {
      if (mask.condition == nullptr || std::isinf(mask.hidden)) return true;
      return mask.hides_if_true ? HidesLaterKeys(mask.condition, Matrix())
                                : IsCausal(mask.condition, Matrix());
    });
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
    if (left == slopes && !ta && right == key_operand_ && tb == found_.key_is_transposed) {
      return TakeGradient(node, false, &found_.query_gradient);
    }
    if (ta && !tb &&
        ((left == slopes && right == query_operand_) ||
         (left == query_operand_ && right == slopes))) {
      return TakeGradient(node, right == slopes, &found_.key_gradient);
    }
    return false;
  }

  // If a query or key is x times a number, replaces it by x, provided that nothing else reads the
  // product and its gradient is multiplied by the number as well.
  void TakeScaleOf(Value** operand, FoundGradient& gradient) {
    Value* scaled = Unshaped(*operand);
    const Node* node = MadeBy(scaled, OpKind::kMul);
    if (node == nullptr || Leaves(scaled)) return;
    const Reads reads = ReadersOf(scaled);
    if (!std::all_of(reads.begin(), reads.end(),
                     [&](const Node* reader) { return taken_.contains(reader); })) {
      return;
    }
    for (size_t i = 0; i < 2; ++i) {
      const auto factor = Uniform(node->operands[1 - i]);
      if (!factor || node->operands[i]->type != scaled->type) continue;
      if (gradient.value != nullptr) {
        const Reads next = ReadersOf(gradient.value);
        if (next.size() != 1 || next[0]->op != OpKind::kMul || Leaves(gradient.value)) return;
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
           readers_.Position(found_.product) < readers_.Position(found_.gradient);
  }

  // Checks that only the replaced nodes read the replaced values.
  bool OnlyTheseRead() const {
    for (const Node* node : taken_) {
      if (products_.contains(node)) continue;
      if (Leaves(node->result())) return false;
      const Reads reads = ReadersOf(node->result());
      if (!std::all_of(reads.begin(), reads.end(),
                       [&](const Node* reader) { return taken_.contains(reader); })) {
        return false;
      }
    }
    return true;
  }

  const Readers& readers_;
  const Node& product_;
  FoundAttention found_;
  std::unordered_set<const Node*> taken_;
  std::unordered_set<const Node*> products_;  // the products that give the result and the gradients
  Dims scores_sizes_;                         // the sizes that the softmax has
  Value* dropped_ = nullptr;                  // the operand that the values are multiplied by
  Value* weights_ = nullptr;                  // before dropout
  Value* kept_ = nullptr;                     // the mask of the weights that are kept
  Value* weights_gradient_ = nullptr;         // the gradient of weights_
  const Value* query_operand_ = nullptr;      // an operand of the product of scores
  const Value* key_operand_ = nullptr;
  bool gradient_nodes_ = false;
};

}  // namespace

std::vector<FoundAttention> FindAttention(const ir::Graph& graph, const Readers& readers) {
  std::vector<FoundAttention> all;
  for (const Node* node : graph.nodes()) {
    if (auto found = Match(readers, *node).Run()) all.push_back(*std::move(found));
  }
  return all;
}

}  // namespace hpu::compiler
