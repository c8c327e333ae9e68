#include "recipe_store/redis/redis_keys.h"

namespace hpu::store {

std::string RedisKey(const std::string& prefix, RedisKind kind) {
  return prefix + ":" + static_cast<char>(kind);
}

std::string RedisKey(const std::string& prefix, RedisKind kind, const Digest& name) {
  return RedisKey(prefix, kind) + ":" + ToHex(name);
}

RedisCommand OnKey(std::vector<std::string> words) {
  RedisCommand command;
  command.key = words.at(1);
  command.words = std::move(words);
  return command;
}

RedisCommand Read(const std::string& key, uint64_t max_bytes) {
  RedisCommand command = OnKey({"GETRANGE", key, "0", std::to_string(max_bytes)});
  command.limit = {.bytes = max_bytes + 1, .elements = 0};
  return command;
}

RedisCommand Write(const std::string& key, std::span<const uint8_t> bytes,
                   std::chrono::milliseconds ttl) {
  RedisCommand command =
      ttl.count() > 0 ? OnKey({"PSETEX", key, std::to_string(ttl.count())}) : OnKey({"SET", key});
  command.payload = bytes;
  return command;
}

RedisCommand Touch(const std::string& key, std::chrono::milliseconds ttl) {
  RedisCommand command = ttl.count() > 0 ? OnKey({"PEXPIRE", key, std::to_string(ttl.count())})
                                         : OnKey({"PERSIST", key});
  command.optional = true;
  return command;
}

absl::Status CheckWritten(const RedisReply& reply, const std::string& what) {
  RETURN_IF_ERROR(ExpectKind(reply, RedisReply::Kind::kStatus, what));
  if (reply.text() == "OK") return absl::OkStatus();
  return DataLoss(what, ": the server answered another status than OK");
}

}  // namespace hpu::store
