#include "graph_compiler/fusion/inline_maps.h"

#include <algorithm>
#include <set>

#include "graph_compiler/codegen/cost.h"
#include "graph_compiler/fusion/shared_memory.h"
#include "graph_compiler/ir/access_algebra.h"

namespace hpu::graph_compiler {
namespace {

constexpr int kCheapCost = 6;  // up to this cost a value is recomputed rather than stored
// Up to this cost it is recomputed for every element of a larger domain.
constexpr int kBroadcastCost = 4;
// In elements: the number of f32 lanes of the widest vectors.
constexpr int64_t kShortestRow = 16;
// Up to this many elements of an epilogue, one more kernel costs more than calculating the value in
// each element.
constexpr int64_t kFewElements = 4096;
constexpr size_t kLargestBody = 400;  // ops; keeps registers and compile time in bounds

int CostOf(const Body& body) {
  int cost = ArithmeticCost(body);
  for (const BodyOp& op : body.ops) {
    if (op.op == Opcode::kLoad && op.access.indirect_value != kNoValue) cost += kCheapCost + 1;
  }
  return cost;
}

// Counts the loads that read about one element per iteration, unlike broadcast ones.
int FullLoads(const Node& node) {
  int count = 0;
  for (const BodyOp& op : node.body.ops) {
    if (op.op != Opcode::kLoad || !op.access.operand.IsBuffer()) continue;
    bool full = true;
    for (size_t d = 0; d < node.domain.size(); ++d) {
      full = full && (op.access.strides[d] != 0 || node.domain[d] == 1);
    }
    count += full ? 1 : 0;
  }
  return count;
}

bool IsPureMap(const Node& node) {
  return node.IsMap() && node.body.stores.size() == 1 && !node.keep_apart && !node.overwrites &&
         node.body.stores[0].access.indirect_value == kNoValue;
}

// Returns whether the result of a reduction reaches the node through maps over its own domain.
bool ReadsReduction(FusionState& state, const Node& node) {
  std::set<uint32_t> seen;
  std::vector<const Node*> pending = {&node};
  while (!pending.empty()) {
    const Node& current = *pending.back();
    pending.pop_back();
    for (const ValueId value : current.Reads()) {
      for (const uint32_t writer : state.writers(value)) {
        const Node& source = state.node(writer);
        if (source.Is<Loop>() && source.loop().reduced > 0) return true;
        const bool passes_on = IsPureMap(source) && source.domain == node.domain;
        if (passes_on && seen.insert(writer).second) pending.push_back(&source);
      }
    }
  }
  return false;
}

// Replaces all loads of the producer's value in the reader; returns false if one cannot be
// replaced.
bool InlineInto(const Node& producer, ValueId value, Node* reader) {
  const Store& store = producer.body.stores[0];
  for (bool found = true; found;) {
    found = false;
    for (uint32_t i = 0; i < reader->body.ops.size(); ++i) {
      const BodyOp& op = reader->body.ops[i];
      if (op.op != Opcode::kLoad || op.access.operand != value) continue;
      IndexMap map;
      if (!ComposeAccess(*reader, op.access, producer.domain, store.access, &map)) return false;
      InlineLoad(reader->body, i, producer.body, store.value, store.access.type, map);
      found = true;
      break;
    }
    if (reader->body.ops.size() > kLargestBody) return false;
  }
  SimplifyBody(reader->body);
  reader->name = JoinNodeNames(producer.name, reader->name);
  return true;
}

bool ReadsAsOperand(const Node& node, ValueId value) {
  const std::vector<ConstPort> ports = node.Ports();
  return std::any_of(ports.begin(), ports.end(), [&](const ConstPort& port) {
    return !port.written && port.view->value == value;
  });
}

// Returns the dimension along which the elements of the node's result are adjacent, or
// domain.size() if there is none.
size_t FastestDim(const Node& node) {
  for (const Store& store : node.body.stores) {
    for (size_t d = 0; d < node.domain.size(); ++d) {
      if (store.access.strides[d] == 1 && node.domain[d] > 1) return d;
    }
  }
  return node.domain.size();
}

// Returns whether the value differs from lane to lane of the reader, so that it would be computed
// again for every vector. A value that is the same along the rows of the result is computed once
// per row (fusion/row_groups).
bool DiffersAlongRows(const Node& reader, ValueId value) {
  const size_t fastest = FastestDim(reader);
  if (fastest == reader.domain.size()) return false;
  return std::any_of(reader.body.ops.begin(), reader.body.ops.end(), [&](const BodyOp& op) {
    return op.op == Opcode::kLoad && op.access.operand == value && op.access.strides[fastest] != 0;
  });
}

// Returns whether the rows of the result would fall into pieces shorter than vectors, as when a
// value per group of channels meets the channels.
bool CutsRows(const Node& before, const Node& after) {
  const size_t old_dim = FastestDim(before);
  const size_t new_dim = FastestDim(after);
  if (old_dim == before.domain.size() || new_dim == after.domain.size()) return false;
  const int64_t length = after.domain[new_dim];
  return length < before.domain[old_dim] && length < kShortestRow;
}

// Returns whether the node reads one narrow element for each wide one that it makes: it is a
// conversion of 16-bit floats and nothing else, or a cheap computation from bytes.
bool Widens(const Node& node) {
  std::vector<MemoryType> types;
  for (const BodyOp& op : node.body.ops) {
    if (op.op == Opcode::kLoad && op.access.operand.IsBuffer()) types.push_back(op.access.type);
  }
  if (types.size() != 1 || FullLoads(node) != 1) return false;
  const MemoryType made = node.body.stores[0].access.type;
  if (types[0] == MemoryType::kBF16 || types[0] == MemoryType::kF16) {
    return node.body.ops.size() == 1 && made == MemoryType::kF32;
  }
  const bool is_byte = types[0] == MemoryType::kU8 || types[0] == MemoryType::kI8;
  return is_byte && CostOf(node.body) <= kCheapCost && MemoryTypeSize(made) > 1;
}

bool IsWorthwhile(FusionState& state, const Node& producer, const std::vector<uint32_t>& readers,
                  InlineScope scope) {
  if (scope == InlineScope::kConstants) return producer.Reads().empty();
  if (scope == InlineScope::kWidened && !Widens(producer)) return false;
  const int cost = CostOf(producer.body);
  const bool cheap = cost <= kCheapCost && FullLoads(producer) <= 1;
  if (readers.size() > 1 && !cheap) return false;
  const int64_t size = NumElements(producer.domain);
  const ValueId value = producer.body.stores[0].access.operand.number;
  for (const uint32_t reader : readers) {
    const Node& node = state.node(reader);
    const bool grows = NumElements(node.domain) > size;
    if (grows && cost > kBroadcastCost &&
        (!ReadsReduction(state, producer) || DiffersAlongRows(node, value))) {
      return false;
    }
    // In a product's epilogue nothing is hoisted out of the element loop, and in a serial loop only
    // what an element has for itself is worth a place there.
    const bool few = NumElements(node.domain) <= kFewElements;
    if (grows && cost > (few ? kBroadcastCost : 0) && !node.Is<Loop>()) return false;
    if (grows && node.Is<Loop>() && node.loop().serial > 0 && cost > kCheapCost) return false;
  }
  return true;
}

void TryInline(FusionState& state, uint32_t index, InlineScope scope) {
  const Node producer = state.node(index);
  if (!IsPureMap(producer)) return;
  const ValueId value = producer.body.stores[0].access.operand.number;
  if (!state.IsTemporary(value) || state.writers(value).size() != 1) return;
  if (!MayStayUnrounded(producer.body.stores[0].access.type)) return;
  const std::vector<uint32_t> readers = state.readers(value);
  if (readers.empty() || !IsWorthwhile(state, producer, readers, scope)) return;
  std::vector<Node> fused;
  for (const uint32_t reader : readers) {
    const Node& node = state.node(reader);
    if (node.keep_apart || ReadsAsOperand(node, value)) return;
    if (!state.MayReadLater(index, reader)) return;
    if (!node.Is<Loop>() && UsesIota(producer.body)) return;
    fused.push_back(node);
    if (!InlineInto(producer, value, &fused.back())) return;
    if (scope == InlineScope::kAll && CutsRows(node, fused.back())) return;
    if (!SharesRightly(state, fused.back())) return;
    // Splitting may have changed the domain, but the domain of an epilogue is fixed.
    if (!node.Is<Loop>() && fused.back().domain != node.domain) return;
  }
  for (size_t i = 0; i < readers.size(); ++i) state.Replace(readers[i], std::move(fused[i]));
  state.Remove(index);
}

}  // namespace

void InlineMaps(FusionState& state, InlineScope scope) {
  for (uint32_t i = 0; i < state.num_nodes(); ++i) {
    if (state.alive(i)) TryInline(state, i, scope);
  }
}

}  // namespace hpu::graph_compiler
