// From a relocatable ELF object to one position-independent image: sections laid out back to back,
// references between them resolved.
//
//   object: .text .rodata.cst32 .rodata .symtab .rela.text ...
//   image:  | .text | pad | .rodata.cst32 | pad | .rodata |      mapped read + execute at any
//   address
//
// Only PC-relative relocations are possible in such an image; others are refused.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph_compiler/codegen/module.h"

namespace hpu::graph_compiler {

// Images keep their meaning wherever they lie at a multiple of this: the largest vector's bytes.
constexpr uint64_t kImageAlignment = 64;

// `kernels` are the symbols whose offsets are wanted, in order.
absl::StatusOr<KernelModule::Image> LayOutObject(std::span<const char> object,
                                                 const std::vector<std::string>& kernels);

}  // namespace hpu::graph_compiler
