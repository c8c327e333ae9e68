// Process-wide counters of the device side, for reports and tests.
#pragma once

#include <atomic>
#include <cstdint>

namespace hpu::runtime {

struct Counters {
  std::atomic<uint64_t> programs{0};        // program calls
  std::atomic<uint64_t> launches{0};        // recipe launches
  std::atomic<uint64_t> eager_ops{0};       // eager steps of programs
  std::atomic<uint64_t> recipes_loaded{0};  // deserialised
  std::atomic<uint64_t> recipes_alive{0};
  std::atomic<uint64_t> bytes_to_device{0};
  std::atomic<uint64_t> bytes_to_host{0};
};

inline Counters& GetCounters() {
  static Counters counters;
  return counters;
}

}  // namespace hpu::runtime
