// A store of our own in front of one that several servers share. Ours answers for what it has and
// decides what a write is worth; the shared one is asked for the rest, filled behind the caller's
// back, and any fault of it is a miss there, as is an answer that it does not give in time.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "recipe_store/layers/hedge.h"
#include "recipe_store/layers/write_behind.h"
#include "recipe_store/recipe_store.h"

namespace hpu::store {

class SharedTierRecipeStore : public RecipeStore {
 public:
  // `behind` does the writes and must live longer than calls, and end before the store does. With
  // `read_only` nothing is written to the shared store. `hedge` bounds how long that is waited for.
  SharedTierRecipeStore(std::unique_ptr<RecipeStore> near, std::shared_ptr<RecipeStore> shared,
                        WriteBehind* behind, bool read_only, std::shared_ptr<Hedge> hedge);
  ~SharedTierRecipeStore() override { hedge_->Stop(); }

  // What is found in the shared store is kept near, also if it is found too late for this call.
  absl::StatusOr<Entry> Get(const Digest& key) override;
  absl::Status Put(const Entry& entry) override;
  // The engine looks after its own room.
  absl::Status MakeRoom(const std::string& tenant, const Entry& entry) override {
    return near_->MakeRoom(tenant, entry);
  }
  // One from the shared store is kept near if its entry can be.
  absl::StatusOr<AliasRecord> GetAlias(const Digest& id) override;
  absl::Status PutAlias(const AliasRecord& alias) override;
  absl::Status DropAlias(const Digest& id) override;
  // A miss here from now on, until it is put anew. The shared store is waited for like a look-up
  // there (5 s where those are waited for to their end) and withdraws the entry when it can.
  absl::Status Quarantine(const Digest& key, const std::string& reason) override;
  // Of the near store: what this server has, not what the cluster has.
  absl::StatusOr<std::vector<Alias>> AliasesOf(const Digest& key) override {
    return near_->AliasesOf(key);
  }
  absl::StatusOr<std::vector<Manifest>> List(size_t limit,
                                             const std::optional<ListPosition>& after) override {
    return near_->List(limit, after);
  }
  // Of what only the engine has, a use like any other. Waits for it: nothing will be compiled.
  absl::StatusOr<Entry> Peek(const Digest& key) override {
    absl::StatusOr<Entry> near = near_->Peek(key);
    const PatientScope patient;
    return near.ok() ? std::move(near) : Get(key);
  }
  void NoteUse(const Digest& key) override { near_->NoteUse(key); }
  // Of the own tier; the engine looks after its own.
  absl::Status Pin(const Digest& key, bool pinned) override;
  absl::StatusOr<std::vector<Digest>> Pinned() override { return near_->Pinned(); }
  absl::StatusOr<std::vector<Digest>> CollectGarbage(uint64_t max_bytes,
                                                     uint64_t unused_since) override {
    return near_->CollectGarbage(max_bytes, unused_since);
  }
  absl::StatusOr<std::vector<ListPosition>> Positions(
      size_t limit, const std::optional<ListPosition>& after) override {
    return near_->Positions(limit, after);
  }
  absl::Status Verify(const Digest& key) override { return near_->Verify(key); }
  absl::Status Flush() override;
  void AddCounters(std::map<std::string, uint64_t>& counters) const override;

 private:
  // Of the shared store, which is waited for; what is found is filed. `tenant`, if it is known,
  // makes room for what is kept near.
  absl::StatusOr<Entry> ReadShared(const std::string* tenant, const Digest& key);
  absl::StatusOr<AliasRecord> ReadSharedAlias(const Digest& id);
  void Withdraw(const Digest& key, const std::string& reason);
  // The shared store is still to quarantine it, or could not.
  bool IsWithdrawn(const Digest& key);
  // Later, in order.
  void WriteShared(uint64_t bytes, std::function<absl::Status(RecipeStore&)> write);

  const std::unique_ptr<RecipeStore> near_;
  const std::shared_ptr<RecipeStore> shared_;
  WriteBehind* const behind_;
  const bool read_only_;
  const std::shared_ptr<Hedge> hedge_;
  HedgedLookUps<Entry> entries_;
  HedgedLookUps<AliasRecord> aliases_;
  std::mutex withdrawn_mutex_;
  // Guarded by withdrawn_mutex_: how often the shared store is still to set a key aside; those that
  // it could not, or may not (read only), until a program of ours has replaced them there.
  std::map<Digest, int> withdrawn_;
  std::set<Digest> distrusted_;
  std::atomic<uint64_t> withdrawals_{0};
  std::atomic<uint64_t> hits_{0};
  std::atomic<uint64_t> misses_{0};
  std::atomic<uint64_t> read_failures_{0};
  std::atomic<uint64_t> write_failures_{0};
};

}  // namespace hpu::store
