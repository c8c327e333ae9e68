// How a server listens to other hosts.
#pragma once

#include <grpcpp/security/server_credentials.h>

#include <memory>
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

// INVALID_ARGUMENT names the option that is missing or wrong, or the file that cannot be read.
absl::Status CheckNetwork(const NetworkOptions& options);

// Of an endpoint that CheckNetwork let pass.
std::shared_ptr<grpc::ServerCredentials> ListenCredentials(const client::Endpoint& endpoint,
                                                           const NetworkOptions& options);

}  // namespace hpu::server
