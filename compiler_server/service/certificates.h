// When the certificates expire that this server shows: to its callers, to servers upstream, to a
// remote cache.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/cached_file.h"
#include "base/status.h"

namespace hpu::server {

// Seconds since the epoch from which on the chain in a PEM file is no longer valid: the first end
// of its certificates. INVALID_ARGUMENT names the option: the file or a certificate in it cannot be
// read, or it has none.
absl::StatusOr<int64_t> ExpiryOfChain(const std::string& option, const std::string& file);

// Thread-safe.
class Certificates {
 public:
  // `file` may be empty: there is none.
  void Watch(const std::string& option, const std::string& file);

  // Reads what has changed. Returns the first error; a chain that cannot be read keeps its expiry,
  // for gRPC keeps the old chain too.
  absl::Status Reload();

  // By option, without dashes: seconds since the epoch, of what could be read once.
  std::map<std::string, int64_t> expiries() const;

 private:
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::map<std::string, std::unique_ptr<CachedFile<int64_t>>> files_;
  std::map<std::string, int64_t> expiries_;
};

}  // namespace hpu::server
