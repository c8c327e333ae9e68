// Leases: one of several compile servers compiles a program, the others wait for it.
//
// A lease saves work and guards nothing. It can be lost at any time (it expires, its engine fails
// over to a replica that never heard of it, or forgets it), and then two servers compile the same
// program. That costs the second compilation and nothing else: programs are filed under their
// content key, whichever is written last serves all. So nobody may rely on being alone, and nobody
// may wait for a holder longer than Holder::remaining says without asking again.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/hash.h"
#include "base/status.h"

namespace hpu::store {

struct Lease {
  Digest key{};
  std::string holder;
  // Larger than those of all leases before it, as far as the engine keeps its counter or the
  // servers' clocks agree: what a later holder has written is not to be replaced by an earlier one.
  uint64_t fencing_token = 0;
  // Not later than the engine ends it.
  std::chrono::steady_clock::time_point expires_at{};
  // What proves to the engine whose it is.
  std::string proof;
};

struct LeaseHolder {
  std::string holder;
  uint64_t fencing_token = 0;
  std::chrono::milliseconds remaining{0};
};

// Thread-safe. UNAVAILABLE from any call: the engine cannot be asked; go on without a lease.
class LeaseKeeper {
 public:
  virtual ~LeaseKeeper() = default;

  // ALREADY_EXISTS, naming the holder: it is taken (also by `holder` itself; Look tells for how
  // long). INVALID_ARGUMENT: an empty or overlong holder, no time to live.
  virtual absl::StatusOr<Lease> TryTake(const Digest& key, const std::string& holder,
                                        std::chrono::milliseconds ttl) = 0;
  // Makes it live `ttl` from now on. ABORTED: it is lost, perhaps to somebody else; do not publish
  // over what is newer.
  virtual absl::Status Renew(Lease& lease, std::chrono::milliseconds ttl) = 0;
  // ABORTED: it was lost before.
  virtual absl::Status Release(const Lease& lease) = 0;
  // Who holds it. NOT_FOUND: nobody.
  virtual absl::StatusOr<LeaseHolder> Look(const Digest& key) = 0;
};

}  // namespace hpu::store
