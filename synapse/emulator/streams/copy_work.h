// Queued copies and fills.
#pragma once

#include <vector>

#include "synapse/emulator/runtime/counters.h"
#include "synapse/emulator/runtime/pack_cache.h"
#include "synapse/emulator/streams/stream.h"

namespace hpu::emulator {

struct CopyRange {
  uint64_t source = 0;
  uint64_t destination = 0;
  uint64_t bytes = 0;
};

class CopyWork : public Work {
 public:
  // `packs` hears of written device memory; null for copies to the host.
  CopyWork(std::vector<CopyRange> ranges, PackCache* packs, Counters* counters)
      : ranges_(std::move(ranges)), packs_(packs), counters_(counters) {}
  synStatus Run() override;

 private:
  const std::vector<CopyRange> ranges_;
  PackCache* const packs_;
  Counters* const counters_;
};

class FillWork : public Work {
 public:
  // `width`: 1, 2 or 4 bytes.
  FillWork(uint64_t address, uint32_t value, uint32_t width, uint64_t count, PackCache* packs)
      : address_(address), value_(value), width_(width), count_(count), packs_(packs) {}
  synStatus Run() override;

 private:
  const uint64_t address_;
  const uint32_t value_;
  const uint32_t width_;
  const uint64_t count_;
  PackCache* const packs_;
};

}  // namespace hpu::emulator
