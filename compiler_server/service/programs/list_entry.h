// A listed program as a message of the wire.
#pragma once

#include <optional>

#include "compile_client/rpc_client.h"

namespace hpu::server {

// As many of its aliases as one message may hold, oldest first. Nothing if the manifest cannot be
// written down.
std::optional<wire::ListEntry> ToListEntry(const client::Listed& program);

}  // namespace hpu::server
