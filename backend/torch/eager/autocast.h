// Autocast on hpu. The lists of operators are Python's (hpu/autocast_lists.py).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

// The name of an aten operator, with or without an overload, and how its arguments are cast.
using AutocastRule = std::pair<std::string, std::string>;

// Registers the casts of out-of-place operators, of which the first rule that names one holds, and
// returns the names that no such operator has. Throws for an unknown way to cast. Call it once.
std::vector<std::string> RegisterAutocast(const std::vector<AutocastRule>& rules);

// Adds register_autocast() and autocast_rules().
void BindAutocast(pybind11::module_& module);

}  // namespace hpu::torch_backend
