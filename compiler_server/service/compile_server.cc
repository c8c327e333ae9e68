#include "compiler_server/service/compile_server.h"

#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>
#include <unistd.h>

#include "base/log.h"

namespace hpu::server {
namespace {

// Requests that wait for a compilation hold a thread each.
constexpr int kMaxRequestThreads = 1024;
constexpr std::chrono::seconds kIdleCheck{1};
// For what is still being sent when everything has been answered.
constexpr std::chrono::seconds kCloseGrace{1};

std::unique_ptr<grpc::Server> BuildServer(CompileServiceImpl* service) {
  grpc::ServerBuilder builder;
  builder.RegisterService(service);
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder.SetResourceQuota(grpc::ResourceQuota("requests").SetMaxThreads(kMaxRequestThreads));
  // A client's pings are welcome at any time; ours find clients that died without closing.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 2000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  return builder.BuildAndStart();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CompileServer>> CompileServer::Start(ServerOptions options) {
  std::unique_ptr<CompileServer> server(new CompileServer(std::move(options)));
  RETURN_IF_ERROR(server->Listen());
  return server;
}

absl::Status CompileServer::Listen() {
  // The lock on the socket first: only its holder may open the store.
  ASSIGN_OR_RETURN(listener_, UnixListener::Bind(options_.socket_path));
  ASSIGN_OR_RETURN(store::OpenedStore opened, store::OpenStore(options_.store));
  RETURN_IF_ERROR(
      store::WritePublicKey(options_.socket_path + ".pub", opened.signing_key.public_key()));
  service_ = std::make_unique<CompileServiceImpl>(
      options_.build_id, std::move(opened), options_.queue,
      [this](const std::string& reason) { RequestStop(reason); });
  server_ = BuildServer(service_.get());
  if (server_ == nullptr) return Internal("gRPC did not start a server");
  listener_->Start(server_.get());
  HPU_LOG(kInfo, "compile server ready socket=" << options_.socket_path << " pid=" << getpid()
                                                << " build=" << options_.build_id.substr(0, 16));
  return absl::OkStatus();
}

CompileServer::~CompileServer() { Stop(); }

void CompileServer::RequestStop(const std::string& reason) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!stop_reason_.has_value()) stop_reason_ = reason;
  stop_requested_.notify_all();
}

std::string CompileServer::WaitForStopRequest() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_requested_.wait_for(lock, kIdleCheck, [this] { return stop_reason_.has_value(); })) {
    if (options_.idle_timeout.count() > 0 && service_->idle_time() >= options_.idle_timeout) {
      stop_reason_ = "idle";
    }
  }
  return *stop_reason_;
}

void CompileServer::Stop() {
  if (server_ == nullptr) return;
  listener_->Stop();
  service_->Stop(options_.stop_grace);
  server_->Shutdown(std::chrono::system_clock::now() + kCloseGrace);
  server_.reset();
  service_.reset();
  listener_.reset();  // gives the lock back: only now may another server open the store
}

}  // namespace hpu::server
