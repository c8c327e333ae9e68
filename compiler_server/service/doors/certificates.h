// The expiry of the certificates that this server shows to its callers, to servers upstream and to
// a remote cache.
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
  // `file` may be empty if there is none.
  void Watch(const std::string& option, const std::string& file);

  // Reads the files that have changed. Returns the first error. A chain that cannot be read keeps
  // its expiry, because gRPC keeps the old chain too.
  absl::Status Reload();

  // Seconds since the epoch, by option without its dashes, of every file that could be read at
  // least once.
  std::map<std::string, int64_t> expiries() const;

 private:
  mutable std::mutex mutex_;
  // Both are guarded by mutex_.
  std::map<std::string, std::unique_ptr<CachedFile<int64_t>>> files_;
  std::map<std::string, int64_t> expiries_;
};

}  // namespace hpu::server
