#include "compiler_server/passes/attention.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "compiler_server/ir/rewrite.h"
#include "compiler_server/passes/attention/attention_heads.h"
#include "compiler_server/passes/attention/attention_match.h"

namespace hpu::compiler {
namespace {

using ir::AttrKey;
using ir::Builder;
using ir::Dims;
using ir::Node;
using ir::OpKind;
using ir::Rewriter;
using ir::Value;

// The operands and attributes of one attention in the new graph.
struct Emitted {
  Value* query = nullptr;
  Value* key = nullptr;
  Value* value = nullptr;
  Value* mask = nullptr;
  ir::Attrs attrs;
  const Node* forward = nullptr;
};

// Combines the masks into one, in the order in which they apply to the scores: a later mask that
// hides a score overrides all earlier ones.
Value* EmitMask(Builder& b, const std::vector<ScoreMask>& masks, DType dtype) {
  Value* all = nullptr;
  for (const ScoreMask& mask : masks) {
    if (mask.value != nullptr) {
      Value* added = b.Cast(Rewriter::Resolve(mask.value), dtype);
      all = all == nullptr ? added : b.Binary(OpKind::kAdd, all, added);
      continue;
    }
    Value* shown = all == nullptr ? b.Scalar(0, dtype) : all;
    Value* hidden = b.Scalar(mask.hidden, dtype);
    all = b.Emit(OpKind::kWhere,
                 {Rewriter::Resolve(mask.condition), mask.hides_if_true ? hidden : shown,
                  mask.hides_if_true ? shown : hidden});
  }
  return all;
}

// Views x as [batch, heads, rows, columns], without intermediate views that cancel.
Value* AsMatrices(Builder& b, Value* x, Dims sizes, bool transposed) {
  x = Rewriter::Resolve(x);
  if (transposed) std::swap(sizes[2], sizes[3]);
  while (x->type.sizes != sizes && x->producer != nullptr && x->producer->op == OpKind::kReshape) {
    x = x->producer->operands[0];
  }
  x = b.Reshape(x, std::move(sizes));
  if (!transposed) return x;
  Dims perm = {0, 1, 3, 2};
  if (const Node* inner = x->producer; inner != nullptr && inner->op == OpKind::kPermute) {
    perm = inner->Ints(AttrKey::kPerm);
    std::swap(perm[2], perm[3]);
    x = inner->operands[0];
  }
  return std::is_sorted(perm.begin(), perm.end()) ? x : b.Permute(x, std::move(perm));
}

bool IsCastFrom(const Value* value, DType dtype) {
  const Node* node = value->producer;
  return node != nullptr && node->op == OpKind::kCast && node->operands[0]->type.dtype == dtype;
}

// Whether all uses of the value, reshaped or transposed, are casts to this type.
bool IsOnlyCastTo(const Readers& readers, const Value* value, DType dtype) {
  if (value == nullptr) return true;
  const std::vector<Node*>& all = readers.Of(value);
  return !readers.LeavesGraph(value) && std::ranges::all_of(all, [&](const Node* reader) {
    if (reader->op == OpKind::kReshape || reader->op == OpKind::kPermute) {
      return IsOnlyCastTo(readers, reader->result(), dtype);
    }
    return reader->op == OpKind::kCast && reader->type().dtype == dtype;
  });
}

// Replaces hidden values of a wider type by those of the narrow one: -inf would turn a query whose
// keys are all hidden into zeros, where PyTorch gives the mean of the values. Returns false if
// scores could be as low.
bool NarrowHidden(DType narrow, std::vector<ScoreMask>* masks) {
  constexpr double kLowestBf16 = -0x1.FEp127;
  for (ScoreMask& mask : *masks) {
    if (mask.value != nullptr || std::isinf(mask.hidden)) continue;
    if (narrow != DType::kBF16) return false;
    mask.hidden = std::max(mask.hidden, kLowestBf16);
  }
  return true;
}

// PyTorch widens bf16 and f16 before it multiplies and narrows the result. The node does so itself,
// so operands and masks are narrowed where nothing else is done with them.
void Narrow(const Readers& readers, const FoundAttention& found, Emitted* emitted,
            std::vector<ScoreMask>* masks) {
  Value** const operands[] = {&emitted->query, &emitted->key, &emitted->value};
  const Node* cast = emitted->query->producer;
  if (cast == nullptr || cast->op != OpKind::kCast) return;
  const DType narrow = cast->operands[0]->type.dtype;
  if (!IsFloat(narrow) || DTypeSize(narrow) >= DTypeSize(cast->type().dtype)) return;
  for (Value** operand : operands) {
    if (!IsCastFrom(*operand, narrow)) return;
  }
  for (const Value* value : {static_cast<const Value*>(found.product->result()),
                             static_cast<const Value*>(found.query_gradient.value),
                             static_cast<const Value*>(found.key_gradient.value),
                             static_cast<const Value*>(found.value_gradient.value)}) {
    if (!IsOnlyCastTo(readers, value, narrow)) return;
  }
  for (const ScoreMask& mask : found.masks) {
    if (mask.value != nullptr && !IsCastFrom(mask.value, narrow)) return;
  }
  std::vector<ScoreMask> narrowed = *masks;
  if (!NarrowHidden(narrow, &narrowed)) return;
  *masks = std::move(narrowed);
  for (Value** operand : operands) *operand = (*operand)->producer->operands[0];
}

// Also adds the generator's state if weights are dropped.
void AddMaskAndDraw(const FoundAttention& found, Value* mask, std::vector<Value*>* operands) {
  if (mask != nullptr || found.draw != nullptr) operands->push_back(mask);
  if (found.draw == nullptr) return;
  for (Value* state : found.draw->operands) operands->push_back(state);
}

Emitted EmitForward(Builder& b, const Readers& readers, const FoundAttention& found) {
  const Dims& scores = found.scores;
  const int64_t heads = scores[0] * scores[1];
  const int64_t size = found.query->type.elements() / (heads * scores[2]);
  const int64_t width = found.value->type.elements() / (heads * scores[3]);
  Emitted emitted;
  emitted.query = AsMatrices(b, found.query, {scores[0], scores[1], scores[2], size}, false);
  emitted.key =
      AsMatrices(b, found.key, {scores[0], scores[1], scores[3], size}, found.key_is_transposed);
  emitted.value = AsMatrices(b, found.value, {scores[0], scores[1], scores[3], width},
                             found.value_is_transposed);
  std::vector<ScoreMask> masks = found.masks;
  Narrow(readers, found, &emitted, &masks);
  emitted.mask = EmitMask(b, masks, emitted.query->type.dtype);
  emitted.attrs = {{AttrKey::kScale, found.scale}, {AttrKey::kCausal, found.causal}};
  std::vector<Value*> operands = {emitted.query, emitted.key, emitted.value};
  if (found.draw == nullptr && found.gradient == nullptr) {
    if (emitted.mask != nullptr) operands.push_back(emitted.mask);
    emitted.forward = b.EmitNode(OpKind::kSdpa, std::move(operands), emitted.attrs);
    return emitted;
  }
  emitted.attrs.Set(AttrKey::kKeep, found.keep);
  emitted.attrs.Set(AttrKey::kBase,
                    found.draw == nullptr ? int64_t{0} : found.draw->Int(AttrKey::kBase));
  AddMaskAndDraw(found, emitted.mask, &operands);
  emitted.forward = b.EmitNode(OpKind::kSdpaTrain, std::move(operands), emitted.attrs);
  return emitted;
}

const Node* EmitGradient(Builder& b, const FoundAttention& found, const Emitted& emitted) {
  const std::vector<Value*>& results = emitted.forward->results;
  Value* gradient = AsMatrices(b, found.result_gradient, results[0]->type.sizes, false);
  std::vector<Value*> operands = {b.Cast(gradient, results[0]->type.dtype),
                                  emitted.query,
                                  emitted.key,
                                  emitted.value,
                                  results[0],
                                  results[1],
                                  results[2]};
  AddMaskAndDraw(found, emitted.mask, &operands);
  return b.EmitNode(OpKind::kSdpaTrainBackward, std::move(operands), emitted.attrs);
}

void ReplaceGradient(Rewriter& rewriter, const FoundGradient& gradient, Value* by) {
  if (gradient.value == nullptr) return;
  Builder& b = rewriter.builder();
  if (gradient.transposed) by = b.Permute(by, {0, 1, 3, 2});
  const ir::TensorType& type = gradient.value->type;
  rewriter.Replace(gradient.value, b.Cast(b.Reshape(by, type.sizes), type.dtype));
}

absl::Status ReplaceSpelledOut(ir::Graph& graph, const PassContext& context) {
  const Readers readers(graph);
  const std::vector<FoundAttention> all = FindAttention(graph, readers);
  if (all.empty()) return absl::OkStatus();
  std::unordered_map<const Node*, size_t> forwards, gradients;
  for (size_t i = 0; i < all.size(); ++i) {
    forwards[all[i].product] = i;
    if (all[i].gradient != nullptr) gradients[all[i].gradient] = i;
  }
  std::vector<Emitted> emitted(all.size());
  Rewriter rewriter(graph);
  Builder& b = rewriter.builder();
  return rewriter.Run([&](Node& node) -> absl::StatusOr<ir::Visit> {
    const size_t mark = b.Mark();
    if (const auto found = forwards.find(&node); found != forwards.end()) {
      Emitted& forward = emitted[found->second];
      forward = EmitForward(b, readers, all[found->second]);
      RETURN_IF_ERROR(b.status());
      if (!context.accept(*forward.forward).ok()) {
        b.Rewind(mark);
        forward.forward = nullptr;
        return ir::Visit::kKeep;
      }
      Value* result = b.Reshape(forward.forward->results[0], node.type().sizes);
      rewriter.Replace(node.result(), b.Cast(result, node.type().dtype));
      return ir::Visit::kDrop;
    }
    const auto found = gradients.find(&node);
    if (found == gradients.end() || emitted[found->second].forward == nullptr) {
      return ir::Visit::kKeep;
    }
    const FoundAttention& attention = all[found->second];
    const Node* gradient = EmitGradient(b, attention, emitted[found->second]);
    RETURN_IF_ERROR(b.status());
    if (!context.accept(*gradient).ok()) {
      b.Rewind(mark);
      return ir::Visit::kKeep;
    }
    ReplaceGradient(rewriter, attention.query_gradient, gradient->results[0]);
    ReplaceGradient(rewriter, attention.key_gradient, gradient->results[1]);
    ReplaceGradient(rewriter, attention.value_gradient, gradient->results[2]);
    return ir::Visit::kKeep;  // the nodes around it are unused now
  });
}

}  // namespace

absl::Status RecogniseAttention(ir::Graph& graph, const PassContext& context) {
  RETURN_IF_ERROR(ReplaceSpelledOut(graph, context));
  return ReadRepeatedHeads(graph);
}

}  // namespace hpu::compiler
