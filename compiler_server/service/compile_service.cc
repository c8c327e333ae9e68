#include "compiler_server/service/compile_service.h"

#include <unistd.h>

#include "base/log.h"
#include "compiler_server/service/program_maker.h"
#include "compiler_server/service/program_stream.h"
#include "compiler_server/service/request_limits.h"
#include "proto/grpc_status.h"
#include "proto/protocol_version.h"

namespace hpu::server {
namespace {

constexpr size_t kMaxNegativeVerdicts = 4096;
constexpr std::chrono::seconds kNegativeTtl = std::chrono::hours(24);
constexpr std::chrono::milliseconds kCancelPoll{100};
constexpr size_t kMaxListEntryBytes = store::kMaxManifestBytes + 3 * store::kMaxAliasBytes;

using Clock = std::chrono::steady_clock;

bool SendFailure(const absl::Status& failure, grpc::ServerWriter<wire::CompileEvent>* writer) {
  wire::CompileEvent event;
  event.mutable_failure()->set_code(static_cast<int32_t>(failure.code()));
  event.mutable_failure()->set_message(std::string(failure.message()));
  return writer->Write(event);
}

bool SendState(const Flight::View& view, grpc::ServerWriter<wire::CompileEvent>* writer) {
  wire::CompileEvent event;
  if (view.started) {
    event.mutable_progress()->set_stage(view.progress.stage);
    event.mutable_progress()->set_done(view.progress.done);
    event.mutable_progress()->set_total(view.progress.total);
  } else {
    event.mutable_queued()->set_position(view.position);
  }
  return writer->Write(event);
}

const char* NameOf(wire::CompileEvent::Origin origin) {
  if (origin == wire::CompileEvent::ORIGIN_STORE) return "store";
  return origin == wire::CompileEvent::ORIGIN_COALESCED ? "coalesced" : "compiled";
}

wire::CompileEvent::Origin OriginOf(const Landing& landing, bool leader) {
  if (landing.from_store) return wire::CompileEvent::ORIGIN_STORE;
  return leader ? wire::CompileEvent::ORIGIN_COMPILED : wire::CompileEvent::ORIGIN_COALESCED;
}

// For the log: what was asked for.
std::string KeysOf(const wire::GetProgramRequest& request) {
  const bool by_content = request.has_content_key();
  const std::string& key = by_content ? request.content_key() : request.front_end_key();
  return (by_content ? "key=" : "front_end_key=") +
         ToHex({reinterpret_cast<const uint8_t*>(key.data()), key.size()});
}

}  // namespace

// Counts a request as under way.
class CompileServiceImpl::Activity {
 public:
  explicit Activity(CompileServiceImpl* service) : service_(service) { ++service_->active_; }
  ~Activity() {
    service_->last_active_ = Clock::now().time_since_epoch().count();
    --service_->active_;
  }
  Activity(const Activity&) = delete;

