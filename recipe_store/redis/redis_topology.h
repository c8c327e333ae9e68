// Which server answers for which key: one server, or the nodes of a Redis Cluster; and the replies
// that say so.
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
// Bounds of a reply to CLUSTER SLOTS.
inline constexpr ReplyLimit kClusterSlotsLimit{.bytes = 16 << 20, .elements = 1 << 18};

// CRC16 (XMODEM) modulo 16,384 of the key, or of what is between the first '{' and the next '}' if
// that is not empty.
uint16_t RedisSlot(std::string_view key);

struct RedisTopology {
  std::vector<RedisEndpoint> nodes;  // masters; one if it is no cluster
  std::vector<int16_t> owners;       // index in nodes, -1: nobody; per slot; empty: no cluster

  // UNAVAILABLE: nobody serves the key's slot now. An empty key is anybody's.
  absl::StatusOr<RedisEndpoint> NodeOf(const std::string& key) const;
};

// From the answer to CLUSTER SLOTS by `asked`, whose host stands for hosts left out. DATA_LOSS: of
// another form.
absl::StatusOr<RedisTopology> ParseClusterSlots(const RedisReply& reply,
                                                const RedisEndpoint& asked);

// "MOVED 3999 127.0.0.1:6381": the slot lives there now. "ASK ...": this key may be there already;
// to be asked once, after ASKING.
struct RedisRedirect {
  bool ask = false;
  RedisEndpoint to;
};
// Nothing if it is none, or one that cannot be read.
std::optional<RedisRedirect> ParseRedirect(const RedisReply& reply, const RedisEndpoint& asked);

// From the answer to SENTINEL get-master-addr-by-name. NOT_FOUND: the sentinel knows no such name.
absl::StatusOr<RedisEndpoint> ParseMasterAddress(const RedisReply& reply, const std::string& name);

}  // namespace hpu::store
