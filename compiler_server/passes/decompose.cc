#include "compiler_server/passes/decompose.h"

#include <algorithm>
#include <unordered_map>

#include "compiler_server/ir/rewrite.h"
#include "compiler_server/passes/decompose/call.h"

namespace hpu::compiler {
namespace {

const std::unordered_map<std::string_view, HandlerRow>& Handlers() {
  static const auto* const handlers = [] {
    auto* map = new std::unordered_map<std::string_view, HandlerRow>;
    for (const auto rows : {PointwiseRows(),
                            ReduceRows(),
                            NormRows(),
                            ContractRows(),
                            AttentionRows(),
                            ConvRows(),
                            ViewRows(),
                            MovementRows(),
                            IndexRows(),
                            SourceRows(),
                            PoolRows(),
                            ResizeRows(),
                            RecurrentRows(),
                            LossRows(),
                            UnfoldRows(),
                            EmbeddingBagRows(),
                            AveragePoolBackwardRows(),
                            IndexBackwardRows(),
                            ConvBackwardRows(),
                            ForeachRows(),
                            NormBackwardRows(),
                            PointwiseBackwardRows(),
                            RandomRows(),
                            DistributionRows(),
                            QuantizeRows(),
                            QuantizedWeightRows(),
                            VolumePoolRows(),
                            PointwiseSpecialRows(),
                            PowerRows(),
                            SelectionRows(),
                            GridSampleRows(),
                            RotaryRows(),
                            Fp8Rows(),
                            ExpertRows(),
                            Int4Rows(),
                            BlockSoftmaxRows(),
                            CustomRows()}) {
      for (const HandlerRow& row : rows) {
        HPU_CHECK(map->emplace(row.target, row).second, "two handlers for one ATen target");
      }
    }
    return map;
  }();
  return *handlers;
}

// Runs the first or the second handler of the target. The result is refused() if there is none.
void Rewrite(Call& call, bool first) {
  if (const auto op = ir::ElementwiseFromAten(call.target())) return RewriteElementwise(call, *op);
  const auto row = Handlers().find(call.target());
  if (row == Handlers().end()) return call.Refuse("no rule for this operator");
  (first ? row->second.handler : row->second.otherwise)(call);
}

bool HasOtherHandler(std::string_view target) {
  const auto row = Handlers().find(target);
  return row != Handlers().end() && row->second.otherwise != nullptr;
}

// Checks that the result has the type that the capture declared, and that recipes can hold it.
absl::Status CheckResult(Call& call, std::span<ir::Node* const> emitted,
                         const PassContext& context) {
  RETURN_IF_ERROR(call.b.status());
  for (size_t i = 0; i < call.result_count(); ++i) {
    const Value* value = i < call.results().size() ? call.results()[i] : nullptr;
    if (value == nullptr) {
      if (call.used(i)) return Unimplemented("result ", i, " is used");
    } else if (value->type.dtype != call.type(i).dtype || value->type.sizes != call.type(i).sizes) {
      return Unimplemented("would give ", ToText(value->type), " instead of ",
                           ToText(call.type(i)));
    }
  }
  for (const ir::Node* node : emitted) RETURN_IF_ERROR(context.accept(*node));
  return absl::OkStatus();
}

}  // namespace

namespace {

bool DrawsRandom(const ir::Node& node) {
  return node.op == OpKind::kAten && node.aten->draws_random;
}

// A draw that no recipe can hold; nullptr if recipes can hold all draws.
const ir::Node* EagerDraw(const ir::Graph& graph) {
  for (const ir::Node* node : graph.nodes()) {
    if (DrawsRandom(*node) && !RecipesDraw(*node)) return node;
  }
  return nullptr;
}

// Weights are written by optimizers alone, after the backward.
void MarkCopiedInput(const ir::Node& node, ir::Graph& graph) {
  if (node.aten->target != "aten.clone.default") return;
  const Value* value = node.operands[0];
  while (value->kind == ir::ValueKind::kResult && ir::IsView(*value->producer)) {
    value = value->producer->operands[0];
  }
  const bool is_input = value->kind == ir::ValueKind::kInput;
  if (is_input && !graph.inputs()[value->index].is_weight) graph.MarkCopied(value->index);
}

}  // namespace

absl::Status Decompose(ir::Graph& graph, const PassContext& context) {
  // The numbers of a call in a recipe are at a fixed offset, and those of an eager step are at the
  // generator's current position. So if one draw runs eagerly, all others must run eagerly too, to
  // keep the order of the graph.
  const ir::Node* eager_draw = EagerDraw(graph);
  const std::vector<uint32_t> uses = graph.CountUses();
  ir::Rewriter rewriter(graph);
  ir::Builder& builder = rewriter.builder();
  return rewriter.Run([&](ir::Node& node) -> absl::StatusOr<ir::Visit> {
    if (node.op != OpKind::kAten) return ir::Visit::kKeep;
    MarkCopiedInput(node, graph);
    const size_t mark = builder.Mark();
    Call call(node, builder, uses);
    const uint64_t draws = graph.draws;
    if (DrawsRandom(node) && eager_draw != nullptr) {
      call.Refuse("numbers are drawn in order, and ", eager_draw->aten->target, " runs eagerly");
    } else {
      Rewrite(call, true);
    }
    absl::Status status = CheckResult(call, builder.Since(mark), context);
    if (!status.ok() && HasOtherHandler(call.target())) {
      builder.Rewind(mark);
      graph.draws = draws;
      Rewrite(call, false);
      status = CheckResult(call, builder.Since(mark), context);
    }
    if (!status.ok()) {
      builder.Rewind(mark);
      graph.draws = draws;
      if (DrawsRandom(node) && draws > 0) return status;  // recipes before it have drawn already
      node.aten->reason = std::string(status.message());
      return ir::Visit::kKeep;
    }
    for (size_t i = 0; i < call.results().size() && i < node.results.size(); ++i) {
      if (call.results()[i] != nullptr) rewriter.Replace(node.results[i], call.results()[i]);
    }
    return ir::Visit::kDrop;
  });
}

std::vector<std::string_view> DecomposedTargets() {
  std::vector<std::string_view> targets;
  for (const auto& [target, handler] : Handlers()) targets.push_back(target);
  std::sort(targets.begin(), targets.end());
  return targets;
}

}  // namespace hpu::compiler
