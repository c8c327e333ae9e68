// Host ranges that the device may access (synHostMap, synHostMalloc). The emulated device could
// read any host memory; the registry exists so that a client that forgets to map fails here as it
// would on hardware.
#pragma once

#include <cstdint>
#include <map>
#include <shared_mutex>

namespace hpu::emulator {

class HostMappings {
 public:
  // Repeated maps of one pointer are counted; the longest size counts.
  void Map(uint64_t address, uint64_t bytes);
  // Unknown pointers are ignored.
  void Unmap(uint64_t address);
  // Returns whether one mapping covers the whole range.
  bool Contains(uint64_t address, uint64_t bytes) const;

 private:
  struct Mapping {
    uint64_t bytes = 0;
    uint64_t count = 0;
  };
  mutable std::shared_mutex mutex_;
  std::map<uint64_t, Mapping> mappings_;
  uint64_t longest_ = 0;  // the length of the longest mapping ever; bounds the search in Contains
};

}  // namespace hpu::emulator
