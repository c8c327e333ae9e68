// What decompositions and the pass quantized-weights share.
#pragma once

#include <cstdint>

namespace hpu::compiler {

// Rows up to which one pass over the bytes of the weights pays; more rows amortise widening them.
inline constexpr int64_t kMostQuantizedRows = 16;

}  // namespace hpu::compiler
