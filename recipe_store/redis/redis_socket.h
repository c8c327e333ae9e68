// RedisSocket is a TCP socket on which nothing waits longer than its deadline: neither the name
// lookup, nor the connect, nor a peer that takes or gives a byte now and then. The I/O of hiredis
// bounds single reads only, and its write to a closed connection raises SIGPIPE.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "recipe_store/redis/redis_options.h"

namespace hpu::store {

using Deadline = std::chrono::steady_clock::time_point;

// Returns the numbers of a name in the resolver's order; a number is its own. UNAVAILABLE: the name
// is unknown. DEADLINE_EXCEEDED: there is no answer in time. A thread waits on for it and ends by
// itself.
absl::StatusOr<std::vector<RedisEndpoint>> Resolve(const RedisEndpoint& name, Deadline deadline);

// Returns true for "10.0.0.1" and "::1".
bool IsNumber(const std::string& host);

// Not thread-safe. UNAVAILABLE: the connection is refused, closed or reset. DEADLINE_EXCEEDED: the
// peer is late.
class RedisSocket {
 public:
  // Connects to the first address of the endpoint that takes the connection.
  static absl::StatusOr<RedisSocket> Connect(const RedisEndpoint& endpoint, Deadline deadline);

  RedisSocket(RedisSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RedisSocket& operator=(RedisSocket&&) = delete;
  ~RedisSocket();

  // Sends what the peer takes of `output`, shortening it, and reads into `input` until something
  // was read. It does both at once, so that two full buffers never wait for each other. Returns the
  // number of bytes read.
  absl::StatusOr<size_t> Exchange(std::vector<std::span<const uint8_t>>& output, size_t& next,
                                  std::span<char> input, Deadline deadline);
  // Returns true if the peer sent something unasked or closed. The connection must not be used
  // again then.
  bool HasInput() const;

 private:
  explicit RedisSocket(int fd) : fd_(fd) {}
  absl::Status Send(std::vector<std::span<const uint8_t>>& output, size_t& next);

  int fd_;
};

}  // namespace hpu::store