 private:
  CompileServiceImpl* const service_;
};

CompileServiceImpl::CompileServiceImpl(std::string build_id, std::string tenant,
                                       store::OpenedStore opened, QueueOptions queue_options,
                                       StopFunction request_stop)
    : build_id_(std::move(build_id)),
      signing_key_(std::move(opened.signing_key)),
      store_(std::move(opened.store)),
      persistent_(opened.persistent),
      request_stop_(std::move(request_stop)),
      aliases_(store_.get(), &signing_key_, std::move(tenant)),
      negative_cache_(kMaxNegativeVerdicts, kNegativeTtl),
      last_active_(Clock::now().time_since_epoch().count()),
      queue_(std::move(queue_options), MakeHooks()) {}

QueueHooks CompileServiceImpl::MakeHooks() {
  return {[this](const Digest& key) { return store_->Get(key); },
          [this](const CompileJob& job, CompileOutput output, std::chrono::microseconds duration) {
            return Publish(job, std::move(output), duration);
          },
          [this](const CompileJob& job, const absl::Status& failure) {
            negative_cache_.Remember(job.key, failure, Clock::now());
            HPU_LOG(kWarning,
                    "compile failed key=" << ToHex(job.key) << " error=" << ToText(failure));
          }};
}

absl::StatusOr<store::Entry> CompileServiceImpl::Publish(const CompileJob& job,
                                                         CompileOutput output,
                                                         std::chrono::microseconds duration) {
  ASSIGN_OR_RETURN(store::Entry entry,
                   MakeProgramEntry(job, std::move(output), duration, signing_key_));
  const absl::Status kept = store_->Put(entry);
  HPU_LOG(kInfo, "compiled key=" << ToHex(job.key) << " ms=" << duration.count() / 1000
                                 << " recipes=" << entry.manifest.recipes.size()
                                 << " bytes=" << entry.size_bytes() << " kept=" << kept.ok());
  if (!kept.ok()) HPU_LOG(kDebug, "program not kept error=" << ToText(kept));
  return entry;
}

grpc::Status CompileServiceImpl::Hello(grpc::ServerContext*, const wire::HelloRequest* request,
                                       wire::HelloReply* reply) {
  const Activity activity(this);
  if (request->protocol_version() != wire::kProtocolVersion) {
    return ToGrpc(wire::OtherProtocol("client", request->protocol_version(), "server"));
  }
  reply->set_server_build_id(build_id_);
  reply->set_protocol_version(wire::kProtocolVersion);
  reply->set_pid(static_cast<uint32_t>(getpid()));
  return grpc::Status::OK;
}

absl::StatusOr<store::Entry> CompileServiceImpl::Fetch(const wire::GetProgramRequest& request,
                                                       std::optional<store::AliasRecord>* alias) {
  if (request.has_content_key()) {
    ASSIGN_OR_RETURN(const Digest key, ToKey(request.content_key(), "content key"));
    return store_->Get(key);
  }
  ASSIGN_OR_RETURN(const Digest key, ToKey(request.front_end_key(), "front-end key"));
  ASSIGN_OR_RETURN(*alias, aliases_.Find(key));
  ASSIGN_OR_RETURN(store::Entry entry, store_->Get((*alias)->alias.content_key));
  // A content key says which compiler it means; a front end's need not.
  if (entry.manifest.content.compiler_build_id == build_id_) return entry;
  return NotFound("the program of ", ToHex(key), " was made by compiler ",
                  entry.manifest.content.compiler_build_id.substr(0, 16));
}

grpc::Status CompileServiceImpl::GetProgram(grpc::ServerContext* context,
                                            const wire::GetProgramRequest* request,
                                            grpc::ServerWriter<wire::ProgramPart>* writer) {
  const Activity activity(this);
  std::optional<store::AliasRecord> alias;
  const absl::StatusOr<store::Entry> entry = Fetch(*request, &alias);
  if (!entry.ok()) {
    HPU_LOG(kInfo, "not fetched " << KeysOf(*request) << " reason=" << ToText(entry.status()));
    if (absl::IsInvalidArgument(entry.status())) return ToGrpc(entry.status());
    // A damaged entry (quarantined by now) and a store that cannot be read are a miss like any
    // other: this server is there, and compiles.
    return ToGrpc(NotFound(std::string(entry.status().message())));
  }
  HPU_LOG(kInfo, "fetched " << KeysOf(*request) << " program=" << ToHex(entry->manifest.key())
                            << " bytes=" << entry->size_bytes());
  // By content key ask those who look into the store; they use no program.
  if (alias.has_value()) hits_.Add(entry->manifest.key());
  ProgramStream stream(*entry, alias.has_value() ? &*alias : nullptr, kChunkBytes);
  StreamWatch::Stream sending(&streams_, context);
  wire::ProgramPart part;
  while (stream.Next(&part)) {
    if (!writer->Write(part)) return grpc::Status::CANCELLED;
    sending.Progressed();
  }
  return grpc::Status::OK;
}

grpc::Status CompileServiceImpl::Compile(grpc::ServerContext* context,
                                         const wire::CompileRequest* message,
                                         grpc::ServerWriter<wire::CompileEvent>* writer) {
  const Activity activity(this);
  ++compile_requests_;
  absl::StatusOr<CompileRequest> request = ToCompileRequest(*message, build_id_);
  if (!request.ok()) return ToGrpc(request.status());
  CompileJob& job = request->job;
  if (job.skip_cache_lookup) {
    ++recompiles_;
    if (const absl::Status aside =
            store_->Quarantine(job.key, "a client asked for it to be compiled anew");
        !aside.ok()) {
      HPU_LOG(kWarning,
              "program not set aside key=" << ToHex(job.key) << " error=" << ToText(aside));
    }
  } else {
    const absl::StatusOr<store::Entry> known = store_->Get(job.key);
    if (known.ok()) {
      ++store_hits_;
      return Deliver(request->front_end, *known, wire::CompileEvent::ORIGIN_STORE, context, writer);
    }
    if (const auto failure = negative_cache_.Find(job.key, Clock::now())) {
      ++negative_hits_;
      SendFailure(Annotate(*failure, "remembered verdict of compiler " + build_id_.substr(0, 16)),
                  writer);
      return grpc::Status::OK;
    }
  }
  absl::StatusOr<CompileQueue::Seat> seat = queue_.Join(std::move(job));
  if (!seat.ok()) return ToGrpc(seat.status());
  const std::optional<absl::StatusOr<Landing>> result = Follow(*seat, context, writer);
  if (!result.has_value()) return grpc::Status::CANCELLED;
  if (result->ok()) {
    const wire::CompileEvent::Origin origin = OriginOf(**result, seat->leader());
    if (origin == wire::CompileEvent::ORIGIN_STORE) ++store_hits_;
    return Deliver(request->front_end, (*result)->entry, origin, context, writer);
  }
  // UNAVAILABLE and CANCELLED are the server's state (stopping), not the compiler's verdict.
  const absl::Status& failure = result->status();
  if (absl::IsUnavailable(failure) || absl::IsCancelled(failure)) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, std::string(failure.message()));
  }
  SendFailure(failure, writer);
  return grpc::Status::OK;
}

