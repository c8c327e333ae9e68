// How a Remote Execution API cache is found, and how much of it is trusted to be in time.
//
//   grpcs://HOST:PORT   TLS; with a client certificate and a token where they are given
//   grpc://HOST:PORT    in the clear, for private networks: whoever is on the way reads programs
//   and
//                       can lose them, but not change them (signatures and digests are verified)
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "proto/channel_access.h"

namespace hpu::store {

struct RemoteCacheOptions {
  std::string address;
  std::string instance;                      // instance_name of every request; empty is one as well
  Access access{.options = "remote-cache"};  // over grpcs:// only
  bool read_only = false;
  // The wall-clock bound of a call of the store, all that it asks the server together: `timeout`
  // and its bytes at min_bytes_per_second.
  std::chrono::milliseconds timeout{1000};
  uint64_t min_bytes_per_second = 10'000'000;
  // After a failure the server is left alone for so long, twice as long after the next one, up to
  // the maximum, and a quarter more at random, so that clients do not come back all at once.
  std::chrono::milliseconds retry_after{1000};
  std::chrono::milliseconds max_retry_after{60'000};
  // How long what the server says of itself is believed.
  std::chrono::milliseconds capabilities_live{60'000};
  // How long an entry that was found bad is not asked for: nothing can be deleted there.
  std::chrono::milliseconds avoid_bad_for{10 * 60'000};
  // Larger entries are neither read nor written.
  uint64_t max_entry_bytes = uint64_t{512} << 20;
};

struct RemoteCacheAddress {
  bool tls = false;
  std::string target;  // HOST:PORT
};

// INVALID_ARGUMENT says what is wrong with it.
absl::StatusOr<RemoteCacheAddress> ParseRemoteCacheAddress(const std::string& text);

// INVALID_ARGUMENT for what no server could make work.
absl::Status CheckRemoteCacheOptions(const RemoteCacheOptions& options);

}  // namespace hpu::store
