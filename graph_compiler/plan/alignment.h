// The alignment of values in the workspace and among the kept values.
#pragma once

#include <cstdint>

namespace hpu::graph_compiler {

inline uint64_t AlignUp(uint64_t bytes) {
  constexpr uint64_t kAlignment = 128;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace hpu::graph_compiler
