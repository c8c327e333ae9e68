// The arguments that turn off what an operator draws random numbers for: dropout, mostly. A call
// whose argument of such a name is 0 or False draws nothing.
//
// This is the only list of them. Eager operators read it here (cpu_call), and capture reads it
// through Python (recorded_ops.py).
#pragma once

#include <string>
#include <vector>

#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

struct DropoutSwitch {
  const char* op_namespace;  // "": any
  const char* argument;
};

inline constexpr DropoutSwitch kDropoutSwitches[] = {
    {"", "dropout"},  {"", "dropout_p"}, {"", "train"},
    {"", "training"}, {"hpu", "p"},      {"hpu", "stochastic_rounding"},
};

// Returns the positions of the switches among the arguments of an operator that draws.
std::vector<size_t> DropoutSwitchesOf(const c10::FunctionSchema& schema);

// Returns whether a switch has this value: the call then draws nothing.
bool IsOff(const c10::IValue& value);

}  // namespace hpu::torch_backend
