#include "recipe_store/redis/redis_topology.h"

#include <algorithm>
#include <sstream>

namespace hpu::store {
namespace {

using Kind = RedisReply::Kind;

constexpr size_t kMaxMasters = 1000;  // what Redis Cluster is made for

uint16_t Crc16(std::string_view text) {
  uint16_t crc = 0;
  for (const char c : text) {
    crc = static_cast<uint16_t>(crc ^ (static_cast<uint8_t>(c) << 8));
    for (int bit = 0; bit < 8; ++bit) {
      crc = static_cast<uint16_t>((crc & 0x8000) != 0 ? (crc << 1) ^ 0x1021 : crc << 1);
    }
  }
  return crc;
}

// Reads a host and a port from two elements of a reply. Servers leave out a host that they do not
// know, or write "?".
std::optional<RedisEndpoint> EndpointOf(const RedisReply& host, const RedisReply& port,
                                        const RedisEndpoint* asked) {
  const std::string name = host.text();
  const std::string number =
      port.kind == Kind::kInteger ? std::to_string(port.integer) : port.text();
  const bool unnamed = name.empty() || name == "?";
  if (unnamed && asked == nullptr) return std::nullopt;
  const std::string& used = unnamed ? asked->host : name;
  const bool v6 = used.find(':') != std::string::npos;
  const auto endpoint = ParseRedisEndpoint((v6 ? "[" + used + "]" : used) + ":" + number);
  if (!endpoint.ok()) return std::nullopt;
  return *endpoint;
}

absl::Status BadRow(size_t row) {
  return DataLoss("CLUSTER SLOTS: row ", row, " is not [first slot, last slot, [host, port, ...]]");
}

}  // namespace

uint16_t RedisSlot(std::string_view key) {
  const size_t open = key.find('{');
  if (open != std::string_view::npos) {
    const size_t close = key.find('}', open + 1);
    if (close != std::string_view::npos && close > open + 1) {
      key = key.substr(open + 1, close - open - 1);
    }
  }
  return Crc16(key) % kRedisSlots;
}

absl::StatusOr<RedisEndpoint> RedisTopology::NodeOf(const std::string& key) const {
  if (owners.empty() || key.empty()) return nodes.front();
  const uint16_t slot = RedisSlot(key);
  if (owners[slot] >= 0) return nodes[static_cast<size_t>(owners[slot])];
  return Error(absl::StatusCode::kUnavailable, "no node of the cluster serves slot ", slot);
}

absl::StatusOr<RedisTopology> ParseClusterSlots(const RedisReply& reply,
                                                const RedisEndpoint& asked) {
  RETURN_IF_ERROR(ExpectKind(reply, Kind::kArray, "CLUSTER SLOTS"));
  RedisTopology topology;
  topology.owners.assign(kRedisSlots, -1);
  for (size_t i = 0; i < reply.elements.size(); ++i) {
    const std::vector<RedisReply>& row = reply.elements[i].elements;
    if (row.size() < 3 || row[0].kind != Kind::kInteger || row[1].kind != Kind::kInteger ||
        row[2].elements.size() < 2 || row[0].integer < 0 || row[0].integer > row[1].integer ||
        row[1].integer >= static_cast<int64_t>(kRedisSlots)) {
      return BadRow(i);
    }
    const auto master = EndpointOf(row[2].elements[0], row[2].elements[1], &asked);
    if (!master) return BadRow(i);
    auto node = std::ranges::find(topology.nodes, *master);
    if (node == topology.nodes.end()) {
      if (topology.nodes.size() == kMaxMasters) {
        return DataLoss("CLUSTER SLOTS: more than ", kMaxMasters, " masters");
      }
      node = topology.nodes.insert(node, *master);
    }
    std::fill(topology.owners.begin() + row[0].integer,
              topology.owners.begin() + row[1].integer + 1,
              static_cast<int16_t>(node - topology.nodes.begin()));
  }
  if (topology.nodes.empty()) {
    return Error(absl::StatusCode::kUnavailable, "the cluster has no slots yet");
  }
  return topology;
}

std::optional<RedisRedirect> ParseRedirect(const RedisReply& reply, const RedisEndpoint& asked) {
  const std::string word = reply.error_word();
  if (word != "MOVED" && word != "ASK") return std::nullopt;
  std::istringstream text(reply.text());
  std::string slot;
  std::string place;
  text >> slot >> slot >> place;
  const size_t colon = place.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  RedisReply host;
  host.bytes.assign(place.begin(), place.begin() + static_cast<std::ptrdiff_t>(colon));
  RedisReply port;
  port.bytes.assign(place.begin() + static_cast<std::ptrdiff_t>(colon) + 1, place.end());
  const auto to = EndpointOf(host, port, &asked);
  if (!to) return std::nullopt;
  return RedisRedirect{word == "ASK", *to};
}

absl::StatusOr<RedisEndpoint> ParseMasterAddress(const RedisReply& reply, const std::string& name) {
  if (reply.kind == Kind::kNil) return NotFound("the sentinel knows no master ", name);
  RETURN_IF_ERROR(ExpectKind(reply, Kind::kArray, "SENTINEL get-master-addr-by-name"));
  if (reply.elements.size() == 2) {
    if (const auto master = EndpointOf(reply.elements[0], reply.elements[1], nullptr)) {
      return *master;
    }
  }
  return DataLoss("SENTINEL get-master-addr-by-name: the answer is no host and port");
}

}  // namespace hpu::store
