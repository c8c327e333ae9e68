// Reports the state of this process to the service manager that started it: "READY=1", "STOPPING=1"
// (sd_notify(3): a datagram to the socket that NOTIFY_SOCKET names).
#pragma once

#include <string>

#include "base/status.h"

namespace hpu::server {

// Does nothing where NOTIFY_SOCKET is not set. Returns UNAVAILABLE if it is set and nobody receives
// the message.
absl::Status TellServiceManager(const std::string& state);

}  // namespace hpu::server
