// What a body costs per element, in simple vector operations.
#pragma once

#include "synapse/emulator/graph_compiler/loop_ir.h"

namespace hpu::emulator {

// Arithmetic: functions count the steps of their polynomials; constants and loads are free.
int ArithmeticCost(const BodyOp& op);
int ArithmeticCost(const Body& body);

// Arithmetic and memory accesses.
int TotalCost(const Body& body);

// Work that is worth handing to another thread: several times what waking it takes.
inline constexpr int64_t kCostWorthAThread = 65536;

}  // namespace hpu::emulator
