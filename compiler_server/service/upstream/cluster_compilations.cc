#include "compiler_server/service/upstream/cluster_compilations.h"

#include "base/log.h"

namespace hpu::server {
namespace {

using Clock = std::chrono::steady_clock;

// The time between two looks for what another server compiles. It grows, so that a short wait stays
// short and a long one costs the engine little.
constexpr std::chrono::milliseconds kFirstPoll{20};
constexpr std::chrono::milliseconds kLastPoll{500};

absl::Status CompileHere(const char* why) { return Error(absl::StatusCode::kUnavailable, why); }

}  // namespace

ClusterCompilations::ClusterCompilations(store::LeaseKeeper* keeper, std::string holder)
    : keeper_(keeper), holder_(std::move(holder)), thread_([this] { RenewLoop(); }) {}

ClusterCompilations::~ClusterCompilations() {
  Stop();
  thread_.join();
  for (const auto& [key, lease] : held_) keeper_->Release(lease).IgnoreError();
}

void ClusterCompilations::Stop() {
  std::lock_guard<std::mutex> lock(mutex_);
  stopping_ = true;
  stopped_.notify_all();
}

bool ClusterCompilations::TryTake(const Digest& key, std::string* holder) {
  absl::StatusOr<store::Lease> lease = keeper_->TryTake(key, holder_, kLeaseTime);
  if (lease.ok()) {
    ++taken_;
    std::lock_guard<std::mutex> lock(mutex_);
    held_[key] = *std::move(lease);
    return true;
  }
  if (absl::IsAlreadyExists(lease.status())) {
    *holder = std::string(lease.status().message());
    return false;
  }
  ++without_;
  HPU_LOG(kDebug, "no lease, compiling without error=" << ToText(lease.status()));
  return true;
}

absl::StatusOr<CompileResult> ClusterCompilations::Await(const Digest& key, const LookUp& look_up,
                                                         std::chrono::milliseconds patience,
                                                         const ProgressFunction& progress) {
  const Clock::time_point deadline = Clock::now() + patience;
  std::string holder;
  if (TryTake(key, &holder)) return CompileHere("this server has the lease");
  ++waited_;
  HPU_LOG(kInfo, "waiting for another server key=" << ToHex(key) << " lease=" << holder);
  std::chrono::milliseconds poll = kFirstPoll;
  uint32_t polls = 0;
  while (Clock::now() < deadline) {
    progress({"compiling on another server", polls++, 0});
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (stopped_.wait_for(lock, poll, [this] { return stopping_; })) {
        return Error(absl::StatusCode::kCancelled, "the compile server is stopping");
      }
    }
    poll = std::min(poll * 2, kLastPoll);
    absl::StatusOr<store::Entry> entry = look_up();
    if (entry.ok()) return CompileResult{*std::move(entry), /*from_store=*/true};
    // The lease is free again and there is no program, so its holder failed or died.
    if (TryTake(key, &holder)) return CompileHere("the lease was free again");
  }
  return CompileHere("another server takes too long");
}

void ClusterCompilations::Completed(const Digest& key) {
  store::Lease lease;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = held_.find(key);
    if (found == held_.end()) return;
    lease = std::move(found->second);
    held_.erase(found);
  }
  if (const absl::Status freed = keeper_->Release(lease); !freed.ok()) {
    ++lost_;
    HPU_LOG(kDebug, "lease was lost key=" << ToHex(key) << " error=" << ToText(freed));
  }
}

void ClusterCompilations::RenewLoop() {
  while (true) {
    std::map<Digest, store::Lease> leases;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (stopped_.wait_for(lock, kLeaseTime / 3, [this] { return stopping_; })) return;
      leases = held_;
    }
    for (auto& [key, lease] : leases) {
      const absl::Status renewed = keeper_->Renew(lease, kLeaseTime);
      std::lock_guard<std::mutex> lock(mutex_);
      const auto found = held_.find(key);
      if (found == held_.end()) continue;  // completed in the meantime
      if (renewed.ok()) found->second = lease;
    }
  }
}

void ClusterCompilations::AddCounters(std::map<std::string, uint64_t>& counters) const {
  counters["lease.taken"] += taken_;
  counters["lease.waited"] += waited_;
  counters["lease.lost"] += lost_;
  counters["lease.without"] += without_;
}

}  // namespace hpu::server
