// One connection to one Redis server: commands out, replies in, within a deadline.
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
  std::vector<std::string> words;  // name and arguments
  // The last argument, if it is large: not copied, must live until the reply is there.
  std::optional<std::span<const uint8_t>> payload;
  // The one key that it touches: says which node of a cluster answers. Empty: any may.
  std::string key;
  ReplyLimit limit{.bytes = 4096, .elements = 16};
  // An error reply stands, whatever it asks for: the command is not worth a second try.
  bool optional = false;
};

// What went over the wire.
struct RedisTraffic {
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
};

// Not thread-safe.
class RedisConnection {
 public:
  // Logs in if there is a password. UNAVAILABLE, DEADLINE_EXCEEDED, DATA_LOSS (not a Redis server).
  static absl::StatusOr<std::unique_ptr<RedisConnection>> Open(const RedisEndpoint& endpoint,
                                                               const std::string& user,
                                                               const std::string& password,
                                                               Deadline deadline);

  // Sends all commands, then reads one reply for each; error replies are replies. After a failure
  // the connection must be given up. DEADLINE_EXCEEDED: not all in time. UNAVAILABLE: lost.
  // DATA_LOSS, RESOURCE_EXHAUSTED: what came is no Redis protocol, or larger than its limit.
  // `traffic` is added to in any case.
  absl::StatusOr<std::vector<RedisReply>> Run(std::span<const RedisCommand* const> commands,
                                              Deadline deadline, RedisTraffic& traffic);
  // False: the server closed it, or said something unasked.
  bool reusable() const { return reader_.left_over() == 0 && !socket_.HasInput(); }

 private:
  explicit RedisConnection(RedisSocket socket) : socket_(std::move(socket)) {}
  absl::Status LogIn(const std::string& user, const std::string& password, Deadline deadline);

  RedisSocket socket_;
  RedisReader reader_;
};

}  // namespace hpu::store
