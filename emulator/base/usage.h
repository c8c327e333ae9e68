// Other processes can see an acquired device's size, what is free of it, and whether it works now.
// These numbers are a page of a memory file that this process keeps open under a name by which
// `hl-smi` finds it in /proc (python/habana_frameworks/hl_smi/processes.py reads the same layout).
// A launch pays for two additions; the reader looks often enough to know a share of time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace hpu::emulator {

// The layout is shared with the reader. All numbers are in the host's byte order.
struct UsageNumbers {
  static constexpr uint64_t kVersion = 2;
  std::atomic<uint64_t> version;
  std::atomic<uint64_t> total_bytes;
  std::atomic<uint64_t> free_bytes;
  std::atomic<uint64_t> running;  // streams that work now
  std::atomic<uint64_t> module;   // the device's number on this host
};
static_assert(sizeof(UsageNumbers) == 40 && std::atomic<uint64_t>::is_always_lock_free);

class Usage {
 public:
  static constexpr char kName[] = "hpu-emulated-device";

  // If the system refuses the file, the numbers are kept all the same and nobody sees them.
  Usage(uint64_t total_bytes, uint32_t module);
  ~Usage();
  Usage(const Usage&) = delete;
  Usage& operator=(const Usage&) = delete;

  void SetFree(uint64_t bytes) { numbers_->free_bytes.store(bytes, std::memory_order_relaxed); }
  // These bracket a piece of work.
  void Begin() { numbers_->running.fetch_add(1, std::memory_order_relaxed); }
  void End() { numbers_->running.fetch_sub(1, std::memory_order_relaxed); }

 private:
  int file_ = -1;
  UsageNumbers own_{};  // used without a file
  UsageNumbers* numbers_ = &own_;
};

}  // namespace hpu::emulator
