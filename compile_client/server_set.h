// The servers that a client may ask: in their order, passing over those that failed lately.
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
    // Of several servers that cannot be reached: no further one is tried after this.
    std::chrono::milliseconds choose_timeout{4000};
    // How long a server that failed is left alone; doubles with each failure in a row. 0: it is
    // asked again at once.
    std::chrono::milliseconds retry_after{0};
    std::chrono::milliseconds max_retry_after{60'000};
  };

  // A server for one call.
  struct Choice {
    size_t index = 0;
    std::shared_ptr<Connection> connection;
    bool reused = false;  // it was connected before: it may have gone away since
  };
  // The servers that one call has tried in vain.
  using Tried = std::vector<bool>;

  explicit ServerSet(Options options);
  ~ServerSet();
  ServerSet(const ServerSet&) = delete;
  ServerSet& operator=(const ServerSet&) = delete;

  Tried NoneTried() const { return Tried(options_.endpoints.size(), false); }

  // Connects where needed. ServerUnavailable: none is left, with the last reason. PERMISSION_DENIED
  // as Connect.
  absl::StatusOr<Choice> Choose(Tried& tried);

  // What became of the call. After a failure the connection is not used again.
  void Worked(const Choice& choice);
  // The connection broke. The server is tried, unless the connection was an old one.
  void Broke(const Choice& choice, Tried& tried);
  // No answer in time, or one that is of no use: the server is tried.
  void WasLate(const Choice& choice, Tried& tried);

  const std::vector<Endpoint>& endpoints() const { return options_.endpoints; }

 private:
  using Clock = std::chrono::steady_clock;

  struct Server {
    std::shared_ptr<Connection> connection;
    Clock::time_point not_before{};
    std::chrono::milliseconds pause{0};
    size_t connecting = 0;  // threads
  };

  // mutex_ held
  // Another one can be asked while somebody else finds out about this one.
  bool PassOver(size_t index, const Tried& tried) const;
  void Pause(Server& server) const;
  Server& Drop(const Choice& choice);

  const Options options_;
  std::mutex mutex_;
  std::vector<Server> servers_;  // guarded by mutex_; in the order of the endpoints
};

}  // namespace hpu::client
