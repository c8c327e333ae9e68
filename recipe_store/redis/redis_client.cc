#include "recipe_store/redis/redis_client.h"

#include <algorithm>
#include <random>
#include <thread>

#include "base/log.h"

namespace hpu::store {
namespace {

using std::chrono::steady_clock;

// One command is sent to at most so many servers.
constexpr int kMaxRounds = 6;
// A hostile server can name any number of others, so the client knows at most so many.
constexpr size_t kMaxRememberedNodes = 4096;
constexpr uint64_t kMaxIdleBytes = 16 << 20;
// The client waits so long for a key that moves between two nodes of a cluster.
constexpr std::chrono::milliseconds kTryAgainPause{10};

uint64_t Random() {
  static thread_local std::mt19937_64 generator{std::random_device()()};
  return generator();
}

const RedisCommand& Asking() {
  static const auto* const command = new RedisCommand{.words = {"ASKING"}};
  return *command;
}

}  // namespace

absl::StatusOr<std::shared_ptr<RedisClient>> RedisClient::Make(const RedisOptions& options) {
  RETURN_IF_ERROR(CheckRedisOptions(options));
  ASSIGN_OR_RETURN(RedisAddresses addresses, ParseRedisAddresses(options.addresses));
  return std::shared_ptr<RedisClient>(new RedisClient(options, std::move(addresses)));
}

std::chrono::milliseconds RedisClient::TimeFor(uint64_t bytes) const {
  return std::chrono::milliseconds(bytes /
                                   std::max<uint64_t>(1, options_.min_bytes_per_second / 1000));
}

Deadline RedisClient::DeadlineFor(uint64_t bytes) const {
  return steady_clock::now() + options_.connect_timeout + options_.command_timeout + TimeFor(bytes);
}

// A Round is what is left to do of a Run.
struct RedisClient::Round {
  struct Target {
    size_t command = 0;
    // Without a redirection the topology says where to go.
    std::optional<RedisRedirect> redirect;
  };
  std::vector<Target> targets;
  std::vector<Target> next;
  std::vector<RedisReply> replies;  // of all commands
  bool pause = false;
  // Servers that refused a write in this round.
  std::vector<RedisEndpoint> refused;
  // Servers that refused a write in earlier rounds. A further refusal of theirs is final.
  std::set<RedisEndpoint> read_only;
};

absl::StatusOr<std::vector<RedisReply>> RedisClient::Run(std::span<const RedisCommand> commands,
                                                         Deadline deadline) {
  Round round;
  round.replies.resize(commands.size());
  for (size_t i = 0; i < commands.size(); ++i) round.targets.push_back({i, std::nullopt});
  std::set<RedisEndpoint> failed;
  absl::Status failure;
  for (int count = 0; count < kMaxRounds && !round.targets.empty(); ++count) {
    ASSIGN_OR_RETURN(const Topology topology, CurrentTopology(deadline));
    std::map<RedisEndpoint, std::vector<Round::Target>> batches;
    for (const Round::Target& target : round.targets) {
      if (target.redirect) {
        batches[target.redirect->to].push_back(target);
        continue;
      }
      ASSIGN_OR_RETURN(const RedisEndpoint node, topology->NodeOf(commands[target.command].key));
      // The same server still answers for the key, so nobody has taken over.
      if (failed.contains(node)) return failure;
      batches[node].push_back(target);
    }
    for (const auto& [endpoint, batch] : batches) {
      std::vector<const RedisCommand*> sent;
      for (const Round::Target& target : batch) {
        if (target.redirect && target.redirect->ask) sent.push_back(&Asking());
        sent.push_back(&commands[target.command]);
      }
      Replies replies = RunAt(endpoint, sent, deadline);
      if (!replies.ok()) {
        failure = replies.status();
        failed.insert(endpoint);
        MarkStale();
        for (const Round::Target& target : batch) round.next.push_back({target.command, {}});
        continue;
      }
      size_t at = 0;
      for (const Round::Target& target : batch) {
        if (target.redirect && target.redirect->ask) ++at;
        Take(round, endpoint, target.command, std::move((*replies)[at++]),
             commands[target.command].optional);
      }
    }
    round.targets.swap(round.next);
    round.next.clear();
    round.read_only.insert(round.refused.begin(), round.refused.end());
    round.refused.clear();
    if (std::exchange(round.pause, false)) {
      std::this_thread::sleep_until(std::min(deadline, steady_clock::now() + kTryAgainPause));
    }
  }
  if (round.targets.empty()) return std::move(round.replies);
  if (!failure.ok()) return failure;
  return Error(absl::StatusCode::kUnavailable, "Redis: ", kMaxRounds,
               " servers in turn sent a command elsewhere; is the cluster being rearranged?");
}

// Takes a reply that counts, or one that says where to ask.
void RedisClient::Take(Round& round, const RedisEndpoint& endpoint, size_t command,
                       RedisReply reply, bool optional) {
  if (reply.is_error() && !optional) {
    const std::string word = reply.error_word();
    if (auto redirect = ParseRedirect(reply, endpoint)) {
      ++redirects_;
      if (!redirect->ask) MarkStale();
      round.next.push_back({command, std::move(redirect)});
      return;
    }
    if (word == "TRYAGAIN") {
      round.pause = true;
      round.next.push_back({command, std::nullopt});
      return;
    }
    if (word == "CLUSTERDOWN") MarkStale();
    if (word == "READONLY" && !round.read_only.contains(endpoint)) {
      MarkReadOnly(endpoint);
      round.refused.push_back(endpoint);
      round.next.push_back({command, std::nullopt});
      return;
    }
  }
  round.replies[command] = std::move(reply);
}

absl::StatusOr<RedisReply> RedisClient::RunOne(const RedisCommand& command, Deadline deadline) {
  ASSIGN_OR_RETURN(std::vector<RedisReply> replies, Run({&command, 1}, deadline));
  return std::move(replies.front());
}

RedisClient::Replies RedisClient::RunAt(const RedisEndpoint& endpoint,
                                        std::span<const RedisCommand* const> commands,
                                        Deadline deadline) {
  // Time that another server used up says nothing about this one.
  if (steady_clock::now() >= deadline) {
    return Error(absl::StatusCode::kUnavailable, "Redis ", endpoint.text(), ": not asked, the ",
                 "time of the call is over");
  }
  ASSIGN_OR_RETURN(std::unique_ptr<RedisConnection> connection, TakeIdle(endpoint));
  if (connection != nullptr) {
    Replies replies = RunOn(std::move(connection), endpoint, commands, deadline);
    // The connection was closed after it was found idle, which is no failure of the server.
    if (!absl::IsUnavailable(replies.status())) {
      if (replies.ok()) return replies;
      return NoteFailure(endpoint, replies.status());
    }
  }
  ++connects_;
  const bool is_sentinel =
      !addresses_.master_name.empty() && std::ranges::count(addresses_.endpoints, endpoint) != 0;
  absl::StatusOr<std::unique_ptr<RedisConnection>> opened = RedisConnection::Open(
      endpoint, is_sentinel ? "" : options_.user, is_sentinel ? "" : options_.password,
      std::min(deadline, steady_clock::now() + options_.connect_timeout));
  if (!opened.ok()) return NoteFailure(endpoint, Annotate(opened.status(), "connecting"));
  Replies replies = RunOn(*std::move(opened), endpoint, commands, deadline);
  if (!replies.ok()) return NoteFailure(endpoint, replies.status());
  return replies;
}

// Keeps the connection if it can be used again.
RedisClient::Replies RedisClient::RunOn(std::unique_ptr<RedisConnection> connection,
                                        const RedisEndpoint& endpoint,
                                        std::span<const RedisCommand* const> commands,
                                        Deadline deadline) {
  RedisTraffic traffic;
  Replies replies = connection->Run(commands, deadline, traffic);
  bytes_read_ += traffic.bytes_read;
  bytes_written_ += traffic.bytes_written;
  if (!replies.ok()) return replies;
  NoteSuccess(endpoint);
  // The reader keeps a buffer as large as the largest answer, so only a small one stays idle.
  if (traffic.bytes_read > kMaxIdleBytes) return replies;
  std::lock_guard<std::mutex> lock(mutex_);
  Node& node = NodeAt(endpoint);
  if (node.idle.size() < options_.max_idle_connections) node.idle.push_back(std::move(connection));
  return replies;
}

// Returns null if no connection is idle. UNAVAILABLE: the server is left alone now.
absl::StatusOr<std::unique_ptr<RedisConnection>> RedisClient::TakeIdle(
    const RedisEndpoint& endpoint) {
  if (!Allow(endpoint)) {
    ++open_circuit_;
    return Error(absl::StatusCode::kUnavailable, "Redis ", endpoint.text(),
                 " failed a short time ago and is left alone for now");
  }
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::unique_ptr<RedisConnection>>& idle = NodeAt(endpoint).idle;
  std::unique_ptr<RedisConnection> connection;
  while (connection == nullptr && !idle.empty()) {
    if (idle.back()->reusable()) connection = std::move(idle.back());
    idle.pop_back();
  }
  return connection;
}

bool RedisClient::Allow(const RedisEndpoint& endpoint) {
  std::lock_guard<std::mutex> lock(mutex_);
  return NodeAt(endpoint).breaker.Allow(steady_clock::now());
}

void RedisClient::NoteSuccess(const RedisEndpoint& endpoint) {
  bool closed = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed = NodeAt(endpoint).breaker.Succeeded();
  }
  if (closed) HPU_LOG(kInfo, "redis server is back server=" << endpoint.text());
}

