// Tells the service manager that started this process how it is: "READY=1", "STOPPING=1"
// (sd_notify(3): a datagram to the socket that NOTIFY_SOCKET names).
#pragma once

#include <string>

#include "base/status.h"

namespace hpu::server {

// Nothing happens where NOTIFY_SOCKET is not set. UNAVAILABLE: it is, and nobody takes the message.
absl::Status TellServiceManager(const std::string& state);

}  // namespace hpu::server
