// Programs that other servers have or are making: they are asked before a worker of ours compiles.
// There are two kinds of servers, both optional: those upstream, which a user's daemon forwards
// requests to, and those that share the engine of our store, where one compiles a key while the
// others wait. Thread-safe.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "compiler_server/service/programs/alias_book.h"
#include "compiler_server/service/programs/tenant_programs.h"
#include "compiler_server/service/upstream/cluster_compilations.h"
#include "compiler_server/service/upstream/upstream.h"
#include "recipe_store/layers/hedge.h"
#include "recipe_store/layers/write_behind.h"
#include "recipe_store/lease.h"

namespace hpu::server {

class OtherServers {
 public:
  // `trusted`, `programs` and `aliases` must live longer. `leases` and `behind` are both null where
  // no engine is shared. `behind` does the writes of the store, so it ends before the store does.
  OtherServers(UpstreamOptions upstream, const std::string& build_id,
               const store::TrustedKeys* trusted, TenantPrograms* programs, AliasBook* aliases,
               std::unique_ptr<store::LeaseKeeper> leases,
               std::unique_ptr<store::WriteBehind> behind);
  ~OtherServers() { hedge_.Stop(); }

  bool any() const { return upstream_ != nullptr || compilations_ != nullptr; }
  // Addresses of the servers upstream; empty if there are none.
  const std::string& upstream_text() const { return upstream_text_; }

  // The program that a front-end key names upstream. It is stored here under the tenant's name,
  // which is returned in *alias. Returns NOT_FOUND also for a tenant on whose behalf no server may
  // be asked, UNAVAILABLE as Upstream::Fetch does, and DEADLINE_EXCEEDED if there is no answer yet;
  // in that case the program is stored when it comes.
  absl::StatusOr<store::Entry> Fetch(const std::string& tenant, const Digest& front_end_key,
                                     std::optional<store::AliasRecord>* alias);

  // The program that another server has or makes, which is stored here as well. UNAVAILABLE means
  // that the caller compiles it here and then calls Completed.
  absl::StatusOr<CompileResult> Compile(const CompileJob& job, std::chrono::milliseconds time_limit,
                                        const ProgressFunction& progress);

  // The program of this content from the servers upstream, which is stored here as well; nothing is
  // compiled. Returns NOT_FOUND and UNAVAILABLE as Upstream::Fetch does.
  absl::StatusOr<store::Entry> FetchContent(const CompileJob& job);

  // The programs upstream that this server may see there. Returns NOT_FOUND if no server may be
  // asked for this tenant, and UNAVAILABLE.
  absl::StatusOr<client::ListPage> List(const std::string& tenant, const client::ListQuery& query);

  // A compilation of ours has ended, and its program is stored if it succeeded.
  void Completed(const CompileJob& job);

  // As Hedge::OnArrival, for answers that Fetch did not wait for.
  void OnArrival(store::Hedge::ArrivalSink sink) { hedge_.OnArrival(std::move(sink)); }

  // Ends all waiting for other servers.
  void Stop();

  void AddCounters(std::map<std::string, uint64_t>& counters) const;

 private:
  struct Fetched {
    store::Entry entry;
    store::AliasRecord alias;
  };

  absl::StatusOr<Fetched> FetchNow(const std::string& tenant, const Digest& front_end_key);
  bool MayAsk(const std::string& tenant) const {
    return upstream_ != nullptr && programs_->MayAskUpstream(tenant);
  }
  absl::StatusOr<CompileResult> AskUpstream(const CompileJob& job,
                                            std::chrono::milliseconds time_limit,
                                            const ProgressFunction& progress);

  TenantPrograms* const programs_;
  AliasBook* const aliases_;
  store::Hedge hedge_;
  const std::string upstream_text_;
  const std::unique_ptr<Upstream> upstream_;  // null if no server is upstream
  // Null where no engine is shared. The writes behind use the other members.
  const std::unique_ptr<store::LeaseKeeper> leases_;
  const std::unique_ptr<ClusterCompilations> compilations_;
  const std::unique_ptr<store::WriteBehind> behind_;
  store::HedgedLookUps<Fetched> fetches_;
};

}  // namespace hpu::server
