// The names of a Redis store's keys and the commands on them, for the sources of RedisRecipeStore.
// redis_recipe_store.h says what the keys hold.
#pragma once

#include <string>
#include <vector>

#include "base/hash.h"
#include "recipe_store/redis/redis_connection.h"
#include "recipe_store/signing/signed_record.h"

namespace hpu::store {

// The letter stands after the prefix.
enum class RedisKind : char {
  kBlob = 'b',
  kManifest = 'm',
  kAlias = 'a',
  kAliasesOf = 'r',
  kQuarantined = 'q',
  // The kinds below have no name behind the letter.
  kManifests = 'i',
  kQuarantine = 'x',
};

std::string RedisKey(const std::string& prefix, RedisKind kind);
std::string RedisKey(const std::string& prefix, RedisKind kind, const Digest& name);

// Makes a command on the key that is its second word.
RedisCommand OnKey(std::vector<std::string> words);
// Reads at most `max_bytes` and one more, so that a value that is too long shows. A missing key
// reads as an empty text.
RedisCommand Read(const std::string& key, uint64_t max_bytes);
// A time to live of 0 keeps the value for good.
RedisCommand Write(const std::string& key, std::span<const uint8_t> bytes,
                   std::chrono::milliseconds ttl);
// Puts the time to live back to its full length. The command is optional.
RedisCommand Touch(const std::string& key, std::chrono::milliseconds ttl);

// Returns OK if the reply to a Write says so.
absl::Status CheckWritten(const RedisReply& reply, const std::string& what);

// A pipeline has at most so many commands and moves at most so many bytes, unless one alone is
// larger.
inline constexpr size_t kMaxPipeline = 256;
inline constexpr uint64_t kMaxPipelineBytes = 16 << 20;

}  // namespace hpu::store
