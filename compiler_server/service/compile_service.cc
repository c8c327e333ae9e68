#include "compiler_server/service/compile_service.h"

#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "compiler_server/service/program_maker.h"
#include "compiler_server/service/program_stream.h"
#include "proto/grpc_status.h"

namespace hpu::server {
namespace {

constexpr size_t kMaxNegativeVerdicts = 4096;
constexpr std::chrono::seconds kNegativeTtl = std::chrono::hours(24);
constexpr std::chrono::milliseconds kCancelPoll{100};
constexpr int kMaxFactors = 1 << 16;

using Clock = std::chrono::steady_clock;

absl::StatusOr<Digest> ToDigest(const std::string& bytes) {
  Digest key;
  if (bytes.size() != key.size()) {
    return InvalidArgument("the key has ", bytes.size(), " bytes; a SHA-256 has ", key.size());
  }
  std::ranges::copy(bytes, key.begin());
  return key;
}

absl::StatusOr<CompileJob> ToJob(const wire::CompileRequest& request) {
  CompileJob job;
  ASSIGN_OR_RETURN(job.key, ToDigest(request.key()));
  if (request.graph().empty()) return InvalidArgument("the request carries no graph");
  if (request.graph().size() > kMaxGraphBytes) {
    return InvalidArgument("the graph has ", request.graph().size(), " bytes; at most ",
                           kMaxGraphBytes, " are taken: declare large constants as inputs");
  }
  if (request.factors_size() > kMaxFactors) {
    return InvalidArgument("the request has ", request.factors_size(), " key factors; at most ",
                           kMaxFactors, " are taken");
  }
  job.input.graph = request.graph();
  for (const wire::CompileOption& option : request.options()) {
    job.input.options.emplace_back(option.name(), option.value());
  }
  job.input.device_kind = request.device_kind();
  job.input.isa_level = request.isa_level();
  job.skip_cache_lookup = request.skip_cache_lookup();
  for (const wire::KeyFactor& factor : request.factors()) {
    job.factors.push_back({factor.name(), factor.value()});
  }
  return job;
}

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

grpc::Status SendProgram(const store::Entry& entry, wire::CompileEvent::Origin origin,
                         grpc::ServerWriter<wire::CompileEvent>* writer) {
  ProgramStream stream(entry, kChunkBytes);
  wire::CompileEvent event;
  event.set_origin(origin);
  while (stream.Next(event.mutable_program())) {
    if (!writer->Write(event)) return grpc::Status::CANCELLED;
  }
  return grpc::Status::OK;
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

CompileServiceImpl::CompileServiceImpl(std::string build_id, store::OpenedStore opened,
                                       QueueOptions queue_options, StopFunction request_stop)
    : build_id_(std::move(build_id)),
      signing_key_(std::move(opened.signing_key)),
      store_(std::move(opened.store)),
      persistent_(opened.persistent),
      request_stop_(std::move(request_stop)),
      negative_cache_(kMaxNegativeVerdicts, kNegativeTtl),
      last_active_(Clock::now().time_since_epoch().count()),
      queue_(std::move(queue_options), MakeHooks()) {}

QueueHooks CompileServiceImpl::MakeHooks() {
  return {[this](const Digest& key) { return LookUp(key); },
          [this](const CompileJob& job, CompileOutput output, std::chrono::microseconds duration) {
            return Publish(job, std::move(output), duration);
          },
          [this](const CompileJob& job, const absl::Status& failure) {
            negative_cache_.Remember(job.key, failure, Clock::now());
            HPU_LOG(kWarning,
                    "compile failed key=" << ToHex(job.key) << " error=" << ToText(failure));
          }};
}

absl::StatusOr<store::Entry> CompileServiceImpl::LookUp(const Digest& key) {
  ASSIGN_OR_RETURN(store::Entry entry, store_->Get(key));
  if (entry.manifest.compiler_build_id != build_id_) {
    return NotFound("the program under ", ToHex(key), " was made by compiler ",
                    entry.manifest.compiler_build_id.substr(0, 16));
  }
  return entry;
}

absl::StatusOr<store::Entry> CompileServiceImpl::Publish(const CompileJob& job,
                                                         CompileOutput output,
                                                         std::chrono::microseconds duration) {
  ASSIGN_OR_RETURN(store::Entry entry,
                   MakeProgramEntry(job, std::move(output), duration, build_id_, signing_key_));
  const absl::Status kept = store_->Put(entry);
  HPU_LOG(kInfo, "compiled key=" << ToHex(job.key) << " ms=" << duration.count() / 1000
                                 << " recipes=" << entry.manifest.recipes.size()
                                 << " bytes=" << entry.size_bytes() << " kept=" << kept.ok());
  if (!kept.ok()) HPU_LOG(kDebug, "program not kept error=" << ToText(kept));
  return entry;
}

grpc::Status CompileServiceImpl::Hello(grpc::ServerContext*, const wire::HelloRequest*,
                                       wire::HelloReply* reply) {
  const Activity activity(this);
  reply->set_server_build_id(build_id_);
  reply->set_protocol_version(kProtocolVersion);
  reply->set_pid(static_cast<uint32_t>(getpid()));
  return grpc::Status::OK;
}

grpc::Status CompileServiceImpl::GetProgram(grpc::ServerContext*,
                                            const wire::GetProgramRequest* request,
                                            grpc::ServerWriter<wire::ProgramPart>* writer) {
  const Activity activity(this);
  const absl::StatusOr<Digest> key = ToDigest(request->key());
  if (!key.ok()) return ToGrpc(key.status());
  absl::StatusOr<store::Entry> entry = LookUp(*key);
  // A damaged entry is quarantined by now: for the client it is a miss like any other.
  if (absl::IsDataLoss(entry.status()))
    return ToGrpc(NotFound(std::string(entry.status().message())));
  if (!entry.ok()) return ToGrpc(entry.status());
  ProgramStream stream(*entry, kChunkBytes);
  wire::ProgramPart part;
  while (stream.Next(&part)) {
    if (!writer->Write(part)) return grpc::Status::CANCELLED;
  }
  return grpc::Status::OK;
}

grpc::Status CompileServiceImpl::Compile(grpc::ServerContext* context,
                                         const wire::CompileRequest* request,
                                         grpc::ServerWriter<wire::CompileEvent>* writer) {
  const Activity activity(this);
  ++compile_requests_;
  absl::StatusOr<CompileJob> job = ToJob(*request);
  if (!job.ok()) return ToGrpc(job.status());
  if (!job->skip_cache_lookup) {
    const absl::StatusOr<store::Entry> known = LookUp(job->key);
    if (known.ok()) {
      ++store_hits_;
      return SendProgram(*known, wire::CompileEvent::ORIGIN_STORE, writer);
    }
    if (const auto failure = negative_cache_.Find(job->key, Clock::now())) {
      ++negative_hits_;
      SendFailure(Annotate(*failure, "remembered verdict of compiler " + build_id_.substr(0, 16)),
                  writer);
      return grpc::Status::OK;
    }
  }
  absl::StatusOr<CompileQueue::Seat> seat = queue_.Join(*std::move(job));
  if (!seat.ok()) return ToGrpc(seat.status());
  return Follow(*seat, context, writer);
}

grpc::Status CompileServiceImpl::Follow(CompileQueue::Seat& seat, grpc::ServerContext* context,
                                        grpc::ServerWriter<wire::CompileEvent>* writer) {
  uint64_t seen = 0;
  Clock::time_point next_heartbeat = Clock::now();
  while (true) {
    const Flight::View view = seat.flight().Wait(seen, kCancelPoll);
    // Cancelled by the client, its deadline, or a broken connection. The flight goes on without us.
    if (context->IsCancelled()) {
      ++cancelled_;
      return grpc::Status::CANCELLED;
    }
    if (view.result.has_value()) {
      if (view.result->ok()) {
        return SendProgram(**view.result,
                           seat.leader() ? wire::CompileEvent::ORIGIN_COMPILED
                                         : wire::CompileEvent::ORIGIN_COALESCED,
                           writer);
      }
      // UNAVAILABLE and CANCELLED are the server's state (stopping), not the compiler's verdict.
      const absl::Status& failure = view.result->status();
      if (absl::IsUnavailable(failure) || absl::IsCancelled(failure)) {
        return grpc::Status(grpc::StatusCode::UNAVAILABLE, std::string(failure.message()));
      }
      SendFailure(failure, writer);
      return grpc::Status::OK;
    }
    const bool changed = view.version > seen;
    if (changed || Clock::now() >= next_heartbeat) {
      if (!SendState(view, writer)) return grpc::Status::CANCELLED;
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
  counters["compile.requests"] = compile_requests_;
  counters["compile.store_hits"] = store_hits_;
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
  for (const store::Manifest& manifest : *manifests) {
    const absl::StatusOr<Bytes> encoded = store::EncodeManifest(manifest);
    wire::ListEntry entry;
    if (!encoded.ok() || !entry.mutable_manifest()->ParseFromArray(
                             encoded->data(), static_cast<int>(encoded->size()))) {
      continue;
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
