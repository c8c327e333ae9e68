// Multiply-add peak of AMX tiles. No ISA level of the emulator has them; a peak must know them all.
#pragma once

namespace hpu::emulator {

// The CPU has AMX-BF16 and the operating system lets this process use it.
bool AmxBf16Usable();

// Runs products of full bf16 tiles on the calling thread; floating-point operations done.
// AmxBf16Usable() must have said true.
double RunAmxBf16(int repeat);

}  // namespace hpu::emulator
