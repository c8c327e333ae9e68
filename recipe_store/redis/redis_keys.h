// Names of a Redis store's keys and the commands on them, for the sources of RedisRecipeStore. What
// the keys hold is in redis_recipe_store.h.
#pragma once

#include <string>
#include <vector>

#include "base/hash.h"
#include "recipe_store/redis/redis_connection.h"
#include "recipe_store/signing/signed_record.h"

namespace hpu::store {

// One letter after the prefix.
enum class RedisKind : char {
  kBlob = 'b',
  kManifest = 'm',
  kAlias = 'a',
  kAliasesOf = 'r',
  kQuarantined = 'q',
  // Without a name behind it:
  kManifests = 'i',
  kQuarantine = 'x',
};

std::string RedisKey(const std::string& prefix, RedisKind kind);
std::string RedisKey(const std::string& prefix, RedisKind kind, const Digest& name);

// A command on the key that is its second word.
RedisCommand OnKey(std::vector<std::string> words);
// At most `max_bytes` and one more, so that what is too long shows. Missing keys are empty texts.
RedisCommand Read(const std::string& key, uint64_t max_bytes);
// Time to live 0: for good.
RedisCommand Write(const std::string& key, std::span<const uint8_t> bytes,
                   std::chrono::milliseconds ttl);
// Puts the time to live back to its full length; worth one try.
RedisCommand Touch(const std::string& key, std::chrono::milliseconds ttl);

// OK if a Write's reply says so.
absl::Status CheckWritten(const RedisReply& reply, const std::string& what);

// Commands of one pipeline, and what they move at most, unless one alone is larger.
inline constexpr size_t kMaxPipeline = 256;
inline constexpr uint64_t kMaxPipelineBytes = 16 << 20;

}  // namespace hpu::store
