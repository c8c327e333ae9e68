// RedisClient runs commands on a shared Redis engine. It finds the server of each key, keeps
// connections, follows redirections and sentinels, gives up in time, and leaves a failed server
// alone for a while.
//
//   Run(commands) -> the topology says which server owns the key -> an idle or a new connection
//     MOVED, ASK            It asks the named server at once. After MOVED it learns the topology
//                           again.
//     READONLY              It asks another address, or the master that the sentinels name now.
//     lost, late, garbage   It learns the topology again, and repeats the command only if another
//                           server answers for the key now. This follows a failover.
//
// Every command may run twice, because an idle connection may turn out to be closed, and because
// nobody knows what a server did that never answered. The client follows a redirection wherever it
// leads and sends the password there, so it trusts the engine's servers with the password.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "recipe_store/circuit_breaker.h"
#include "recipe_store/redis/redis_connection.h"
#include "recipe_store/redis/redis_options.h"
#include "recipe_store/redis/redis_topology.h"

namespace hpu::store {

// Thread-safe. Callers share a client.
class RedisClient {
 public:
  // Returns INVALID_ARGUMENT for options that cannot work. It connects to no server yet, because a
  // server that is down now may be up later.
  static absl::StatusOr<std::shared_ptr<RedisClient>> Make(const RedisOptions& options);

  const RedisOptions& options() const { return options_; }
  // Returns when a call must end that starts now and moves so many bytes.
  Deadline DeadlineFor(uint64_t bytes) const;
  // Returns how much later a call may end that moves so many bytes more.
  std::chrono::milliseconds TimeFor(uint64_t bytes) const;

  // Returns one reply for each command, in order. Error replies are replies (ErrorOf). Commands for
  // one server go in one pipeline. UNAVAILABLE: a server is lost, late, left alone or does not
  // speak the protocol. Any of the commands may have run then.
  absl::StatusOr<std::vector<RedisReply>> Run(std::span<const RedisCommand> commands,
                                              Deadline deadline);
  absl::StatusOr<RedisReply> RunOne(const RedisCommand& command, Deadline deadline);

  void AddCounters(std::map<std::string, uint64_t>& counters) const;

 private:
  struct Node {
    CircuitBreaker breaker;
    std::vector<std::unique_ptr<RedisConnection>> idle;
  };
  struct Round;
  using Topology = std::shared_ptr<const RedisTopology>;
  using Replies = absl::StatusOr<std::vector<RedisReply>>;

  RedisClient(RedisOptions options, RedisAddresses addresses)
      : options_(std::move(options)), addresses_(std::move(addresses)) {}

  // redis_client.cc
  void Take(Round& round, const RedisEndpoint& endpoint, size_t command, RedisReply reply,
            bool optional);
  Replies RunAt(const RedisEndpoint& endpoint, std::span<const RedisCommand* const> commands,
                Deadline deadline);
  absl::StatusOr<std::unique_ptr<RedisConnection>> TakeIdle(const RedisEndpoint& endpoint);
  Replies RunOn(std::unique_ptr<RedisConnection> connection, const RedisEndpoint& endpoint,
                std::span<const RedisCommand* const> commands, Deadline deadline);
  bool Allow(const RedisEndpoint& endpoint);
  void NoteSuccess(const RedisEndpoint& endpoint);
  absl::Status NoteFailure(const RedisEndpoint& endpoint, const absl::Status& status);
  // Requires mutex_.
  Node& NodeAt(const RedisEndpoint& endpoint);

  // redis_discovery.cc
  absl::StatusOr<Topology> CurrentTopology(Deadline deadline);
  absl::StatusOr<RedisTopology> Discover(Deadline deadline);
  absl::StatusOr<RedisTopology> AskSentinels(Deadline deadline);
  absl::StatusOr<RedisTopology> AskServer(const RedisEndpoint& endpoint, Deadline deadline);
  absl::StatusOr<std::vector<RedisEndpoint>> NumbersOf(const RedisEndpoint& address,
                                                       Deadline deadline);
  bool IsReadOnly(const RedisEndpoint& endpoint) const;
  void MarkStale();
  void MarkReadOnly(const RedisEndpoint& endpoint);

  const RedisOptions options_;
  const RedisAddresses addresses_;

  // No thread holds mutex_ while it waits for a server.
  mutable std::mutex mutex_;
  // The fields below are guarded by mutex_.
  std::map<RedisEndpoint, Node> nodes_;
  Topology topology_;  // null until the topology is known
  bool stale_ = false;
  Deadline next_discovery_{};
  std::set<RedisEndpoint> read_only_;  // addresses of servers that refused a write

  std::atomic<uint64_t> bytes_read_{0};
  std::atomic<uint64_t> bytes_written_{0};
  std::atomic<uint64_t> connects_{0};
  std::atomic<uint64_t> failures_{0};
  std::atomic<uint64_t> timeouts_{0};
  std::atomic<uint64_t> open_circuit_{0};
  std::atomic<uint64_t> redirects_{0};
  std::atomic<uint64_t> discoveries_{0};
};

}  // namespace hpu::store
