// Files of keys: small, read whole, replaced by a rename, never through a link.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>

#include "base/bytes.h"
#include "base/status.h"

namespace hpu::store {

// A file of `least` to `most` bytes. Errors of RegularFile; DATA_LOSS: another size.
absl::StatusOr<Bytes> ReadKeyFile(const std::string& path, size_t least, size_t most);

// Exactly secret.size() bytes into `secret`. Also PERMISSION_DENIED: others may read the file.
absl::Status ReadSecretKeyFile(const std::string& path, std::span<uint8_t> secret);

// UNAVAILABLE, with the reason.
absl::Status WriteKeyFile(const std::string& path, std::span<const uint8_t> data, mode_t mode);

}  // namespace hpu::store
