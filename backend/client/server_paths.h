// Where a user's compile server keeps what it has.
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

// Everything lies in `cache_dir`, the socket in its folder run/ (mode 0700). A cache folder that
// cannot be written, or whose path is too long for a socket, gets a substitute of this user under
// $XDG_RUNTIME_DIR or /tmp, named by a hash of the cache folder. Folders are created.
// PERMISSION_DENIED: the substitute belongs to somebody else or is open to others. UNAVAILABLE: not
// even the substitute can be made.
absl::StatusOr<ServerPaths> MakeServerPaths(const std::string& cache_dir);

}  // namespace hpu::client
