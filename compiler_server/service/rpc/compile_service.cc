#include "compiler_server/service/rpc/compile_service.h"

#include <unistd.h>

#include "base/log.h"
#include "compiler_server/service/programs/program_stream.h"
#include "compiler_server/service/queue/compile_events.h"
#include "compiler_server/service/queue/program_maker.h"
#include "compiler_server/service/queue/request_limits.h"
#include "proto/grpc_status.h"
#include "proto/protocol_version.h"

namespace hpu::server {
namespace {

constexpr size_t kMaxNegativeVerdicts = 4096;
constexpr std::chrono::seconds kNegativeTtl = std::chrono::hours(24);
constexpr std::chrono::milliseconds kCancelPoll{100};

using Clock = std::chrono::steady_clock;

bool IsAboutTheRequest(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status) ||
         absl::IsPermissionDenied(status);
}

// Describes for the log which program the request asks for.
std::string KeysOf(const wire::GetProgramRequest& request) {
  const bool by_content = request.has_content_key();
  const std::string& key = by_content ? request.content_key() : request.front_end_key();
  return (by_content ? "key=" : "front_end_key=") +
         ToHex({reinterpret_cast<const uint8_t*>(key.data()), key.size()});
}

// The last message goes out with the call's status: a small program is one write to the socket.
grpc::WriteOptions OptionsOf(const ProgramStream& stream) {
  return stream.AtEnd() ? grpc::WriteOptions().set_last_message() : grpc::WriteOptions();
}

}  // namespace

CompileService::CompileService(ServiceOptions options, store::OpenedStore opened, AuditLog* audit,
                               ServerTimes* times, StopFunction request_stop)
    : build_id_(std::move(options.build_id)),
      signing_key_(std::move(opened.signing_key)),
      trusted_keys_(std::move(opened.trusted_keys)),
      store_(std::move(opened.store)),
      hedge_(std::move(opened.hedge)),
      persistent_(opened.persistent),
      writable_(opened.writable),
      key_kept_(opened.key_kept),
      request_stop_(std::move(request_stop)),
      config_file_(std::move(options.config_file)),
      frozen_(options.frozen),
      audit_(audit),
      times_(times),
      aliases_(store_.get(), &signing_key_),
      programs_(store_.get(), &aliases_, options.share_programs, options.tenant_shares,
                std::move(options.own_tenant)),
      administration_(store_.get(), &programs_, &aliases_, trusted_keys_.get(), audit),
      others_(std::move(options.upstream), build_id_, trusted_keys_.get(), &programs_, &aliases_,
              std::move(opened.leases), std::move(opened.behind)),
      negative_cache_(kMaxNegativeVerdicts, kNegativeTtl),
      last_active_(Clock::now().time_since_epoch().count()),
      queue_(options.queue, MakeHooks(options.queue.time_limit)) {
  const auto arrived = [this](const Digest& key) { queue_.Arrived(key); };
  if (hedge_ != nullptr) hedge_->OnArrival(arrived);
  others_.OnArrival(arrived);
}

CompileService::~CompileService() {
  if (hedge_ != nullptr) hedge_->OnArrival(nullptr);
  others_.OnArrival(nullptr);
}

QueueHooks CompileService::MakeHooks(std::chrono::milliseconds time_limit) {
  QueueHooks hooks;
  hooks.look_up = [this](const CompileJob& job) {
    return programs_.Get(job.caller.tenant, job.key);
  };
  if (others_.any()) {
    hooks.forward = [this, time_limit](const CompileJob& job, const ProgressFunction& progress) {
      return others_.Compile(job, time_limit, progress);
    };
    hooks.completed = [this](const CompileJob& job) { others_.Completed(job); };
  }
  hooks.publish = [this](const CompileJob& job, CompileOutput output,
                         std::chrono::microseconds duration) {
    return Publish(job, std::move(output), duration);
  };
  hooks.timed = [this](const absl::Status& result, std::chrono::microseconds duration) {
    times_->AddCompilation(result.code(), duration);
  };
  hooks.fail = [this](const CompileJob& job, const absl::Status& failure) {
    negative_cache_.Remember(job.inflight_key, failure, Clock::now());
    Audit(job, failure);
    HPU_LOG(kWarning, "compile failed key=" << ToHex(job.key) << " error=" << ToText(failure));
  };
  return hooks;
}

