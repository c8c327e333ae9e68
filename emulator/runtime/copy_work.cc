#include "emulator/runtime/copy_work.h"

#include <algorithm>
#include <cstring>

#include "emulator/base/clock.h"
#include "emulator/base/status.h"

namespace hpu::emulator {
namespace {

// Records the copy that runs while the object lives.
class TracedCopy {
 public:
  TracedCopy(const CopyTrace& trace, uint64_t bytes)
      : trace_(trace),
        bytes_(bytes),
        start_ns_(trace.profiler->device_tracing() ? NowNanoseconds() : 0) {}
  ~TracedCopy() {
    if (start_ns_ == 0) return;
    trace_.profiler->AddCopy(trace_.name, trace_.origin, {start_ns_, NowNanoseconds()}, bytes_);
  }
  TracedCopy(const TracedCopy&) = delete;
  TracedCopy& operator=(const TracedCopy&) = delete;

 private:
  const CopyTrace& trace_;
  const uint64_t bytes_;
  const uint64_t start_ns_;
};

uint64_t TotalBytes(const std::vector<CopyRange>& ranges) {
  uint64_t bytes = 0;
  for (const CopyRange& range : ranges) bytes += range.bytes;
  return bytes;
}

}  // namespace

std::vector<MemoryUse> CopyWork::Uses() const {
  const HostView& memory = context_.packs->memory();
  std::vector<MemoryUse> uses;
  for (const CopyRange& range : ranges_) {
    if (memory.Covers(range.source)) uses.push_back({range.source, range.bytes, false});
    if (memory.Covers(range.destination)) uses.push_back({range.destination, range.bytes, true});
  }
  return uses;
}

synStatus CopyWork::CheckHostSide(uint64_t address, uint64_t bytes) const {
  const HostView& memory = context_.packs->memory();
  if (!memory.strict() || memory.Covers(address) || context_.mappings->Contains(address, bytes)) {
    return synSuccess;
  }
  return Fail(synMappingNotFound, trace_.name, ": ", bytes, " bytes of host memory at ", address,
              " were unmapped or freed before the copy ran");
}

synStatus CopyWork::Run() {
  const TracedCopy traced(trace_, TotalBytes(ranges_));
  MemoryAccess access(context_.packs);
  for (const CopyRange& range : ranges_) {
    SYN_RETURN_IF_FAILED(CheckHostSide(range.source, range.bytes));
    SYN_RETURN_IF_FAILED(CheckHostSide(range.destination, range.bytes));
    const void* source = access.Use(range.source, range.bytes);
    std::memmove(access.Use(range.destination, range.bytes), source, range.bytes);
    context_.packs->Drop(range.destination, range.bytes);
    Count(context_.counters->bytes_copied, range.bytes);
  }
  Count(context_.counters->copies, ranges_.size());
  return synSuccess;
}

synStatus FillWork::Run() {
  const TracedCopy traced(trace_, count_ * width_);
  MemoryAccess access(packs_);
  void* const bytes = access.Use(address_, count_ * width_);
  const auto low_byte = static_cast<uint8_t>(value_);
  if (width_ == 1 || value_ == 0) {
    std::memset(bytes, low_byte, count_ * width_);
  } else if (width_ == 2) {
    auto* words = static_cast<uint16_t*>(bytes);
    std::fill(words, words + count_, static_cast<uint16_t>(value_));
  } else {
    auto* words = static_cast<uint32_t*>(bytes);
    std::fill(words, words + count_, value_);
  }
  packs_->Drop(address_, count_ * width_);
  return synSuccess;
}

}  // namespace hpu::emulator
