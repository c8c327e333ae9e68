#include "compiler_server/passes/merge_products.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "compiler_server/ir/rewrite.h"

namespace hpu::compiler {
namespace {

using ir::AttrKey;
using ir::Builder;
using ir::Node;
using ir::OpKind;
using ir::Rewriter;
using ir::Value;

bool HasFewRows(const Node& node) {
  return node.op == OpKind::kMatmul && node.operands[0]->type.rank() == 2 &&
         node.operands[1]->type.rank() == 2 && !node.Bool(AttrKey::kTransposeA) &&
         node.operands[0]->type.sizes[0] <= kFewRows && node.operands[0]->type.elements() > 0;
}

// The value under a cast, or under a chain of views and casts.
Value* SourceOf(Value* value) {
  while (value->producer != nullptr &&
         (value->producer->op == OpKind::kCast || value->producer->op == OpKind::kReshape ||
          value->producer->op == OpKind::kSlice)) {
    value = value->producer->operands[0];
  }
  return value;
}

// Products by one matrix, in the order of the graph.
using Group = std::vector<const Node*>;

// Returns the groups of two or more, by their first product.
std::map<const Node*, Group> FindGroups(const ir::Graph& graph) {
  std::vector<size_t> made(graph.value_count());  // 0: exists before all nodes
  std::map<std::tuple<const Value*, bool>, std::pair<size_t, Group>> by_matrix;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = *graph.nodes()[i];
    for (const Value* result : node.results) made[result->id] = i + 1;
    if (!HasFewRows(node)) continue;
    auto& [first, group] = by_matrix[{node.operands[1], node.Bool(AttrKey::kTransposeB)}];
    if (group.empty()) first = i + 1;
    if (made[SourceOf(node.operands[0])->id] < first) group.push_back(&node);
  }
  std::map<const Node*, Group> groups;
  for (auto& [matrix, entry] : by_matrix) {
    Group& group = entry.second;
    if (group.size() > 1) groups.emplace(group[0], std::move(group));
  }
  return groups;
}

class Merger {
 public:
  explicit Merger(ir::Graph& graph) : groups_(FindGroups(graph)), rewriter_(graph) {}

  absl::Status Run() {
    return rewriter_.Run([&](Node& node) -> absl::StatusOr<ir::Visit> {
      const auto group = groups_.find(&node);
      if (group != groups_.end()) Merge(group->second);
      const auto part = parts_.find(&node);
      if (part == parts_.end()) return ir::Visit::kKeep;
      rewriter_.Replace(node.result(), part->second);
      return ir::Visit::kDrop;
    });
  }

 private:
  void Merge(const Group& group) {
    Builder& b = rewriter_.builder();
    std::vector<Value*> rows;
    for (const Node* product : group) rows.push_back(Here(product->operands[0]));
    Value* merged = b.Matmul(Joined(std::move(rows)), Rewriter::Resolve(group[0]->operands[1]),
                             false, group[0]->Bool(AttrKey::kTransposeB));
    int64_t begin = 0;
    for (const Node* product : group) {
      const int64_t end = begin + product->type().sizes[0];
      parts_[product] = b.Slice(merged, 0, begin, end);
      begin = end;
    }
  }

  // Returns the value, or an equal one here if a later node makes it.
  Value* Here(Value* value) {
    const Value* source = SourceOf(value);
    if (value == source) return Rewriter::Resolve(value);
    const Node& node = *value->producer;
    Builder& b = rewriter_.builder();
    Value* operand = Here(node.operands[0]);
    if (node.op == OpKind::kCast) return b.Cast(operand, value->type.dtype);
    if (node.op == OpKind::kReshape) return b.Reshape(operand, value->type.sizes);
    return b.Emit(node.op, {operand}, node.attrs);
  }

  Value* Joined(std::vector<Value*> rows) {
    Builder& b = rewriter_.builder();
    const DType dtype = rows[0]->type.dtype;
    // The casts of all joined values become one.
    const auto is_cast = [&](const Value* value) {
      const Node* node = value->producer;
      return node != nullptr && node->op == OpKind::kCast &&
             node->operands[0]->type.dtype == rows[0]->producer->operands[0]->type.dtype;
    };
    if (is_cast(rows[0]) && std::all_of(rows.begin(), rows.end(), is_cast)) {
      for (Value*& value : rows) value = value->producer->operands[0];
    }
    Value* whole = WholeOf(rows);
    if (whole == nullptr) return b.Cast(b.Concat(std::move(rows), 0), dtype);
    const int64_t columns = rows[0]->type.sizes[1];
    return b.Cast(b.Reshape(whole, {whole->type.elements() / columns, columns}), dtype);
  }

  // The value of which the rows, in order, are all slices along the first dimension.
  static Value* WholeOf(const std::vector<Value*>& rows) {
    Value* whole = nullptr;
    int64_t next = 0;
    for (const Value* value : rows) {
      const Node* node = value->producer;
      while (node != nullptr && node->op == OpKind::kReshape) node = node->operands[0]->producer;
      if (node == nullptr || node->op != OpKind::kSlice) return nullptr;
      Value* from = node->operands[0];
      if (whole == nullptr) whole = from;
      const ir::Dims& starts = node->Ints(AttrKey::kStarts);
      const ir::Dims& steps = node->Ints(AttrKey::kSteps);
      if (from != whole || starts[0] != next || steps[0] != 1) return nullptr;
      for (size_t d = 1; d < starts.size(); ++d) {
        if (node->type().sizes[d] != from->type.sizes[d]) return nullptr;
      }
      if (whole->type.sizes.back() != value->type.sizes[1]) return nullptr;
      next += node->type().sizes[0];
    }
    return next == whole->type.sizes[0] ? whole : nullptr;
  }

  const std::map<const Node*, Group> groups_;
  // slices of a merged product, by the node that they replace.
  std::map<const Node*, Value*> parts_;
  Rewriter rewriter_;
};

}  // namespace

absl::Status MergeProducts(ir::Graph& graph, const PassContext&) { return Merger(graph).Run(); }

}  // namespace hpu::compiler
