#include "compiler_server/passes/rematerialize.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "compiler_server/ir/rewrite.h"

namespace hpu::compiler {
namespace {

using ir::Builder;
using ir::Node;
using ir::OpClass;
using ir::OpKind;
using ir::Value;
using ir::ValueKind;

constexpr int64_t kShares = 64;     // a finer measure than the parts, whose ends are not known here
constexpr int kMostOps = 8;         // that cost less than storing and loading their result
constexpr int64_t kSmallPart = 16;  // a value that is so small a part of another does not count
constexpr int64_t kLeastBytes = 1 << 16;

bool IsSource(const Node& node) { return ir::Traits(node.op).op_class == OpClass::kSource; }

bool IsCheap(const Node& node) { return ir::Has(node.op, ir::OpFlag::kCheap); }

// The value whose memory a view shows.
Value* Root(Value* value) {
  while (value->kind == ValueKind::kResult && ir::IsView(*value->producer)) {
    value = value->producer->operands[0];
  }
  return value;
}

class Rematerializer {
 public:
  explicit Rematerializer(ir::Graph& graph) : graph_(graph) {}

  absl::Status Run() {
    Measure();
    Choose();
    if (chosen_.empty()) return absl::OkStatus();
    RETURN_IF_ERROR(Rewrite());
    DropUnused();
    return absl::OkStatus();
  }

 private:
  // The cost of having a value at some place.
  struct Price {
    int64_t bytes = 0;  // bytes that must live longer for it
    int ops = 0;        // ops that are calculated again
  };
  // A value that is calculated again in front of a node, for it and for the readers after it.
  struct Copy {
    Value* value = nullptr;
    std::vector<const Node*> readers;
  };

  void Measure() {
    const std::vector<Node*>& nodes = graph_.nodes();
    made_.assign(graph_.value_count(), 0);
    last_use_.assign(graph_.value_count(), std::nullopt);
    stored_.assign(graph_.value_count(), false);
    readers_.resize(graph_.value_count());
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (const Value* result : nodes[i]->results) made_[result->id] = i;
      if (ir::IsView(*nodes[i])) continue;
      for (Value* operand : nodes[i]->operands) {
        if (operand == nullptr) continue;
        const Value* root = Root(operand);
        last_use_[root->id] = i;
        std::vector<size_t>& readers = readers_[root->id];
        if (readers.empty() || readers.back() != i) readers.push_back(i);
      }
    }
    std::vector<int64_t> turnover(nodes.size());
    for (const ir::Storage& storage : graph_.storages()) {
      const Value* root = Root(storage.value);
      stored_[root->id] = true;
      if (root->kind == ValueKind::kResult) turnover[made_[root->id]] += storage.type.bytes();
    }
    for (const ir::Mutation& mutation : graph_.mutations())
      stored_[Root(mutation.value)->id] = true;
    for (const ir::Input& input : graph_.inputs()) {
      if (!input.donated || !last_use_[input.value->id].has_value()) continue;
      turnover[*last_use_[input.value->id]] += input.value->type.bytes();
    }
    before_.assign(nodes.size() + 1, 0);
    std::partial_sum(turnover.begin(), turnover.end(), before_.begin() + 1);
  }

  bool AreFar(size_t from, size_t to) const {
    return before_[to] - before_[from + 1] > before_.back() / kShares;
  }

  // The number of bytes that live longer if the value itself is read at `place`.
  int64_t BytesToKeep(const Value& value, size_t place) const {
    if (value.kind == ValueKind::kConstant) return 0;
    if (value.kind == ValueKind::kInput && !graph_.inputs()[value.index].donated) return 0;
    const auto& last = last_use_[value.id];
    return stored_[value.id] || (last.has_value() && *last >= place) ? 0 : value.type.bytes();
  }

  // The operands when the graph was measured: a reader may have received others since.
  const std::vector<Value*>& OperandsOf(const Node& node) const {
    const auto before = operands_before_.find(&node);
    return before == operands_before_.end() ? node.operands : before->second;
  }

  // The price of calculating the result again; nullopt if that takes too many ops.
  std::optional<Price> PriceOf(const Node& node, size_t place, int most_ops,
                               int64_t whole_bytes) const {
    if (most_ops == 0 || !IsCheap(node)) return std::nullopt;
    Price price{0, 1};
    for (Value* operand : OperandsOf(node)) {
      if (operand == nullptr) continue;
      const Value& root = *Root(operand);
      const auto again = IfMadeAgain(root, place, most_ops - price.ops, whole_bytes);
      price.bytes += again.has_value() ? again->bytes : BytesToKeep(root, place);
      price.ops += again.has_value() ? again->ops : 0;
    }
    return price;
  }

  // Returns nullopt if it is better to keep an operand.
  std::optional<Price> IfMadeAgain(const Value& root, size_t place, int most_ops,
                                   int64_t whole_bytes) const {
    if (root.kind != ValueKind::kResult || stored_[root.id] || IsSource(*root.producer)) {
      return std::nullopt;
    }
    if (root.type.bytes() * kSmallPart <= whole_bytes) return std::nullopt;
    const auto price = PriceOf(*root.producer, place, most_ops, whole_bytes);
    if (!price.has_value() || price->bytes > BytesToKeep(root, place)) return std::nullopt;
    return price;
  }

