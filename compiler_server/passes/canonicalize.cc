#include "compiler_server/passes/canonicalize.h"

#include <algorithm>
#include <bit>
#include <unordered_set>

#include "compiler_server/ir/collectives.h"
#include "compiler_server/ir/rewrite.h"

namespace hpu::compiler {
namespace {

// Hashes what makes two nodes equal: op, operands, attributes and result types. Numbers are hashed
// by their bits.
class NodeHash {
 public:
  size_t operator()(const ir::Node* node) const {
    uint64_t hash = static_cast<uint64_t>(node->op);
    for (const ir::Value* operand : node->operands) Mix(hash, operand == nullptr ? 0 : operand->id);
    for (const auto& [key, attr] : node->attrs.items()) {
      Mix(hash, static_cast<uint64_t>(key));
      std::visit([&](const auto& value) { MixValue(hash, value); }, attr);
    }
    for (const ir::Value* result : node->results) MixValue(hash, result->type.sizes);
    return hash;
  }

 private:
  // Fibonacci hashing: the multiplier is 2^64 divided by the golden ratio.
  static void Mix(uint64_t& hash, uint64_t value) {
    hash = (std::rotl(hash, 23) ^ value) * 0x9E3779B97F4A7C15u;
  }
  template <typename T>
  static void MixValue(uint64_t& hash, const T& value) {
    if constexpr (std::is_same_v<T, ir::Dims>) {
      for (const int64_t item : value) Mix(hash, static_cast<uint64_t>(item));
    } else if constexpr (std::is_same_v<T, std::string>) {
      Mix(hash, std::hash<std::string>()(value));
    } else if constexpr (std::is_same_v<T, double>) {
      Mix(hash, std::bit_cast<uint64_t>(value));
    } else {
      Mix(hash, static_cast<uint64_t>(value));
    }
  }
};

class SameNode {
 public:
  bool operator()(const ir::Node* x, const ir::Node* y) const {
    return x->op == y->op && x->operands == y->operands &&
           std::equal(x->attrs.items().begin(), x->attrs.items().end(), y->attrs.items().begin(),
                      y->attrs.items().end(), SameAttr) &&
           std::equal(x->results.begin(), x->results.end(), y->results.begin(), y->results.end(),
                      SameType);
  }

 private:
  // Compares by bits: 0 and -0 differ, and a NaN equals itself.
  static bool SameAttr(const std::pair<ir::AttrKey, ir::Attr>& x,
                       const std::pair<ir::AttrKey, ir::Attr>& y) {
    const auto* number = std::get_if<double>(&x.second);
    const auto* other = std::get_if<double>(&y.second);
    if (x.first != y.first) return false;
    if (number == nullptr || other == nullptr) return x.second == y.second;
    return std::bit_cast<uint64_t>(*number) == std::bit_cast<uint64_t>(*other);
  }
  static bool SameType(const ir::Value* x, const ir::Value* y) {
    return x->type.dtype == y->type.dtype && x->type.sizes == y->type.sizes;
  }
};

// Whether a call does something besides returning results: it advances the generator, other ranks
// take part in it, or it is called for its effect alone (checks). Calls that write to tensors do
// not reach the IR.
bool HasEffects(const ir::Node& node) {
  return node.op == ir::OpKind::kAten &&
         (node.results.empty() || node.aten->draws_random || ir::IsCollective(node));
}

absl::Status MergeDuplicates(ir::Graph& graph) {
  std::unordered_set<ir::Node*, NodeHash, SameNode> seen;
  seen.reserve(graph.nodes().size());
  ir::Rewriter rewriter(graph);
  return rewriter.Run([&](ir::Node& node) -> absl::StatusOr<ir::Visit> {
    if (node.op == ir::OpKind::kAten) return ir::Visit::kKeep;
    const auto [first, is_new] = seen.insert(&node);
    if (is_new) return ir::Visit::kKeep;
    for (size_t i = 0; i < node.results.size(); ++i) {
      rewriter.Replace(node.results[i], (*first)->results[i]);
    }
    return ir::Visit::kDrop;
  });
}

void DropUnused(ir::Graph& graph) {
  std::vector<bool> live(graph.value_count(), false);
  for (const ir::Storage& storage : graph.storages()) live[storage.value->id] = true;
  for (const ir::Mutation& mutation : graph.mutations()) live[mutation.value->id] = true;
  std::vector<ir::Node*> kept;
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
    const auto is_live = [&](const ir::Value* result) { return live[result->id]; };
    const auto& results = (*node)->results;
    if (!HasEffects(**node) && std::none_of(results.begin(), results.end(), is_live)) continue;
    for (const ir::Value* operand : (*node)->operands) {
      if (operand != nullptr) live[operand->id] = true;
    }
    kept.push_back(*node);
  }
  std::reverse(kept.begin(), kept.end());
  graph.SetOrder(std::move(kept));
  graph.DropUnusedConstants();
}

}  // namespace

absl::Status Canonicalize(ir::Graph& graph, const PassContext&) {
  RETURN_IF_ERROR(MergeDuplicates(graph));
  DropUnused(graph);
  return absl::OkStatus();
}

}  // namespace hpu::compiler
