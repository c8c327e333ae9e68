#include "compiler_server/service/upstream/other_servers.h"

#include <unistd.h>

#include <array>

#include "base/log.h"
#include "compile_client/request_id.h"

namespace hpu::server {
namespace {

// Another server's compilation has our time limit; its answer may take this much longer.
constexpr std::chrono::milliseconds kForwardGrace{5000};

// The name is for people who look at leases.
std::string ServerName() {
  std::array<char, 64> host{};
  gethostname(host.data(), host.size() - 1);
  return std::string(host.data()) + " pid " + std::to_string(getpid());
}

}  // namespace

OtherServers::OtherServers(UpstreamOptions upstream, const std::string& build_id,
                           const store::TrustedKeys* trusted, TenantPrograms* programs,
                           AliasBook* aliases, std::unique_ptr<store::LeaseKeeper> leases,
                           std::unique_ptr<store::WriteBehind> behind)
    : programs_(programs),
      aliases_(aliases),
      hedge_("upstream", upstream.hedge_after),
      upstream_text_(client::ToText(upstream.endpoints)),
      upstream_(upstream.endpoints.empty()
                    ? nullptr
                    : std::make_unique<Upstream>(std::move(upstream), build_id, trusted)),
      leases_(std::move(leases)),
      compilations_(leases_ == nullptr
                        ? nullptr
                        : std::make_unique<ClusterCompilations>(leases_.get(), ServerName())),
      behind_(std::move(behind)),
      fetches_(&hedge_, [](const Fetched& fetched) { return fetched.entry.manifest.key(); }) {}

absl::StatusOr<store::Entry> OtherServers::Fetch(const std::string& tenant,
                                                 const Digest& front_end_key,
                                                 std::optional<store::AliasRecord>* alias) {
  if (!MayAsk(tenant)) return NotFound("no server is upstream");
  ASSIGN_OR_RETURN(Fetched fetched, fetches_.Run(store::AliasId(tenant, front_end_key),
                                                 [this, tenant, front_end_key,
                                                  request = client::RequestScope::Current()] {
                                                   const client::RequestScope scope(request);
                                                   return FetchNow(tenant, front_end_key);
                                                 }));
  *alias = std::move(fetched.alias);
  return std::move(fetched.entry);
}

absl::StatusOr<OtherServers::Fetched> OtherServers::FetchNow(const std::string& tenant,
                                                             const Digest& front_end_key) {
  ASSIGN_OR_RETURN(client::Fetched fetched, upstream_->Fetch(front_end_key));
  if (const absl::Status kept = programs_->Put(tenant, fetched.entry); !kept.ok()) {
    HPU_LOG(kWarning, "program of another server not kept error=" << ToText(kept));
  }
  // The alias there belongs to the tenant that this server is for the other one; here it is the
  // caller's.
  const store::Alias& theirs = fetched.alias->alias;
  ASSIGN_OR_RETURN(
      store::AliasRecord alias,
      aliases_->File(tenant, {front_end_key, theirs.factors, theirs.label}, theirs.content_key));
  return Fetched{std::move(fetched.entry), std::move(alias)};
}

absl::StatusOr<CompileResult> OtherServers::Compile(const CompileJob& job,
                                                    std::chrono::milliseconds time_limit,
                                                    const ProgressFunction& progress) {
  absl::StatusOr<CompileResult> result =
      Error(absl::StatusCode::kUnavailable, "there is no other server to ask");
  if (MayAsk(job.caller.tenant)) result = AskUpstream(job, time_limit, progress);
  // A caller who wants a new compilation does not want what another server makes of the same
  // request.
  if (!absl::IsUnavailable(result.status()) || compilations_ == nullptr || job.skip_cache_lookup) {
    return result;
  }
  // The wait leaves enough time to compile here in case the other server's work fails.
  const ClusterCompilations::LookUp look_up = [&] {
    return programs_->Get(job.caller.tenant, job.key);
  };
  return compilations_->Await(job.inflight_key, look_up, time_limit / 2, progress);
}

absl::StatusOr<CompileResult> OtherServers::AskUpstream(const CompileJob& job,
                                                        std::chrono::milliseconds time_limit,
                                                        const ProgressFunction& progress) {
  absl::StatusOr<CompileResult> result =
      upstream_->Compile(job, time_limit + kForwardGrace, progress);
  if (!result.ok()) return result;
  const absl::Status kept = programs_->Put(job.caller.tenant, result->entry);
  HPU_LOG(kInfo, "taken from another server key=" << ToHex(job.key)
                                                  << " bytes=" << result->entry.size_bytes()
                                                  << " kept=" << kept.ok());
  return result;
}

absl::StatusOr<store::Entry> OtherServers::FetchContent(const CompileJob& job) {
  if (!MayAsk(job.caller.tenant)) return NotFound("no server is upstream");
  ASSIGN_OR_RETURN(store::Entry entry, upstream_->FetchContent(job));
  if (const absl::Status kept = programs_->Put(job.caller.tenant, entry); !kept.ok()) {
    HPU_LOG(kWarning, "program of another server not kept error=" << ToText(kept));
  }
  return entry;
}

absl::StatusOr<client::ListPage> OtherServers::List(const std::string& tenant,
                                                    const client::ListQuery& query) {
  if (!MayAsk(tenant)) return NotFound("no server is upstream");
  return upstream_->List(query);
}

void OtherServers::Completed(const CompileJob& job) {
  if (compilations_ == nullptr) return;
  // This runs after the writes of the program, which are in progress: the others look for the
  // program as soon as the lease is free.
  behind_->Add(0, [this, key = job.inflight_key] { compilations_->Completed(key); });
}

void OtherServers::Stop() {
  if (upstream_ != nullptr) upstream_->Stop();
  if (compilations_ != nullptr) compilations_->Stop();
}

void OtherServers::AddCounters(std::map<std::string, uint64_t>& counters) const {
  if (upstream_ != nullptr) {
    upstream_->AddCounters(counters);
    hedge_.AddCounters(counters);
  }
  if (compilations_ != nullptr) compilations_->AddCounters(counters);
}

}  // namespace hpu::server
