// Places the waits for a function's collectives.
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"

namespace hpu::compiler {

// Puts a WaitStep for each collective of the function, which has none yet, before the first step
// that touches what the collective makes or writes what it reads, or at the end. Returns the new
// number of each step.
std::vector<uint32_t> PlaceCollectiveWaits(ProgramFunction* function);

}  // namespace hpu::compiler
