// Lets the host read or write memory of an emulated device in place
// (DeviceProperties::host_addressable).
#pragma once

#include <cstdint>
#include <utility>

#include "backend/runtime/device.h"

namespace hpu::runtime {

// While the object lives, the range's bytes are resident and addressable. The owner must have
// waited for queued work.
class DirectAccess {
 public:
  DirectAccess(Device& device, uint64_t address, uint64_t bytes)
      : device_(&device), address_(address), bytes_(bytes) {
    device.BeginHostAccess(address, bytes);
  }
  ~DirectAccess() {
    if (device_ != nullptr) device_->EndHostAccess();
  }
  DirectAccess(DirectAccess&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)),
        address_(other.address_),
        bytes_(other.bytes_) {}
  DirectAccess& operator=(DirectAccess&&) = delete;

  // Call this after the host has changed the first `bytes` of the range.
  void NotifyWrite(uint64_t bytes) {
    if (bytes > 0) device_->NotifyHostWrite(address_, bytes);
  }
  void NotifyWrite() { NotifyWrite(bytes_); }

 private:
  Device* device_;
  uint64_t address_;
  uint64_t bytes_;
};

}  // namespace hpu::runtime
