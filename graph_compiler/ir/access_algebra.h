// Affine index arithmetic that lets one loop nest absorb another.
#pragma once

#include <vector>

#include "graph_compiler/ir/loop_graph.h"

namespace hpu::graph_compiler {

// How an access over a consumer's domain walks through a producer's domain: producer index[j] =
// base[j] + sum_i steps[i][j] * consumer index[i].
struct IndexMap {
  std::vector<int64_t> base;
  std::vector<std::vector<int64_t>> steps;  // [consumer dim][producer dim]
};

// Splits domain[dim] into (domain[dim] / inner, inner) in all accesses of the node.
void SplitDim(Node& node, size_t dim, int64_t inner);
// Makes old dimension order[i] the new dimension i. Keeps `reduced` and `serial`; the caller keeps
// their dimensions trailing.
void PermuteDims(Node& node, const std::vector<size_t>& order);

// Expresses `access` (over node.domain, into the buffer that `store` fills from `producer_domain`)
// in the producer's dimensions. Dimensions of `node` are split where one of them runs through
// several of the producer's; nothing is changed on failure. Returns false when the access leaves
// what the producer stores, or is not such a walk.
bool ComposeAccess(Node& node, const Access& access, const Shape& producer_domain,
                   const Access& store, IndexMap* map);

// Returns the access of a producer's load as the consumer sees it.
Access ViewThrough(const Access& load, const IndexMap& map);

// Rewrites `node` over `target`: target dimension j takes the node's dimensions that step through
// it (several merge into one). Node dimensions that step through none are matched, in order, with
// the target dimensions marked in `free_dims`. Target dimensions left without a source get stride
// 0. `from_reduced[j]` says whether j comes from the node's reduced dimensions. Returns false when
// the accesses do not allow it.
struct Alignment {
  Node node;
  std::vector<bool> has_source;
  std::vector<bool> from_reduced;
};
bool AlignNode(const Node& node, const IndexMap& map, const Shape& target,
               const std::vector<bool>& free_dims, Alignment* result);

// Replaces op `load` of `body` by `value` (an earlier op) that would have been stored with `type`
// and loaded again. The narrowing of integers is kept; the rounding of floats is not.
void ForwardValue(Body& body, uint32_t load, uint32_t value, MemoryType type);

// Inserts the ops of `producer` (its accesses seen through `map`) in place of the consumer's load
// `load`.
void InlineLoad(Body& consumer, uint32_t load, const Body& producer, uint32_t value,
                MemoryType type, const IndexMap& map);

// Removes repeated and unused ops of a body.
void SimplifyBody(Body& body);

}  // namespace hpu::graph_compiler
