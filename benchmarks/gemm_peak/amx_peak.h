// Multiply-add peak of AMX tiles.
#pragma once

namespace hpu::graph_compiler {

// Runs products of full bf16 tiles on the calling thread; floating-point operations done.
// HostIsaLevel() must have said kV4Amx.
double RunAmxBf16(int repeat);

}  // namespace hpu::graph_compiler
