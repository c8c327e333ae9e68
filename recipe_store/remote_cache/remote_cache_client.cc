#include "recipe_store/remote_cache/remote_cache_client.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <random>

#include "base/log.h"

namespace hpu::store {
namespace {

using std::chrono::steady_clock;

uint64_t Random() {
  static thread_local std::mt19937_64 generator{std::random_device()()};
  return generator();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RemoteCacheClient>> RemoteCacheClient::Make(
    const RemoteCacheOptions& options) {
  RETURN_IF_ERROR(CheckRemoteCacheOptions(options));
  ASSIGN_OR_RETURN(RemoteCacheAddress address, ParseRemoteCacheAddress(options.address));
  return std::unique_ptr<RemoteCacheClient>(new RemoteCacheClient(options, std::move(address)));
}

RemoteCacheClient::RemoteCacheClient(RemoteCacheOptions options, RemoteCacheAddress address)
    : options_(std::move(options)),
      address_(std::move(address)),
      breaker_({options_.retry_after, options_.max_retry_after, options_.timeout}) {}

std::chrono::milliseconds RemoteCacheClient::TimeFor(uint64_t bytes) const {
  return std::chrono::milliseconds(bytes /
                                   std::max<uint64_t>(1, options_.min_bytes_per_second / 1000));
}

absl::Status RemoteCacheClient::Run(bool writes, uint64_t bytes, const Work& work) {
  if (writes && options_.read_only) {
    ++refused_writes_;
    return Error(absl::StatusCode::kUnavailable, "the remote cache is read only here");
  }
  const auto deadline = steady_clock::now() + options_.timeout + TimeFor(bytes);
  ASSIGN_OR_RETURN(const Session session, CurrentSession(deadline));
  if (writes && !session->takes_results) {
    ++refused_writes_;
    return Error(absl::StatusCode::kUnavailable, "remote cache ", options_.address,
                 " takes no results from here");
  }
  RemoteCacheCall call(session, deadline, &traffic_);
  absl::Status status = work(call);
  NoteReadOnly(session);
  if (call.lost()) {
    NoteFailure(status, call.late());
  } else {
    NoteSuccess();
  }
  return status;
}

absl::StatusOr<RemoteCacheClient::Session> RemoteCacheClient::CurrentSession(
    RemoteCacheCall::Deadline deadline) {
  Session session;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!breaker_.Allow(steady_clock::now())) {
      ++open_circuit_;
      return Error(absl::StatusCode::kUnavailable, "remote cache ", options_.address,
                   " failed a short time ago and is left alone for now");
    }
    session = session_;
  }
  if (session != nullptr && steady_clock::now() < session->asked_at + options_.capabilities_live) {
    return session;
  }
  absl::StatusOr<Session> opened = OpenSession(session, deadline);
  if (!opened.ok()) return opened.status();
  NoteReadOnly(*opened);
  std::lock_guard<std::mutex> lock(mutex_);
  session_ = *opened;
  return opened;
}

absl::StatusOr<RemoteCacheClient::Session> RemoteCacheClient::OpenSession(
    const Session& old, RemoteCacheCall::Deadline deadline) {
  auto session = std::make_shared<RemoteCacheSession>();
  session->server = options_.address;
  session->instance = options_.instance;
  absl::Status status;
  if (!options_.access.token_file.empty()) {
    absl::StatusOr<std::string> bearer = ReadBearer(options_.access.token_file);
    status = bearer.status();
    if (bearer.ok()) session->bearer = *std::move(bearer);
  }
  bool late = false;
  if (status.ok()) status = Connect(old, *session);
  if (status.ok()) {
    session->asked_at = steady_clock::now();
    RemoteCacheCall call(session, deadline, &traffic_);
    const absl::StatusOr<reapi::ServerCapabilities> reply = call.GetCapabilities();
    late = call.late();
    status = reply.ok() ? TakeCapabilities(*reply, *session) : reply.status();
  }
  if (status.ok()) return session;
  // Any error is a failure of the server here, because nothing can be asked without capabilities.
  const absl::Status told = Error(absl::StatusCode::kUnavailable, std::string(status.message()));
  NoteFailure(told, late);
  return told;
}

absl::Status RemoteCacheClient::TakeCapabilities(const reapi::ServerCapabilities& reply,
                                                 RemoteCacheSession& session) {
  const reapi::CacheCapabilities& cache = reply.cache_capabilities();
  if (std::ranges::count(cache.digest_functions(), reapi::DigestFunction::SHA256) == 0) {
    return Error(absl::StatusCode::kUnavailable, "remote cache ", options_.address,
                 " does not offer SHA-256");
  }
  session.takes_results = cache.action_cache_update_capabilities().update_enabled();
  const int64_t batch = cache.max_batch_total_size_bytes();
  if (batch > 0) session.max_batch_bytes = std::min<uint64_t>(kMaxBatchBytes, batch);
  return absl::OkStatus();
}

absl::Status RemoteCacheClient::Connect(const Session& old, RemoteCacheSession& session) const {
  if (address_.tls) {
    absl::StatusOr<TlsAccess> read = ReadTlsAccess(options_.access);
    // Files that are being replaced are no reason to leave a channel that works.
    if (!read.ok() && old == nullptr) return read.status();
    session.tls = read.ok() ? *std::move(read) : old->tls;
  }
  if (old != nullptr && old->tls == session.tls) {
    session.channel = old->channel;
    return absl::OkStatus();
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxCacheMessageBytes);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // The channel is not shared, so it connects when it is told to, and not when an earlier one's
  // back-off ends.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  session.channel = grpc::CreateCustomChannel(
      "dns:" + address_.target,
      address_.tls ? TlsCredentials(session.tls) : grpc::InsecureChannelCredentials(), arguments);
  return absl::OkStatus();
}

// Logs once, until the server takes some again.
void RemoteCacheClient::NoteReadOnly(const Session& session) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(said_read_only_, !session->takes_results) || session->takes_results) return;
  }
  if (options_.read_only) return;
  HPU_LOG(kWarning, "remote cache takes no results, it is only read server=" << options_.address);
}

void RemoteCacheClient::NoteSuccess() {
  bool closed = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed = breaker_.Succeeded();
  }
  if (closed) HPU_LOG(kInfo, "remote cache is back server=" << options_.address);
}

// The next call connects again: names may have moved, and a channel's own back-off is not ours.
void RemoteCacheClient::NoteFailure(const absl::Status& status, bool late) {
  ++failures_;
  if (late) ++timeouts_;
  bool opened = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    opened = breaker_.Failed(steady_clock::now(), Random());
    session_ = nullptr;
  }
  if (opened) {
    HPU_LOG(kWarning, "remote cache lost, asked again from time to time error=" << ToText(status));
  }
}

void RemoteCacheClient::AddCounters(std::map<std::string, uint64_t>& counters) const {
  counters["remote_cache.bytes_read"] += traffic_.bytes_read;
  counters["remote_cache.bytes_written"] += traffic_.bytes_written;
  counters["remote_cache.server_failures"] += failures_;
  counters["remote_cache.timeouts"] += timeouts_;
  counters["remote_cache.open_circuit"] += open_circuit_;
  counters["remote_cache.refused_writes"] += refused_writes_;
}

}  // namespace hpu::store