absl::StatusOr<store::Entry> CompileService::Publish(const CompileJob& job, CompileOutput output,
                                                     std::chrono::microseconds duration) {
  ASSIGN_OR_RETURN(store::Entry entry,
                   MakeProgramEntry(job, std::move(output), duration, signing_key_));
  // Other tenants keep the program, which is theirs too; Put repairs it.
  if (job.skip_cache_lookup && programs_.shared()) {
    const absl::Status aside =
        store_->Quarantine(job.key, "a client asked for it to be compiled anew");
    if (!aside.ok()) HPU_LOG(kWarning, "program not set aside error=" << ToText(aside));
  }
  const absl::Status kept = programs_.Put(job.caller.tenant, entry);
  Audit(job, absl::OkStatus());
  HPU_LOG(kInfo, "compiled key=" << ToHex(job.key) << " ms=" << duration.count() / 1000
                                 << " recipes=" << entry.manifest.recipes.size()
                                 << " bytes=" << entry.size_bytes() << " kept=" << kept.ok());
  if (!kept.ok()) HPU_LOG(kDebug, "program not kept error=" << ToText(kept));
  return entry;
}

grpc::Status CompileService::Hello(const wire::HelloRequest& request, wire::HelloReply* reply) {
  if (request.protocol_version() != wire::kProtocolVersion) {
    return ToGrpc(wire::OtherProtocol("client", request.protocol_version(), "server"));
  }
  reply->set_server_build_id(build_id_);
  reply->set_protocol_version(wire::kProtocolVersion);
  reply->set_pid(static_cast<uint32_t>(getpid()));
  reply->set_upstream(others_.upstream_text());
  reply->set_config_file(config_file_);
  reply->set_memory_only(!writable_);
  return grpc::Status::OK;
}

absl::Status CompileService::CheckCompiler(const std::string& wanted) const {
  if (wanted.empty() || wanted == build_id_) return absl::OkStatus();
  return Error(absl::StatusCode::kFailedPrecondition, "this server has compiler ",
               build_id_.substr(0, 16), ", wanted is ", wanted.substr(0, 16),
               ": install the same build on both");
}

absl::StatusOr<store::Entry> CompileService::Fetch(const Caller& caller,
                                                   const wire::GetProgramRequest& request,
                                                   std::optional<store::AliasRecord>* alias) {
  RETURN_IF_ERROR(CheckCompiler(request.compiler_build_id()));
  if (request.has_content_key()) {
    ASSIGN_OR_RETURN(const Digest key, ToKey(request.content_key(), "content key"));
    if (caller.Has(Role::kAdmin)) return store_->Peek(key);
    return Error(absl::StatusCode::kPermissionDenied, "caller ", caller.name,
                 " has programs by its tenant's front-end keys only; by content key is for admin");
  }
  ASSIGN_OR_RETURN(const Digest key, ToKey(request.front_end_key(), "front-end key"));
  absl::StatusOr<store::Entry> own = FetchOwn(caller, key, alias);
  if (own.ok()) return own;
  absl::StatusOr<store::Entry> other = others_.Fetch(caller.tenant, key, alias);
  return other.ok() ? other : own;
}

absl::StatusOr<store::Entry> CompileService::FetchOwn(const Caller& caller,
                                                      const Digest& front_end_key,
                                                      std::optional<store::AliasRecord>* alias) {
  ASSIGN_OR_RETURN(store::AliasRecord found, aliases_.Find(caller.tenant, front_end_key));
  ASSIGN_OR_RETURN(store::Entry entry, store_->Get(found.alias.content_key));
  // A content key implies its compiler; the key of a front end may not.
  if (entry.manifest.content.compiler_build_id != build_id_) {
    return NotFound("the program of ", ToHex(front_end_key), " was made by compiler ",
                    entry.manifest.content.compiler_build_id.substr(0, 16));
  }
  *alias = std::move(found);
  return entry;
}

grpc::Status CompileService::GetProgram(const Caller& caller, grpc::ServerContext* context,
                                        const wire::GetProgramRequest& request,
                                        grpc::ServerWriter<wire::ProgramPart>* writer) {
  std::optional<store::AliasRecord> alias;
  const absl::StatusOr<store::Entry> entry = Fetch(caller, request, &alias);
  if (!entry.ok()) {
    HPU_LOG(kInfo, "not fetched " << KeysOf(request) << " reason=" << ToText(entry.status()));
    if (IsAboutTheRequest(entry.status())) return ToGrpc(entry.status());
    // An entry that is damaged (and quarantined by now) and a store that cannot be read count as a
    // miss: this server is there, and compiles.
    return ToGrpc(NotFound(std::string(entry.status().message())));
  }
  HPU_LOG(kInfo, "fetched " << KeysOf(request) << " program=" << ToHex(entry->manifest.key())
                            << " bytes=" << entry->size_bytes());
  // Only tools that look into the store ask by content key; they do not use the program.
  if (alias.has_value()) programs_.CountHit(caller.tenant, entry->manifest.key());
  ProgramStream stream(*entry, alias.has_value() ? &*alias : nullptr, kChunkBytes);
  StreamWatch::Stream sending(&streams_, context);
  wire::ProgramPart part;
  while (stream.Next(&part)) {
    if (!writer->Write(part, OptionsOf(stream))) return grpc::Status::CANCELLED;
    sending.Progressed();
  }
  return grpc::Status::OK;
}

