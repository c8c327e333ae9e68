// Converts a listed program to a message of the protocol.
#pragma once

#include <optional>

#include "compile_client/rpc_client.h"

namespace hpu::server {

// Includes as many of its aliases as one message may hold, oldest first. Returns nothing if the
// manifest cannot be encoded.
std::optional<wire::ListEntry> ToListEntry(const client::Listed& program);

}  // namespace hpu::server
