// RedisLeaseKeeper keeps leases in the Redis engine of the shared store.
//
//   {<p>:l}:<key>    string with a time to live: "<fencing token> <nonce> <holder>"
//   {<p>:l}:token    the last fencing token
//
// The braces put all of them into one slot of a cluster, so that one script can take a token and
// the lease together, and tokens grow in the order in which leases are given. A token is at least
// the taker's clock in milliseconds, so it grows also after the engine has lost the counter. The
// nonce belongs to one attempt: a script that ran twice, because its answer was lost, takes the
// lease once.
#pragma once

#include <memory>

#include "recipe_store/lease.h"
#include "recipe_store/redis/redis_client.h"

namespace hpu::store {

class RedisLeaseKeeper : public LeaseKeeper {
 public:
  static constexpr size_t kMaxHolderBytes = 256;

  explicit RedisLeaseKeeper(std::shared_ptr<RedisClient> client) : client_(std::move(client)) {}

  absl::StatusOr<Lease> TryTake(const Digest& key, const std::string& holder,
                                std::chrono::milliseconds ttl) override;
  absl::Status Renew(Lease& lease, std::chrono::milliseconds ttl) override;
  absl::Status Release(const Lease& lease) override;
  absl::StatusOr<LeaseHolder> Look(const Digest& key) override;

 private:
  absl::StatusOr<RedisReply> RunScript(const char* script, const Digest& key,
                                       std::vector<std::string> arguments);
  std::string key(const Digest& key) const;

  const std::shared_ptr<RedisClient> client_;  // shared with the recipe store
};

}  // namespace hpu::store