grpc::Status CompileService::Compile(const Caller& caller, grpc::ServerContext* context,
                                     const wire::CompileRequest& request,
                                     grpc::ServerWriter<wire::CompileEvent>* writer) {
  ++compile_requests_;
  if (const absl::Status compiler = CheckCompiler(request.compiler_build_id()); !compiler.ok()) {
    return ToGrpc(compiler);
  }
  absl::StatusOr<CompileJob> checked = ToCompileJob(request, build_id_);
  if (!checked.ok()) return ToGrpc(checked.status());
  CompileJob& job = *checked;
  job.caller = caller;
  job.inflight_key = programs_.ScopeOf(caller.tenant, job.key);
  const std::optional<store::FrontEndKey> front_end = job.front_end;
  std::optional<store::PatientScope> patient;
  if (request.frozen()) patient.emplace();
  if (job.skip_cache_lookup) {
    ++recompiles_;  // the stored program is replaced when there is a new one (Publish)
  } else {
    const absl::StatusOr<store::Entry> known = programs_.Get(caller.tenant, job.key);
    if (known.ok()) {
      ++store_hits_;
      return Deliver(caller, front_end, *known, wire::CompileEvent::ORIGIN_STORE, context, writer);
    }
    if (const auto failure = negative_cache_.Find(job.inflight_key, Clock::now())) {
      ++negative_hits_;
      SendFailure(Annotate(*failure, "remembered verdict of compiler " + build_id_.substr(0, 16)),
                  writer);
      return grpc::Status::OK;
    }
  }
  if (request.frozen() || frozen_) {
    const absl::StatusOr<store::Entry> elsewhere = others_.FetchContent(job);
    if (elsewhere.ok()) {
      return Deliver(caller, front_end, *elsewhere, wire::CompileEvent::ORIGIN_STORE, context,
                     writer);
    }
    ++frozen_misses_;
    return ToGrpc(NotFound("no program is stored for ", ToHex(job.key), ", and ",
                           frozen_ ? "this server" : "the request",
                           " is frozen: nothing is compiled"));
  }
  absl::StatusOr<CompileQueue::Waiter> waiter = queue_.Join(std::move(job));
  if (!waiter.ok()) {
    // gRPC's clients know this as push-back (gRPC proposal A6).
    if (const auto hint = RetryHint(waiter.status())) {
      context->AddTrailingMetadata("grpc-retry-pushback-ms", std::to_string(hint->count()));
    }
    return ToGrpc(waiter.status());
  }
  const std::optional<absl::StatusOr<CompileResult>> result = Follow(*waiter, context, writer);
  if (!result.has_value()) return grpc::Status::CANCELLED;
  if (result->ok()) {
    const wire::CompileEvent::Origin origin = OriginOf(**result, waiter->leader());
    if (origin == wire::CompileEvent::ORIGIN_STORE) ++store_hits_;
    return Deliver(caller, front_end, (*result)->entry, origin, context, writer);
  }
  // UNAVAILABLE and CANCELLED are the state of the server (which is stopping), not the compiler's
  // verdict.
  const absl::Status& failure = result->status();
  if (absl::IsUnavailable(failure) || absl::IsCancelled(failure)) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, std::string(failure.message()));
  }
  SendFailure(failure, writer);
  return grpc::Status::OK;
}

void CompileService::Audit(const CompileJob& job, const absl::Status& result) {
  const std::string label = job.front_end ? job.front_end->label : "";
  audit_->Write({job.caller.name, job.caller.tenant, job.caller.door, "compile", result.code(),
                 ToHex(job.key), result.ok() ? label : ToText(result)});
}

