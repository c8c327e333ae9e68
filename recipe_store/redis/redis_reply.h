// RedisReply is the answer of a Redis server as our own values, and RedisReader makes it from
// bytes.
//
// The server is not trusted. hiredis parses the protocol, but its own reply objects allocate what a
// header claims ("*2147483647") and end the process when that fails. Here each reply has a budget
// of bytes and elements that is checked before anything is allocated or copied.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

struct redisReader;

namespace hpu::store {

struct RedisReply {
  enum class Kind { kNil, kText, kStatus, kError, kInteger, kArray };

  Kind kind = Kind::kNil;
  int64_t integer = 0;
  Bytes bytes;  // of kText, kStatus and kError
  std::vector<RedisReply> elements;

  bool is_error() const { return kind == Kind::kError; }
  std::string text() const { return std::string(bytes.begin(), bytes.end()); }
  // Returns the "MOVED" of "MOVED 17 10.0.0.1:6379", or nothing if the reply is no error.
  std::string error_word() const;
};

// Turns an error reply into a status with the codes of recipe_store.h: DATA_LOSS if the key holds
// another type, otherwise UNAVAILABLE. The message says what to do where that is known.
absl::Status ErrorOf(const RedisReply& reply);
// Returns DATA_LOSS, naming `what`, unless the reply is of that kind. An error reply gives ErrorOf.
absl::Status ExpectKind(const RedisReply& reply, RedisReply::Kind kind, const std::string& what);

// ReplyLimit bounds one reply: the bytes of all its texts and the elements of all its arrays.
struct ReplyLimit {
  uint64_t bytes = 0;
  uint64_t elements = 0;
};

class RedisReader {
 public:
  RedisReader();
  ~RedisReader();
  RedisReader(const RedisReader&) = delete;

  void Feed(std::span<const char> bytes);
  // Returns nothing if more bytes are needed. RESOURCE_EXHAUSTED: the reply is larger than its
  // limit. DATA_LOSS: the bytes are not the protocol. After an error the caller must drop the
  // connection. The caller must pass the same `limit` until the reply is there.
  absl::StatusOr<std::optional<RedisReply>> Next(const ReplyLimit& limit);
  // Returns the number of bytes that no reply has taken.
  size_t left_over() const;

  struct State;

 private:
  struct Free {
    void operator()(redisReader* reader) const;
  };
  // The reader's objects point to the state, so it is declared first.
  std::unique_ptr<State> state_;
  std::unique_ptr<redisReader, Free> reader_;
};

}  // namespace hpu::store
