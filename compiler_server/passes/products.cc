#include "compiler_server/passes/products.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <vector>

#include "compiler_server/ir/rewrite.h"

namespace hpu::compiler {
namespace {

using ir::AttrKey;
using ir::Builder;
using ir::Dims;
using ir::Node;
using ir::OpKind;
using ir::Value;

bool IsMatrixProduct(const Value* value) {
  const Node* node = value->producer;
  return node != nullptr && node->op == OpKind::kMatmul && value->type.rank() == 2 &&
         node->operands[0]->type.rank() == 2 && node->operands[1]->type.rank() == 2;
}

// The node under reshapes.
const Node* Unshaped(const Value* value) {
  const Node* node = value->producer;
  while (node != nullptr && node->op == OpKind::kReshape) node = node->operands[0]->producer;
  return node;
}

// Returns the sum over the rows of a matrix, in any shape.
const Node* ColumnSum(const Value* value) {
  const Node* node = Unshaped(value);
  if (node == nullptr || node->op != OpKind::kReduceSum) return nullptr;
  const bool of_rows = node->operands[0]->type.rank() == 2 && node->Ints(AttrKey::kDims) == Dims{0};
  return of_rows ? node : nullptr;
}

int64_t Depth(const Node& product) {
  return product.operands[0]->type.sizes[product.Bool(AttrKey::kTransposeA) ? 0 : 1];
}

// Counts uses by value id, without those by nodes whose own results are unused.
std::vector<uint32_t> CountLiveUses(const ir::Graph& graph) {
  std::vector<uint32_t> uses = graph.CountUses();
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
    const bool dead = std::all_of((*node)->results.begin(), (*node)->results.end(),
                                  [&](const Value* result) { return uses[result->id] == 0; });
    if (!dead) continue;
    for (const Value* operand : (*node)->operands) {
      if (operand != nullptr) --uses[operand->id];
    }
  }
  return uses;
}

class Joiner {
 public:
  explicit Joiner(ir::Graph& graph) : rewriter_(graph), uses_(CountLiveUses(graph)) {
    for (const Node* node : graph.nodes()) {
      if (node->op != OpKind::kAdd) continue;
      for (const Value* operand : node->operands) {
        if (IsInnerSum(operand, *node)) inner_.push_back(operand->producer);
      }
    }
    std::sort(inner_.begin(), inner_.end());
  }

  absl::Status Run() {
    return rewriter_.Run([&](Node& node) -> absl::StatusOr<ir::Visit> {
      Value* joined = nullptr;
      if (node.op == OpKind::kAdd && !std::binary_search(inner_.begin(), inner_.end(), &node)) {
        joined = JoinSum(node);
      } else if (node.op == OpKind::kConcat) {
        joined = JoinRows(node);
      }
      if (joined == nullptr) return ir::Visit::kKeep;
      rewriter_.Replace(node.result(), joined);
      return ir::Visit::kDrop;
    });
  }

 private:
  // Values that this walk made are never joined.
  bool UsedOnce(const Value* value) const {
    return value->id < uses_.size() && uses_[value->id] == 1;
  }
  bool IsInnerSum(const Value* operand, const Node& sum) const {
    const Node* node = operand->producer;
    return node != nullptr && node->op == OpKind::kAdd && UsedOnce(operand) &&
           operand->type.dtype == sum.type().dtype && operand->type.sizes == sum.type().sizes;
  }

  void Flatten(const Node& sum, std::vector<Value*>* terms) const {
    std::vector<Value*> pending(sum.operands.rbegin(), sum.operands.rend());
    while (!pending.empty()) {
      Value* term = pending.back();
      pending.pop_back();
      if (IsInnerSum(term, sum)) {
        const std::vector<Value*>& parts = term->producer->operands;
        pending.insert(pending.end(), parts.rbegin(), parts.rend());
      } else {
        terms->push_back(term);
      }
    }
  }

  // Terms of the same kind can be computed by one node.
  struct Kind {
    // the type of the calculation: that of the sum, or one that is widened to it.
    DType dtype = DType::kInvalid;
    bool is_product = false;
    std::array<bool, 2> transposed = {};
    auto operator<=>(const Kind&) const = default;
  };
  // Replaces `term` by the value that a node of the kind computes. Sums of products of bf16 in f32
  // (autocast) are rounded to bf16 only once, when all of them are joined.
  bool KindOf(const Value** term, const Node& sum, Kind* kind) const {
    if (!UsedOnce(*term) || (*term)->type.sizes != sum.type().sizes) return false;
    const Node* cast = (*term)->producer;
    if (cast != nullptr && cast->op == OpKind::kCast) {
      // A sum of f16 could be infinite where the sum of its casts is not.
      if (cast->operands[0]->type.dtype != DType::kBF16 || cast->type().dtype != DType::kF32) {
        return false;
      }
      *term = cast->operands[0];
      if (!UsedOnce(*term)) return false;
    }
    *kind = {.dtype = (*term)->type.dtype};
    if (IsMatrixProduct(*term)) {
      const Node& product = *(*term)->producer;
      const Dims& sizes = product.type().sizes;
      kind->is_product = true;
      kind->transposed = {product.Bool(AttrKey::kTransposeA), product.Bool(AttrKey::kTransposeB)};
      return sizes[0] * sizes[1] > Depth(product) * (sizes[0] + sizes[1]);
    }
    return ColumnSum(*term) != nullptr;
  }