  // Records that the operands of the result live until `place`, where it is calculated again.
  void KeepOperands(const Node& node, size_t place, int most_ops, int64_t whole_bytes) {
    int ops = 1;
    for (Value* operand : OperandsOf(node)) {
      if (operand == nullptr) continue;
      const Value& root = *Root(operand);
      if (const auto again = IfMadeAgain(root, place, most_ops - ops, whole_bytes)) {
        KeepOperands(*root.producer, place, most_ops - ops, whole_bytes);
        ops += again->ops;
      } else if (auto& last = last_use_[root.id]; last.has_value()) {
        last = std::max(*last, place);
      }
    }
  }

  void Choose() {
    const std::vector<Node*>& nodes = graph_.nodes();
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (!IsCheap(*nodes[i])) continue;
      Value* value = nodes[i]->result();
      const int64_t bytes = value->type.bytes();
      if (stored_[value->id] || bytes < kLeastBytes) continue;
      size_t place = i;
      Copy* copy = nullptr;
      last_use_[value->id] = i;
      for (const size_t reader : readers_[value->id]) {
        if (AreFar(place, reader)) {
          place = reader;
          copy = nullptr;
          const auto price = PriceOf(*nodes[i], place, kMostOps, bytes);
          if (price.has_value() && price->bytes <= bytes * 3 / 4 &&
              nodes[reader]->op != OpKind::kAten) {
            KeepOperands(*nodes[i], place, kMostOps, bytes);
            copy = &chosen_[place].emplace_back(Copy{value, {}});
          }
        }
        if (copy != nullptr) copy->readers.push_back(nodes[reader]);
        if (copy == nullptr) last_use_[value->id] = reader;
      }
    }
  }

  absl::Status Rewrite() {
    ir::Rewriter rewriter(graph_);
    // By reader: the values that it reads, and what replaces them.
    std::unordered_map<const Node*, std::vector<std::pair<Value*, Value*>>> instead;
    size_t place = 0;
    return rewriter.Run([&](Node& node) -> absl::StatusOr<ir::Visit> {
      if (const auto chosen = chosen_.find(place); chosen != chosen_.end()) {
        for (const Copy& copy : chosen->second) {
          Value* again = MakeAgain(*copy.value->producer, place, kMostOps, copy.value->type.bytes(),
                                   rewriter.builder());
          for (const Node* reader : copy.readers) instead[reader].emplace_back(copy.value, again);
        }
      }
      if (const auto values = instead.find(&node); values != instead.end()) {
        operands_before_.emplace(&node, node.operands);
        for (Value*& operand : node.operands) {
          if (operand == nullptr) continue;
          for (const auto& [value, again] : values->second) {
            if (Root(operand) == value) operand = SeenAs(operand, value, again, rewriter.builder());
          }
        }
      }
      ++place;
      return ir::Visit::kKeep;
    });
  }

  // Applies to `other` the view by which `value` shows `root`.
  static Value* SeenAs(Value* value, const Value* root, Value* other, Builder& b) {
    if (value == root) return other;
    const Node& view = *value->producer;
    Value* from = SeenAs(view.operands[0], root, other, b);
    return b.Emit(view.op, {from}, view.attrs, &value->type);
  }

  Value* MakeAgain(const Node& node, size_t place, int most_ops, int64_t whole_bytes,
                   Builder& b) const {
    std::vector<Value*> operands = OperandsOf(node);
    int ops = 1;
    for (Value*& operand : operands) {
      if (operand == nullptr) continue;
      Value* root = Root(operand);
      const auto again = IfMadeAgain(*root, place, most_ops - ops, whole_bytes);
      if (!again.has_value()) continue;
      Value* made = MakeAgain(*root->producer, place, most_ops - ops, whole_bytes, b);
      ops += again->ops;
      operand = SeenAs(operand, root, made, b);
    }
    return b.Emit(node.op, std::move(operands), node.attrs, &node.type());
  }

  // Drops values that only distant readers had used.
  void DropUnused() {
    std::vector<uint32_t> uses = graph_.CountUses();
    std::vector<Node*> order;
    for (auto node = graph_.nodes().rbegin(); node != graph_.nodes().rend(); ++node) {
      const bool may_go = IsCheap(**node) || ir::IsView(**node);
      if (may_go && uses[(*node)->result()->id] == 0) {
        for (const Value* operand : (*node)->operands) {
          if (operand != nullptr) --uses[operand->id];
        }
        continue;
      }
      order.push_back(*node);
    }
    std::reverse(order.begin(), order.end());
    graph_.SetOrder(std::move(order));
  }

  ir::Graph& graph_;
  std::vector<size_t> made_;                     // by value id: position of the node
  std::vector<std::optional<size_t>> last_use_;  // by root's id
  std::vector<bool> stored_;                     // by root's id
  std::vector<std::vector<size_t>> readers_;     // by root's id: positions, views left out
  std::vector<int64_t> before_;  // bytes of the graph whose life begins or ends before a node
  std::unordered_map<const Node*, std::vector<Value*>> operands_before_;
  std::map<size_t, std::vector<Copy>> chosen_;  // by position
};

}  // namespace

absl::Status Rematerialize(ir::Graph& graph, const PassContext&) {
  const bool donated = std::any_of(graph.inputs().begin(), graph.inputs().end(),
                                   [](const ir::Input& input) { return input.donated; });
  return donated ? Rematerializer(graph).Run() : absl::OkStatus();
}

}  // namespace hpu::compiler
