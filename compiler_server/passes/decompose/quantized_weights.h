// Declarations that decompositions share with the pass quantized-weights.
#pragma once

#include <cstdint>

namespace hpu::compiler {

// Up to this number of rows it pays to read the bytes of the weights in one pass. More rows
// amortise widening the weights.
inline constexpr int64_t kMostQuantizedRows = 16;

}  // namespace hpu::compiler