grpc::Status CompileServiceImpl::Deliver(const std::optional<FrontEnd>& front_end,
                                         const store::Entry& entry,
                                         wire::CompileEvent::Origin origin,
                                         grpc::ServerContext* context,
                                         grpc::ServerWriter<wire::CompileEvent>* writer) {
  const Digest key = entry.manifest.key();
  HPU_LOG(kInfo, "answered key=" << ToHex(key) << " origin=" << NameOf(origin) << " front_end_key="
                                 << (front_end ? ToHex(front_end->key) : "none")
                                 << " label=" << (front_end ? front_end->label : "none")
                                 << " bytes=" << entry.size_bytes());
  if (front_end) aliases_.File(*front_end, key);
  if (origin == wire::CompileEvent::ORIGIN_STORE) hits_.Add(key);
  ProgramStream stream(entry, nullptr, kChunkBytes);
  wire::CompileEvent event;
  event.set_origin(origin);
  StreamWatch::Stream sending(&streams_, context);
  while (stream.Next(event.mutable_program())) {
    if (!writer->Write(event)) return grpc::Status::CANCELLED;
    sending.Progressed();
  }
  return grpc::Status::OK;
}

std::optional<absl::StatusOr<Landing>> CompileServiceImpl::Follow(
    CompileQueue::Seat& seat, grpc::ServerContext* context,
    grpc::ServerWriter<wire::CompileEvent>* writer) {
  uint64_t seen = 0;
  Clock::time_point next_heartbeat = Clock::now();
  while (true) {
    const Flight::View view = seat.flight().Wait(seen, kCancelPoll);
    // Cancelled by the client, its deadline, or a broken connection. The flight goes on without us.
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

grpc::Status CompileServiceImpl::GetStats(grpc::ServerContext*, const wire::StatsRequest*,
                                          wire::StatsReply* reply) {
  const Activity activity(this);
  std::map<std::string, uint64_t> counters;
  store_->AddCounters(counters);
  queue_.AddCounters(counters);
  aliases_.AddCounters(counters);
  counters["compile.requests"] = compile_requests_;
  counters["compile.store_hits"] = store_hits_;
  counters["compile.recompiles"] = recompiles_;
  counters["compile.negative_hits"] = negative_hits_;
  counters["compile.negative_entries"] = negative_cache_.size();
  counters["compile.cancelled"] = cancelled_;
  counters["store.persistent"] = persistent_ ? 1 : 0;
  counters["server.uptime_seconds"] = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - started_).count());
  for (const auto& [name, value] : counters) (*reply->mutable_counters())[name] = value;
  return grpc::Status::OK;
}

