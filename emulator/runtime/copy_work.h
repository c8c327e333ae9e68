// Queued copies and fills.
#pragma once

#include <vector>

#include "emulator/base/counters.h"
#include "emulator/memory/host_mappings.h"
#include "emulator/profiler/profiler.h"
#include "emulator/runtime/pack_cache.h"
#include "emulator/streams/stream.h"

namespace hpu::emulator {

// This is what all copies need.
struct CopyContext {
  PackCache* packs = nullptr;
  Counters* counters = nullptr;
  const HostMappings* mappings = nullptr;
};

struct CopyRange {
  uint64_t source = 0;
  uint64_t destination = 0;
  uint64_t bytes = 0;
};

// How a copy appears in traces.
struct CopyTrace {
  Profiler* profiler = nullptr;
  const char* name = "";  // outlives the work
  WorkOrigin origin;
};

class CopyWork : public Work {
 public:
  CopyWork(std::vector<CopyRange> ranges, const CopyContext& context, const CopyTrace& trace)
      : ranges_(std::move(ranges)), context_(context), trace_(trace) {}
  synStatus Run() override;
  std::string Name() const override { return trace_.name; }
  std::vector<MemoryUse> Uses() const override;

 private:
  // Strict mode: host memory must stay mapped until the copy has ended.
  synStatus CheckHostSide(uint64_t address, uint64_t bytes) const;

  const std::vector<CopyRange> ranges_;
  const CopyContext context_;
  const CopyTrace trace_;
};

class FillWork : public Work {
 public:
  // `width` is 1, 2 or 4 bytes.
  FillWork(uint64_t address, uint32_t value, uint32_t width, uint64_t count, PackCache* packs,
           const CopyTrace& trace)
      : address_(address),
        value_(value),
        width_(width),
        count_(count),
        packs_(packs),
        trace_(trace) {}
  synStatus Run() override;
  std::string Name() const override { return trace_.name; }
  std::vector<MemoryUse> Uses() const override { return {{address_, count_ * width_, true}}; }

 private:
  const uint64_t address_;
  const uint32_t value_;
  const uint32_t width_;
  const uint64_t count_;
  PackCache* const packs_;
  const CopyTrace trace_;
};

}  // namespace hpu::emulator
