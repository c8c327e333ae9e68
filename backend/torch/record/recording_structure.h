// The properties of a recording that its captured graph depends on, but for floating-point numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/torch/record/recording.h"

namespace hpu::torch_backend {

// Returns bytes that are equal for equal recordings in every process, unlike Recording::words(),
// which has the numbers of this process's rules. `filled`: the values that the program computes.
// Each text has its length before it and each list its count, all as 64-bit words.
std::string StructureOf(const Recording& recording, const std::vector<uint32_t>& filled);

}  // namespace hpu::torch_backend
