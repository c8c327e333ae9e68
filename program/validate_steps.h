// The part of ValidateProgram that checks steps.
#pragma once

#include "base/status.h"
#include "program/program.h"

namespace hpu {

// Checks indices, bounds and rules of the steps of one function, whose tensors have been checked.
absl::Status ValidateSteps(const Program& program, const ProgramFunction& function);

// Returns DATA_LOSS, naming `what`, for more than kMaxNameBytes.
absl::Status CheckName(const std::string& name, std::string_view what);

}  // namespace hpu
