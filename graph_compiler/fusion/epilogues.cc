#include "graph_compiler/fusion/epilogues.h"

#include <algorithm>

#include "graph_compiler/fusion/shared_memory.h"
#include "graph_compiler/ir/access_algebra.h"

namespace hpu::graph_compiler {
namespace {

constexpr size_t kLargestEpilogue = 120;  // ops

bool CanJoinEpilogue(const Node& node) {
  return node.IsMap() && !node.keep_apart && !node.overwrites && !UsesIota(node.body);
}

// Returns the epilogue's store of `value`, which also names the op whose value is stored.
const Store* StoreOf(const Node& product, ValueId value) {
  for (const Store& store : product.body.stores) {
    if (store.access.operand == value) return &store;
  }
  return nullptr;
}

bool SameWalk(const Access& load, const Access& store, const Shape& domain) {
  if (load.offset != store.offset || load.type != store.type) return false;
  for (size_t d = 0; d < domain.size(); ++d) {
    if (domain[d] > 1 && load.strides[d] != store.strides[d]) return false;
  }
  return true;
}

// Appends the ops of `map` (already over the product's domain) to the epilogue.
bool AppendBody(Node& product, const Node& map) {
  Body& body = product.body;
  const size_t num_stores = body.stores.size();
  const auto shift = static_cast<uint32_t>(body.ops.size());
  std::vector<std::pair<uint32_t, const Store*>> forwards;
  for (const BodyOp& op : map.body.ops) {
    BodyOp copy = op;
    for (uint32_t& arg : copy.args) arg += shift;
    if (copy.op == Opcode::kLoad && copy.access.indirect_value != kNoValue) {
      copy.access.indirect_value += shift;
    }
    if (copy.op == Opcode::kLoad) {
      for (size_t s = 0; s < num_stores; ++s) {
        if (body.stores[s].access.operand != copy.access.operand) continue;
        if (!SameWalk(copy.access, body.stores[s].access, product.domain)) return false;
        forwards.emplace_back(static_cast<uint32_t>(body.ops.size()), &body.stores[s]);
        break;
      }
    }
    body.ops.push_back(std::move(copy));
  }
  std::vector<Store> added;
  for (Store store : map.body.stores) {
    store.value += shift;
    if (store.access.indirect_value != kNoValue) store.access.indirect_value += shift;
    added.push_back(store);
  }
  std::vector<std::pair<uint32_t, uint32_t>> values;
  for (const auto& [load, store] : forwards) values.emplace_back(load, store->value);
  std::vector<MemoryType> types;
  for (const auto& forward : forwards) types.push_back(forward.second->access.type);
  body.stores.insert(body.stores.end(), added.begin(), added.end());
  // This goes from the back so that earlier numbers stay valid.
  for (size_t i = values.size(); i-- > 0;) {
    ForwardValue(body, values[i].first, values[i].second, types[i]);
  }
  return true;
}

bool IsReduction(const Node& node) { return node.Is<Loop>() && node.loop().reduced > 0; }

// Returns whether the map had better become part of the reductions that are its only readers: if
// they, or others that no epilogue takes, read `value` as well, the map's result would have to be
// stored beside it.
bool BelongsToReductions(FusionState& state, const Node& map, ValueId value) {
  const auto reduces = [&](uint32_t reader) { return IsReduction(state.node(reader)); };
  for (const ValueId result : map.Writes()) {
    const std::vector<uint32_t>& readers = state.readers(result);
    if (!state.IsTemporary(result) || readers.empty()) return false;
    if (!std::all_of(readers.begin(), readers.end(), reduces)) return false;
  }
  const std::vector<uint32_t>& others = state.readers(value);
  return !state.IsTemporary(value) || std::any_of(others.begin(), others.end(), reduces);
}

bool Absorb(FusionState& state, uint32_t product_index, uint32_t map_index, ValueId value) {
  Node product = state.node(product_index);
  Node map = state.node(map_index);
  if (!CanJoinEpilogue(map) || BelongsToReductions(state, map, value) ||
      map.phase != product.phase || product.body.ops.size() > kLargestEpilogue)
    return false;
  if (state.writers(value).size() != 1) return false;
  const Store* store = StoreOf(product, value);
  const auto load = std::find_if(map.body.ops.begin(), map.body.ops.end(), [&](const BodyOp& op) {
    return op.op == Opcode::kLoad && op.access.operand == value;
  });
  if (store == nullptr || load == map.body.ops.end()) return false;
  const Access access = load->access;
  IndexMap index_map;
  if (!ComposeAccess(map, access, product.domain, store->access, &index_map)) return false;
  Alignment aligned;
  const std::vector<bool> none(product.domain.size(), false);
  if (!AlignNode(map, index_map, product.domain, none, &aligned)) return false;
  for (size_t d = 0; d < product.domain.size(); ++d) {
    if (!aligned.has_source[d] && product.domain[d] != 1) return false;
  }
  if (!AppendBody(product, aligned.node)) return false;
  if (!SharesRightly(state, product) || !state.Merge(product_index, map_index)) return false;
  product.name = JoinNodeNames(product.name, map.name);
  state.Remove(map_index);
  state.Replace(product_index, product);
  // Results that have no reader any more are not stored.
  auto& stores = product.body.stores;
  stores.erase(std::remove_if(stores.begin(), stores.end(),
                              [&](const Store& s) {
                                const ValueId v = s.access.operand.number;
                                return state.IsTemporary(v) && state.readers(v).empty();
                              }),
               stores.end());
  SimplifyBody(product.body);
  state.Replace(product_index, std::move(product));
  return true;
}

bool AbsorbOne(FusionState& state, uint32_t index) {
  for (const ValueId value : state.node(index).Writes()) {
    const std::vector<uint32_t> readers = state.readers(value);
    for (const uint32_t reader : readers) {
      if (reader != index && Absorb(state, index, reader, value)) return true;
    }
  }
  return false;
}

}  // namespace

void FuseEpilogues(FusionState& state) {
  for (uint32_t i = 0; i < state.num_nodes(); ++i) {
    if (!state.alive(i) || !state.node(i).IsProduct()) continue;
    while (AbsorbOne(state, i)) {
    }
  }
}

}  // namespace hpu::graph_compiler
