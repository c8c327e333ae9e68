// The map from device addresses to the places where the emulator itself finds the bytes.
#pragma once

#include <cstdint>

namespace hpu::emulator {

// Device addresses are pointers to the bytes, except in strict mode: there they are a range that
// nobody may touch, and the bytes lie at a fixed distance from it. The default view is that of
// addresses outside of device memory.
struct HostView {
  uint64_t base = 0;    // the first device address
  uint64_t bytes = 0;   // of device memory
  uint64_t offset = 0;  // from a device address to its bytes

  bool Covers(uint64_t address) const { return address - base < bytes; }
  // Addresses outside of device memory, such as those of mapped host memory, are pointers already.
  void* At(uint64_t address) const {
    return reinterpret_cast<void*>(Covers(address) ? address + offset : address);
  }
  // Returns whether the host has no access under device addresses.
  bool strict() const { return offset != 0; }
};

// In strict mode memory has this value in every byte where its contents are undefined: a NaN in
// every type of floating-point numbers, and -1 in every type of integers.
inline constexpr int kPoison = 0xFF;

}  // namespace hpu::emulator
