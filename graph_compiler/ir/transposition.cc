#include "graph_compiler/ir/transposition.h"

namespace hpu::graph_compiler {
namespace {

constexpr int64_t kLeastRowsAndCols = 16;

}  // namespace

std::optional<Transposition> FindTransposition(const Body& body, const Shape& domain) {
  if (body.ops.size() != 1 || body.ops[0].op != Opcode::kLoad || body.stores.size() != 1) {
    return std::nullopt;
  }
  const Access& load = body.ops[0].access;
  const Access& store = body.stores[0].access;
  const int bytes = MemoryTypeSize(load.type);
  if (load.type != store.type || (bytes != 2 && bytes != 4) || load.indirect_value != kNoValue ||
      store.indirect_value != kNoValue || !load.operand.IsBuffer() || !store.operand.IsBuffer() ||
      load.operand == store.operand || load.strides.size() != domain.size() ||
      store.strides.size() != domain.size()) {
    return std::nullopt;
  }
  std::optional<size_t> row;
  std::optional<size_t> col;
  for (size_t d = 0; d < domain.size(); ++d) {
    if (domain[d] > 1 && store.strides[d] == 0) return std::nullopt;  // a reduction
    if (domain[d] < kLeastRowsAndCols || load.strides[d] == store.strides[d]) continue;
    if (!row.has_value() && load.strides[d] == 1) {
      row = d;
    } else if (!col.has_value() && store.strides[d] == 1) {
      col = d;
    }
  }
  if (!row.has_value() || !col.has_value()) return std::nullopt;
  return Transposition{*row, *col};
}

}  // namespace hpu::graph_compiler
