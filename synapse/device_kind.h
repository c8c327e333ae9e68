// What a device type is called in keys, manifests and messages.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "synapse/include/synapse_api_types.h"

namespace hpu {

// "gaudi2"; "device<number>" for a type without a name of ours.
std::string DeviceKind(synDeviceType type);
// The other way; nullopt for text that DeviceKind does not answer.
std::optional<synDeviceType> DeviceTypeOf(std::string_view kind);

}  // namespace hpu
