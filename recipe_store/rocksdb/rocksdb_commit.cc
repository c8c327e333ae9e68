// The part of RocksDbRecipeStore that writes. The first writer in the queue plans and writes for
// those that came meanwhile, in the order in which they came, so that they share one sync.
#include <algorithm>

#include "base/log.h"
#include "recipe_store/rocksdb/rocksdb_bytes.h"
#include "recipe_store/rocksdb/rocksdb_recipe_store.h"

namespace hpu::store {
namespace {

constexpr size_t kMaxGroup = 64;
constexpr uint64_t kMaxGroupBytes = 4 << 20;  // unless one alone is larger
// A batch takes at most so many access times along.
constexpr size_t kMaxAccesses = 512;

}  // namespace

absl::Status RocksDbRecipeStore::Commit(const Write& write) {
  RETURN_IF_ERROR(AwaitIndex());
  Waiting self;
  self.write = &write;
  std::unique_lock<std::mutex> lock(queue_mutex_);
  queue_.push_back(&self);
  self.wake.wait(lock, [&] { return self.done || queue_.front() == &self; });
  if (self.done) return self.status;
  std::vector<Waiting*> group = NextGroup();
  lock.unlock();
  CommitGroup(group);
  lock.lock();
  for (Waiting* written : group) {
    queue_.pop_front();
    written->done = true;
    written->wake.notify_one();
  }
  if (!queue_.empty()) queue_.front()->wake.notify_one();
  return self.status;
}

std::vector<RocksDbRecipeStore::Waiting*> RocksDbRecipeStore::NextGroup() const {
  std::vector<Waiting*> group;
  std::set<Digest> subjects;
  uint64_t bytes = 0;
  for (Waiting* waiting : queue_) {
    const std::vector<Digest>& own = waiting->write->subjects;
    bytes += waiting->write->bytes;
    const bool full = group.size() == kMaxGroup || bytes > kMaxGroupBytes;
    const auto is_known = [&](const Digest& subject) { return subjects.contains(subject); };
    if (!group.empty() && (full || std::ranges::any_of(own, is_known))) break;
    subjects.insert(own.begin(), own.end());
    group.push_back(waiting);
  }
  return group;
}

void RocksDbRecipeStore::CommitGroup(std::vector<Waiting*>& group) {
  if (const absl::Status writable = CheckWritable(); !writable.ok()) {
    for (Waiting* waiting : group) waiting->status = writable;
    return;
  }
  std::vector<StoreIndex::Change> changes(group.size());
  std::vector<std::pair<Digest, uint64_t>> accesses;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    StorePlan plan(index_);
    for (size_t i = 0; i < group.size(); ++i) {
      absl::Status planned = group[i]->write->plan ? group[i]->write->plan(plan) : absl::OkStatus();
      // The writes before this one stay; in a group of its own it may evict their entries.
      if (i > 0 && absl::IsResourceExhausted(planned)) {
        group.resize(i);
        break;
      }
      group[i]->status = std::move(planned);
      if (group[i]->status.ok()) changes[i] = plan.TakeChange();
    }
    changes.resize(group.size());
    while (!unsaved_accesses_.empty() && accesses.size() < kMaxAccesses) {
      accesses.emplace_back(*unsaved_accesses_.begin());
      unsaved_accesses_.erase(unsaved_accesses_.begin());
    }
  }
  rocksdb::WriteBatch batch = ProtectedBatch();
  // The access times come first, because an entry that is removed below must leave none.
  for (const auto& [key, record] : accesses) AddAccess(key, record, batch);
  for (size_t i = 0; i < group.size(); ++i) {
    if (!group[i]->status.ok()) continue;
    AddChange(changes[i], batch);
    if (group[i]->write->fill) group[i]->write->fill(batch);
  }
  const absl::Status written = batch.Count() == 0 ? absl::OkStatus() : WriteBatch(batch);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 0; i < group.size(); ++i) {
      if (!group[i]->status.ok()) continue;
      group[i]->status = written;
      if (!written.ok()) continue;
      index_.Apply(changes[i]);
      share_evictions_ += static_cast<uint64_t>(
          std::ranges::count(changes[i].losses, true, &StoreIndex::Loss::of_share));
      if (group[i]->write->written) group[i]->write->written(changes[i]);
    }
    if (HasTooMuch()) grown_.notify_one();
  }
  if (written.ok()) Tell(changes);
}

void RocksDbRecipeStore::Tell(const std::vector<StoreIndex::Change>& changes) const {
  if (limits_.evicted == nullptr) return;
  for (const StoreIndex::Change& change : changes) {
    for (const StoreIndex::Loss& loss : change.losses) {
      limits_.evicted({loss.key, loss.tenant, loss.of_share});
    }
  }
}

void RocksDbRecipeStore::AddChange(const StoreIndex::Change& change,
                                   rocksdb::WriteBatch& batch) const {
  for (const Digest& key : change.removed_keys) {
    batch.Delete(database_.manifests, ToSlice(key));
    batch.Delete(database_.accesses, ToSlice(key));
  }
  for (const Digest& digest : change.dropped_blobs) batch.Delete(database_.blobs, ToSlice(digest));
  for (const Digest& id : change.removed_aliases) batch.Delete(database_.aliases, ToSlice(id));
}

void RocksDbRecipeStore::AddAccess(const Digest& key, uint64_t record,
                                   rocksdb::WriteBatch& batch) const {
  batch.Put(database_.accesses, ToSlice(key),
            rocksdb::Slice(reinterpret_cast<const char*>(&record), sizeof(record)));
}

absl::Status RocksDbRecipeStore::CheckWritable() {
  if (!database_.writable) {
    return Error(absl::StatusCode::kUnavailable, "the store is open for reading only");
  }
  if (!failing_) return absl::OkStatus();
  if (std::chrono::steady_clock::now() < retry_at_) {
    return Error(absl::StatusCode::kUnavailable, "the store cannot be written at the moment");
  }
  return ToStatus(database_.db->Resume(), "resuming writes");
}

absl::Status RocksDbRecipeStore::WriteBatch(rocksdb::WriteBatch& batch) {
  rocksdb::WriteOptions options;
  options.sync = true;
  const rocksdb::Status status = database_.db->Write(options, &batch);
  if (status.ok()) {
    if (std::exchange(failing_, false)) HPU_LOG(kInfo, "store can be written again");
    return absl::OkStatus();
  }
  if (!std::exchange(failing_, true)) {
    HPU_LOG(kWarning,
            "store cannot be written, serving what it has; new programs are not kept error="
                << status.ToString());
  }
  retry_at_ = std::chrono::steady_clock::now() + kRetryInterval;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ++write_failures_;
  }
  return ToStatus(status, "writing to the store");
}

}  // namespace hpu::store
