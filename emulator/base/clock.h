// The monotonic clock of time stamps and traces.
#pragma once

#include <chrono>
#include <cstdint>

namespace hpu::emulator {

inline uint64_t NowNanoseconds() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

}  // namespace hpu::emulator
