#include "compiler_server/service/compile_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/log.h"

namespace hpu::server {
namespace {

// Requests that wait for a compilation hold a thread each.
constexpr int kMaxRequestThreads = 1024;
// Queues of arriving calls of one listener, and the threads that may wait at each queue. With
// gRPC's own default of two threads, a thread that has answered usually ends, and the next call
// waits for a new one.
constexpr int kQueues = 2;
constexpr int kWaitingThreads = 8;
// The limit for requests and answers in transit, of one listener.
constexpr size_t kMaxBufferedBytes = size_t{4} << 30;
constexpr std::chrono::seconds kCheck{1};
constexpr std::chrono::seconds kReturnInterval{5};
// The time for answers that are still being sent when every request has been answered.
constexpr std::chrono::seconds kCloseGrace{1};

std::string PublicKeyPath(const ServerOptions& options) { return options.socket_path + ".pub"; }

void Configure(grpc::ServerBuilder& builder, Door* door) {
  builder.RegisterService(door);
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder.SetResourceQuota(
      grpc::ResourceQuota("requests").SetMaxThreads(kMaxRequestThreads).Resize(kMaxBufferedBytes));
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, kQueues);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, kWaitingThreads);
  // Clients may ping at any time; our own pings find clients that died without closing.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 2000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CompileServer>> CompileServer::Start(ServerOptions options) {
  std::unique_ptr<CompileServer> server(new CompileServer(std::move(options)));
  RETURN_IF_ERROR(server->Listen());
  RETURN_IF_ERROR(server->ListenToNetwork());
  RETURN_IF_ERROR(server->ShowMetrics());
  return server;
}

absl::Status CompileServer::Listen() {
  RETURN_IF_ERROR(CheckNetwork(options_.network));
  if (HasTls(options_.network)) {
    ASSIGN_OR_RETURN(tls_, TlsDoor::Make(options_.network));
  }
  // The lock on the socket comes first, because only its holder may open the store.
  ASSIGN_OR_RETURN(listener_, UnixListener::Bind(options_.socket_path));
  ASSIGN_OR_RETURN(audit_, AuditLog::Open(options_.audit_file));
  store::StoreConfig config = options_.store;
  UpstreamOptions upstream = options_.upstream;
  QueueOptions queue = options_.queue;
  queue.hedge_after = upstream.endpoints.empty() ? config.hedge_after : upstream.hedge_after;
  // A server that compiles nothing has nothing else to do while it waits for others.
  if (options_.frozen) {
    config.hedge_after = upstream.hedge_after = std::chrono::milliseconds(0);
  }
  config.evicted = [audit = audit_.get()](const store::Eviction& eviction) {
    audit->Write({"", eviction.tenant, "", "evict", absl::StatusCode::kOk, ToHex(eviction.key),
                  eviction.of_share ? "the tenant's share is full" : "the store is full"});
  };
  ASSIGN_OR_RETURN(store::OpenedStore opened, store::OpenStore(config));
  // RocksDB's lock is the one file that stays the same as long as the database is open.
  if (opened.persistent) database_.emplace(options_.store.folder + "/db/LOCK");
  const auto stop = [this](const std::string& reason) {
    // This precedes the answer: the caller may start the next server, which must not meet this one.
    listener_->Stop();
    RequestStop(reason);
  };
  service_ = std::make_unique<CompileService>(
      ServiceOptions{options_.build_id, queue, std::move(upstream), options_.config_file,
                     options_.frozen, options_.share_programs || options_.network.listen.empty(),
                     options_.store.tenant_bytes > 0, options_.tenant},
      std::move(opened), audit_.get(), &times_, stop);
  RETURN_IF_ERROR(PublishKeys());
  own_user_ = std::make_unique<OwnUser>(options_.tenant);
  unix_door_ =
      std::make_unique<Door>("unix", own_user_.get(), service_.get(), &times_, audit_.get());
  grpc::ServerBuilder builder;
  Configure(builder, unix_door_.get());
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return Internal("gRPC did not start a server");
  listener_->Start(server_.get());
  HPU_LOG(kInfo, "compile server ready socket=" << options_.socket_path << " pid=" << getpid()
                                                << " build=" << options_.build_id.substr(0, 16));
  return absl::OkStatus();
}

absl::Status CompileServer::ListenToNetwork() {
  if (options_.network.listen.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(callers_, CallerTable::Load(options_.network.callers_file));
  network_door_ =
      std::make_unique<Door>("network", callers_.get(), service_.get(), &times_, audit_.get());
  grpc::EnableDefaultHealthCheckService(true);
  // Reflection lets grpcurl and similar tools read the protocol from a server. It reveals nothing
  // else.
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  Configure(builder, network_door_.get());
  // A second server on the same port is an error and must not share it.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  for (const client::Endpoint& endpoint : options_.network.listen) {
    builder.AddListeningPort(endpoint.target, endpoint.kind == client::Endpoint::Kind::kTls
                                                  ? tls_->Credentials()
                                                  : grpc::InsecureServerCredentials());
  }
  network_ = builder.BuildAndStart();
  const std::string listen = client::ToText(options_.network.listen);
  if (network_ == nullptr) {
    std::string reasons;
    for (const client::Endpoint& endpoint : options_.network.listen) {
      const std::string why = WhyNotListening(endpoint);
      if (!why.empty()) reasons += (reasons.empty() ? "" : "; ") + why;
    }
    return Error(absl::StatusCode::kUnavailable, "cannot listen: ",
                 reasons.empty() ? listen + ": gRPC did not start a server" : reasons);
  }
  HPU_LOG(kInfo, "listening to the network at=" << listen);
  return absl::OkStatus();
}

