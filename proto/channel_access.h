// How the client of a gRPC service shows who it is and whom it takes for the server.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"

namespace grpc {
class ChannelCredentials;
}  // namespace grpc

namespace hpu {

// Files are PEM and are read again when they change; a token only travels over TLS and, on this
// host, TCP.
struct Access {
  std::string ca_file;           // of the authorities that servers' certificates are checked with
  std::string certificate_file;  // the client's own; both or none
  std::string key_file;
  std::string token_file;  // its first line is sent as "authorization: Bearer ..."
};

// The server shows a certificate, we ours if there is one. Without a file of authorities those of
// the system count.
std::shared_ptr<grpc::ChannelCredentials> TlsCredentials(const Access& access);

// The value of the header "authorization", read anew. INVALID_ARGUMENT: the file has no first
// line that a header could be.
absl::StatusOr<std::string> ReadBearer(const std::string& token_file);

}  // namespace hpu
