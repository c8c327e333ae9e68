#include "recipe_store/layers/shared_tier_recipe_store.h"

#include <future>

#include "base/log.h"

namespace hpu::store {
namespace {

constexpr std::chrono::milliseconds kFlushPatience{5000};

}  // namespace

SharedTierRecipeStore::SharedTierRecipeStore(std::unique_ptr<RecipeStore> near,
                                             std::shared_ptr<RecipeStore> shared,
                                             WriteBehind* behind, bool read_only,
                                             std::shared_ptr<Hedge> hedge)
    : ForwardingRecipeStore(std::move(near)),
      shared_(std::move(shared)),
      behind_(behind),
      read_only_(read_only),
      hedge_(std::move(hedge)),
      entries_(hedge_.get(), [](const Entry& entry) { return entry.manifest.key(); }),
      aliases_(hedge_.get(), [](const AliasRecord& record) { return record.alias.content_key; }) {}

absl::StatusOr<Entry> SharedTierRecipeStore::Find(const Digest& key, Purpose purpose) {
  absl::StatusOr<Entry> near = ForwardingRecipeStore::Find(key, purpose);
  if (near.ok() || purpose == Purpose::kVerify) return near;
  std::optional<PatientScope> patient;
  if (purpose == Purpose::kInspect) patient.emplace();
  absl::StatusOr<Entry> shared =
      entries_.Run(key, [this, key] { return ReadShared(/*tenant=*/nullptr, key); });
  return shared.ok() ? shared : near;
}

absl::StatusOr<Entry> SharedTierRecipeStore::ReadShared(const std::string* tenant,
                                                        const Digest& key) {
  const uint64_t before = withdrawals_;
  // The entry may be read before it is withdrawn, and filed afterwards.
  const auto withdrawn = [&] { return withdrawals_ != before || IsWithdrawn(key); };
  absl::StatusOr<Entry> shared = shared_->Get(key);
  if (withdrawn()) shared = NotFound("key ", ToHex(key), " is being withdrawn");
  if (!shared.ok()) {
    ++(absl::IsNotFound(shared.status()) ? misses_ : read_failures_);
    return shared;
  }
  ++hits_;
  absl::Status kept = tenant == nullptr ? absl::OkStatus() : MakeRoom(*tenant, *shared);
  if (!absl::IsResourceExhausted(kept)) kept = ForwardingRecipeStore::Put(*shared);
  if (!kept.ok()) {
    HPU_LOG(kDebug, "program of the shared store not kept error=" << ToText(kept));
  }
  if (withdrawn()) {
    ForwardingRecipeStore::Quarantine(key, "withdrawn while it was filed").IgnoreError();
    return NotFound("key ", ToHex(key), " is being withdrawn");
  }
  return shared;
}

absl::Status SharedTierRecipeStore::Put(const Entry& entry) {
  const absl::Status kept = ForwardingRecipeStore::Put(entry);
  WriteShared(entry.size_bytes(), [this, entry](RecipeStore& shared) {
    absl::Status written = shared.Put(entry);
    std::lock_guard<std::mutex> lock(withdrawn_mutex_);
    if (written.ok()) distrusted_.erase(entry.manifest.key());
    return written;
  });
  return kept;
}

absl::StatusOr<AliasRecord> SharedTierRecipeStore::GetAlias(const Digest& id) {
  absl::StatusOr<AliasRecord> near = ForwardingRecipeStore::GetAlias(id);
  if (near.ok()) return near;
  absl::StatusOr<AliasRecord> shared = aliases_.Run(id, [this, id] { return ReadSharedAlias(id); });
  return shared.ok() ? shared : near;
}

absl::StatusOr<AliasRecord> SharedTierRecipeStore::ReadSharedAlias(const Digest& id) {
  absl::StatusOr<AliasRecord> shared = shared_->GetAlias(id);
  if (!shared.ok()) {
    if (!absl::IsNotFound(shared.status())) ++read_failures_;
    return shared;
  }
  // The caller asks for the program next, and an alias is kept with its program only.
  const Alias& alias = shared->alias;
  if (ForwardingRecipeStore::Find(alias.content_key, Purpose::kUse).ok() ||
      ReadShared(&alias.tenant, alias.content_key).ok()) {
    ForwardingRecipeStore::PutAlias(*shared).IgnoreError();
  }
  return shared;
}

absl::Status SharedTierRecipeStore::PutAlias(const AliasRecord& alias) {
  const absl::Status kept = ForwardingRecipeStore::PutAlias(alias);
  WriteShared(alias.size_bytes(), [alias](RecipeStore& shared) { return shared.PutAlias(alias); });
  return kept;
}

absl::Status SharedTierRecipeStore::DropAlias(const Digest& id) {
  WriteShared(0, [id](RecipeStore& shared) { return shared.DropAlias(id); });
  return ForwardingRecipeStore::DropAlias(id);
}

absl::Status SharedTierRecipeStore::Quarantine(const Digest& key, const std::string& reason) {
  {
    std::lock_guard<std::mutex> lock(withdrawn_mutex_);
    if (read_only_) {
      distrusted_.insert(key);
    } else {
      ++withdrawn_[key];
    }
    ++withdrawals_;
  }
  const absl::Status near = ForwardingRecipeStore::Quarantine(key, reason);
  if (!read_only_) Withdraw(key, reason);
  return near;
}

// The withdrawal stands in the queue of the writes, so a later Put under the key comes after it.
void SharedTierRecipeStore::Withdraw(const Digest& key, const std::string& reason) {
  const auto done = std::make_shared<std::promise<void>>();
  std::future<void> over = done->get_future();
  behind_->Add(0, [this, shared = shared_, key, reason, done] {
    const absl::Status set_aside = shared->Quarantine(key, reason);
    std::lock_guard<std::mutex> lock(withdrawn_mutex_);
    if (!set_aside.ok() && !absl::IsNotFound(set_aside)) distrusted_.insert(key);
    if (const auto found = withdrawn_.find(key); --found->second == 0) withdrawn_.erase(found);
    done->set_value();
  });
  const auto now = std::chrono::steady_clock::now();
  over.wait_until(hedge_->waits() ? now + kFlushPatience : hedge_->Deadline(now));
}

bool SharedTierRecipeStore::IsWithdrawn(const Digest& key) {
  std::lock_guard<std::mutex> lock(withdrawn_mutex_);
  return withdrawn_.contains(key) || distrusted_.contains(key);
}

void SharedTierRecipeStore::WriteShared(uint64_t bytes,
                                        std::function<absl::Status(RecipeStore&)> write) {
  if (read_only_) return;
  behind_->Add(bytes, [this, shared = shared_, write = std::move(write)] {
    const absl::Status written = write(*shared);
    if (written.ok()) return;
    ++write_failures_;
    HPU_LOG(kDebug, "not written to the shared store error=" << ToText(written));
  });
}

absl::Status SharedTierRecipeStore::Pin(const Digest& key, bool pinned) {
  // Nothing will be compiled, so the look-up waits for the shared store.
  const PatientScope patient;
  RETURN_IF_ERROR(Get(key).status());
  return ForwardingRecipeStore::Pin(key, pinned);
}

absl::Status SharedTierRecipeStore::Flush() {
  if (!behind_->Drain(kFlushPatience)) {
    HPU_LOG(kWarning, "the shared store did not take everything in time");
  }
  return ForwardingRecipeStore::Flush();
}

void SharedTierRecipeStore::AddCounters(std::map<std::string, uint64_t>& counters) const {
  counters["shared.hits"] += hits_;
  counters["shared.misses"] += misses_;
  counters["shared.read_failures"] += read_failures_;
  counters["shared.write_failures"] += write_failures_;
  behind_->AddCounters(counters);
  hedge_->AddCounters(counters);
  ForwardingRecipeStore::AddCounters(counters);
  shared_->AddCounters(counters);
}

}  // namespace hpu::store