absl::Status CompileServer::ShowMetrics() {
  if (options_.metrics_address.empty()) return absl::OkStatus();
  certificates_.Watch("tls-certificate", options_.network.certificate_file);
  certificates_.Watch("upstream-certificate", options_.upstream.access.certificate_file);
  if (const auto& cache = options_.store.remote_cache; cache.has_value()) {
    certificates_.Watch("remote-cache-certificate", cache->access.certificate_file);
  }
  // The first ReadAgain reports what is wrong now.
  certificates_.Reload().IgnoreError();
  ASSIGN_OR_RETURN(metrics_,
                   MetricsPage::Open(options_.metrics_address, options_.build_id,
                                     {.counters = [this] { return service_->Counters(); },
                                      .expiries = [this] { return certificates_.expiries(); }},
                                     times_));
  return absl::OkStatus();
}

absl::Status CompileServer::PublishKeys() const {
  return store::WriteKeyring(PublicKeyPath(options_), *service_->trusted_keys().keyring());
}

void CompileServer::ReadAgain() {
  absl::StatusOr<bool> changed = service_->trusted_keys().Reload();
  absl::Status status = changed.status();
  if (changed.ok() && *changed) {
    HPU_LOG(kInfo,
            "trusted keys changed count=" << service_->trusted_keys().keyring()->keys().size());
    keys_published_ = false;
  }
  if (!keys_published_) {
    const absl::Status published = PublishKeys();
    keys_published_ = published.ok();
    status.Update(published);
  }
  if (callers_ != nullptr) {
    changed = callers_->Reload();
    status.Update(changed.status());
    if (changed.ok() && *changed) HPU_LOG(kInfo, "callers changed");
  }
  if (tls_ != nullptr) status.Update(tls_->Reload());
  status.Update(certificates_.Reload());
  service_->TellConfigurationRefused(!status.ok());
  const std::string complaint = status.ok() ? "" : ToText(status);
  if (complaint == last_complaint_) return;
  last_complaint_ = complaint;
  if (!complaint.empty()) {
    HPU_LOG(kError, "configuration not read again, the old one holds error=" << complaint);
  }
}

CompileServer::~CompileServer() { Stop(); }

void CompileServer::RequestStop(const std::string& reason) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!stop_reason_.has_value()) stop_reason_ = reason;
  stop_requested_.notify_all();
}

std::string CompileServer::WaitForStopRequest() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_requested_.wait_for(lock, kCheck, [this] { return stop_reason_.has_value(); })) {
    service_->GiveUpStalledStreams();
    ReadAgain();
    ReturnMemory();
    if (options_.idle_timeout.count() > 0 && service_->idle_time() >= options_.idle_timeout) {
      stop_reason_ = "idle";
    } else if (const absl::Status files = LookAfterFiles(); !files.ok()) {
      files_lost_ = true;
      stop_reason_ = std::string(files.message());
      HPU_LOG(kError, "server leaves, the next compilation starts another error=" << *stop_reason_);
    }
  }
  return *stop_reason_;
}

void CompileServer::ReturnMemory() {
  const auto now = std::chrono::steady_clock::now();
  if (service_->idle_time() < kCheck || now < next_return_) return;
  // Without this the C library keeps all memory that it once had, in as many arenas as there were
  // working threads.
  malloc_trim(0);
  next_return_ = now + kReturnInterval;
}

absl::Status CompileServer::LookAfterFiles() {
  if (database_.has_value() && !database_->InPlace()) {
    return Error(absl::StatusCode::kUnavailable, "the store in ", options_.store.folder,
                 " was removed while it was open; what it held is compiled again");
  }
  // This happens before anybody can connect, as it does at the start.
  const std::filesystem::path key = PublicKeyPath(options_);
  if (!std::filesystem::exists(key)) {
    HPU_LOG(kWarning, "public key was removed, written again file=" << key.string());
    mkdir(key.parent_path().c_str(), 0700);
    RETURN_IF_ERROR(PublishKeys());
  }
  ASSIGN_OR_RETURN(const bool restored, listener_->Restore());
  if (restored) {
    HPU_LOG(kWarning, "socket or lock was removed, made again socket=" << options_.socket_path);
  }
  return absl::OkStatus();
}

void CompileServer::Stop() {
  if (server_ == nullptr) return;
  listener_->Stop();
  if (network_ != nullptr) {
    // From now on load balancers send new calls elsewhere.
    network_->GetHealthCheckService()->SetServingStatus(false);
  }
  service_->Stop(files_lost_ ? std::chrono::milliseconds(0) : options_.stop_grace);
  server_->Shutdown(std::chrono::system_clock::now() + kCloseGrace);
  if (network_ != nullptr) network_->Shutdown(std::chrono::system_clock::now() + kCloseGrace);
  metrics_.reset();
  network_.reset();
  server_.reset();
  service_.reset();
  listener_.reset();  // this gives the lock back: only now may another server open the store
}

}  // namespace hpu::server
