// How a server listens to other hosts.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "compile_client/endpoint.h"

namespace hpu::server {

struct NetworkOptions {
  std::vector<client::Endpoint> listen;  // tcp:// and tls://; empty: only the unix socket
  std::string callers_file;  // CallerTable; needed where there is something to listen on
  // PEM files, read again when they change; needed for tls://.
  std::string certificate_file;
  std::string key_file;
  std::string client_ca_file;  // clients must show a certificate of these authorities; empty: none
};

// Whether an address of it is tls://.
bool HasTls(const NetworkOptions& options);

// INVALID_ARGUMENT names the option that is missing or wrong. Errors of TlsDoor::Make.
absl::Status CheckNetwork(const NetworkOptions& options);

// "ADDRESS: reason" of an address that cannot be listened on now; empty if it can.
std::string WhyNotListening(const client::Endpoint& endpoint);

}  // namespace hpu::server
