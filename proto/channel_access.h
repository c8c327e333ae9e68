// How the client of a gRPC service identifies itself and which servers it accepts.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "proto/tls_files.h"

namespace grpc {
class ChannelCredentials;
}  // namespace grpc

namespace hpu {

// The files are PEM and are read again for every connection. A token is only sent over TLS and, on
// this host, over TCP.
struct Access {
  std::string ca_file;           // of the authorities that must have signed a server's certificate
  std::string certificate_file;  // the client's own; both or none
  std::string key_file;
  std::string token_file;  // its first line is sent as "authorization: Bearer ..."
  // The prefix of the corresponding options of the server: "upstream" for --upstream-ca.
  std::string options = "upstream";
};

// The contents of the TLS files.
struct TlsAccess {
  std::string authorities;  // empty: those of the system
  TlsIdentity identity;     // empty: the client shows none
  friend bool operator==(const TlsAccess&, const TlsAccess&) = default;
};

// Returns the errors of ReadAuthorities and ReadTlsIdentity.
absl::StatusOr<TlsAccess> ReadTlsAccess(const Access& access);

// The server shows a certificate, and the client shows its own if it has one.
std::shared_ptr<grpc::ChannelCredentials> TlsCredentials(const TlsAccess& access);

// Returns the value of the header "authorization", read again. Returns INVALID_ARGUMENT if the
// first line of the file cannot be a header, and the errors of RegularFile.
absl::StatusOr<std::string> ReadBearer(const std::string& token_file);

// Checks everything that can be wrong with the files, including who may read the secret ones.
absl::Status CheckAccess(const Access& access);

}  // namespace hpu
