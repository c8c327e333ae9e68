#include "emulator/memory/device_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>

#include "base/log.h"
#include "emulator/memory/touch_report.h"

namespace hpu::emulator {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;
// Blocks of at least this size get page-aligned addresses, so that freeing them can return whole
// pages.
constexpr uint64_t kLargeBytes = uint64_t{1} << 20;
constexpr uint64_t kGrowthBytes = uint64_t{64} << 20;

uint64_t RoundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

uint64_t AlignmentFor(uint64_t bytes) {
  if (bytes >= 2 * kHugePageBytes) return kHugePageBytes;
  return bytes >= kLargeBytes ? kPageBytes : DeviceMemory::kAlignment;
}

uint64_t NextEpoch() {
  static std::atomic<uint64_t> epochs{0};
  return epochs.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Returns the limit of the control group (version 2), if there is one.
uint64_t ControlGroupLimit() {
  std::ifstream file("/sys/fs/cgroup/memory.max");
  uint64_t limit = 0;
  return file >> limit ? limit : std::numeric_limits<uint64_t>::max();
}

// Returns how much the process may still map (ulimit -v).
uint64_t AddressSpaceLeft() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::numeric_limits<uint64_t>::max();
  }
  std::ifstream file("/proc/self/statm");
  uint64_t pages = 0;
  file >> pages;
  const uint64_t used = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

void* Reserve(uint64_t bytes) {
  return mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DeviceMemory>> DeviceMemory::Create(uint64_t bytes, bool strict) {
  // The bytes lie behind the addresses where these are apart.
  const uint64_t ranges = strict ? 2 : 1;
  const uint64_t wanted = RoundUp(std::max<uint64_t>(bytes, 1), kHugePageBytes);
  const uint64_t least = std::min(wanted, kLeastBytes);
  const uint64_t most = AddressSpaceLeft() / 2 / ranges / kHugePageBytes * kHugePageBytes;
  uint64_t total = std::max(least, std::min(wanted, most));
  void* range = Reserve(ranges * total + kHugePageBytes);
  while (range == MAP_FAILED && total > least) {
    total = std::max(least, RoundUp(total / 4 * 3, kHugePageBytes));
    range = Reserve(ranges * total + kHugePageBytes);
  }
  if (range == MAP_FAILED) {
    return Error(absl::StatusCode::kResourceExhausted, "cannot reserve ", total,
                 " bytes of address space for device memory: ", std::strerror(errno),
                 " (ulimit -v limits it)");
  }
  if (total < wanted) {
    HPU_LOG(kWarning,
            "device memory is smaller than wanted, the process's address space is limited"
            " (ulimit -v): wanted_bytes="
                << wanted << " bytes=" << total);
  }
  // Only the aligned part is kept.
  const auto start = reinterpret_cast<uint64_t>(range);
  const uint64_t base = RoundUp(start, kHugePageBytes);
  if (base > start) munmap(range, base - start);
  munmap(reinterpret_cast<void*>(base + ranges * total), start + kHugePageBytes - base);
  return std::unique_ptr<DeviceMemory>(new DeviceMemory(base, total, strict));
}

DeviceMemory::DeviceMemory(uint64_t base, uint64_t total, bool strict)
    : base_(base), total_(total), strict_(strict), epoch_(NextEpoch()), free_bytes_(total) {
  AddFree(base, total);
  if (strict) WatchTouches(this);
}

DeviceMemory::~DeviceMemory() {
  if (strict_) UnwatchTouches(this);
  munmap(reinterpret_cast<void*>(base_), strict_ ? 2 * total_ : total_);
}

void DeviceMemory::AddFree(uint64_t address, uint64_t bytes) {
  auto next = free_.lower_bound(address);
  if (next != free_.end() && next->first == address + bytes) {
    bytes += next->second;
    free_by_size_.erase({next->second, next->first});
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == address) {
      free_by_size_.erase({previous->second, previous->first});
      previous->second += bytes;
      free_by_size_.insert({previous->second, previous->first});
      return;
    }
  }
  free_.emplace_hint(next, address, bytes);
  free_by_size_.insert({bytes, address});
}

// Takes [address, address + bytes) out of the free range that contains it.
void DeviceMemory::RemoveFree(uint64_t address, uint64_t bytes) {
  const auto range = std::prev(free_.upper_bound(address));
  const auto [start, size] = *range;
  free_by_size_.erase({size, start});
  free_.erase(range);
  if (address > start) {
    free_.emplace(start, address - start);
    free_by_size_.insert({address - start, start});
  }
  const uint64_t end = address + bytes;
  if (start + size > end) {
    free_.emplace(end, start + size - end);
    free_by_size_.insert({start + size - end, end});
  }
}

// Returns the smallest free range that holds an aligned block; among equal ones the lowest, which
// keeps the accessible part short. Returns 0 if there is none.
uint64_t DeviceMemory::FindPlace(uint64_t bytes, uint64_t alignment) const {
  for (auto it = free_by_size_.lower_bound({bytes, 0}); it != free_by_size_.end(); ++it) {
    const uint64_t place = RoundUp(it->second, alignment);
    if (place + bytes <= it->second + it->first) return place;
  }
  return 0;
}

absl::Status DeviceMemory::MakeAccessible(uint64_t end) {
  const uint64_t old_bytes = accessible_.load(std::memory_order_relaxed);
  if (end - base_ <= old_bytes) return absl::OkStatus();
  const uint64_t new_bytes = std::min(total_, RoundUp(end - base_, kGrowthBytes));
  if (mprotect(DataAt(base_ + old_bytes), new_bytes - old_bytes, PROT_READ | PROT_WRITE) != 0) {
    return Error(absl::StatusCode::kResourceExhausted, "the system refuses ", new_bytes - old_bytes,
                 " bytes for device memory: ", std::strerror(errno));
  }
  // MADV_HUGEPAGE is not used: with it the first touch of 440 MB took 320 to 995 ms of system time
  // instead of 230 on a virtual machine, and streams read no faster afterwards.
  accessible_.store(new_bytes, std::memory_order_release);
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> DeviceMemory::Allocate(uint64_t bytes, uint64_t hint) {
  std::lock_guard lock(mutex_);
  const auto exhausted = [&](const char* why) {
    return Error(absl::StatusCode::kResourceExhausted, "device memory: ", bytes,
                 " bytes requested, ", free_bytes_, " free of ", total_, why);
  };
  if (bytes > free_bytes_) return exhausted("");
  const uint64_t size = RoundUp(bytes, kAlignment);
  uint64_t place = 0;
  if (hint != 0 && hint % kAlignment == 0) {
    const auto range = free_.upper_bound(hint);
    if (range != free_.begin()) {
      const auto& [start, length] = *std::prev(range);
      if (hint - start < length && size <= length - (hint - start)) place = hint;
    }
  }
  if (place == 0) place = FindPlace(size, AlignmentFor(size));
  if (place == 0) place = FindPlace(size, kAlignment);
  if (place == 0) return exhausted(" (fragmented: no free range is long enough)");
  RETURN_IF_ERROR(MakeAccessible(place + size));
  RemoveFree(place, size);
  used_.emplace(place, size);
  free_bytes_ -= size;
  if (strict_) std::memset(DataAt(place), kPoison, size);
  return place;
}

absl::StatusOr<uint64_t> DeviceMemory::Free(uint64_t address) {
  std::lock_guard lock(mutex_);
  const auto block = used_.find(address);
  if (block == used_.end()) {
    return NotFound("address ", address, " is not the start of allocated device memory");
  }
  const uint64_t size = block->second;
  used_.erase(block);
  free_bytes_ += size;
  epoch_.store(NextEpoch(), std::memory_order_release);
  AddFree(address, size);
  if (strict_) {
    std::memset(DataAt(address), kPoison, size);
  } else if (size >= kLargeBytes) {
    // Only pages that belong to this block alone are returned.
    const uint64_t first = RoundUp(address, kPageBytes);
    const uint64_t last = (address + size) / kPageBytes * kPageBytes;
    if (last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  }
  return size;
}

bool DeviceMemory::Contains(uint64_t address, uint64_t bytes) const {
  if (strict_) {
    std::lock_guard lock(mutex_);
    const std::optional<DeviceBlockRange> block = FindBlockLocked(address);
    return block.has_value() && bytes <= block->bytes - (address - block->address);
  }
  const uint64_t accessible = accessible_.load(std::memory_order_acquire);
  return address >= base_ && address - base_ <= accessible &&
         bytes <= accessible - (address - base_);
}

std::optional<DeviceBlockRange> DeviceMemory::FindBlock(uint64_t address) const {
  std::unique_lock lock(mutex_, std::try_to_lock);
  return lock.owns_lock() ? FindBlockLocked(address) : std::nullopt;
}

std::optional<DeviceBlockRange> DeviceMemory::FindBlockLocked(uint64_t address) const {
  const auto after = used_.upper_bound(address);
  if (after == used_.begin()) return std::nullopt;
  const auto& [start, bytes] = *std::prev(after);
  if (address - start >= bytes) return std::nullopt;
  return DeviceBlockRange{start, bytes};
}

uint64_t DeviceMemory::free_bytes() const {
  std::lock_guard lock(mutex_);
  return free_bytes_;
}

absl::StatusOr<uint64_t> DramBytes(uint64_t nominal) {
  const char* text = std::getenv("HPU_EMULATOR_DRAM_BYTES");
  if (text != nullptr && *text != '\0') {
    char* end = nullptr;
    errno = 0;
    const uint64_t bytes = std::strtoull(text, &end, 0);
    if (errno != 0 || *end != '\0' || bytes == 0 || *text == '-') {
      return InvalidArgument("HPU_EMULATOR_DRAM_BYTES=", text,
                             ": the value must be a positive number");
    }
    return bytes;
  }
  const uint64_t host =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return std::min(nominal, std::min(host, ControlGroupLimit()) / 2);
}

}  // namespace hpu::emulator
