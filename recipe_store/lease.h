// With leases, one of several compile servers compiles a program and the others wait for it.
//
// A lease saves work and guards nothing. It can be lost at any time: it expires, or its engine
// fails over to a replica that never heard of it, or forgets it. Then two servers compile the same
// program. That costs the second compilation and nothing else, because programs are filed under
// their content key and the one that is written last serves all. So no server may rely on being
// alone, and no waiter may wait for a holder longer than LeaseHolder::remaining says without asking
// again.
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
  // The token is larger than those of all leases before it, as far as the engine keeps its counter
  // or the servers' clocks agree. An earlier holder must not replace what a later one has written.
  uint64_t fencing_token = 0;
  // The engine does not end the lease before this time.
  std::chrono::steady_clock::time_point expires_at{};
  // The proof shows the engine whose lease it is.
  std::string proof;
};

struct LeaseHolder {
  std::string holder;
  uint64_t fencing_token = 0;
  std::chrono::milliseconds remaining{0};
};

// Thread-safe. UNAVAILABLE from any call: the engine cannot be asked, so the caller goes on without
// a lease.
class LeaseKeeper {
 public:
  virtual ~LeaseKeeper() = default;

  // ALREADY_EXISTS, naming the holder: the lease is taken, perhaps by `holder` itself. Look says
  // for how long. INVALID_ARGUMENT: the holder is empty or too long, or the lease would have no
  // time to live.
  virtual absl::StatusOr<Lease> TryTake(const Digest& key, const std::string& holder,
                                        std::chrono::milliseconds ttl) = 0;
  // Makes the lease live `ttl` from now on. ABORTED: the lease is lost, perhaps to another server,
  // so the caller must not publish over what is newer.
  virtual absl::Status Renew(Lease& lease, std::chrono::milliseconds ttl) = 0;
  // ABORTED: the lease was lost before.
  virtual absl::Status Release(const Lease& lease) = 0;
  // Returns the holder. NOT_FOUND: there is none.
  virtual absl::StatusOr<LeaseHolder> Look(const Digest& key) = 0;
};

}  // namespace hpu::store
