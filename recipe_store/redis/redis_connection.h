// RedisConnection is one connection to one Redis server. It sends commands and reads replies within
// a deadline.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "recipe_store/redis/redis_reply.h"
#include "recipe_store/redis/redis_socket.h"

namespace hpu::store {

struct RedisCommand {
  std::vector<std::string> words;  // the name, then the arguments
  // The payload is the last argument if that is large. It is not copied and must live until the
  // reply is there.
  std::optional<std::span<const uint8_t>> payload;
  // The key is the one that the command touches, and it says which node of a cluster answers. Any
  // node may answer a command without a key.
  std::string key;
  ReplyLimit limit{.bytes = 4096, .elements = 16};
  // If true, an error reply is final, because the command is not worth a second try.
  bool optional = false;
};

// RedisTraffic counts the bytes on the wire.
struct RedisTraffic {
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
};

// Not thread-safe.
class RedisConnection {
 public:
  // Connects, and logs in if there is a password. UNAVAILABLE: the server is lost.
  // DEADLINE_EXCEEDED: it is late. DATA_LOSS: it is no Redis server.
  static absl::StatusOr<std::unique_ptr<RedisConnection>> Open(const RedisEndpoint& endpoint,
                                                               const std::string& user,
                                                               const std::string& password,
                                                               Deadline deadline);

  // Sends all commands, then reads one reply for each. Error replies are replies. After a failure
  // the caller must drop the connection. DEADLINE_EXCEEDED: not all replies came in time.
  // UNAVAILABLE: the connection is lost. DATA_LOSS: the server does not speak the protocol.
  // RESOURCE_EXHAUSTED: a reply is larger than its limit. `traffic` grows in any case.
  absl::StatusOr<std::vector<RedisReply>> Run(std::span<const RedisCommand* const> commands,
                                              Deadline deadline, RedisTraffic& traffic);
  // Returns false if the server closed the connection, or sent something unasked.
  bool reusable() const { return reader_.left_over() == 0 && !socket_.HasInput(); }

 private:
  explicit RedisConnection(RedisSocket socket) : socket_(std::move(socket)) {}
  absl::Status LogIn(const std::string& user, const std::string& password, Deadline deadline);

  RedisSocket socket_;
  RedisReader reader_;
};

}  // namespace hpu::store
