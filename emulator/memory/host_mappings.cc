#include "emulator/memory/host_mappings.h"

#include <algorithm>
#include <mutex>

namespace hpu::emulator {

void HostMappings::Map(uint64_t address, uint64_t bytes) {
  std::unique_lock lock(mutex_);
  Mapping& mapping = mappings_[address];
  mapping.bytes = std::max(mapping.bytes, bytes);
  ++mapping.count;
  longest_ = std::max(longest_, bytes);
}

void HostMappings::Unmap(uint64_t address) {
  std::unique_lock lock(mutex_);
  const auto found = mappings_.find(address);
  if (found != mappings_.end() && --found->second.count == 0) mappings_.erase(found);
}

bool HostMappings::Contains(uint64_t address, uint64_t bytes) const {
  std::shared_lock lock(mutex_);
  auto it = mappings_.upper_bound(address);
  while (it != mappings_.begin()) {
    --it;
    const uint64_t offset = address - it->first;
    if (offset <= it->second.bytes && bytes <= it->second.bytes - offset) return true;
    if (offset > longest_) return false;
  }
  return false;
}

}  // namespace hpu::emulator
