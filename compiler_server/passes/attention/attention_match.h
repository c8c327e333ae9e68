// Finds attention that a model spells out, with dropout of its weights and its gradient.
//
//   forward   S = q k^T, scaled, masked;  W = softmax(S);  D = W * noise;  result = D v
//   gradient  of v: D^T g;  G = W * (noise * g v^T - sum(W * noise * g v^T)), masked, scaled
//             of q: G k;  of k: G^T q
//
// The scores (or the query or key before them) may be scaled and then masked, by additions and by
// `where` with a hidden value of -1e30 or less; all of it may be reshaped and cast between floats.
// Nothing else may read a value of the size of the scores. Batches must not be broadcast. With a
// gradient, a finite hidden value must be one for later keys only.
#pragma once

#include <vector>

#include "compiler_server/ir/graph.h"
#include "compiler_server/passes/attention/readers.h"

namespace hpu::compiler {

// A value that is added to the scores, or a condition where a hidden value replaces them.
struct ScoreMask {
  ir::Value* value = nullptr;
  ir::Value* condition = nullptr;
  bool hides_if_true = false;
  double hidden = 0;
};

// A value of the graph that is a gradient, perhaps with its last two dimensions swapped.
struct FoundGradient {
  ir::Value* value = nullptr;
  bool transposed = false;
};

struct FoundAttention {
  const ir::Node* product = nullptr;  // gives the result
  ir::Dims scores;                    // [batch, heads, queries, keys]
  ir::Value* query = nullptr;
  ir::Value* key = nullptr;
  ir::Value* value = nullptr;
  bool key_is_transposed = false;  // [.., size, length]
  bool value_is_transposed = false;
  double scale = 1;
  bool causal = false;
  std::vector<ScoreMask> masks;
  double keep = 1;  // weights are dropped where a number of `draw` is not below
  const ir::Node* draw = nullptr;
  // The gradient, if the graph has it: the first of its nodes, and the parts of it that exist.
  const ir::Node* gradient = nullptr;
  ir::Value* result_gradient = nullptr;
  FoundGradient query_gradient, key_gradient, value_gradient;
};

std::vector<FoundAttention> FindAttention(const ir::Graph& graph, const Readers& readers);

}  // namespace hpu::compiler
