// Listens on a unix socket and hands connections of the same user to a gRPC server. We accept
// ourselves because gRPC does not show who connects.
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
  // The socket's folder must belong to us with mode 0700. "<path>.lock" is locked for the life of
  // the listener, so one server listens per path and a left-over socket can be removed safely; its
  // text is "PID serving", from Stop() on "PID stopping". FAILED_PRECONDITION: the folder is not
  // private, or the path is too long. ALREADY_EXISTS: another server holds the lock.
  static absl::StatusOr<std::unique_ptr<UnixListener>> Bind(const std::string& path);

  // FAILED_PRECONDITION: the path is too long for a socket, or something else is there.
  static absl::Status CheckPath(const std::string& path);

  // Stops accepting; removes the socket file.
  ~UnixListener();
  UnixListener(const UnixListener&) = delete;
  UnixListener& operator=(const UnixListener&) = delete;

  // Begins to accept; `server` must outlive the listener.
  void Start(grpc::Server* server);

  // Makes good what others removed meanwhile: takes the lock again, listens again if the socket is
  // gone. Who waits to be accepted is. True if there was something to do; not after Stop(). Errors
  // as Bind.
  absl::StatusOr<bool> Restore();

  // Removes the socket file, accepts who waits, then nobody; open connections stay. Any thread.
  void Stop();

 private:
  explicit UnixListener(std::string path) : path_(std::move(path)), lock_(path_), socket_(path_) {}

  absl::Status TakeLock();
  absl::Status Listen();
  void WriteState(const char* state) const;
  void EndAcceptLoop();
  void AcceptLoop();
  // False: nobody waits, or there is no room.
  bool AcceptOne();

  const std::string path_;
  int lock_fd_ = -1;
  int listen_fd_ = -1;
  int wake_fd_ = -1;  // eventfd that ends the accept loop
  FileIdentity lock_;
  FileIdentity socket_;
  grpc::Server* server_ = nullptr;
  std::thread thread_;
  std::mutex mutex_;  // one of Restore() and Stop() at a time
  bool stopped_ = false;
};

}  // namespace hpu::server
