#include "compiler_server/passes/attention/attention_heads.h"

#include <algorithm>
#include <optional>

#include "compiler_server/ir/rewrite.h"
#include "compiler_server/passes/attention/readers.h"

namespace hpu::compiler {
namespace {

using ir::AttrKey;
using ir::Builder;
using ir::Dims;
using ir::Node;
using ir::OpKind;
using ir::Value;

// Returns the [B, H / n, S, D] from which [B, H, S, D] was made by repeating every head n times.
Value* BeforeHeadRepeat(Value* value) {
  const Node* merge = MadeBy(value, OpKind::kReshape);
  const Node* expand = merge == nullptr ? nullptr : MadeBy(merge->operands[0], OpKind::kExpand);
  const Node* split = expand == nullptr ? nullptr : MadeBy(expand->operands[0], OpKind::kReshape);
  if (split == nullptr) return value;
  const Dims& heads = split->operands[0]->type.sizes;
  const Dims& apart = expand->operands[0]->type.sizes;
  const Dims& repeated = expand->type().sizes;
  if (heads.size() != 4 || apart.size() != 5 || repeated.size() != 5) return value;
  const Dims expected = {heads[0], heads[1], 1, heads[2], heads[3]};
  const Dims copies = {heads[0], heads[1], repeated[2], heads[2], heads[3]};
  const Dims merged = {heads[0], heads[1] * repeated[2], heads[2], heads[3]};
  const bool fits = apart == expected && repeated == copies && value->type.sizes == merged;
  return fits ? split->operands[0] : value;
}

// The positions of operands in a node of attention: query, key and value start at `query`.
struct Place {
  size_t query, mask;
  bool is_gradient = false;
};
std::optional<Place> PlaceOf(OpKind op) {
  switch (op) {
    case OpKind::kSdpa:
    case OpKind::kSdpaLogsumexp:
    case OpKind::kSdpaTrain:
      return Place{0, 3};
    case OpKind::kSdpaBackward:
      return Place{1, 6, true};
    case OpKind::kSdpaTrainBackward:
      return Place{1, 7, true};
    default:
      return std::nullopt;
  }
}

// Returns the sum over copies if it is the only use of the gradient of repeated heads, else
// nullptr. `heads` are the sizes before the repetition.
Value* SumOverCopies(const Readers& readers, Value* gradient, const Dims& heads) {
  const int64_t copies = gradient->type.sizes[1] / heads[1];
  const Dims apart = {heads[0], heads[1], copies, heads[2], heads[3]};
  Dims perm = {0, 1, 2, 3};
  for (Node* next = readers.Only(gradient); next != nullptr; next = readers.Only(next->result())) {
    const bool in_place = std::is_sorted(perm.begin(), perm.end());
    if (next->op == OpKind::kPermute && perm.size() == next->Ints(AttrKey::kPerm).size()) {
      Dims both;
      for (const int64_t dim : next->Ints(AttrKey::kPerm)) both.push_back(perm[dim]);
      perm = both;
    } else if (next->op == OpKind::kReshape && in_place) {
      continue;
    } else {
      const bool sums = next->op == OpKind::kReduceSum && in_place &&
                        next->operands[0]->type.sizes == apart &&
                        next->Ints(AttrKey::kDims) == Dims{2};
      return sums ? next->result() : nullptr;
    }
  }
  return nullptr;
}

}  // namespace

absl::Status ReadRepeatedHeads(ir::Graph& graph) {
  const auto is_attention = [](const Node* node) { return PlaceOf(node->op).has_value(); };
  if (std::ranges::none_of(graph.nodes(), is_attention)) return absl::OkStatus();
  const Readers readers(graph);
  ir::Rewriter rewriter(graph);
  Builder& b = rewriter.builder();
  return rewriter.Run([&](Node& node) -> absl::StatusOr<ir::Visit> {
    const auto place = PlaceOf(node.op);
    if (!place.has_value()) return ir::Visit::kKeep;
    std::vector<Value*> operands = node.operands;
    std::vector<Value*> replaced = node.results;
    Value* key = BeforeHeadRepeat(operands[place->query + 1]);
    Value* value = BeforeHeadRepeat(operands[place->query + 2]);
    bool groups = key != operands[place->query + 1] && value != operands[place->query + 2];
    if (groups && place->is_gradient) {
      for (const auto& [i, heads] : {std::pair{1, key}, {2, value}}) {
        if (readers.Of(node.results[i]).empty() && !readers.LeavesGraph(node.results[i])) {
          replaced[i] = nullptr;
          continue;
        }
        replaced[i] = SumOverCopies(readers, node.results[i], heads->type.sizes);
        groups = groups && replaced[i] != nullptr;
      }
      if (!groups) replaced = node.results;
    }
    if (groups) {
      operands[place->query + 1] = key;
      operands[place->query + 2] = value;
    }
    if (operands.size() > place->mask && operands[place->mask] != nullptr) {
      if (const Node* expand = MadeBy(operands[place->mask], OpKind::kExpand)) {
        operands[place->mask] = expand->operands[0];
      }
    }
    if (operands == node.operands) return ir::Visit::kKeep;
    const Node* narrow = b.EmitNode(node.op, std::move(operands), node.attrs);
    RETURN_IF_ERROR(b.status());
    for (size_t i = 0; i < replaced.size(); ++i) {
      if (replaced[i] == nullptr) continue;
      rewriter.Replace(replaced[i], b.Reshape(narrow->results[i], replaced[i]->type.sizes));
    }
    return ir::Visit::kKeep;  // the node and the sums are unused now
  });
}

}  // namespace hpu::compiler
