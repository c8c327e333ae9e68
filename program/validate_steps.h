// The part of ValidateProgram that looks at steps.
#pragma once

#include "base/status.h"
#include "program/program.h"

namespace hpu {

// Indices, bounds and rules of the steps of one function, whose tensors have been checked.
absl::Status ValidateSteps(const Program& program, const ProgramFunction& function);

// DATA_LOSS naming `what` for more than kMaxNameBytes.
absl::Status CheckName(const std::string& name, std::string_view what);

}  // namespace hpu
