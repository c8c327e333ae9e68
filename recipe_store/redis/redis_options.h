// RedisOptions says how a shared Redis engine is found, and how long a call may wait for it.
//
// RedisOptions::addresses takes these forms:
//   cache:6379                              one server; a name may stand for several
//   10.0.0.1:6379,[fd00::2]:6379            a master and its replicas, or nodes of a Redis Cluster
//                                           (the client asks which of the two it is)
//   sentinel:NAME@10.0.0.1:26379,...        sentinels that know where the master NAME is now
//
// There is no TLS, because hiredis 0.14 has none. Passwords and programs cross the network in the
// clear; use a private network, or stunnel on both hosts and its local address here. Programs
// themselves are safe from the network, because their signature and digests are verified before
// they are used.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace hpu::store {

struct RedisOptions {
  std::string addresses;
  std::string prefix = "hpu";  // of every key
  // The client logs in (AUTH) to servers, also to those that a cluster or a sentinel names, but not
  // to sentinels. A user without a password is an error. Neither appears in a log or a message. A
  // user needs ~<prefix>:* ~{<prefix>:l}:* and the commands GET SET PSETEX GETRANGE STRLEN EXISTS
  // DEL PEXPIRE PERSIST PTTL ZADD ZREM ZRANGE ZREMRANGEBYRANK EVAL ASKING CLUSTER|SLOTS.
  std::string user;
  std::string password;
  // A call takes at most connect_timeout + command_timeout + its bytes at min_bytes_per_second of
  // wall-clock time, whatever the servers do.
  std::chrono::milliseconds connect_timeout{500};
  std::chrono::milliseconds command_timeout{1000};
  uint64_t min_bytes_per_second = 10'000'000;
  // After a failure a server is left alone for the first pause, and twice as long after each
  // further one up to the longest. Each pause is up to a quarter longer at random, so that clients
  // do not come back all at once.
  std::chrono::milliseconds retry_after{1000};
  std::chrono::milliseconds max_retry_after{60'000};
  // An entry that is not used for so long expires. With 0 the engine's own eviction decides alone.
  std::chrono::milliseconds entry_ttl{0};
  // One blob is one value, and no Redis value is larger than 512 MiB.
  uint64_t max_entry_bytes = uint64_t{512} << 20;
  size_t max_idle_connections = 8;  // to each server
};

struct RedisEndpoint {
  std::string host;  // name or number; IPv6 without brackets
  uint16_t port = 0;

  bool operator==(const RedisEndpoint&) const = default;
  auto operator<=>(const RedisEndpoint&) const = default;
  std::string text() const;  // "host:port", "[::1]:port"
};

struct RedisAddresses {
  std::string master_name;  // empty unless `endpoints` are sentinels
  std::vector<RedisEndpoint> endpoints;
};

// Parses "host:port" or "[host]:port". INVALID_ARGUMENT says what is wrong with which part.
absl::StatusOr<RedisEndpoint> ParseRedisEndpoint(const std::string& text);
absl::StatusOr<RedisAddresses> ParseRedisAddresses(const std::string& text);

// Returns INVALID_ARGUMENT for what no server could make work: addresses, prefix, times of zero.
absl::Status CheckRedisOptions(const RedisOptions& options);

}  // namespace hpu::store
