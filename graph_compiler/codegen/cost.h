// What a body costs per element, in simple vector operations.
#pragma once

#include "graph_compiler/ir/loop_ir.h"

namespace hpu::graph_compiler {

// Arithmetic: functions count the steps of their polynomials; constants and loads are free.
int ArithmeticCost(const BodyOp& op);
int ArithmeticCost(const Body& body);

// Arithmetic and memory accesses.
int TotalCost(const Body& body);

// Work that is worth handing to another thread: several times what waking it takes.
inline constexpr int64_t kCostWorthAThread = 65536;

}  // namespace hpu::graph_compiler
