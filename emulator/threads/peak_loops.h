// Loops that do nothing but multiply and add in registers: what a core reaches at its best.
#pragma once

#include <cstdint>

#include "recipe/recipe.h"

namespace hpu::emulator {

struct PeakLoop {
  void (*run)(int64_t rounds) = nullptr;
  double flops_per_round = 0;  // a multiply-add is two
  const char* instructions = "";
};

// With the vectors of that level, which the host must have.
PeakLoop F32PeakLoop(IsaLevel level);
// With the best bf16 instructions of the level; below v4-bf16 bf16 is widened, so the f32 loop.
PeakLoop Bf16PeakLoop(IsaLevel level);

}  // namespace hpu::emulator
