// What other servers have or are making: asked before a worker of ours compiles. Two kinds, both
// optional: those upstream, which a user's daemon forwards to, and those that share our store's
// engine, of which one compiles a key while the others wait. Thread-safe.
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
  // no engine is shared; `behind` does the store's writes, so it ends before the store does.
  OtherServers(UpstreamOptions upstream, const std::string& build_id,
               const store::TrustedKeys* trusted, TenantPrograms* programs, AliasBook* aliases,
               std::unique_ptr<store::LeaseKeeper> leases,
               std::unique_ptr<store::WriteBehind> behind);
  ~OtherServers() { hedge_.Stop(); }

  bool any() const { return upstream_ != nullptr || compilations_ != nullptr; }
  // Addresses of those upstream; empty: there are none.
  const std::string& upstream_text() const { return upstream_text_; }

  // The program that a front-end key names upstream, filed in our store under the tenant's name,
  // which is *alias. NOT_FOUND also for tenants for which nobody may be asked; UNAVAILABLE as
  // Upstream::Fetch; DEADLINE_EXCEEDED: no answer yet, the program is filed when it comes.
  absl::StatusOr<store::Entry> Fetch(const std::string& tenant, const Digest& front_end_key,
                                     std::optional<store::AliasRecord>* alias);

  // The program that another server has or makes, filed in our store. UNAVAILABLE: compile it here,
  // and say Landed.
  absl::StatusOr<CompileResult> Compile(const CompileJob& job, std::chrono::milliseconds time_limit,
                                        const ProgressFunction& progress);

  // The program of this content that those upstream have, filed in our store; nothing is compiled.
  // NOT_FOUND, UNAVAILABLE as Upstream::Fetch.
  absl::StatusOr<store::Entry> FetchContent(const CompileJob& job);

  // Programs of those upstream that this server's caller there sees. NOT_FOUND: there are none to
  // ask for this tenant; UNAVAILABLE.
  absl::StatusOr<client::ListPage> List(const std::string& tenant, const client::ListQuery& query);

  // A compilation of ours is over, and filed if it went well.
  void Completed(const CompileJob& job);

  // As Hedge::OnArrival, of what Fetch did not wait for.
  void OnArrival(store::Hedge::ArrivalSink sink) { hedge_.OnArrival(std::move(sink)); }

  // Ends what waits for others.
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
  const std::unique_ptr<Upstream> upstream_;  // null: nobody is upstream
  // Null where no engine is shared. The writes behind use the others.
  const std::unique_ptr<store::LeaseKeeper> leases_;
  const std::unique_ptr<ClusterCompilations> compilations_;
  const std::unique_ptr<store::WriteBehind> behind_;
  store::HedgedLookUps<Fetched> fetches_;
};

}  // namespace hpu::server
