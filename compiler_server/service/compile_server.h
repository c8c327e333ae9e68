// A whole compile server: store, workers, service, socket. bin/ adds flags and signals.
#pragma once

#include <grpcpp/server.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "compiler_server/service/compile_service.h"
#include "compiler_server/service/unix_listener.h"
#include "recipe_store/factory.h"

namespace hpu::server {

struct ServerOptions {
  std::string socket_path;
  std::string build_id;
  // Whom clients are taken for: a server of one user has one tenant.
  std::string tenant = "local";
  store::StoreConfig store;
  QueueOptions queue;
  std::chrono::seconds idle_timeout{15 * 60};    // 0 = never
  std::chrono::milliseconds stop_grace{10'000};  // for running compilations
};

class CompileServer {
 public:
  // Listening when it returns. The public key lies in "<socket>.pub". Errors as UnixListener::Bind.
  static absl::StatusOr<std::unique_ptr<CompileServer>> Start(ServerOptions options);

  // Stops.
  ~CompileServer();

  // Any thread, also signal-waiting ones. The first reason counts.
  void RequestStop(const std::string& reason);

  // Returns the reason: RequestStop's, "idle" after idle_timeout without requests, or what happened
  // to our files. Looks after them meanwhile, each second: a socket, lock or public key that others
  // removed is made again; a server whose store was removed, or whose lock another server has,
  // leaves without waiting for its compilations. Ends streams to clients that do not read.
  std::string WaitForStopRequest();

  // Removes the socket, finishes or abandons compilations within stop_grace, flushes the store.
  void Stop();

 private:
  explicit CompileServer(ServerOptions options) : options_(std::move(options)) {}
  absl::Status Listen();
  absl::Status PublishKey() const;
  // Why this server must leave its files to others; OK if they are in place.
  absl::Status LookAfterFiles();
  // Gives free memory back to the system, while there is nothing to do.
  void ReturnMemory();

  const ServerOptions options_;
  std::optional<FileIdentity> database_;  // nothing if programs are kept in memory
  bool files_lost_ = false;
  std::chrono::steady_clock::time_point next_return_{};
  std::unique_ptr<CompileServiceImpl> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<UnixListener> listener_;

  std::mutex mutex_;
  std::condition_variable stop_requested_;
  std::optional<std::string> stop_reason_;  // guarded by mutex_
};

}  // namespace hpu::server
