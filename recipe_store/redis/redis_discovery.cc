// The part of RedisClient that learns which server answers for which key.
#include <algorithm>

#include "base/log.h"
#include "recipe_store/redis/redis_client.h"

namespace hpu::store {
namespace {

using std::chrono::steady_clock;

// While a topology is known, if only an old one, the client asks for it at most so often.
constexpr std::chrono::milliseconds kDiscoveryInterval{100};

// Returns true for a server that cannot say yet what it is. Other errors come from servers without
// a cluster.
bool IsNotReady(const RedisReply& reply) {
  const std::string word = reply.error_word();
  return word == "LOADING" || word == "NOAUTH" || word == "CLUSTERDOWN";
}

}  // namespace

absl::StatusOr<RedisClient::Topology> RedisClient::CurrentTopology(Deadline deadline) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (topology_ != nullptr && (!stale_ || steady_clock::now() < next_discovery_)) {
      return topology_;
    }
    next_discovery_ = steady_clock::now() + kDiscoveryInterval;
  }
  ++discoveries_;
  absl::StatusOr<RedisTopology> found = Discover(deadline);
  std::lock_guard<std::mutex> lock(mutex_);
  if (found.ok()) {
    // Clusters and sentinels know themselves which server takes writes.
    if (!addresses_.master_name.empty() || !found->owners.empty()) read_only_.clear();
    topology_ = std::make_shared<const RedisTopology>(*std::move(found));
    stale_ = false;
  } else if (topology_ == nullptr) {
    return found.status();
  }
  return topology_;
}

absl::StatusOr<RedisTopology> RedisClient::Discover(Deadline deadline) {
  if (!addresses_.master_name.empty()) return AskSentinels(deadline);
  std::vector<RedisEndpoint> candidates = addresses_.endpoints;
  {
    // If all addresses of a cluster are down, the client still asks the nodes that it knows.
    std::lock_guard<std::mutex> lock(mutex_);
    if (topology_ != nullptr && !topology_->owners.empty()) {
      candidates.insert(candidates.end(), topology_->nodes.begin(), topology_->nodes.end());
    }
  }
  absl::Status failure;
  // The first replica, which is better than no server.
  std::optional<RedisTopology> replica;
  for (const RedisEndpoint& candidate : candidates) {
    absl::StatusOr<std::vector<RedisEndpoint>> numbers = NumbersOf(candidate, deadline);
    if (!numbers.ok()) {
      failure = numbers.status();
      continue;
    }
    for (const RedisEndpoint& number : *numbers) {
      if (replica && IsReadOnly(number)) continue;
      absl::StatusOr<RedisTopology> topology = AskServer(number, deadline);
      if (!topology.ok()) {
        failure = topology.status();
      } else if (IsReadOnly(number)) {
        replica = *std::move(topology);
      } else {
        return topology;
      }
    }
  }
  if (!replica) return failure;
  // One of the replicas may have become the master since.
  std::lock_guard<std::mutex> lock(mutex_);
  read_only_.clear();
  return *std::move(replica);
}

absl::StatusOr<RedisTopology> RedisClient::AskSentinels(Deadline deadline) {
  RedisCommand command;
  command.words = {"SENTINEL", "get-master-addr-by-name", addresses_.master_name};
  const RedisCommand* const commands[] = {&command};
  absl::Status failure;
  for (const RedisEndpoint& sentinel : addresses_.endpoints) {
    const Replies replies = RunAt(sentinel, commands, deadline);
    failure = replies.status();
    if (!replies.ok()) continue;
    absl::StatusOr<RedisEndpoint> master =
        ParseMasterAddress(replies->front(), addresses_.master_name);
    if (master.ok()) return RedisTopology{{*std::move(master)}, {}};
    failure = Error(absl::StatusCode::kUnavailable, "Redis sentinel ", sentinel.text(), ": ",
                    std::string(master.status().message()));
  }
  return failure;
}

absl::StatusOr<RedisTopology> RedisClient::AskServer(const RedisEndpoint& endpoint,
                                                     Deadline deadline) {
  RedisCommand command;
  command.words = {"CLUSTER", "SLOTS"};
  command.limit = kClusterSlotsLimit;
  const RedisCommand* const commands[] = {&command};
  ASSIGN_OR_RETURN(const std::vector<RedisReply> replies, RunAt(endpoint, commands, deadline));
  const RedisReply& reply = replies.front();
  if (reply.is_error()) {
    if (!IsNotReady(reply)) return RedisTopology{{endpoint}, {}};
    return Annotate(ErrorOf(reply), "Redis " + endpoint.text());
  }
  absl::StatusOr<RedisTopology> topology = ParseClusterSlots(reply, endpoint);
  if (topology.ok() || absl::IsUnavailable(topology.status())) return topology;
  return NoteFailure(endpoint, topology.status());
}

// The breaker of a name is for the name service; the numbers of the name have their own.
absl::StatusOr<std::vector<RedisEndpoint>> RedisClient::NumbersOf(const RedisEndpoint& address,
                                                                  Deadline deadline) {
  if (IsNumber(address.host)) return std::vector<RedisEndpoint>{address};
  if (!Allow(address)) {
    ++open_circuit_;
    return Error(absl::StatusCode::kUnavailable, "Redis ", address.text(),
                 ": the name was not found a short time ago; it is looked up again later");
  }
  absl::StatusOr<std::vector<RedisEndpoint>> numbers =
      Resolve(address, std::min(deadline, steady_clock::now() + options_.connect_timeout));
  if (!numbers.ok()) return NoteFailure(address, numbers.status());
  NoteSuccess(address);
  return numbers;
}

bool RedisClient::IsReadOnly(const RedisEndpoint& endpoint) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return read_only_.contains(endpoint);
}

void RedisClient::MarkStale() {
  std::lock_guard<std::mutex> lock(mutex_);
  stale_ = true;
}

void RedisClient::MarkReadOnly(const RedisEndpoint& endpoint) {
  std::lock_guard<std::mutex> lock(mutex_);
  stale_ = true;
  next_discovery_ = {};
  read_only_.insert(endpoint);
}

}  // namespace hpu::store
