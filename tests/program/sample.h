// Programs that hold one of everything.
#pragma once

#include "program/program.h"

namespace hpu::testing {

// The program has a forward with two launches, an eager op, a collective and a callback, its
// backward, the values saved between them, numbers and random state.
Program SampleProgram();

}  // namespace hpu::testing
