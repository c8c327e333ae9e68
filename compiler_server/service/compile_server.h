// A whole compile server: store, workers, service, socket and network. bin/ adds options and
// signals.
#pragma once

#include <grpcpp/server.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "compiler_server/service/admin/metrics_page.h"
#include "compiler_server/service/callers/caller_table.h"
#include "compiler_server/service/doors/certificates.h"
#include "compiler_server/service/doors/door.h"
#include "compiler_server/service/doors/network.h"
#include "compiler_server/service/doors/tls_door.h"
#include "compiler_server/service/doors/unix_listener.h"
#include "compiler_server/service/rpc/compile_service.h"
#include "recipe_store/stack/factory.h"

namespace hpu::server {

struct ServerOptions {
  std::string socket_path;
  std::string build_id;
  // The tenant of clients at the unix socket.
  std::string tenant = "local";
  // Whether tenants that have the same graph share its program. Callers over the unix socket are
  // one tenant, which has nobody to share with.
  bool share_programs = false;
  store::StoreConfig store;
  QueueOptions queue;
  UpstreamOptions upstream;
  bool frozen = false;      // answers from the store, compiles nothing
  std::string config_file;  // the file that these options came from, shown to whoever asks
  NetworkOptions network;
  std::string metrics_address;  // HOST:PORT of the page for Prometheus; empty: no page
  std::string audit_file;       // the file of the AuditLog; empty: none
  std::chrono::seconds idle_timeout{15 * 60};    // 0 = never
  std::chrono::milliseconds stop_grace{10'000};  // for running compilations
};

class CompileServer {
 public:
  // Returns a server that is listening. The keys that it trusts, its own first, are in
  // "<socket>.pub". Returns the errors of UnixListener::Bind, OpenStore, CheckNetwork,
  // CallerTable::Load and MetricsPage::Open, and UNAVAILABLE if it cannot listen on an address.
  static absl::StatusOr<std::unique_ptr<CompileServer>> Start(ServerOptions options);

  // Stops the server.
  ~CompileServer();

  // May be called on any thread, also on one that waits for signals. The first reason counts.
  void RequestStop(const std::string& reason);

  // Returns the reason: RequestStop's, "idle" after idle_timeout without requests, or what happened
  // to our files. Meanwhile it checks them each second: a socket, lock or public key that others
  // removed is made again, and trusted keys and callers are read again; a server whose store was
  // removed, or whose lock another server has, leaves without waiting for its compilations. It also
  // ends streams to clients that do not read.
  std::string WaitForStopRequest();

  // Removes the socket, finishes or abandons compilations within stop_grace, flushes the store.
  void Stop();

 private:
  explicit CompileServer(ServerOptions options) : options_(std::move(options)) {}
  absl::Status Listen();
  absl::Status ListenToNetwork();
  absl::Status ShowMetrics();
  absl::Status PublishKeys() const;
  // Reads again what an operator may have changed. Each error is logged once.
  void ReadAgain();
  // Why this server must leave its files to others; OK if they are in place.
  absl::Status LookAfterFiles();
  // Gives free memory back to the system, while there is nothing to do.
  void ReturnMemory();

  const ServerOptions options_;
  std::optional<FileIdentity> database_;  // nothing if programs are kept in memory
  bool files_lost_ = false;
  std::chrono::steady_clock::time_point next_return_{};
  std::string last_complaint_;
  bool keys_published_ = true;  // as they are now
  ServerTimes times_;
  Certificates certificates_;
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<CompileService> service_;
  std::unique_ptr<OwnUser> own_user_;
  std::unique_ptr<Door> unix_door_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<UnixListener> listener_;
  // Null where there is no network.
  std::unique_ptr<CallerTable> callers_;
  std::unique_ptr<Door> network_door_;
  std::unique_ptr<TlsDoor> tls_;  // null also if no address is tls://
  std::unique_ptr<grpc::Server> network_;
  std::unique_ptr<MetricsPage> metrics_;

  std::mutex mutex_;
  std::condition_variable stop_requested_;
  std::optional<std::string> stop_reason_;  // guarded by mutex_
};

}  // namespace hpu::server