  Value* JoinSum(const Node& sum) {
    std::vector<Value*> terms;
    Flatten(sum, &terms);
    std::map<Kind, std::vector<const Value*>> kinds;
    std::vector<Value*> rest;
    for (Value* term : terms) {
      Kind kind;
      const Value* source = term;
      if (KindOf(&source, sum, &kind)) {
        kinds[kind].push_back(source);
      } else {
        rest.push_back(term);
      }
    }
    // Scatters come after the terms that they may start from.
    const auto scatters = std::stable_partition(rest.begin(), rest.end(), [&](const Value* term) {
      return !IsScatterIntoZeros(term, sum);
    });
    const bool joins = std::any_of(kinds.begin(), kinds.end(),
                                   [](const auto& entry) { return entry.second.size() > 1; });
    const int64_t whole = std::count_if(terms.begin(), terms.end(), [&](const Value* term) {
      return term->type.sizes == sum.type().sizes;
    });
    if (!joins && (scatters == rest.end() || whole < 2)) return nullptr;
    Value* result = nullptr;
    const auto add = [&](Value* term) {
      result = result == nullptr ? term : rewriter_.builder().Binary(OpKind::kAdd, result, term);
    };
    for (const auto& [kind, members] : kinds) {
      Value* joined = kind.is_product ? JoinedProduct(kind, members) : JoinedColumnSum(members);
      joined = rewriter_.builder().Reshape(joined, sum.type().sizes);
      add(rewriter_.builder().Cast(joined, sum.type().dtype));
    }
    for (Value* term : std::span(rest.begin(), scatters)) add(term);
    for (Value* term : std::span(scatters, rest.end())) {
      // A scatter cannot start from a value that would be broadcast.
      if (result != nullptr && result->type.sizes == sum.type().sizes) {
        result = ScatterOnto(result, *term->producer);
      } else {
        add(term);
      }
    }
    return result;
  }

  bool IsScatterIntoZeros(const Value* term, const Node& sum) const {
    const Node* node = term->producer;
    if (node == nullptr || node->op != OpKind::kScatterAdd || !UsedOnce(term)) return false;
    const Node* start = node->operands[0]->producer;
    while (start != nullptr && start->op == OpKind::kExpand) start = start->operands[0]->producer;
    return start != nullptr && start->op == OpKind::kFull && start->Float(AttrKey::kValue) == 0 &&
           term->type.sizes == sum.type().sizes;
  }

  Value* ScatterOnto(Value* start, const Node& scatter) {
    std::vector<Value*> operands = scatter.operands;
    operands[0] = start;
    return rewriter_.builder().Emit(OpKind::kScatterAdd, std::move(operands), scatter.attrs);
  }

  Value* JoinedProduct(const Kind& kind, const std::vector<const Value*>& products) {
    std::array<std::vector<Value*>, 2> factors;
    for (const Value* product : products) {
      for (size_t i = 0; i < 2; ++i) factors[i].push_back(product->producer->operands[i]);
    }
    Value* a = Concat(std::move(factors[0]), kind.transposed[0] ? 0 : 1);
    Value* b = Concat(std::move(factors[1]), kind.transposed[1] ? 1 : 0);
    return rewriter_.builder().Matmul(a, b, kind.transposed[0], kind.transposed[1]);
  }

  Value* JoinedColumnSum(const std::vector<const Value*>& sums) {
    std::vector<Value*> matrices;
    for (const Value* sum : sums) matrices.push_back(ColumnSum(sum)->operands[0]);
    return rewriter_.builder().Reduce(OpKind::kReduceSum, Concat(std::move(matrices), 0), {0},
                                      true);
  }

  // Operands of a joined node are often, in turn, rows of one matrix (as in JoinRows). They are
  // joined anyway; the graph compiler avoids the copies among them.
  Value* Concat(std::vector<Value*> values, int64_t dim) {
    return values.size() == 1 ? values[0] : rewriter_.builder().Concat(std::move(values), dim);
  }

  // Joins matrices [m, n], or [1, m, n], along their first dimension.
  Value* JoinRows(const Node& concat) {
    if (concat.operands.size() < 2 || concat.Int(AttrKey::kDim) != 0) return nullptr;
    std::vector<Value*> rows;
    const Value* matrix = nullptr;
    bool transposed = false;
    for (const Value* operand : concat.operands) {
      if (operand->type.rank() > 2 && operand->type.sizes[0] != 1) return nullptr;
      const Node* product = Unshaped(operand);
      if (product == nullptr || !IsMatrixProduct(product->result())) return nullptr;
      if (!UsedOnce(operand) || product->Bool(AttrKey::kTransposeA)) return nullptr;
      if (!UsedOnce(product->result()) ||
          product->type().sizes.back() != operand->type.sizes.back()) {
        return nullptr;
      }
      const bool own = product->Bool(AttrKey::kTransposeB);
      if (matrix != nullptr && (matrix != product->operands[1] || transposed != own)) {
        return nullptr;
      }
      matrix = product->operands[1];
      transposed = own;
      rows.push_back(product->operands[0]);
    }
    Builder& b = rewriter_.builder();
    Value* product =
        b.Matmul(Concat(std::move(rows), 0), const_cast<Value*>(matrix), false, transposed);
    return b.Reshape(product, concat.type().sizes);
  }

  ir::Rewriter rewriter_;
  const std::vector<uint32_t> uses_;  // by value id, before the walk
  std::vector<const Node*> inner_;    // sums that are terms of another, sorted
};

}  // namespace

absl::Status JoinProducts(ir::Graph& graph, const PassContext&) { return Joiner(graph).Run(); }

}  // namespace hpu::compiler
