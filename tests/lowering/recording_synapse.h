// A Synapse function table that compiles nothing and writes down the calls that build graphs, one
// line each, with names in place of handles. For goldens; single-threaded.
#pragma once

#include <string>

#include "synapse/loader.h"

namespace hpu::testing {

// Only the functions that the lowering and the compiler call are set.
const SynapseFunctions& RecordingSynapse();
// The calls since the last TakeRecordedCalls().
std::string TakeRecordedCalls();

}  // namespace hpu::testing
