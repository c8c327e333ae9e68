// The arithmetic of reductions.
#pragma once

#include <cstdint>

#include "synapse/include/hccl.h"

namespace hpu::emulator {

// Returns whether `reduction` is one that combines elements.
bool IsReduction(hcclRedOp_t reduction);

// Combines element i of all sources in the order of the sources and writes it to element i of
// `destination`, which may be one of the sources. f16 and bf16 are accumulated in f32 and rounded
// once, to nearest with ties to even. Integers wrap around; their average is rounded towards zero.
// A NaN among the elements gives a NaN, also of min and max. All instruction sets give equal bits.
// `reduction` satisfies IsReduction, and there is at least one source.
void Reduce(const uint8_t* const* sources, int num_sources, uint64_t count, hcclDataType_t type,
            hcclRedOp_t reduction, uint8_t* destination);

}  // namespace hpu::emulator
