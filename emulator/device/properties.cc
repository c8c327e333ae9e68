#include "emulator/device/properties.h"

namespace hpu::emulator {
namespace {

constexpr DeviceProperties kDevices[] = {
    {synDeviceGaudi, "GAUDI", "gaudi", 0x7FF0000000, 20u << 20, uint64_t{32} << 30, 0xff, 1900,
     128},
    {synDeviceGaudi2, "GAUDI2", "gaudi2", 0x1000FFFFFD000000, (48u << 20) - 2048,
     uint64_t{96} << 30, 0xffffff, 2000, 128},
    {synDeviceGaudi3, "GAUDI3", "gaudi3", 0x0200FFFFF0000000, 96u << 20, uint64_t{128} << 30,
     0xffffffffffffffff, 2000, 256},
};

}  // namespace

const DeviceProperties* PropertiesOf(synDeviceType type) {
  for (const DeviceProperties& device : kDevices) {
    if (device.type == type) return &device;
  }
  return nullptr;
}

const DeviceProperties* PropertiesByKey(std::string_view key) {
  for (const DeviceProperties& device : kDevices) {
    if (device.key == key) return &device;
  }
  return nullptr;
}

}  // namespace hpu::emulator
