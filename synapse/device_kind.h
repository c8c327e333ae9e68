// The name of a device type in keys, manifests and messages.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "synapse/include/synapse_api_types.h"

namespace hpu {

// Returns "gaudi2" and the like, or "device<number>" for a type that we have no name for.
std::string DeviceKind(synDeviceType type);
// Is the inverse; returns nullopt for text that DeviceKind does not return.
std::optional<synDeviceType> DeviceTypeOf(std::string_view kind);

}  // namespace hpu
