// Files of keys are small. They are read whole, replaced by a rename, and never followed through a
// link.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>

#include "base/bytes.h"
#include "base/status.h"

namespace hpu::store {

// Reads a file of `least` to `most` bytes. Returns errors of RegularFile. DATA_LOSS: the file has
// another size.
absl::StatusOr<Bytes> ReadKeyFile(const std::string& path, size_t least, size_t most);

// Reads exactly secret.size() bytes into `secret`, with the errors of ReadKeyFile.
// PERMISSION_DENIED: others may read the file.
absl::Status ReadSecretKeyFile(const std::string& path, std::span<uint8_t> secret);

// UNAVAILABLE: the file cannot be written; the message has the reason.
absl::Status WriteKeyFile(const std::string& path, std::span<const uint8_t> data, mode_t mode);

}  // namespace hpu::store
