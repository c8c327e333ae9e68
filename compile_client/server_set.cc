#include "compile_client/server_set.h"

#include <algorithm>

namespace hpu::client {

ServerSet::ServerSet(Options options)
    : options_(std::move(options)), servers_(options_.endpoints.size()) {}

ServerSet::~ServerSet() {
  // In a forked child gRPC's objects must not be touched, so they are leaked on purpose.
  if (AfterFork()) new std::vector<Server>(std::move(servers_));
}

absl::StatusOr<ServerSet::Choice> ServerSet::Choose(Tried& tried) {
  // This check precedes the lock, which another thread of the parent may have held at the fork.
  if (AfterFork()) return ConnectUnix("").status();
  std::unique_lock<std::mutex> lock(mutex_);
  absl::Status last = ServerUnavailable(Error(absl::StatusCode::kUnavailable,
                                              "no compile server of ", ToText(options_.endpoints),
                                              " is asked now, because it failed a moment ago"));
  const Clock::time_point give_up = Clock::now() + options_.choose_timeout;
  for (size_t i = 0; i < servers_.size() && Clock::now() < give_up; ++i) {
    Server& server = servers_[i];
    if (tried[i]) continue;
    if (server.connection != nullptr) return Choice{i, server.connection, true};
    const Clock::time_point begin = Clock::now();
    if (begin < server.not_before || PassOver(i, tried)) continue;
    ++server.connecting;
    lock.unlock();
    auto connection = Connect(options_.endpoints[i], options_.access, options_.connect_timeout);
    lock.lock();
    --server.connecting;
    if (connection.ok()) {
      // All threads use one connection, the first that was made.
      if (server.connection == nullptr) server.connection = *std::move(connection);
      return Choice{i, server.connection, false};
    }
    if (!IsServerUnavailable(connection.status())) return connection.status();
    // Threads that tried at the same time found the same failure, which counts once.
    if (server.not_before <= begin) Pause(server);
    last = connection.status();
    tried[i] = true;
  }
  // By now the first pauses would be over, and the next call would wait for the same servers.
  for (size_t i = 0; i < servers_.size(); ++i) {
    if (tried[i]) servers_[i].not_before = Clock::now() + servers_[i].pause;
  }
  return last;
}

bool ServerSet::PassOver(size_t index, const Tried& tried) const {
  if (servers_[index].connecting == 0) return false;
  for (size_t i = index + 1; i < servers_.size(); ++i) {
    if (!tried[i] && servers_[i].connection != nullptr) return true;
  }
  return false;
}

void ServerSet::Pause(Server& server) const {
  server.pause = std::clamp(2 * server.pause, options_.retry_after, options_.max_retry_after);
  server.not_before = Clock::now() + server.pause;
}

void ServerSet::Worked(const Choice& choice) {
  std::lock_guard<std::mutex> lock(mutex_);
  servers_[choice.index].pause = std::chrono::milliseconds(0);
}

ServerSet::Server& ServerSet::Drop(const Choice& choice) {
  Server& server = servers_[choice.index];
  if (server.connection == choice.connection) server.connection = nullptr;
  return server;
}

void ServerSet::Broke(const Choice& choice, Tried& tried) {
  std::lock_guard<std::mutex> lock(mutex_);
  Server& server = Drop(choice);
  if (choice.reused) return;
  tried[choice.index] = true;
  Pause(server);
}

void ServerSet::WasLate(const Choice& choice, Tried& tried) {
  std::lock_guard<std::mutex> lock(mutex_);
  tried[choice.index] = true;
  Pause(Drop(choice));
}

}  // namespace hpu::client
