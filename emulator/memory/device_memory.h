// The emulated device's DRAM is one reserved range of this process's address space, so a device
// address is a host pointer. The part that was never allocated is not accessible; pages of freed
// large blocks go back to the system. In strict mode device addresses are a second range, which is
// never accessible, and memory that is fresh or freed is filled with kPoison.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "base/status.h"
#include "emulator/memory/host_view.h"

namespace hpu::emulator {

struct DeviceBlockRange {
  uint64_t address = 0;
  uint64_t bytes = 0;
};

// A best-fit allocator with exact accounting. It is thread-safe. A call takes well below a
// microsecond for any size as long as the process needs no new pages.
class DeviceMemory {
 public:
  // Reserves less than `bytes` where the process may not have that much address space (ulimit -v):
  // it takes what is available, but at most half of it, so that the process can go on, and logs
  // that. Returns RESOURCE_EXHAUSTED if not even kLeastBytes are available.
  static absl::StatusOr<std::unique_ptr<DeviceMemory>> Create(uint64_t bytes, bool strict = false);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Sizes are rounded up to kAlignment and charged as such. `hint` is honoured if that range is
  // free. RESOURCE_EXHAUSTED names request, free and total.
  absl::StatusOr<uint64_t> Allocate(uint64_t bytes, uint64_t hint);
  // Returns the size of the freed block, or NOT_FOUND for an address that Allocate did not return.
  absl::StatusOr<uint64_t> Free(uint64_t address);

  // Returns whether the range lies in memory that was allocated at some time, so that touching it
  // cannot fault. In strict mode it must lie in one block that is allocated now.
  bool Contains(uint64_t address, uint64_t bytes) const;

  // The epoch changes with every Free, and no two objects ever have the same one: a range that
  // Contains accepted in an epoch is accepted throughout that epoch.
  uint64_t epoch() const { return epoch_.load(std::memory_order_acquire); }

  // Returns the allocated block that contains the address. A signal handler may call this, so it
  // returns nullopt, too, where the blocks are being changed.
  std::optional<DeviceBlockRange> FindBlock(uint64_t address) const;

  HostView view() const { return {.base = base_, .bytes = total_, .offset = strict_ ? total_ : 0}; }
  uint64_t base() const { return base_; }
  uint64_t total_bytes() const { return total_; }
  uint64_t free_bytes() const;

  static constexpr uint64_t kAlignment = 128;
  static constexpr uint64_t kLeastBytes = uint64_t{64} << 20;

 private:
  DeviceMemory(uint64_t base, uint64_t total, bool strict);
  void AddFree(uint64_t address, uint64_t bytes);
  void RemoveFree(uint64_t address, uint64_t bytes);
  uint64_t FindPlace(uint64_t bytes, uint64_t alignment) const;
  absl::Status MakeAccessible(uint64_t end);
  std::optional<DeviceBlockRange> FindBlockLocked(uint64_t address) const;
  void* DataAt(uint64_t address) const { return view().At(address); }

  const uint64_t base_;
  const uint64_t total_;
  const bool strict_;
  mutable std::mutex mutex_;
  std::atomic<uint64_t> accessible_{0};  // bytes from base_ that are mapped readable and writable
  std::atomic<uint64_t> epoch_;
  uint64_t free_bytes_;
  std::map<uint64_t, uint64_t> used_;                     // address -> bytes
  std::map<uint64_t, uint64_t> free_;                     // address -> bytes; neighbours are joined
  std::set<std::pair<uint64_t, uint64_t>> free_by_size_;  // (bytes, address)
};

// Returns how much DRAM to emulate: HPU_EMULATOR_DRAM_BYTES if given, else `nominal`, at most half
// of the memory that this process may use (host and control group). Returns INVALID_ARGUMENT if the
// variable is not a number.
absl::StatusOr<uint64_t> DramBytes(uint64_t nominal);

}  // namespace hpu::emulator
