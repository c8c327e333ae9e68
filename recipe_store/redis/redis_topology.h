// RedisTopology says which server answers for which key: one server, or the nodes of a Redis
// Cluster. The functions below read the replies that say so.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recipe_store/redis/redis_options.h"
#include "recipe_store/redis/redis_reply.h"

namespace hpu::store {

inline constexpr size_t kRedisSlots = 16384;
// These bound a reply to CLUSTER SLOTS.
inline constexpr ReplyLimit kClusterSlotsLimit{.bytes = 16 << 20, .elements = 1 << 18};

// Returns CRC16 (XMODEM) modulo 16,384 of the key, or of what is between the first '{' and the next
// '}' if that is not empty.
uint16_t RedisSlot(std::string_view key);

struct RedisTopology {
  // The masters; one if it is no cluster.
  std::vector<RedisEndpoint> nodes;
  // Holds for each slot the index in `nodes`, or -1 if no node has it. Empty if it is no cluster.
  std::vector<int16_t> owners;

  // Returns the server that answers for a key; any server answers for an empty key. UNAVAILABLE: no
  // server has the key's slot now.
  absl::StatusOr<RedisEndpoint> NodeOf(const std::string& key) const;
};

// Reads the answer to CLUSTER SLOTS by `asked`, whose host stands for hosts left out. DATA_LOSS:
// the answer has another form.
absl::StatusOr<RedisTopology> ParseClusterSlots(const RedisReply& reply,
                                                const RedisEndpoint& asked);

// "MOVED 3999 127.0.0.1:6381" says that the slot lives there now. "ASK ..." says that the key may
// be there already, so the command goes there once, after ASKING.
struct RedisRedirect {
  bool ask = false;
  RedisEndpoint to;
};
// Returns nothing if the reply is no redirection, or one that cannot be read.
std::optional<RedisRedirect> ParseRedirect(const RedisReply& reply, const RedisEndpoint& asked);

// Reads the answer to SENTINEL get-master-addr-by-name. NOT_FOUND: the sentinel knows no such name.
absl::StatusOr<RedisEndpoint> ParseMasterAddress(const RedisReply& reply, const std::string& name);

}  // namespace hpu::store
