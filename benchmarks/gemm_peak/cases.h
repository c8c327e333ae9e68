// The contractions that gemm_peak times: those of the benchmark models, and a few shapes around
// them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/contraction/harness.h"

namespace hpu::graph_compiler {

struct Case {
  std::string name;
  EmitFn emit;
  std::vector<int64_t> buffer_elements;  // the last one is written
  MemoryType type = MemoryType::kF32;    // the type of all buffers
};

std::vector<Case> Cases();

}  // namespace hpu::graph_compiler
