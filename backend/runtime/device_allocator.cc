#include "backend/runtime/device_allocator.h"

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <sstream>

#include "backend/runtime/bridge_log.h"
#include "backend/runtime/device.h"
#include "backend/runtime/stream.h"
#include "backend/runtime/syn_status.h"

namespace hpu::runtime {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
// Requests up to kSmallRequest share segments of kSmallSegment; up to kMediumRequest, segments of
// kMediumSegment; larger ones get a segment of their own, rounded to kLargeRounding.
constexpr uint64_t kSmallRequest = kMiB;
constexpr uint64_t kSmallSegment = 2 * kMiB;
constexpr uint64_t kMediumRequest = 10 * kMiB;
constexpr uint64_t kMediumSegment = 20 * kMiB;
constexpr uint64_t kLargeRounding = 2 * kMiB;

constexpr uint64_t RoundUp(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

uint64_t SegmentBytes(uint64_t bytes) {
  if (bytes <= kSmallRequest) return kSmallSegment;
  if (bytes < kMediumRequest) return kMediumSegment;
  return RoundUp(bytes, kLargeRounding);
}

bool MeansOutOfMemory(synStatus status) {
  // 26 is what the 1.16 library returns.
  return status == synOutOfDeviceMemory || status == synFailedToAllocateDeviceMemory ||
         status == synOutOfResources || status == synFail;
}

}  // namespace

std::string FormatBytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return std::to_string(bytes) + " bytes";
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << value << ' ' << kUnits[unit];
  return text.str();
}

DeviceAllocator::DeviceAllocator(Device& device, uint64_t limit_bytes)
    : device_(device), free_lists_(2 * Device::kMaxStreams) {
  stats_.limit = limit_bytes;
}

DeviceAllocator::FreeList& DeviceAllocator::ListOf(const Stream& stream, bool small) {
  return free_lists_[2 * stream.id() + (small ? 1 : 0)];
}

DeviceAllocator::FreeList& DeviceAllocator::ListOf(const DeviceBlock& block) {
  return ListOf(*block.stream, block.small);
}

absl::StatusOr<DeviceBlock*> DeviceAllocator::Allocate(uint64_t bytes, Stream& stream) {
  RETURN_IF_ERROR(device_.CheckUsable());
  CallContext context = ContextOfCaller();
  std::lock_guard lock(mutex_);
  if (bytes == 0) return InvalidArgument("an allocation of 0 bytes");
  if (bytes > stats_.limit)
    return OutOfMemory(bytes, stream);  // also keeps rounding from overflowing
  const uint64_t rounded = RoundUp(bytes, kBlockAlignment);
  const bool small = rounded <= kSmallRequest;
  ReclaimFinished(/*wait=*/false);
  DeviceBlock* block = TakeCached(rounded, stream, small);
  if (block == nullptr) {
    ASSIGN_OR_RETURN(block, TakeSegment(rounded, stream, small));
  }
  // This splits even a small rest, which joins its neighbour once that is free.
  if (block->bytes > rounded) Split(block, rounded);
  block->allocated = true;
  block->requested = bytes;
  block->uses = {{&stream, stream.NextPosition()}, {}};
  Note("alloc", block->address, bytes, stream, context);
  block->context = std::move(context);
  stats_.in_use += block->bytes;
  stats_.max_in_use = std::max(stats_.max_in_use, stats_.in_use);
  stats_.max_alloc_size = std::max(stats_.max_alloc_size, block->bytes);
  ++stats_.num_allocs;
  ++stats_.active_allocs;
  return block;
}

DeviceBlock* DeviceAllocator::TakeCached(uint64_t bytes, Stream& stream, bool small) {
  FreeList& list = ListOf(stream, small);
  DeviceBlock wanted;
  wanted.bytes = bytes;
  const auto found = list.lower_bound(&wanted);
  if (found == list.end()) return nullptr;
  DeviceBlock* block = *found;
  list.erase(found);
  return block;
}

absl::StatusOr<DeviceBlock*> DeviceAllocator::TakeSegment(uint64_t bytes, Stream& stream,
                                                          bool small) {
  const uint64_t segment_bytes = SegmentBytes(bytes);
  absl::StatusOr<DeviceBlock*> block = TakeSegmentOfSize(segment_bytes, stream, small);
  if (block.ok() || !absl::IsResourceExhausted(block.status())) return block;
  BRIDGE_LOG(kDevice, kWarning,
             "device memory short: want=" << segment_bytes << " in_use=" << stats_.in_use
                                          << " reserved=" << stats_.reserved
                                          << ": releasing the cache");
  RETURN_IF_ERROR(ReleaseCached());
  // Waiting for pending frees may have put a fitting block into the list.
  if (DeviceBlock* cached = TakeCached(bytes, stream, small)) return cached;
  block = TakeSegmentOfSize(segment_bytes, stream, small);
  if (!block.ok() && absl::IsResourceExhausted(block.status()) && bytes < segment_bytes) {
    block = TakeSegmentOfSize(bytes, stream, small);
  }
  if (!block.ok() && absl::IsResourceExhausted(block.status())) return OutOfMemory(bytes, stream);
  return block;
}

