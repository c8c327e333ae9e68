// Listens on a unix socket and hands connections of the same user to a gRPC server. We accept
// ourselves because gRPC does not show who connects.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "base/status.h"

namespace grpc {
class Server;
}

namespace hpu::server {

class UnixListener {
 public:
  // The socket's folder must belong to us with mode 0700. "<path>.lock" is locked for the life of
  // the listener, so one server listens per path and a left-over socket can be removed safely.
  // FAILED_PRECONDITION: the folder is not private, or the path is too long. ALREADY_EXISTS:
  // another server holds the lock.
  static absl::StatusOr<std::unique_ptr<UnixListener>> Bind(const std::string& path);

  // Stops accepting; removes the socket file.
  ~UnixListener();
  UnixListener(const UnixListener&) = delete;
  UnixListener& operator=(const UnixListener&) = delete;

  // Begins to accept; `server` must outlive the listener.
  void Start(grpc::Server* server);

  // Stops accepting and removes the socket file; open connections stay.
  void Stop();

 private:
  UnixListener(std::string path, int lock_fd, int listen_fd, int wake_fd)
      : path_(std::move(path)), lock_fd_(lock_fd), listen_fd_(listen_fd), wake_fd_(wake_fd) {}

  void AcceptLoop(grpc::Server* server);

  const std::string path_;
  const int lock_fd_;
  const int listen_fd_;
  const int wake_fd_;  // eventfd that ends the accept loop
  std::thread thread_;
  bool stopped_ = false;
};

}  // namespace hpu::server
