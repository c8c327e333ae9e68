// The properties that the emulated device types report (reference 4.2, 6.1). They are nominal
// figures of the hardware; only DRAM base and size are the emulator's own.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "synapse/include/synapse_api_types.h"

namespace hpu::emulator {

struct DeviceProperties {
  synDeviceType type;
  const char* name;      // the name that synDeviceGetName returns
  std::string_view key;  // the spelling in HPU_EMULATOR_DEVICE
  uint64_t sram_base;
  uint32_t sram_bytes;
  uint64_t dram_bytes;
  uint64_t tpc_mask;
  uint64_t clock_mhz;
  uint64_t address_alignment;
};

inline constexpr uint64_t kMaxDims = SYN_GAUDI_MAX_TENSOR_DIM;
inline constexpr uint64_t kMaxRmwBytes = uint64_t{16} << 20;

// These return nullptr if the type is not emulated.
const DeviceProperties* PropertiesOf(synDeviceType type);
const DeviceProperties* PropertiesByKey(std::string_view key);

}  // namespace hpu::emulator
