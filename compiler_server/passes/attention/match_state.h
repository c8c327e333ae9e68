// The state of a match: it holds the facts about a candidate for attention and follows values
// through reshapes and casts (attention_match.h says what is found).
#pragma once

#include <span>
#include <unordered_set>
#include <vector>

#include "compiler_server/passes/attention/attention_match.h"

namespace hpu::compiler {

// The value before reshapes and casts between floats.
ir::Value* Core(ir::Value* value);

// Whether numbers that a model spells out are equal, but for their rounding.
bool AreEqual(double x, double y);

struct MatchState {
  explicit MatchState(const Readers& all_readers) : readers(all_readers) {}

  // The sizes [queries, keys].
  std::span<const int64_t> Matrix() const { return std::span(found.scores).last(2); }

  void Take(const ir::Node* node) { taken.insert(node); }

  // The readers of the value, also through reshapes and casts.
  std::vector<ir::Node*> ReadersOf(const ir::Value* value) const;
  bool Leaves(const ir::Value* value) const;

  // Walks from x * noise * numbers to x.
  ir::Value* WithoutNoise(ir::Value* value, ir::Value** mask, double* factor);

  const Readers& readers;
  FoundAttention found;
  std::unordered_set<const ir::Node*> taken;
  std::unordered_set<const ir::Node*> products;  // those that give the result and the gradients
  ir::Value* dropped = nullptr;                  // the operand that the values are multiplied by
  ir::Value* weights = nullptr;                  // before dropout
  ir::Value* kept = nullptr;                     // the mask of the weights that are kept
  const ir::Value* query_operand = nullptr;      // an operand of the product of scores
  const ir::Value* key_operand = nullptr;

 private:
  bool MatchNoise(ir::Value* noise, ir::Value** mask, double* factor) const;
};

}  // namespace hpu::compiler
