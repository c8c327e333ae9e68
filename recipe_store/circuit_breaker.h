// Leaves a server alone after a failure, so that a dead one costs nothing: whoever asks is told so
// at once until the time is over; then one caller tries, and the others wait for its result.
#pragma once

#include <chrono>
#include <cstdint>

namespace hpu::store {

// Not thread-safe. Time is passed in.
class CircuitBreaker {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // The first pause, the longest one (each is twice the one before), and how long a trial may take
  // before another caller makes one.
  struct Times {
    std::chrono::milliseconds first;
    std::chrono::milliseconds longest;
    std::chrono::milliseconds trial;
  };
  explicit CircuitBreaker(const Times& times) : times_(times) {}

  // True: go on, and say how it went. After a pause one caller per trial time hears true.
  bool Allow(Time now);
  // True if that closed it.
  bool Succeeded();
  // True if that opened it. `random` spreads the clients: the pause is up to a quarter longer.
  bool Failed(Time now, uint64_t random);
  bool open() const { return pause_.count() > 0; }

 private:
  Times times_;
  std::chrono::milliseconds pause_{0};  // 0: closed
  Time retry_at_{};
  bool trying_ = false;  // a caller was let through after a pause
};

}  // namespace hpu::store
