// Sizes in generated code as symbols whose values are filled in last, so that kernels that differ
// in sizes alone share one object (decision 0056).
//
//   %9 = icmp slt i64 %8, 1500        %9 = icmp slt i64 %8, ptrtoint (ptr @size0 to i64)
//
// The object has a relocation in place of each such immediate operand. Code that depends on a size
// in any other way (an unrolled rest, a mask, a shift) is different text, and so another object.
// Generators need not know of symbols for this reason.
#pragma once

#include <llvm/IR/Module.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hpu::graph_compiler {

// Replaces sizes in the module's instructions by symbols and returns their values by number. A
// value has one symbol however often it occurs.
std::vector<uint32_t> TakeSizes(llvm::Module& module);

// Undoes TakeSizes, whose result is `values`.
void PutSizesBack(llvm::Module& module, std::span<const uint32_t> values);

// Returns the number of the size that a symbol stands for.
std::optional<size_t> SizeNumberOf(std::string_view symbol);

}  // namespace hpu::graph_compiler
