// Queued copies and fills.
#pragma once

#include <vector>

#include "emulator/base/counters.h"
#include "emulator/profiler/profiler.h"
#include "emulator/runtime/pack_cache.h"
#include "emulator/streams/stream.h"

namespace hpu::emulator {

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
  CopyWork(std::vector<CopyRange> ranges, PackCache* packs, Counters* counters,
           const CopyTrace& trace)
      : ranges_(std::move(ranges)), packs_(packs), counters_(counters), trace_(trace) {}
  synStatus Run() override;

 private:
  const std::vector<CopyRange> ranges_;
  PackCache* const packs_;
  Counters* const counters_;
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

 private:
  const uint64_t address_;
  const uint32_t value_;
  const uint32_t width_;
  const uint64_t count_;
  PackCache* const packs_;
  const CopyTrace trace_;
};

}  // namespace hpu::emulator
