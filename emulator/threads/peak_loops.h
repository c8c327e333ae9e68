// Loops that only multiply and add in registers: the best that a core reaches.
#pragma once

#include <cstdint>

#include "recipe/recipe.h"

namespace hpu::emulator {

struct PeakLoop {
  void (*run)(int64_t rounds) = nullptr;
  double flops_per_round = 0;  // a multiply-add counts as two
  const char* instructions = "";
};

// Returns the loop with the vectors of that level, which the host must have.
PeakLoop F32PeakLoop(IsaLevel level);
// Returns the loop with the best bf16 instructions of the level. Below v4-bf16 bf16 is widened, so
// it is the f32 loop.
PeakLoop Bf16PeakLoop(IsaLevel level);

}  // namespace hpu::emulator
