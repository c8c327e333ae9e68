// How the client of a gRPC service shows who it is and whom it takes for the server.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "proto/tls_files.h"

namespace grpc {
class ChannelCredentials;
}  // namespace grpc

namespace hpu {

// Files are PEM and are read anew for every connection; a token only travels over TLS and, on this
// host, TCP.
struct Access {
  std::string ca_file;           // of the authorities that servers' certificates are checked with
  std::string certificate_file;  // the client's own; both or none
  std::string key_file;
  std::string token_file;  // its first line is sent as "authorization: Bearer ..."
  // How the options of the server begin that these are: "upstream" for --upstream-ca.
  std::string options = "upstream";
};

// The contents of the TLS files.
struct TlsAccess {
  std::string authorities;  // empty: those of the system
  TlsIdentity identity;     // empty: none is shown
  friend bool operator==(const TlsAccess&, const TlsAccess&) = default;
};

// Errors of ReadAuthorities and ReadTlsIdentity.
absl::StatusOr<TlsAccess> ReadTlsAccess(const Access& access);

// The server shows a certificate, we ours if there is one.
std::shared_ptr<grpc::ChannelCredentials> TlsCredentials(const TlsAccess& access);

// The value of the header "authorization", read anew. INVALID_ARGUMENT: the file has no first
// line that a header could be. Errors of RegularFile.
absl::StatusOr<std::string> ReadBearer(const std::string& token_file);

// All that can be wrong with the files, who may read the secret ones too.
absl::Status CheckAccess(const Access& access);

}  // namespace hpu
