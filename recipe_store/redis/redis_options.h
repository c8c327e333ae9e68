// How a shared Redis engine is found and how much of it is trusted to be in time.
//
// Addresses, the forms that RedisOptions::addresses takes:
//   cache:6379                              one server; a name may stand for several
//   10.0.0.1:6379,[fd00::2]:6379            several: a master and its replicas, or nodes of a
//                                           Redis Cluster (which of the two is asked, not said)
//   sentinel:NAME@10.0.0.1:26379,...        sentinels that know where the master NAME is now
//
// There is no TLS: hiredis 0.14 has none. Passwords and programs cross the network in the clear;
// use a private network, or stunnel on both hosts and its local address here. Programs themselves
// are safe from the network: what is read is verified by signature and digest before it is used.
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
  // AUTH of servers, also of those that a cluster or a sentinel names; sentinels are asked without.
  // A user without a password is an error. Neither is logged nor part of a message. A user needs
  // ~<prefix>:* ~{<prefix>:l}:* and the commands GET SET PSETEX GETRANGE STRLEN EXISTS DEL PEXPIRE
  // PERSIST PTTL ZADD ZREM ZRANGE ZREVRANGE ZREMRANGEBYRANK EVAL ASKING CLUSTER|SLOTS.
  std::string user;
  std::string password;
  // The wall-clock bound of a call: connect_timeout + command_timeout + its bytes at
  // min_bytes_per_second, whatever the servers do.
  std::chrono::milliseconds connect_timeout{500};
  std::chrono::milliseconds command_timeout{1000};
  uint64_t min_bytes_per_second = 10'000'000;
  // After a failure a server is left alone for so long, twice as long after the next one, up to the
  // maximum, and a quarter more at random, so that clients do not come back all at once.
  std::chrono::milliseconds retry_after{1000};
  std::chrono::milliseconds max_retry_after{60'000};
  // What is not used for so long goes; 0: the engine's own eviction decides alone.
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

// "host:port" or "[host]:port"; INVALID_ARGUMENT says what is wrong with which part.
absl::StatusOr<RedisEndpoint> ParseRedisEndpoint(const std::string& text);
absl::StatusOr<RedisAddresses> ParseRedisAddresses(const std::string& text);

// INVALID_ARGUMENT for what no server could make work: addresses, prefix, times of zero.
absl::Status CheckRedisOptions(const RedisOptions& options);

}  // namespace hpu::store