grpc::Status CompileServiceImpl::List(grpc::ServerContext*, const wire::ListRequest* request,
                                      grpc::ServerWriter<wire::ListEntry>* writer) {
  const Activity activity(this);
  const absl::StatusOr<std::vector<store::Manifest>> manifests = store_->List(request->limit());
  if (!manifests.ok()) return ToGrpc(manifests.status());
  const absl::StatusOr<std::map<Digest, std::vector<store::Alias>>> aliases = aliases_.ByProgram();
  if (!aliases.ok()) return ToGrpc(aliases.status());
  const auto parse = [](const absl::StatusOr<Bytes>& encoded, google::protobuf::Message* message) {
    return encoded.ok() &&
           message->ParseFromArray(encoded->data(), static_cast<int>(encoded->size()));
  };
  for (const store::Manifest& manifest : *manifests) {
    wire::ListEntry entry;
    if (!parse(store::EncodeManifest(manifest), entry.mutable_manifest())) continue;
    entry.set_hits(hits_.Of(manifest.key()));
    if (const auto known = aliases->find(manifest.key()); known != aliases->end()) {
      for (const store::Alias& alias : known->second) {
        if (entry.ByteSizeLong() + store::kMaxAliasBytes > kMaxListEntryBytes) break;
        if (!parse(store::EncodeAlias(alias), entry.add_aliases())) {
          entry.mutable_aliases()->RemoveLast();
        }
      }
    }
    if (!writer->Write(entry)) return grpc::Status::CANCELLED;
  }
  return grpc::Status::OK;
}

grpc::Status CompileServiceImpl::Shutdown(grpc::ServerContext*,
                                          const wire::ShutdownRequest* request,
                                          wire::ShutdownReply*) {
  request_stop_("client: " + request->reason().substr(0, 200));
  return grpc::Status::OK;
}

void CompileServiceImpl::GiveUpStalledStreams() {
  if (const size_t stalled = streams_.CancelStalled(kStallLimit); stalled > 0) {
    HPU_LOG(kWarning, "clients stopped reading, their streams are ended count=" << stalled);
  }
}

void CompileServiceImpl::Stop(std::chrono::milliseconds grace) {
  queue_.Stop(grace);
  if (absl::Status flushed = store_->Flush(); !flushed.ok()) {
    HPU_LOG(kWarning, "store not flushed error=" << ToText(flushed));
  }
}

std::chrono::milliseconds CompileServiceImpl::idle_time() const {
  if (active_ > 0 || queue_.in_flight() > 0) return std::chrono::milliseconds(0);
  const Clock::duration idle = Clock::now().time_since_epoch() - Clock::duration(last_active_);
  return std::chrono::duration_cast<std::chrono::milliseconds>(idle);
}

}  // namespace hpu::server
