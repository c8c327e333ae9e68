// CircuitBreaker leaves a server alone after a failure, so that a dead server costs nothing. During
// a pause it turns callers away at once. After the pause one caller tries, and the others wait for
// its result.
#pragma once

#include <chrono>
#include <cstdint>

namespace hpu::store {

// Not thread-safe. Callers pass the time in.
class CircuitBreaker {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Times are the first pause, the longest one (each pause is twice the one before), and the time
  // that a trial may take before another caller makes one.
  struct Times {
    std::chrono::milliseconds first;
    std::chrono::milliseconds longest;
    std::chrono::milliseconds trial;
  };
  explicit CircuitBreaker(const Times& times) : times_(times) {}

  // Returns true if the caller may go on, and must say how it went. After a pause one caller per
  // trial time may.
  bool Allow(Time now);
  // Returns true if that closed the circuit.
  bool Succeeded();
  // Returns true if that opened the circuit. `random` spreads the clients: it makes the pause up to
  // a quarter longer.
  bool Failed(Time now, uint64_t random);
  bool open() const { return pause_.count() > 0; }

 private:
  Times times_;
  std::chrono::milliseconds pause_{0};  // 0: closed
  Time retry_at_{};
  bool trying_ = false;  // true if a caller tries after a pause
};

}  // namespace hpu::store
