// Turns a relocatable ELF object into one position-independent image: sections are laid out back to
// back, and references between them are resolved.
//
//   object: .text .rodata.cst32 .rodata .symtab .rela.text ...
//   image:  | .text | pad | .rodata.cst32 | pad | .rodata |
//
// The image may be mapped read + execute at any address. So only PC-relative relocations are
// possible in it, and those to sizes, which are numbers (size_symbols.h); others are refused.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph_compiler/codegen/module.h"

namespace hpu::graph_compiler {

// An image may lie at any multiple of this, which is the size of the largest vector in bytes.
constexpr uint64_t kImageAlignment = 64;

// `kernels` names the symbols whose offsets are returned, in order. `sizes`: the values of the
// symbols of sizes, by number.
absl::StatusOr<KernelModule::Image> LayOutObject(std::span<const char> object,
                                                 const std::vector<std::string>& kernels,
                                                 std::span<const uint32_t> sizes);

}  // namespace hpu::graph_compiler
