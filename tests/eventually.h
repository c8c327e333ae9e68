// How tests wait for an event that nothing signals to them.
#pragma once

#include <chrono>
#include <thread>

namespace hpu {

// Whatever takes longer than this hangs: no machine is so slow. Only a hang is told by a clock.
inline constexpr std::chrono::milliseconds kHangLimit{60'000};

// Asks until `condition` is true. Returns false if that does not happen within kHangLimit.
template <typename Condition>
[[nodiscard]] bool Eventually(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + kHangLimit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace hpu
