// The options for listening to other hosts.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "compile_client/endpoint.h"

namespace hpu::server {

struct NetworkOptions {
  std::vector<client::Endpoint> listen;  // tcp:// and tls://; empty: only the unix socket
  std::string callers_file;              // for CallerTable; needed if `listen` is not empty
  // These are PEM files, which are read again when they change. They are needed for tls://.
  std::string certificate_file;
  std::string key_file;
  // clients must show a certificate of these authorities; empty: no check.
  std::string client_ca_file;
};

// Whether one of its addresses is tls://.
bool HasTls(const NetworkOptions& options);

// Returns INVALID_ARGUMENT with the option that is missing or wrong, and the errors of
// TlsDoor::Make.
absl::Status CheckNetwork(const NetworkOptions& options);

// Returns "ADDRESS: reason" if it is not possible to listen on the address now, else an empty text.
std::string WhyNotListening(const client::Endpoint& endpoint);

}  // namespace hpu::server
