#include "graph_compiler/fusion/rounded_weights.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace hpu::graph_compiler {
namespace {

// Returns the factor of a product that kernels pack into panels, or null for other nodes.
View* WeightOf(Node& node) {
  if (auto* gemm = std::get_if<Gemm>(&node.kind)) return &gemm->b;
  if (auto* conv = std::get_if<Conv>(&node.kind)) return &conv->w;
  return nullptr;
}

// A map that copies f32 to bf16 element by element, in the same order in memory.
struct RoundedCopy {
  ValueId source, copy;
  // The distance in elements from a place in the copy to the same place in the source.
  int64_t shift;
};

std::optional<RoundedCopy> ReadCopy(const FusionState& state, const Node& node) {
  if (!node.IsMap() || node.keep_apart || node.overwrites) return std::nullopt;
  if (node.body.stores.size() != 1) return std::nullopt;
  const std::vector<BodyOp>& ops = node.body.ops;
  const BodyOp* stored = &ops[node.body.stores[0].value];
  const bool rounds =
      stored->op == Opcode::kRoundTo && stored->imm_int == static_cast<int64_t>(MemoryType::kBF16);
  const BodyOp& load = rounds ? ops[stored->args[0]] : *stored;
  const Access& from = load.access;
  const Access& to = node.body.stores[0].access;
  if (load.op != Opcode::kLoad || !from.operand.IsBuffer()) return std::nullopt;
  if (from.type != MemoryType::kF32 || to.type != MemoryType::kBF16) return std::nullopt;
  if (from.indirect_value != kNoValue || to.indirect_value != kNoValue) return std::nullopt;
  for (size_t d = 0; d < node.domain.size(); ++d) {
    if (node.domain[d] > 1 && from.strides[d] != to.strides[d]) return std::nullopt;
  }
  // A value that another kernel makes is rounded where it is made.
  const ValueId source = from.operand.number, copy = to.operand.number;
  if (state.IsTemporary(source) || !state.IsTemporary(copy)) return std::nullopt;
  if (state.writers(copy).size() != 1) return std::nullopt;
  return RoundedCopy{source, copy, from.offset - to.offset};
}

bool ReadsOnlyAsWeight(Node& node, ValueId value) {
  const View* weight = WeightOf(node);
  if (weight == nullptr || weight->value != value || weight->type != MemoryType::kBF16) {
    return false;
  }
  const auto ports = node.Ports();
  const auto reads = std::count_if(ports.begin(), ports.end(),
                                   [&](const auto& port) { return port.view->value == value; });
  return reads == 1 &&
         std::none_of(node.body.ops.begin(), node.body.ops.end(), [&](const auto& op) {
           return op.op == Opcode::kLoad && op.access.operand == value;
         });
}

void TryReplace(FusionState& state, uint32_t index) {
  const std::optional<RoundedCopy> found = ReadCopy(state, state.node(index));
  if (!found.has_value()) return;
  const std::vector<uint32_t> readers = state.readers(found->copy);
  for (const uint32_t reader : readers) {
    if (!ReadsOnlyAsWeight(state.node(reader), found->copy)) return;
    if (!state.MayReadLater(index, reader)) return;
  }
  for (const uint32_t reader : readers) {
    Node product = state.node(reader);
    View* weight = WeightOf(product);
    weight->value = found->source;
    weight->type = MemoryType::kF32ToBF16;
    weight->offset += found->shift;
    product.name = JoinNodeNames(state.node(index).name, product.name);
    state.Replace(reader, std::move(product));
  }
  state.Remove(index);
}

}  // namespace

void ReadRoundedWeights(FusionState& state) {
  for (uint32_t i = 0; i < state.num_nodes(); ++i) {
    if (state.alive(i)) TryReplace(state, i);
  }
}

}  // namespace hpu::graph_compiler
