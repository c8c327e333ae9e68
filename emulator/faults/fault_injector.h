// Failures on demand, with which the layers above can test how they handle them.
// HPU_EMULATOR_FAULTS configures them: "launch:3=26,malloc:10=4" fails the third launch with status
// 26 and the tenth device allocation with status 4; "copy:*=17" fails every copy. By default there
// are none, and checking costs almost nothing.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "synapse/include/synapse_api_types.h"

namespace hpu::emulator {

enum class FaultPoint : uint8_t {
  kAcquire,      // "acquire": synDeviceAcquire*
  kMalloc,       // "malloc": synDeviceMalloc
  kHostMalloc,   // "host_malloc"
  kCopy,         // "copy": queueing a copy or fill
  kLaunch,       // "launch": queueing a launch
  kExecution,    // "execution": a launch while it runs; surfaces at synchronisation
  kCompile,      // "compile"
  kDeserialize,  // "deserialize"
  kSynchronize,  // "synchronize": stream, event and device
};
inline constexpr int kNumFaultPoints = 9;

class FaultInjector {
 public:
  // Replaces all faults and restarts the counts. INVALID_ARGUMENT names the wrong part, and the
  // faults stay unchanged. An empty text removes all faults.
  absl::Status Configure(const std::string& text);

  // Returns synSuccess, or the configured status (with a message) if this occurrence is to fail.
  synStatus Check(FaultPoint point) {
    if (!active_.load(std::memory_order_relaxed)) return synSuccess;
    return CheckActive(point);
  }

 private:
  struct Fault {
    FaultPoint point;
    uint64_t occurrence;  // counted from 1; 0 = every occurrence
    synStatus status;
  };
  static absl::StatusOr<Fault> Parse(const std::string& text);
  synStatus CheckActive(FaultPoint point);

  std::atomic<bool> active_{false};
  std::mutex mutex_;
  std::vector<Fault> faults_;
  std::array<uint64_t, kNumFaultPoints> counts_{};
};

}  // namespace hpu::emulator
