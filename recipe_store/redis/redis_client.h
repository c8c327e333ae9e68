// Runs commands on a shared Redis engine: finds the server of each key, keeps connections, follows
// a cluster's and a sentinel's word, gives up in time and leaves failed servers alone for a while.
//
//   Run(commands) -> topology: whose key is it? -> a connection of that server, or a new one
//     MOVED, ASK            the server that is named, at once; MOVED: the topology is asked anew
//     READONLY              another of the addresses, or what the sentinels say now
//     lost, late, garbage   the topology is asked anew; again only if another server answers for
//                           the key now, which is how a failover is followed
//
// Every command may be run twice: a connection that was idle may turn out to be closed, and whether
// a server did what it never answered is unknown. A redirection is followed wherever it leads, with
// the password: the engine's servers are trusted with that much.
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

// Thread-safe.
class RedisClient {
 public:
  // INVALID_ARGUMENT for options that cannot work. Connects to nobody yet: a server that is down
  // now may be up later.
  static absl::StatusOr<std::shared_ptr<RedisClient>> Make(const RedisOptions& options);

  const RedisOptions& options() const { return options_; }
  // The wall-clock bound of a call that starts now and moves so many bytes.
  Deadline DeadlineFor(uint64_t bytes) const;
  // How much later a call ends that moves so many bytes more.
  std::chrono::milliseconds TimeFor(uint64_t bytes) const;

  // One reply for each command, in order; error replies are replies (ErrorOf). Commands for one
  // server go in one pipeline. UNAVAILABLE: a server is lost, late, left alone or does not speak
  // the protocol; any of the commands may have been run.
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
  Node& NodeAt(const RedisEndpoint& endpoint);  // mutex_ held

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

  mutable std::mutex mutex_;  // never held while waiting for a server
  // Guarded by mutex_.
  std::map<RedisEndpoint, Node> nodes_;
  Topology topology_;  // null: not known yet
  bool stale_ = false;
  Deadline next_discovery_{};
  std::set<RedisEndpoint> read_only_;  // addresses that refused a write

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
