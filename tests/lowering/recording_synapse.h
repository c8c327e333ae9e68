// A Synapse function table that compiles nothing and records the calls that build graphs, one line
// each, with names in place of handles. It is for goldens and single-threaded.
#pragma once

#include <string>

#include "synapse/loader.h"

namespace hpu::testing {

// Only the functions that the lowering and the compiler call are set.
const SynapseFunctions& RecordingSynapse();
// Returns the calls since the last TakeRecordedCalls().
std::string TakeRecordedCalls();

}  // namespace hpu::testing
