// The server's work for a caller that a listener has admitted: translates, bounds and answers
// requests. Other classes, which it is given, compile, store and stop.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "compile_service.grpc.pb.h"
#include "compiler_server/service/admin/metrics_page.h"
#include "compiler_server/service/admin/store_administration.h"
#include "compiler_server/service/callers/caller.h"
#include "compiler_server/service/programs/alias_book.h"
#include "compiler_server/service/programs/negative_cache.h"
#include "compiler_server/service/programs/tenant_programs.h"
#include "compiler_server/service/queue/compile_queue.h"
#include "compiler_server/service/queue/compile_request.h"
#include "compiler_server/service/rpc/stream_watch.h"
#include "compiler_server/service/upstream/other_servers.h"
#include "recipe_store/stack/factory.h"

namespace hpu::server {

inline constexpr int kMaxRequestBytes = 68 << 20;
// gRPC buffers a few of these for a client that does not read.
inline constexpr size_t kChunkBytes = 128 << 10;
inline constexpr std::chrono::seconds kStallLimit{10};
inline constexpr std::chrono::seconds kHeartbeat{2};

struct ServiceOptions {
  std::string build_id;
  QueueOptions queue;
  UpstreamOptions upstream;
  std::string config_file;     // the file that the options came from, shown to whoever asks
  bool frozen = false;         // answers from the store, compiles nothing
  bool share_programs = true;  // among tenants
  bool tenant_shares = false;  // tenants' shares of the store are bounded
  std::string own_tenant;      // the tenant of the server's own user
};

class CompileService {
 public:
  using StopFunction = std::function<void(const std::string& reason)>;

  // Takes over the opened store. `audit` and `times` must live longer. Shutdown calls
  // `request_stop`.
  CompileService(ServiceOptions options, store::OpenedStore opened, AuditLog* audit,
                 ServerTimes* times, StopFunction request_stop);
  ~CompileService();

  // Counts a request as in progress during its lifetime.
  class Activity {
   public:
    explicit Activity(CompileService* service) : service_(service) { ++service_->active_; }
    ~Activity();
    Activity(const Activity&) = delete;

   private:
    CompileService* const service_;
  };

  // The RPCs of proto/compile_service.proto. The listener checks what a role may do; the caller's
  // tenant decides whose aliases are seen.
  grpc::Status Hello(const wire::HelloRequest& request, wire::HelloReply* reply);
  grpc::Status GetProgram(const Caller& caller, grpc::ServerContext* context,
                          const wire::GetProgramRequest& request,
                          grpc::ServerWriter<wire::ProgramPart>* writer);
  grpc::Status Compile(const Caller& caller, grpc::ServerContext* context,
                       const wire::CompileRequest& request,
                       grpc::ServerWriter<wire::CompileEvent>* writer);
  grpc::Status GetStats(wire::StatsReply* reply);
  std::map<std::string, uint64_t> Counters() const;
  grpc::Status List(const Caller& caller, const wire::ListRequest& request, wire::ListReply* reply);
  void Shutdown(const wire::ShutdownRequest& request);

  // A listener refused a caller.
  void CountRefusal() { ++refused_; }

  // Ends streams whose clients have taken nothing for kStallLimit. Must be called now and then.
  void GiveUpStalledStreams();

  // Lets running compilations finish for up to `grace`, ends all waiting requests and flushes the
  // store.
  void Stop(std::chrono::milliseconds grace);

  // Time since the last request ended. It is zero while a request is in progress or a compilation
  // runs.
  std::chrono::milliseconds idle_time() const;

  // Further calls that administrators may make.
  StoreAdministration& administration() { return administration_; }

  store::TrustedKeys& trusted_keys() { return *trusted_keys_; }
  // Whether files that were changed could not be read again, as a figure for monitoring.
  void TellConfigurationRefused(bool refused) { configuration_refused_ = refused; }

 private:
  QueueHooks MakeHooks(std::chrono::milliseconds time_limit);
  absl::StatusOr<store::Entry> Publish(const CompileJob& job, CompileOutput output,
                                       std::chrono::microseconds duration);
  // Returns the program that the request names. A damaged one is quarantined and counts as a miss.
  absl::StatusOr<store::Entry> Fetch(const Caller& caller, const wire::GetProgramRequest& request,
                                     std::optional<store::AliasRecord>* alias);
  absl::StatusOr<store::Entry> FetchOwn(const Caller& caller, const Digest& front_end_key,
                                        std::optional<store::AliasRecord>* alias);
  // OK unless the caller wants a program of another compiler than ours.
  absl::Status CheckCompiler(const std::string& wanted) const;
  // Waits for the end of the compilation and reports its progress to the client. Returns nullopt if
  // the client left.
  std::optional<absl::StatusOr<CompileResult>> Follow(
      CompileQueue::Waiter& waiter, grpc::ServerContext* context,
      grpc::ServerWriter<wire::CompileEvent>* writer);
  absl::Status ListOwn(const Caller& caller, const client::ListQuery& query,
                       wire::ListReply* reply);
  void Audit(const CompileJob& job, const absl::Status& result);
  // Stores the front-end key and sends the program.
  grpc::Status Deliver(const Caller& caller, const std::optional<store::FrontEndKey>& front_end,
                       const store::Entry& entry, wire::CompileEvent::Origin origin,
                       grpc::ServerContext* context,
                       grpc::ServerWriter<wire::CompileEvent>* writer);

  const std::string build_id_;
  const store::SigningKey signing_key_;
  const std::unique_ptr<store::TrustedKeys> trusted_keys_;
  const std::unique_ptr<store::RecipeStore> store_;
  const std::shared_ptr<store::Hedge> hedge_;  // the store's; null where no engine is shared
  const bool persistent_;                      // programs are read from a folder
  const bool writable_;                        // new programs survive this process
  const bool key_kept_;                        // and so does the key that signs them
  const StopFunction request_stop_;
  const std::string config_file_;
  const bool frozen_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();

  AuditLog* const audit_;
  ServerTimes* const times_;
  AliasBook aliases_;
  TenantPrograms programs_;
  StoreAdministration administration_;
  OtherServers others_;
  NegativeCache negative_cache_;
  StreamWatch streams_;
  std::atomic<int> active_{0};
  std::atomic<std::chrono::steady_clock::rep> last_active_;
  std::atomic<uint64_t> compile_requests_{0};
  std::atomic<uint64_t> store_hits_{0};
  std::atomic<uint64_t> recompiles_{0};  // those that were asked for with skip_cache_lookup
  std::atomic<uint64_t> negative_hits_{0};
  std::atomic<uint64_t> cancelled_{0};
  std::atomic<uint64_t> frozen_misses_{0};
  std::atomic<uint64_t> refused_{0};
  std::atomic<bool> configuration_refused_{false};

  CompileQueue queue_;  // last: its threads use the members above
};

}  // namespace hpu::server
