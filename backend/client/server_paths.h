// The places where a user's compile server keeps its files.
#pragma once

#include <string>

#include "base/status.h"

namespace hpu::client {

struct ServerPaths {
  std::string state_dir;  // log and build-id cache; holds store/ too unless it is a substitute
  std::string store;
  std::string socket;
  std::string log;
};

// Everything is in `cache_dir`, with the socket in its folder run/ (mode 0700). A cache folder that
// cannot be written, or whose path is too long for a socket, is replaced by a substitute of this
// user under $XDG_RUNTIME_DIR or /tmp, whose name contains a hash of the cache folder. Folders are
// created. Returns PERMISSION_DENIED if the substitute belongs to somebody else or is open to
// others, and UNAVAILABLE if even the substitute cannot be made.
absl::StatusOr<ServerPaths> MakeServerPaths(const std::string& cache_dir);

}  // namespace hpu::client
