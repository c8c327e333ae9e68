// Turns a relocatable ELF object into one position-independent image: sections are laid out back to
// back, and references between them are resolved.
//
//   object: .text .rodata.cst32 .rodata .symtab .rela.text ...
//   image:  | .text | pad | .rodata.cst32 | pad | .rodata |
//
// The image may be mapped read + execute at any address. Only PC-relative relocations are possible
// in such an image; others are refused.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph_compiler/codegen/module.h"

namespace hpu::graph_compiler {

// An image may lie at any multiple of this, which is the size of the largest vector in bytes.
constexpr uint64_t kImageAlignment = 64;

// `kernels` names the symbols whose offsets are returned, in order.
absl::StatusOr<KernelModule::Image> LayOutObject(std::span<const char> object,
                                                 const std::vector<std::string>& kernels);

}  // namespace hpu::graph_compiler
