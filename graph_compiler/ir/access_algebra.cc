#include "graph_compiler/ir/access_algebra.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <sstream>

namespace hpu::graph_compiler {
namespace {

template <typename Function>
void ForEachAccess(Node& node, const Function& function) {
  for (BodyOp& op : node.body.ops) {
    if (op.op == Opcode::kLoad) function(op.access);
  }
  for (Store& store : node.body.stores) function(store.access);
}

struct ProducerDim {
  size_t index;
  int64_t size;
  int64_t stride;
};

// Returns the producer's dimensions that step through the buffer, the widest stride first.
std::vector<ProducerDim> SortedDims(const Shape& domain, const Access& store) {
  std::vector<ProducerDim> dims;
  for (size_t j = 0; j < domain.size(); ++j) {
    if (domain[j] > 1) dims.push_back({j, domain[j], store.strides[j]});
  }
  std::stable_sort(dims.begin(), dims.end(),
                   [](const ProducerDim& x, const ProducerDim& y) { return x.stride > y.stride; });
  return dims;
}

// Returns whether the producer's stores are distinct and leave no gaps between dimensions.
bool IsNested(const std::vector<ProducerDim>& dims) {
  for (size_t j = 0; j < dims.size(); ++j) {
    if (dims[j].stride <= 0) return false;
    if (j + 1 < dims.size() && dims[j].stride < dims[j + 1].stride * dims[j + 1].size) return false;
  }
  return true;
}

std::string KeyOf(const BodyOp& op) {
  std::ostringstream key;
  key << static_cast<int>(op.op) << ' ' << static_cast<int>(op.type) << ' ' << op.imm_int << ' ';
  key.precision(17);
  key << std::hexfloat << op.imm_f32;
  for (const uint32_t arg : op.args) key << ' ' << arg;
  if (op.op == Opcode::kLoad) {
    key << " @" << static_cast<int>(op.access.operand.kind) << ' ' << op.access.operand.number
        << ' ' << static_cast<int>(op.access.type) << ' ' << op.access.offset << ' '
        << op.access.indirect_value << ' ' << op.access.indirect_stride;
    for (const int64_t stride : op.access.strides) key << ',' << stride;
  }
  return key.str();
}

void RemapArgs(BodyOp& op, const std::vector<uint32_t>& remap) {
  for (uint32_t& arg : op.args) arg = remap[arg];
  if (op.op == Opcode::kLoad && op.access.indirect_value != kNoValue) {
    op.access.indirect_value = remap[op.access.indirect_value];
  }
}

}  // namespace

void SplitDim(Node& node, size_t dim, int64_t inner) {
  const size_t from_end = node.domain.size() - dim;
  node.domain[dim] /= inner;
  node.domain.insert(node.domain.begin() + static_cast<int64_t>(dim) + 1, inner);
  if (Loop* loop = node.AsLoop()) {
    if (from_end <= loop->reduced) ++loop->reduced;
    if (from_end <= loop->serial) ++loop->serial;
  }
  ForEachAccess(node, [&](Access& access) {
    const int64_t stride = access.strides[dim];
    access.strides[dim] = stride * inner;
    access.strides.insert(access.strides.begin() + static_cast<int64_t>(dim) + 1, stride);
  });
}

void PermuteDims(Node& node, const std::vector<size_t>& order) {
  const auto permute = [&](Shape& list) {
    Shape result(order.size());
    for (size_t i = 0; i < order.size(); ++i) result[i] = list[order[i]];
    list = std::move(result);
  };
  permute(node.domain);
  ForEachAccess(node, [&](Access& access) { permute(access.strides); });
}

bool ComposeAccess(Node& node, const Access& access, const Shape& producer_domain,
                   const Access& store, IndexMap* map) {
  if (access.type != store.type || access.indirect_value != kNoValue ||
      store.indirect_value != kNoValue) {
    return false;
  }
  const std::vector<ProducerDim> dims = SortedDims(producer_domain, store);
  if (!IsNested(dims)) return false;
  map->base.assign(producer_domain.size(), 0);
  int64_t offset = access.offset - store.offset;
  if (offset < 0) return false;
  for (const ProducerDim& dim : dims) {
    map->base[dim.index] = std::min(offset / dim.stride, dim.size - 1);
    offset -= map->base[dim.index] * dim.stride;
  }
  if (offset != 0) return false;

  Node work = node;
  Shape strides = access.strides;
  std::vector<std::vector<int64_t>> steps;
  std::vector<int64_t> low = map->base;
  std::vector<int64_t> high = map->base;
  for (size_t i = 0; i < work.domain.size(); ++i) {
    steps.emplace_back(producer_domain.size(), 0);
    const int64_t stride = strides[i];
    const int64_t count = work.domain[i];
    if (stride == 0 || count <= 1) continue;
    const int64_t distance = std::abs(stride);
    const auto dim = std::find_if(dims.begin(), dims.end(), [&](const ProducerDim& d) {
      return d.stride <= distance && distance % d.stride == 0;
    });
    if (dim == dims.end()) return false;
    const int64_t step = stride / dim->stride;
    if (std::abs(step) * (count - 1) >= dim->size) {
      // The walk runs past this dimension: the inner part stays in it, the outer part goes on in a
      // wider one.
      if (dim->size % step != 0 || step < 0) return false;
      const int64_t inner = dim->size / step;
      if (inner <= 1 || count % inner != 0) return false;
      SplitDim(work, i, inner);
      strides[i] = stride * inner;
      strides.insert(strides.begin() + static_cast<int64_t>(i) + 1, stride);
      steps.pop_back();
      --i;
      continue;
    }
    steps.back()[dim->index] = step;
    (step > 0 ? high : low)[dim->index] += step * (count - 1);
  }
  for (size_t j = 0; j < producer_domain.size(); ++j) {
    if (low[j] < 0 || high[j] >= producer_domain[j]) return false;
  }
  map->steps = std::move(steps);
  node = std::move(work);
  return true;
}

Access ViewThrough(const Access& load, const IndexMap& map) {
  Access result = load;
  result.strides.assign(map.steps.size(), 0);
  for (size_t j = 0; j < map.base.size(); ++j) {
    result.offset += map.base[j] * load.strides[j];
    for (size_t i = 0; i < map.steps.size(); ++i) {
      result.strides[i] += map.steps[i][j] * load.strides[j];
    }
  }
  return result;
}

namespace {

// Matches loose node dimensions with free target dimensions by size and splits the former as
// needed.
bool MatchLoose(Node& node, std::vector<size_t> loose, const Shape& target,
                const std::vector<bool>& free_dims, std::vector<std::vector<size_t>>& sources) {
  size_t next = 0;
  for (size_t j = 0; j < target.size(); ++j) {
    if (!free_dims[j] || target[j] == 1) continue;
    int64_t covered = 1;
    while (covered < target[j]) {
      if (next == loose.size() || target[j] % covered != 0) return false;
      const size_t dim = loose[next];
      const int64_t wanted = target[j] / covered;
      if (node.domain[dim] > wanted) {
        if (node.domain[dim] % wanted != 0) return false;
        SplitDim(node, dim, node.domain[dim] / wanted);
        for (auto& list : sources) {
          for (size_t& source : list) source += source > dim ? 1 : 0;
        }
        for (size_t k = next + 1; k < loose.size(); ++k) ++loose[k];
        loose.insert(loose.begin() + static_cast<int64_t>(next) + 1, dim + 1);
      }
      covered *= node.domain[dim];
      sources[j].push_back(dim);
      ++next;
    }
    if (covered != target[j]) return false;
  }
  return next == loose.size();
}

bool MergeStrides(const Shape& strides, const Shape& domain,
                  const std::vector<std::vector<size_t>>& sources, Shape* merged) {
  merged->assign(sources.size(), 0);
  for (size_t j = 0; j < sources.size(); ++j) {
    const std::vector<size_t>& list = sources[j];
    if (list.empty()) continue;
    for (size_t k = 0; k + 1 < list.size(); ++k) {
      if (strides[list[k]] != strides[list[k + 1]] * domain[list[k + 1]]) return false;
    }
    (*merged)[j] = strides[list.back()];
  }
  return true;
}

}  // namespace

bool AlignNode(const Node& original, const IndexMap& map, const Shape& target,
               const std::vector<bool>& free_dims, Alignment* result) {
  Node node = original;
  std::vector<std::vector<size_t>> sources(target.size());
  std::vector<size_t> loose;
  for (size_t i = 0; i < node.domain.size(); ++i) {
    if (node.domain[i] == 1) continue;
    const auto step =
        std::find_if(map.steps[i].begin(), map.steps[i].end(), [](int64_t s) { return s != 0; });
    if (step == map.steps[i].end()) {
      loose.push_back(i);
    } else {
      sources[static_cast<size_t>(step - map.steps[i].begin())].push_back(i);
    }
  }
  for (size_t j = 0; j < target.size(); ++j) {
    std::sort(sources[j].begin(), sources[j].end(),
              [&](size_t x, size_t y) { return map.steps[x][j] > map.steps[y][j]; });
    int64_t expected = 1;
    for (size_t k = sources[j].size(); k-- > 0;) {
      if (map.steps[sources[j][k]][j] != expected) return false;
      expected *= node.domain[sources[j][k]];
    }
    if (!sources[j].empty() && expected != target[j]) return false;
  }
  if (!MatchLoose(node, loose, target, free_dims, sources)) return false;

  const size_t first_reduced = node.domain.size() - node.loop().reduced;
  result->has_source.assign(target.size(), false);
  result->from_reduced.assign(target.size(), false);
  for (size_t j = 0; j < target.size(); ++j) {
    result->has_source[j] = !sources[j].empty();
    const auto is_reduced = [&](size_t dim) { return dim >= first_reduced; };
    result->from_reduced[j] = std::any_of(sources[j].begin(), sources[j].end(), is_reduced);
    if (result->from_reduced[j] && !std::all_of(sources[j].begin(), sources[j].end(), is_reduced)) {
      return false;
    }
  }
  bool fits = true;
  const Shape domain = node.domain;
  ForEachAccess(node, [&](Access& access) {
    Shape merged;
    fits = fits && MergeStrides(access.strides, domain, sources, &merged);
    access.strides = merged;
  });
  if (!fits) return false;
  node.domain = target;
  result->node = std::move(node);
  return true;
}

namespace {

// Appends the ops that have the effect of storing op `value` as `type` and loading it again;
// returns the result.
uint32_t AppendStoreAndLoad(std::vector<BodyOp>& ops, uint32_t value, MemoryType type) {
  const ScalarType from = ops[value].type;
  const ScalarType to = ComputeType(type);
  const auto append = [&](Opcode op, ScalarType result, std::vector<uint32_t> args, int64_t imm) {
    ops.push_back(BodyOp{op, result, std::move(args), 0, imm, {}});
    return static_cast<uint32_t>(ops.size() - 1);
  };
  if (from != to) value = append(Opcode::kCast, to, {value}, 0);
  const int bits = 8 * MemoryTypeSize(type);
  const int computed = to == ScalarType::kI64 ? 64 : to == ScalarType::kI32 ? 32 : bits;
  if (bits == computed || from == ScalarType::kBool) return value;
  // Narrow integers keep their low bits.
  if (IsUnsigned(type)) {
    const uint32_t mask = append(Opcode::kConstInt, to, {}, (int64_t{1} << bits) - 1);
    return append(Opcode::kAnd, to, {value, mask}, 0);
  }
  const uint32_t shift = append(Opcode::kConstInt, to, {}, computed - bits);
  const uint32_t up = append(Opcode::kShl, to, {value, shift}, 0);
  return append(Opcode::kShr, to, {up, shift}, 0);
}

// Rebuilds `body` with op `load` replaced by what `insert` appends.
template <typename Insert>
void ReplaceOp(Body& body, uint32_t load, const Insert& insert) {
  std::vector<BodyOp> ops;
  std::vector<uint32_t> remap(body.ops.size(), kNoValue);
  for (uint32_t i = 0; i < body.ops.size(); ++i) {
    if (i == load) {
      remap[i] = insert(ops, remap);
      continue;
    }
    BodyOp op = std::move(body.ops[i]);
    RemapArgs(op, remap);
    remap[i] = static_cast<uint32_t>(ops.size());
    ops.push_back(std::move(op));
  }
  body.ops = std::move(ops);
  for (Store& store : body.stores) {
    store.value = remap[store.value];
    if (store.access.indirect_value != kNoValue) {
      store.access.indirect_value = remap[store.access.indirect_value];
    }
  }
}

}  // namespace

void ForwardValue(Body& body, uint32_t load, uint32_t value, MemoryType type) {
  ReplaceOp(body, load, [&](std::vector<BodyOp>& ops, const std::vector<uint32_t>& remap) {
    return AppendStoreAndLoad(ops, remap[value], type);
  });
}

void InlineLoad(Body& consumer, uint32_t load, const Body& producer, uint32_t value,
                MemoryType type, const IndexMap& map) {
  ReplaceOp(consumer, load, [&](std::vector<BodyOp>& ops, const std::vector<uint32_t>&) {
    std::vector<uint32_t> inner(producer.ops.size(), kNoValue);
    for (uint32_t i = 0; i < producer.ops.size(); ++i) {
      BodyOp op = producer.ops[i];
      if (op.op == Opcode::kLoad) op.access = ViewThrough(op.access, map);
      RemapArgs(op, inner);
      inner[i] = static_cast<uint32_t>(ops.size());
      ops.push_back(std::move(op));
    }
    return AppendStoreAndLoad(ops, inner[value], type);
  });
}

void SimplifyBody(Body& body) {
  std::vector<bool> used(body.ops.size(), false);
  for (const Store& store : body.stores) {
    used[store.value] = true;
    if (store.access.indirect_value != kNoValue) used[store.access.indirect_value] = true;
  }
  for (size_t i = body.ops.size(); i-- > 0;) {
    if (!used[i]) continue;
    for (const uint32_t arg : body.ops[i].args) used[arg] = true;
    if (body.ops[i].op == Opcode::kLoad && body.ops[i].access.indirect_value != kNoValue) {
      used[body.ops[i].access.indirect_value] = true;
    }
  }
  std::map<std::string, uint32_t> known;
  std::vector<uint32_t> remap(body.ops.size(), kNoValue);
  std::vector<BodyOp> kept;
  for (size_t i = 0; i < body.ops.size(); ++i) {
    if (!used[i]) continue;
    BodyOp op = body.ops[i];
    RemapArgs(op, remap);
    const auto [place, is_new] = known.emplace(KeyOf(op), static_cast<uint32_t>(kept.size()));
    if (is_new) kept.push_back(std::move(op));
    remap[i] = place->second;
  }
  body.ops = std::move(kept);
  for (Store& store : body.stores) {
    store.value = remap[store.value];
    if (store.access.indirect_value != kNoValue) {
      store.access.indirect_value = remap[store.access.indirect_value];
    }
  }
}

}  // namespace hpu::graph_compiler
