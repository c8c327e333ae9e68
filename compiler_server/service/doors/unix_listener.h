// Listens on a unix socket and hands connections of the same user to a gRPC server. It accepts
// connections itself because gRPC does not show who connects.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/status.h"
#include "compiler_server/service/callers/file_identity.h"

namespace grpc {
class Server;
}

namespace hpu::server {

class UnixListener {
 public:
  // The socket's folder must belong to us and have mode 0700. "<path>.lock" is locked during the
  // listener's lifetime, so that only one server listens on a path and the socket of a dead one can
  // be removed safely. The text of the lock file is "PID serving", and "PID stopping" from Stop()
  // on. Returns FAILED_PRECONDITION if the folder is not private or the path is too long, and
  // ALREADY_EXISTS if another server holds the lock.
  static absl::StatusOr<std::unique_ptr<UnixListener>> Bind(const std::string& path);

  // Returns FAILED_PRECONDITION if the path is too long for a socket or if there is something else.
  static absl::Status CheckPath(const std::string& path);

  // Stops accepting; removes the socket file.
  ~UnixListener();
  UnixListener(const UnixListener&) = delete;
  UnixListener& operator=(const UnixListener&) = delete;

  // Begins to accept connections. `server` must outlive the listener.
  void Start(grpc::Server* server);

  // Restores what others removed in the meantime: takes the lock again, and listens again if the
  // socket is gone. Clients that wait to be accepted are accepted. Returns true if there was
  // something to do, and never after Stop(). Returns the errors of Bind.
  absl::StatusOr<bool> Restore();

  // Removes the socket file, accepts the clients that wait, and then nobody else. Open connections
  // stay. May be called on any thread.
  void Stop();

 private:
  explicit UnixListener(std::string path) : path_(std::move(path)), lock_(path_), socket_(path_) {}

  absl::Status TakeLock();
  absl::Status Listen();
  void WriteState(const char* state) const;
  void EndAcceptLoop();
  void AcceptLoop();
  // Returns false if nobody waits, or if there are no descriptors left.
  bool AcceptOne();

  const std::string path_;
  int lock_fd_ = -1;
  int listen_fd_ = -1;
  int wake_fd_ = -1;  // eventfd that ends the accept loop
  FileIdentity lock_;
  FileIdentity socket_;
  grpc::Server* server_ = nullptr;
  std::thread thread_;
  std::mutex mutex_;  // allows one Restore() or Stop() at a time
  bool stopped_ = false;
};

}  // namespace hpu::server
