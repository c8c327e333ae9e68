// Recognises the parts of attention that a model spells out: numbers, and conditions that decide
// which keys a query sees.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "compiler_server/ir/graph.h"

namespace hpu::compiler {

// The number, if all elements of the value are equal to it.
std::optional<double> Uniform(const ir::Value* value);

// The value with the same numbers in the same order before reshapes.
ir::Value* Unshaped(ir::Value* value);

// Conditions on scores [.., queries, keys], whose last two sizes are `matrix`. A condition that is
// broadcast over either of the two does not count.

// key <= query, which torch.tril makes.
bool IsCausal(ir::Value* condition, std::span<const int64_t> matrix);

// key > query, the opposite, or key >= query + 1, which torch.triu makes.
bool HidesLaterKeys(ir::Value* condition, std::span<const int64_t> matrix);

}  // namespace hpu::compiler
