// Waiting on an atomic word: a short spin, because the other side is mostly some microseconds away,
// then sleep in the kernel, because it may be a descheduled thread of another process.
#pragma once

#include <immintrin.h>

#include <atomic>
#include <chrono>
#include <cstdint>

namespace hpu::emulator {

inline constexpr std::chrono::microseconds kSpinTime{30};

// Returns once `word` differs from `old_value`. A writer must follow its store with notify.
inline void SpinThenWait(const std::atomic<uint32_t>& word, uint32_t old_value,
                         std::chrono::nanoseconds spin = kSpinTime) {
  const auto deadline = std::chrono::steady_clock::now() + spin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (word.load(std::memory_order_acquire) != old_value) return;
      _mm_pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  word.wait(old_value, std::memory_order_acquire);
}

}  // namespace hpu::emulator
