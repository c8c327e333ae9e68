// AMX on CPUs without it: interprets the tile instructions of generated code where the CPU refuses
// them (SIGILL). Only the results are those of the instructions; a step takes microseconds.
#pragma once

namespace hpu::graph_compiler {

// Handles SIGILL of this process from now on; each thread has its own tiles. Anything that a CPU
// with AMX would refuse too (a wrong shape, a tile that is not configured, another instruction)
// ends the process with a message. Does nothing where the CPU has AMX-BF16 and lets this process
// use it.
void InstallAmxInterpreter();

// Returns the number of tile products interpreted so far in this process; 0 on a CPU with AMX.
long AmxProductsInterpreted();

}  // namespace hpu::graph_compiler
