// Says on stderr what happened when the host follows a device address in strict mode.
#pragma once

namespace hpu::emulator {

class DeviceMemory;

// From now on a SIGSEGV at an address of `memory` is reported in one line before the process's own
// action for that signal is taken. Every other SIGSEGV goes to the handler that was there before.
// The handler is installed by the first call and stays. One memory is watched at a time.
void WatchTouches(const DeviceMemory* memory);
// Does nothing if another memory is watched.
void UnwatchTouches(const DeviceMemory* memory);

}  // namespace hpu::emulator
