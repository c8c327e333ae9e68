// The servers that a client may ask, in their order, except those that failed recently.
// Thread-safe.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "compile_client/connection.h"

namespace hpu::client {

class ServerSet {
 public:
  struct Options {
    std::vector<Endpoint> endpoints;  // one or more; the first that works is asked
    Access access;
    std::chrono::milliseconds connect_timeout{1500};
    // With several unreachable servers, no further one is tried after this time.
    std::chrono::milliseconds choose_timeout{4000};
    // How long a server that failed is not asked. It doubles with each failure in a row. With 0 it
    // is asked again at once.
    std::chrono::milliseconds retry_after{0};
    std::chrono::milliseconds max_retry_after{60'000};
  };

  // A server for one call.
  struct Choice {
    size_t index = 0;
    std::shared_ptr<Connection> connection;
    bool reused = false;  // it was connected before, and may have gone away since
  };
  // The servers that one call has already tried without success.
  using Tried = std::vector<bool>;

  explicit ServerSet(Options options);
  ~ServerSet();
  ServerSet(const ServerSet&) = delete;
  ServerSet& operator=(const ServerSet&) = delete;

  Tried NoneTried() const { return Tried(options_.endpoints.size(), false); }

  // Connects where needed. Returns ServerUnavailable with the last reason if no server is left, and
  // PERMISSION_DENIED as Connect does.
  absl::StatusOr<Choice> Choose(Tried& tried);

  // The call's outcome must be reported. After a failure the connection is not used again.
  void Worked(const Choice& choice);
  // The connection broke. The server counts as tried, unless the connection was an old one.
  void Broke(const Choice& choice, Tried& tried);
  // There was no answer in time, or a useless one: the server counts as tried.
  void WasLate(const Choice& choice, Tried& tried);

  const std::vector<Endpoint>& endpoints() const { return options_.endpoints; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Server {
    std::shared_ptr<Connection> connection;
    Clock::time_point not_before{};
    std::chrono::milliseconds pause{0};
    size_t connecting = 0;  // number of threads
  };

  // Callers of these hold mutex_.
  // PassOver returns true if another server can be asked while another thread finds out about this
  // one.
  bool PassOver(size_t index, const Tried& tried) const;
  void Pause(Server& server) const;
  Server& Drop(const Choice& choice);

  const Options options_;
  std::mutex mutex_;
  std::vector<Server> servers_;  // guarded by mutex_; in the order of the endpoints
};

}  // namespace hpu::client
