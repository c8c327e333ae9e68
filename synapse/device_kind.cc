#include "synapse/device_kind.h"

namespace hpu {
namespace {

constexpr struct {
  synDeviceType type;
  std::string_view kind;
} kNames[] = {{synDeviceGaudi, "gaudi"}, {synDeviceGaudi2, "gaudi2"}, {synDeviceGaudi3, "gaudi3"}};

}  // namespace

std::string DeviceKind(synDeviceType type) {
  for (const auto& row : kNames) {
    if (row.type == type) return std::string(row.kind);
  }
  return "device" + std::to_string(static_cast<int>(type));
}

std::optional<synDeviceType> DeviceTypeOf(std::string_view kind) {
  for (int number = 0; number < synDeviceTypeInvalid; ++number) {
    const auto type = static_cast<synDeviceType>(number);
    if (DeviceKind(type) == kind) return type;
  }
  return std::nullopt;
}

}  // namespace hpu
