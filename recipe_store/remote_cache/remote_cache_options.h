// RemoteCacheOptions says how a Remote Execution API cache is found, and how long a call may wait
// for it.
//
//   grpcs://HOST:PORT   TLS, with a client certificate and a token if they are given
//   grpc://HOST:PORT    in the clear, for private networks: others on the way can read programs
//                       and lose them, but not change them (signatures and digests are verified)
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "proto/channel_access.h"

namespace hpu::store {

struct RemoteCacheOptions {
  std::string address;
  // The instance_name of every request; an empty name is one as well.
  std::string instance;
  // Used over grpcs:// only.
  Access access{.options = "remote-cache"};
  bool read_only = false;
  // A call of the store takes at most `timeout` and its bytes at min_bytes_per_second of wall-clock
  // time, for all its requests together.
  std::chrono::milliseconds timeout{1000};
  uint64_t min_bytes_per_second = 10'000'000;
  // After a failure the server is left alone for the first pause, and twice as long after each
  // further one up to the longest. Each pause is up to a quarter longer at random, so that clients
  // do not come back all at once.
  std::chrono::milliseconds retry_after{1000};
  std::chrono::milliseconds max_retry_after{60'000};
  // The server is asked for its capabilities again after so long.
  std::chrono::milliseconds capabilities_live{60'000};
  // The server is not asked again for so long for an entry that was bad, because nothing can be
  // deleted there.
  std::chrono::milliseconds avoid_bad_for{10 * 60'000};
  // Larger entries are neither read nor written.
  uint64_t max_entry_bytes = uint64_t{512} << 20;
};

struct RemoteCacheAddress {
  bool tls = false;
  std::string target;  // HOST:PORT
};

// INVALID_ARGUMENT says what is wrong with the address.
absl::StatusOr<RemoteCacheAddress> ParseRemoteCacheAddress(const std::string& text);

// Returns INVALID_ARGUMENT for what no server could make work.
absl::Status CheckRemoteCacheOptions(const RemoteCacheOptions& options);

}  // namespace hpu::store
