// The maintenance of RocksDbRecipeStore: eviction, shares of tenants, pins and garbage.
#include "base/clock.h"
#include "base/log.h"
#include "recipe_store/rocksdb/rocksdb_bytes.h"
#include "recipe_store/rocksdb/rocksdb_recipe_store.h"

namespace hpu::store {
namespace {

// One batch removes at most so many entries, so that no writer waits long for it.
constexpr size_t kSlice = 256;

// So many records are kept for inspection. When there are more, the rest is deleted.
constexpr size_t kMaxQuarantined = 1000;

}  // namespace

void RocksDbRecipeStore::KeepHouse() {
  if (!is_read_) {
    const absl::StatusOr<bool> read = ReadIndex(std::chrono::steady_clock::time_point::max());
    if (!read.ok()) return IndexIsUnreadable(read.status());
    if (!*read) return;  // the store is being closed
    IndexIsRead();
    TrimToLimits();
    HPU_LOG(kInfo, "the store's index is read folder=" << folder_);
  }
  if (!database_.writable) return;
  while (!stopping_) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      grown_.wait(lock, [&] { return stopping_ || HasTooMuch(); });
    }
    const absl::StatusOr<size_t> removed = RemoveTooMuch();
    if (stopping_ || removed.value_or(0) > 0) continue;
    // The disk refuses, or everything that is left is pinned.
    std::unique_lock<std::mutex> lock(mutex_);
    grown_.wait_for(lock, kRetryInterval, [&] { return stopping_.load(); });
  }
}

bool RocksDbRecipeStore::HasTooMuch() const {
  return index_.total_bytes() > evict_from_ || !index_.TenantsOverTheirShare().empty();
}

absl::StatusOr<size_t> RocksDbRecipeStore::RemoveTooMuch() {
  std::vector<std::string> tenants;
  bool is_full = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    tenants = index_.TenantsOverTheirShare();
    is_full = index_.total_bytes() > evict_from_;
  }
  // A tenant with too much makes room before others do.
  size_t count = 0;
  for (const std::string& tenant : tenants) {
    ASSIGN_OR_RETURN(const size_t trimmed, RemoveInSlices([&](StorePlan& plan, size_t most) {
                       return plan.TrimShare(tenant, limits_.tenant_bytes, {}, most);
                     }));
    count += trimmed;
  }
  if (!is_full) return count;
  ASSIGN_OR_RETURN(const size_t evicted, RemoveInSlices([&](StorePlan& plan, size_t most) {
                     return plan.Evict(evict_to_, most);
                   }));
  return count + evicted;
}

// Trims what a smaller limit than last time leaves too much, blobs without an entry (their
// manifests were of another version), aliases without an entry, and quarantine records beyond the
// limit.
void RocksDbRecipeStore::TrimToLimits() {
  if (!database_.writable) return;
  absl::Status trimmed = RemoveInSlices([&](StorePlan& plan, size_t most) {
                           return plan.Evict(limits_.max_bytes, most);
                         }).status();
  // Nobody knows what manifests of other versions need, so no blob is an orphan while there are
  // any.
  if (trimmed.ok() && !has_other_versions_) {
    trimmed = DeleteOrphans(database_.blobs, [](const StorePlan& plan, const Digest& digest) {
      return plan.ContainsBlob(digest);
    });
  }
  trimmed.Update(DeleteOrphans(database_.aliases, [this](const StorePlan&, const Digest& id) {
    return index_.ContainsAlias(id);
  }));
  size_t count = 0;
  trimmed.Update(DeleteOrphans(database_.quarantine, [&](const StorePlan&, const Digest&) {
    return ++count <= kMaxQuarantined;
  }));
  if (!trimmed.ok()) HPU_LOG(kWarning, "store not trimmed error=" << ToText(trimmed));
}

absl::Status RocksDbRecipeStore::DeleteOrphans(
    rocksdb::ColumnFamilyHandle* family,
    const std::function<bool(const StorePlan&, const Digest&)>& needed) {
  rocksdb::ReadOptions options;
  options.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> it(database_.db->NewIterator(options, family));
  it->SeekToFirst();
  while (it->Valid() && !stopping_) {
    Write write;
    for (; it->Valid() && write.subjects.size() < kSlice; it->Next()) {
      Digest name{};
      if (ToKey(it->key(), &name)) write.subjects.push_back(name);
    }
    std::vector<Digest> orphans;
    write.plan = [&](StorePlan& plan) {
      for (const Digest& name : write.subjects) {
        if (!needed(plan, name)) orphans.push_back(name);
      }
      return absl::OkStatus();
    };
    write.fill = [&](rocksdb::WriteBatch& batch) {
      for (const Digest& name : orphans) batch.Delete(family, ToSlice(name));
    };
    RETURN_IF_ERROR(Commit(write));
  }
  return ToStatus(it->status(), "looking for what nobody needs");
}

