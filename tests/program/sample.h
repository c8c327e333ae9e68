// Programs that hold one of everything.
#pragma once

#include "program/program.h"

namespace hpu::testing {

// A forward with two launches, an eager op, a collective and a callback, its backward, what is
// saved between them, numbers and random state.
Program SampleProgram();

}  // namespace hpu::testing