// Returns the failure as callers of the store see it.
absl::Status RedisClient::NoteFailure(const RedisEndpoint& endpoint, const absl::Status& status) {
  ++failures_;
  if (absl::IsDeadlineExceeded(status)) ++timeouts_;
  const absl::Status told = Error(absl::StatusCode::kUnavailable, "Redis ", endpoint.text(), ": ",
                                  std::string(status.message()));
  bool opened = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    Node& node = NodeAt(endpoint);
    opened = node.breaker.Failed(steady_clock::now(), Random());
    node.idle.clear();
  }
  if (opened) {
    HPU_LOG(kWarning, "redis server lost, asked again from time to time error=" << ToText(told));
  }
  return told;
}

RedisClient::Node& RedisClient::NodeAt(const RedisEndpoint& endpoint) {
  if (nodes_.size() >= kMaxRememberedNodes && !nodes_.contains(endpoint)) nodes_.clear();
  const CircuitBreaker::Times times{options_.retry_after, options_.max_retry_after,
                                    options_.connect_timeout + options_.command_timeout};
  return nodes_.try_emplace(endpoint, Node{CircuitBreaker(times), {}}).first->second;
}

void RedisClient::AddCounters(std::map<std::string, uint64_t>& counters) const {
  counters["redis.bytes_read"] += bytes_read_;
  counters["redis.bytes_written"] += bytes_written_;
  counters["redis.connects"] += connects_;
  counters["redis.server_failures"] += failures_;
  counters["redis.timeouts"] += timeouts_;
  counters["redis.open_circuit"] += open_circuit_;
  counters["redis.redirects"] += redirects_;
  counters["redis.discoveries"] += discoveries_;
}

}  // namespace hpu::store