absl::StatusOr<DeviceBlock*> DeviceAllocator::TakeSegmentOfSize(uint64_t segment_bytes,
                                                                Stream& stream, bool small) {
  uint64_t address = 0;
  const synStatus status =
      device_.api().synDeviceMalloc(device_.id(), segment_bytes, 0, 0, &address);
  if (MeansOutOfMemory(status))
    return Error(absl::StatusCode::kResourceExhausted, "synDeviceMalloc");
  RETURN_IF_ERROR(ToStatus(device_.api(), status, "synDeviceMalloc"));
  auto* block = new DeviceBlock;
  block->address = address;
  block->bytes = segment_bytes;
  block->stream = &stream;
  block->small = small;
  segments_.emplace(address, block);
  Note("segment_alloc", address, segment_bytes, stream);
  ++stats_.total_system_allocs;
  ++stats_.total_active_allocs;
  stats_.reserved += segment_bytes;
  stats_.max_reserved = std::max(stats_.max_reserved, stats_.reserved);
  BRIDGE_LOG(kDevice, kDebug,
             "segment alloc bytes=" << segment_bytes << " stream=" << stream.id()
                                    << " reserved=" << stats_.reserved);
  return block;
}

void DeviceAllocator::Split(DeviceBlock* block, uint64_t bytes) {
  auto* rest = new DeviceBlock;
  rest->address = block->address + bytes;
  rest->bytes = block->bytes - bytes;
  rest->stream = block->stream;
  rest->small = block->small;
  rest->previous = block;
  rest->next = block->next;
  if (rest->next != nullptr) rest->next->previous = rest;
  block->next = rest;
  block->bytes = bytes;
  ListOf(*rest).insert(rest);
}

void DeviceAllocator::Free(DeviceBlock* block) {
  if (!device_.CheckUsable().ok()) return;
  const CallContext context = ContextOfCaller();
  std::lock_guard lock(mutex_);
  HPU_CHECK(block->allocated, "block freed twice");
  block->allocated = false;
  block->context = nullptr;
  Note("free_requested", block->address, block->requested, *block->stream, context);
  stats_.in_use -= block->bytes;
  ++stats_.num_frees;
  --stats_.active_allocs;
  if (block->used_by.empty() || !RecordUses(block)) ReturnToList(block);
}

// Returns true if the block now waits for events of other streams.
bool DeviceAllocator::RecordUses(DeviceBlock* block) {
  for (Stream* stream : block->used_by) {
    synEventHandle event = nullptr;
    if (device_.api().synEventCreate(&event, device_.id(), 0) == synSuccess &&
        device_.api().synEventRecord(event, stream->handle()) == synSuccess) {
      pending_.push_back({event, block});
      ++block->pending_events;
      continue;
    }
    // No event is available: waiting here is slower but just as safe.
    if (event != nullptr) device_.api().synEventDestroy(event);
    device_.api().synStreamSynchronize(stream->handle());
  }
  block->used_by.clear();
  return block->pending_events > 0;
}

void DeviceAllocator::ReclaimFinished(bool wait) {
  for (auto it = pending_.begin(); it != pending_.end();) {
    if (wait) device_.api().synEventSynchronize(it->event);
    if (device_.api().synEventQuery(it->event) == synBusy) {
      ++it;
      continue;
    }
    device_.api().synEventDestroy(it->event);
    if (--it->block->pending_events == 0) ReturnToList(it->block);
    it = pending_.erase(it);
  }
}

DeviceBlock* DeviceAllocator::JoinWith(DeviceBlock* block, DeviceBlock* neighbour) {
  if (neighbour == nullptr || neighbour->allocated || neighbour->pending_events > 0) return block;
  ListOf(*neighbour).erase(neighbour);
  DeviceBlock* first = neighbour == block->previous ? neighbour : block;
  DeviceBlock* second = first == block ? neighbour : block;
  first->bytes += second->bytes;
  first->next = second->next;
  if (first->next != nullptr) first->next->previous = first;
  delete second;
  return first;
}

void DeviceAllocator::ReturnToList(DeviceBlock* block) {
  Note("free_completed", block->address, block->requested, *block->stream);
  block = JoinWith(block, block->previous);
  block = JoinWith(block, block->next);
  ListOf(*block).insert(block);
}

void DeviceAllocator::AddUser(DeviceBlock* block, Stream& stream) {
  if (block->stream == &stream) return;
  if (std::find(block->used_by.begin(), block->used_by.end(), &stream) == block->used_by.end()) {
    block->used_by.push_back(&stream);
  }
}

void DeviceAllocator::RecordStream(DeviceBlock* block, Stream& stream) {
  if (block->stream == &stream) return;
  std::lock_guard lock(mutex_);
  AddUser(block, stream);
}

