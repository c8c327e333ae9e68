#include "graph_compiler/fusion/read_constants.h"

#include <bit>
#include <cstring>

namespace hpu::graph_compiler {

std::optional<float> KnownNumber(const LoopGraph& graph, const Shape& domain,
                                 const Access& access) {
  const bool is_known_type = access.type == MemoryType::kF32 || access.type == MemoryType::kBF16;
  if (!is_known_type || !access.operand.IsBuffer() || access.indirect_value != kNoValue) {
    return std::nullopt;
  }
  const Value& value = graph.values[access.operand.number];
  if (value.home != Home::kConstant) return std::nullopt;
  for (size_t d = 0; d < domain.size(); ++d) {
    if (domain[d] > 1 && access.strides[d] != 0) return std::nullopt;
  }
  const auto size = static_cast<uint64_t>(MemoryTypeSize(access.type));
  const uint8_t* place =
      graph.constants.data() + value.byte_offset + static_cast<uint64_t>(access.offset) * size;
  uint32_t bits = 0;  // the bits of a bf16 are the upper half
  std::memcpy(reinterpret_cast<uint8_t*>(&bits) + sizeof(bits) - size, place, size);
  return std::bit_cast<float>(bits);
}

void ReadConstants(LoopGraph& graph) {
  for (Node& node : graph.nodes) {
    for (BodyOp& op : node.body.ops) {
      if (op.op != Opcode::kLoad) continue;
      const std::optional<float> number = KnownNumber(graph, node.domain, op.access);
      if (number.has_value()) op = {Opcode::kConstF32, ScalarType::kF32, {}, *number, 0, {}};
    }
  }
}

}  // namespace hpu::graph_compiler
