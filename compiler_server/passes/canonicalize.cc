#include "compiler_server/passes/canonicalize.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "compiler_server/ir/rewrite.h"

namespace hpu::compiler {
namespace {

// What makes two nodes equal, as text for a hash map: op, operands, attributes, result types.
// Exact: numbers enter by their bits.
class Signature {
 public:
  explicit Signature(const ir::Node& node) {
    Add(static_cast<int64_t>(node.op));
    for (const ir::Value* operand : node.operands) Add(operand == nullptr ? -1 : operand->id);
    for (const auto& [key, attr] : node.attrs.items()) {
      Add(static_cast<int64_t>(key));
      std::visit([this](const auto& value) { Add(value); }, attr);
    }
    for (const ir::Value* result : node.results) {
      Add(static_cast<int64_t>(result->type.dtype));
      Add(result->type.sizes);
    }
  }
  std::string Take() { return std::move(text_); }

 private:
  void Add(int64_t value) { text_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void Add(uint32_t value) { Add(static_cast<int64_t>(value)); }
  void Add(bool value) { Add(static_cast<int64_t>(value)); }
  void Add(double value) { Add(std::bit_cast<int64_t>(value)); }
  void Add(const std::string& value) {
    Add(static_cast<int64_t>(value.size()));
    text_ += value;
  }
  void Add(const ir::Dims& value) {
    Add(static_cast<int64_t>(value.size()));
    for (int64_t item : value) Add(item);
  }

  std::string text_;
};

// Calls that change something besides their results: random state, checks.
bool HasEffects(const ir::Node& node) {
  if (node.op != ir::OpKind::kAten) return false;
  if (node.results.empty()) return true;
  constexpr std::string_view kRandom[] = {"rand",    "bernoulli",   "dropout", "exponential",
                                          "normal",  "multinomial", "poisson", "uniform",
                                          "_assert", "geometric",   "cauchy"};
  const std::string_view target = node.aten->target;
  if (target.substr(0, 5) != "aten.") return true;
  return std::any_of(std::begin(kRandom), std::end(kRandom), [&](std::string_view word) {
    return target.find(word) != std::string_view::npos;
  });
}

absl::Status MergeDuplicates(ir::Graph& graph) {
  std::unordered_map<std::string, ir::Node*> seen;
  seen.reserve(graph.nodes().size());
  ir::Rewriter rewriter(graph);
  return rewriter.Run([&](ir::Node& node) -> absl::StatusOr<ir::Visit> {
    if (node.op == ir::OpKind::kAten) return ir::Visit::kKeep;
    const auto [first, is_new] = seen.try_emplace(Signature(node).Take(), &node);
    if (is_new) return ir::Visit::kKeep;
    for (size_t i = 0; i < node.results.size(); ++i) {
      rewriter.Replace(node.results[i], first->second->results[i]);
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
