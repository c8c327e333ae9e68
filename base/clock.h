// The time of day, for records.
#pragma once

#include <chrono>
#include <cstdint>

namespace hpu {

// Returns the microseconds since 1970 began, UTC.
inline uint64_t MicrosOfEpoch() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count());
}

}  // namespace hpu
