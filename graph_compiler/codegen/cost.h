// The cost of a body per element, in simple vector operations.
#pragma once

#include "graph_compiler/ir/loop_ir.h"

namespace hpu::graph_compiler {

// The cost of arithmetic alone: functions count the steps of their polynomials; constants and loads
// are free.
int ArithmeticCost(const BodyOp& op);
int ArithmeticCost(const Body& body);

// The cost of arithmetic and memory accesses.
int TotalCost(const Body& body);

// The least work that is worth handing to another thread: it takes several times as long as waking
// the thread.
inline constexpr int64_t kCostWorthAThread = 65536;

}  // namespace hpu::graph_compiler
