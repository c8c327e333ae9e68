// The counters of the emulator since initialisation (synEmulatorGetCounters).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace hpu::emulator {

struct Counters {
  // clang-format off: it does not settle on one form of this list
#define HPU_EMULATOR_COUNTERS(X) \
  X(launches) X(kernels) X(copies) X(bytes_copied) X(fills) X(packs) X(pack_hits) \
  X(packs_dropped) X(packs_evicted) X(pack_bytes) X(pack_bytes_peak) X(source_bytes_evicted) X(sources_restored) X(device_allocations) \
  X(device_frees) X(graphs_compiled) X(kernels_compiled) X(code_bytes_compiled) \
  X(recipes_loaded) X(code_bytes_loaded) X(inline_executions)
// clang-format on
#define HPU_EMULATOR_DECLARE_COUNTER(name) std::atomic<uint64_t> name{0};
  HPU_EMULATOR_COUNTERS(HPU_EMULATOR_DECLARE_COUNTER)
#undef HPU_EMULATOR_DECLARE_COUNTER

  // Returns {"launches": 3, ...}.
  std::string ToJson() const {
    std::string text = "{";
#define HPU_EMULATOR_PRINT_COUNTER(name) \
  text += (text.size() > 1 ? ", \"" #name "\": " : "\"" #name "\": ") + std::to_string(name.load());
    HPU_EMULATOR_COUNTERS(HPU_EMULATOR_PRINT_COUNTER)
#undef HPU_EMULATOR_PRINT_COUNTER
    return text + "}";
  }
};

inline void Count(std::atomic<uint64_t>& counter, uint64_t amount = 1) {
  counter.fetch_add(amount, std::memory_order_relaxed);
}

}  // namespace hpu::emulator
