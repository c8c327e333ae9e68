// Certificates, keys and authorities for both ends of TLS. They are read from PEM files and checked
// before gRPC gets them, because gRPC only reports that a connection failed.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace hpu {

enum class TlsEnd { kClient, kServer };

// All errors name the option, without its value, and the file; the errors of RegularFile are among
// them.

// Returns the time, in seconds since the epoch, when the chain in a PEM file becomes invalid, which
// is the first expiry of its certificates. Returns INVALID_ARGUMENT if a certificate cannot be read
// or the file has none.
absl::StatusOr<int64_t> ExpiryOfChain(const std::string& option, const std::string& file);

// The certificate chain and private key of one end, as PEM.
struct TlsIdentity {
  std::string chain;
  std::string key;
  friend bool operator==(const TlsIdentity&, const TlsIdentity&) = default;
};

// Reads and checks them. Options are given without dashes. Returns INVALID_ARGUMENT with what is
// wrong: a certificate has expired or is not yet valid, the order of the chain is wrong, its first
// certificate is not for this end, or the key does not match it. Returns PERMISSION_DENIED if
// others can read a server's key.
absl::StatusOr<TlsIdentity> ReadTlsIdentity(TlsEnd end, const std::string& chain_option,
                                            const std::string& chain_file,
                                            const std::string& key_option,
                                            const std::string& key_file);

// Returns the authorities of a PEM file. Returns INVALID_ARGUMENT if one is no authority, or if
// none is valid now.
absl::StatusOr<std::string> ReadAuthorities(const std::string& option, const std::string& file);

}  // namespace hpu
