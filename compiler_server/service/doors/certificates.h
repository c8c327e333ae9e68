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
