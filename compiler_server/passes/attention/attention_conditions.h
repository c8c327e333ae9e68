// What attention that a model spells out is recognised by: numbers, and conditions on which keys a
// query sees.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "compiler_server/ir/graph.h"

namespace hpu::compiler {

// The number of which a value is full.
std::optional<double> Uniform(const ir::Value* value);

// The value's node if it is one of `op`, else nullptr.
const ir::Node* MadeBy(const ir::Value* value, ir::OpKind op);

// The same numbers in the same order, before reshapes.
ir::Value* Unshaped(ir::Value* value);

// Conditions on scores [.., queries, keys], whose last two sizes `matrix` has. One that is
// broadcast over either of the two is neither.

// key <= query, as torch.tril makes it.
bool IsCausal(ir::Value* condition, std::span<const int64_t> matrix);

// key > query: the opposite of that, or key >= query + 1, as torch.triu makes it.
bool HidesLaterKeys(ir::Value* condition, std::span<const int64_t> matrix);

}  // namespace hpu::compiler
