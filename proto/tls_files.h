// Certificates, keys and authorities of both ends of TLS. They are read from PEM files and checked
// before gRPC gets them, because gRPC only says that a connection failed.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace hpu {

enum class TlsEnd { kClient, kServer };

// All errors name the option, without its value, and the file; those of RegularFile are among them.

// Seconds since the epoch from which on the chain in a PEM file is no longer valid: the first end
// of its certificates. INVALID_ARGUMENT: a certificate in it cannot be read, or it has none.
absl::StatusOr<int64_t> ExpiryOfChain(const std::string& option, const std::string& file);

// Certificate chain and private key of one end, as PEM.
struct TlsIdentity {
  std::string chain;
  std::string key;
  friend bool operator==(const TlsIdentity&, const TlsIdentity&) = default;
};

// Reads and checks them; options are given without dashes. INVALID_ARGUMENT tells what is wrong: a
// certificate has expired or is not yet valid, the chain's order is wrong, its first certificate is
// not for this end, the key does not fit it. PERMISSION_DENIED: a server's key is no secret.
absl::StatusOr<TlsIdentity> ReadTlsIdentity(TlsEnd end, const std::string& chain_option,
                                            const std::string& chain_file,
                                            const std::string& key_option,
                                            const std::string& key_file);

// The authorities of a PEM file. INVALID_ARGUMENT: one is no authority, or none is valid now.
absl::StatusOr<std::string> ReadAuthorities(const std::string& option, const std::string& file);

}  // namespace hpu