grpc::Status CompileService::Deliver(const Caller& caller,
                                     const std::optional<store::FrontEndKey>& front_end,
                                     const store::Entry& entry, wire::CompileEvent::Origin origin,
                                     grpc::ServerContext* context,
                                     grpc::ServerWriter<wire::CompileEvent>* writer) {
  const Digest key = entry.manifest.key();
  HPU_LOG(kInfo, "answered key=" << ToHex(key) << " origin=" << NameOf(origin) << " front_end_key="
                                 << (front_end ? ToHex(front_end->key) : "none")
                                 << " label=" << (front_end ? front_end->label : "none")
                                 << " bytes=" << entry.size_bytes());
  // If the alias cannot be made, a later capture is needed, but this answer is not affected.
  if (front_end) aliases_.File(caller.tenant, *front_end, key).status().IgnoreError();
  if (origin == wire::CompileEvent::ORIGIN_STORE) programs_.CountHit(caller.tenant, key);
  ProgramStream stream(entry, nullptr, kChunkBytes);
  wire::CompileEvent event;
  event.set_origin(origin);
  StreamWatch::Stream sending(&streams_, context);
  while (stream.Next(event.mutable_program())) {
    if (!writer->Write(event, OptionsOf(stream))) return grpc::Status::CANCELLED;
    sending.Progressed();
  }
  return grpc::Status::OK;
}

std::optional<absl::StatusOr<CompileResult>> CompileService::Follow(
    CompileQueue::Waiter& waiter, grpc::ServerContext* context,
    grpc::ServerWriter<wire::CompileEvent>* writer) {
  uint64_t seen = 0;
  Clock::time_point next_heartbeat = Clock::now();
  while (true) {
    const InflightCompilation::View view = waiter.inflight().Wait(seen, kCancelPoll);
    // The client, its deadline or a broken connection has cancelled the call. The compilation
    // continues.
    if (context->IsCancelled()) {
      ++cancelled_;
      return std::nullopt;
    }
    if (view.result.has_value()) return view.result;
    const bool changed = view.version > seen;
    if (changed || Clock::now() >= next_heartbeat) {
      if (!SendState(view, writer)) return std::nullopt;
      next_heartbeat = Clock::now() + kHeartbeat;
    }
    seen = view.version;
  }
}

grpc::Status CompileService::GetStats(wire::StatsReply* reply) {
  for (const auto& [name, value] : Counters()) (*reply->mutable_counters())[name] = value;
  return grpc::Status::OK;
}

std::map<std::string, uint64_t> CompileService::Counters() const {
  std::map<std::string, uint64_t> counters;
  store_->AddCounters(counters);
  queue_.AddCounters(counters);
  aliases_.AddCounters(counters);
  others_.AddCounters(counters);
  counters["server.refused"] = refused_;
  counters["server.configuration_refused"] = configuration_refused_ ? 1 : 0;
  counters["compile.requests"] = compile_requests_;
  counters["compile.store_hits"] = store_hits_;
  counters["compile.recompiles"] = recompiles_;
  counters["compile.negative_hits"] = negative_hits_;
  counters["compile.negative_entries"] = negative_cache_.size();
  counters["compile.cancelled"] = cancelled_;
  counters["compile.frozen_misses"] = frozen_misses_;
  counters["store.persistent"] = persistent_ ? 1 : 0;
  counters["store.writable"] = writable_ ? 1 : 0;
  counters["store.key_kept"] = key_kept_ ? 1 : 0;
  counters["server.uptime_seconds"] = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - started_).count());
  return counters;
}

void CompileService::Shutdown(const wire::ShutdownRequest& request) {
  request_stop_("client: " + request.reason().substr(0, 200));
}

void CompileService::GiveUpStalledStreams() {
  if (const size_t stalled = streams_.CancelStalled(kStallLimit); stalled > 0) {
    HPU_LOG(kWarning, "clients stopped reading, their streams are ended count=" << stalled);
  }
}

void CompileService::Stop(std::chrono::milliseconds grace) {
  others_.Stop();
  queue_.Stop(grace);
  if (absl::Status flushed = store_->Flush(); !flushed.ok()) {
    HPU_LOG(kWarning, "store not flushed error=" << ToText(flushed));
  }
}

CompileService::Activity::~Activity() {
  service_->last_active_ = Clock::now().time_since_epoch().count();
  --service_->active_;
}

std::chrono::milliseconds CompileService::idle_time() const {
  if (active_ > 0 || queue_.in_flight() > 0) return std::chrono::milliseconds(0);
  const Clock::duration idle = Clock::now().time_since_epoch() - Clock::duration(last_active_);
  return std::chrono::duration_cast<std::chrono::milliseconds>(idle);
}

}  // namespace hpu::server