absl::StatusOr<bool> DeviceAllocator::Use(DeviceBlock* block, Stream& stream, Access access) {
  if (!device_.has_several_streams()) return false;
  std::vector<Stream*> earlier;
  {
    std::lock_guard lock(mutex_);
    const auto come_after = [&](const StreamUse& use) {
      // The last use on the default stream may be later than the one that was noted.
      const uint64_t position = use.stream->id() == 0
                                    ? std::max(use.position, device_.untracked_position())
                                    : use.position;
      if (!stream.IsAfter(*use.stream, position)) earlier.push_back(use.stream);
    };
    BlockUses& uses = block->uses;
    come_after(uses.written);
    const StreamUse use{&stream, stream.NextPosition()};
    if (access == Access::kWrite) {
      for (const StreamUse& read : uses.reads) come_after(read);
      uses.reads.clear();
      uses.written = use;
    } else {
      std::erase_if(uses.reads, [&](const StreamUse& read) { return read.stream == &stream; });
      uses.reads.push_back(use);
    }
    AddUser(block, stream);
  }
  for (Stream* other : earlier) RETURN_IF_ERROR(stream.WaitFor(*other));
  return !earlier.empty();
}

absl::Status DeviceAllocator::EmptyCache() {
  RETURN_IF_ERROR(device_.CheckUsable());
  std::lock_guard lock(mutex_);
  return ReleaseCached();
}

absl::Status DeviceAllocator::ReleaseCached() {
  ReclaimFinished(/*wait=*/true);
  bool waited = false;
  for (FreeList& list : free_lists_) {
    for (auto it = list.begin(); it != list.end();) {
      DeviceBlock* block = *it;
      if (block->previous != nullptr || block->next != nullptr) {
        ++it;
        continue;
      }
      if (!waited) {  // work still queued on the block's stream may use it
        RETURN_IF_SYN_ERROR(device_.api(), synDeviceSynchronize, device_.id());
        waited = true;
      }
      it = list.erase(it);
      RETURN_IF_SYN_ERROR(device_.api(), synDeviceFree, device_.id(), block->address, 0);
      segments_.erase(block->address);
      Note("segment_free", block->address, block->bytes, *block->stream);
      stats_.reserved -= block->bytes;
      ++stats_.total_system_frees;
      --stats_.total_active_allocs;
      delete block;
    }
  }
  return absl::OkStatus();
}

absl::Status DeviceAllocator::OutOfMemory(uint64_t bytes, const Stream& stream) {
  uint64_t free_bytes = 0;
  uint64_t total_bytes = stats_.limit;
  device_.api().synDeviceGetMemoryInfo(device_.id(), &free_bytes, &total_bytes);
  Note("oom", free_bytes, bytes, stream);
  return Error(absl::StatusCode::kResourceExhausted, "hpu out of memory: tried to allocate ",
               FormatBytes(bytes), " (", bytes, " bytes); free ", FormatBytes(free_bytes),
               ", total ", FormatBytes(total_bytes), ", in use by tensors ",
               FormatBytes(stats_.in_use), ", held in the allocator's cache ",
               FormatBytes(stats_.reserved - stats_.in_use));
}

CallContext DeviceAllocator::ContextOfCaller() const {
  // The function may wait for Python's lock, whose holder may wait for the allocator.
  CallContext (*const context)() = context_.load(std::memory_order_relaxed);
  return context == nullptr ? nullptr : context();
}

void DeviceAllocator::Note(const char* action, uint64_t address, uint64_t bytes,
                           const Stream& stream, const CallContext& context) {
  if (most_events_ == 0) return;
  if (events_.size() >= most_events_) events_.pop_front();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  events_.push_back({action, address, bytes, stream.id(),
                     std::chrono::duration_cast<std::chrono::microseconds>(now).count(), context});
}

void DeviceAllocator::RecordHistory(std::optional<HistoryOptions> options) {
  std::lock_guard lock(mutex_);
  most_events_ = options.has_value() ? options->most_events : 0;
  context_ = options.has_value() ? options->context : nullptr;
  events_.clear();
}

MemorySnapshot DeviceAllocator::Snapshot() const {
  std::lock_guard lock(mutex_);
  MemorySnapshot snapshot;
  for (const auto& [address, first] : segments_) {
    SegmentInfo segment{address, 0, first->stream->id(), first->small, {}};
    for (const DeviceBlock* block = first; block != nullptr; block = block->next) {
      segment.bytes += block->bytes;
      const char* state = block->allocated            ? "active_allocated"
                          : block->pending_events > 0 ? "active_awaiting_free"
                                                      : "inactive";
      segment.blocks.push_back({block->address, block->bytes,
                                block->allocated ? block->requested : 0, state, block->context});
    }
    snapshot.segments.push_back(std::move(segment));
  }
  snapshot.events.assign(events_.begin(), events_.end());
  return snapshot;
}

MemoryStats DeviceAllocator::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void DeviceAllocator::ResetPeak() {
  std::lock_guard lock(mutex_);
  stats_.max_in_use = stats_.in_use;
  stats_.max_reserved = stats_.reserved;
  stats_.max_alloc_size = 0;
}

void DeviceAllocator::ResetAccumulated() {
  std::lock_guard lock(mutex_);
  stats_.num_allocs = stats_.num_frees = 0;
  stats_.total_system_allocs = stats_.total_system_frees = 0;
}

}  // namespace hpu::runtime