absl::StatusOr<size_t> RocksDbRecipeStore::RemoveInSlices(const Step& step,
                                                          std::vector<Digest>* removed) {
  size_t count = 0;
  size_t last = kSlice;
  while (last == kSlice && !stopping_) {
    Write write;
    write.plan = [&](StorePlan& plan) {
      last = step(plan, kSlice);
      return absl::OkStatus();
    };
    write.written = [&](const StoreIndex::Change& change) {
      const std::vector<Digest>& keys = change.removed_keys;
      evictions_ += keys.size();
      if (removed != nullptr) removed->insert(removed->end(), keys.begin(), keys.end());
    };
    RETURN_IF_ERROR(Commit(write));
    count += last;
  }
  return count;
}

absl::Status RocksDbRecipeStore::MakeMuchRoom(const Digest& key, uint64_t manifest_bytes,
                                              const std::vector<BlobRef>& refs) {
  uint64_t bytes = manifest_bytes;
  for (const BlobRef& ref : refs) bytes += ref.size_bytes;
  // A smaller entry fits into the room that is kept free.
  if (bytes <= limits_.max_bytes - evict_from_) return absl::OkStatus();
  RETURN_IF_ERROR(AwaitIndex());
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ASSIGN_OR_RETURN(const StoreIndex::Change change, index_.PlanInsert(key, manifest_bytes, refs));
    if (change.removed_keys.size() <= kSlice) return absl::OkStatus();
  }
  return RemoveInSlices([&](StorePlan& plan, size_t most) {
           return plan.Evict(limits_.max_bytes - bytes, most);
         })
      .status();
}

absl::Status RocksDbRecipeStore::MakeRoom(const std::string& tenant, const Entry& entry) {
  if (limits_.tenant_bytes == 0) return absl::OkStatus();
  const StorePlan::Addition addition{entry.manifest.key(), entry.size_bytes(), 0};
  RETURN_IF_ERROR(AwaitIndex());
  {
    // Nothing is removed for an entry that does not fit.
    std::lock_guard<std::mutex> lock(mutex_);
    StorePlan plan(index_);
    RETURN_IF_ERROR(plan.Share(tenant, limits_.tenant_bytes, addition));
    if (plan.TakeChange().losses.empty()) return absl::OkStatus();
  }
  return RemoveInSlices([&](StorePlan& plan, size_t most) {
           return plan.TrimShare(tenant, limits_.tenant_bytes, addition, most);
         })
      .status();
}

absl::Status RocksDbRecipeStore::Pin(const Digest& key, bool pinned) {
  Write write{.subjects = {key}};
  uint64_t access = 0;
  write.plan = [&](StorePlan& plan) -> absl::Status {
    const uint64_t now = MicrosOfEpoch();
    if (!plan.Contains(key)) return NotFound("key ", ToHex(key), " is not in the store");
    index_.Touch(key, now);
    // The pin holds from now on, so nothing can evict the entry between here and the write.
    index_.Pin(key, pinned);
    access = AccessRecord(key, now);
    return absl::OkStatus();
  };
  write.fill = [&](rocksdb::WriteBatch& batch) { AddAccess(key, access, batch); };
  return Commit(write);
}

absl::StatusOr<std::vector<Digest>> RocksDbRecipeStore::Pinned() {
  RETURN_IF_ERROR(AwaitIndex());
  std::lock_guard<std::mutex> lock(mutex_);
  return index_.Pinned();
}

absl::StatusOr<std::vector<Digest>> RocksDbRecipeStore::CollectGarbage(uint64_t max_bytes,
                                                                       uint64_t unused_since) {
  std::vector<Digest> removed;
  const Step step = [&](StorePlan& plan, size_t most) {
    return plan.CollectGarbage(max_bytes, unused_since, most);
  };
  RETURN_IF_ERROR(RemoveInSlices(step, &removed).status());
  return removed;
}

absl::StatusOr<std::vector<ListPosition>> RocksDbRecipeStore::Positions(
    size_t limit, const std::optional<ListPosition>& after) {
  RETURN_IF_ERROR(AwaitIndex());
  std::lock_guard<std::mutex> lock(mutex_);
  return index_.Page(limit == 0 ? SIZE_MAX : limit, after);
}

}  // namespace hpu::store
