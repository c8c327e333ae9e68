// Waits for a change of an atomic word. It first spins for a short time, because the other side is
// mostly some microseconds away and waking a thread costs tens of them on virtual machines. Then it
// sleeps in the kernel, because the other side may be a descheduled thread of another process. A
// spinning thread yields to threads that have work.
#pragma once

#include <emmintrin.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>

namespace hpu::emulator {

inline constexpr std::chrono::microseconds kSpinTime{100};

// Spins for about half a microsecond, longer if another thread wants the core.
inline void SpinOnce() {
  for (int i = 0; i < 16; ++i) _mm_pause();
  sched_yield();
}

// Returns once `word` differs from `old_value`. A writer must follow its store with notify.
inline void SpinThenWait(const std::atomic<uint32_t>& word, uint32_t old_value,
                         std::chrono::nanoseconds spin = kSpinTime) {
  const auto deadline = std::chrono::steady_clock::now() + spin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (word.load(std::memory_order_acquire) != old_value) return;
      _mm_pause();
    }
    sched_yield();
  } while (std::chrono::steady_clock::now() < deadline);
  word.wait(old_value, std::memory_order_acquire);
}

}  // namespace hpu::emulator
