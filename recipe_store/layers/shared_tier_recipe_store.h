// SharedTierRecipeStore puts a store of our own in front of one that several servers share. Our
// store answers for what it has, and its answer to a write counts. The shared store is asked for
// the rest and is written behind the caller's back. A fault of the shared store is a miss there,
// and so is an answer that it does not give in time.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "recipe_store/layers/forwarding_recipe_store.h"
#include "recipe_store/layers/hedge.h"
#include "recipe_store/layers/write_behind.h"

namespace hpu::store {

// Lists, garbage and pins are those of the near store: what this server has, not what the cluster
// has. The shared engine makes room for itself. Thread-safe.
class SharedTierRecipeStore : public ForwardingRecipeStore {
 public:
  // `behind` does the writes. Its owner must destroy it before this object, and no call may follow.
  // With `read_only` nothing is written to the shared store. `hedge` bounds how long a look-up
  // waits for the shared store.
  SharedTierRecipeStore(std::unique_ptr<RecipeStore> near, std::shared_ptr<RecipeStore> shared,
                        WriteBehind* behind, bool read_only, std::shared_ptr<Hedge> hedge);
  ~SharedTierRecipeStore() override { hedge_->Stop(); }

  // Returns the near store's error if neither store has the entry. What is found in the shared
  // store is kept near, also if it is found too late for this call. kInspect waits for the shared
  // store, because nothing will be compiled, and counts there as a use. kVerify reads the near
  // store only.
  absl::StatusOr<Entry> Find(const Digest& key, Purpose purpose) override;
  // Returns the near store's answer, as PutAlias and DropAlias do.
  absl::Status Put(const Entry& entry) override;
  // Makes the key a miss here until it is put again. The shared store withdraws the entry when it
  // can; this call waits for that as long as a look-up does, or 5 s if look-ups wait to the end.
  absl::Status Quarantine(const Digest& key, const std::string& reason) override;
  // An alias from the shared store is kept near if its entry can be kept near.
  absl::StatusOr<AliasRecord> GetAlias(const Digest& id) override;
  absl::Status PutAlias(const AliasRecord& alias) override;
  absl::Status DropAlias(const Digest& id) override;
  // Brings an entry that only the shared store has to the near store first.
  absl::Status Pin(const Digest& key, bool pinned) override;
  // Waits up to 5 s for the writes to the shared store, then flushes the near store.
  absl::Status Flush() override;
  void AddCounters(std::map<std::string, uint64_t>& counters) const override;

 private:
  // Reads the shared store to the end and keeps near what it finds. If the `tenant` is known, room
  // is made in its share.
  absl::StatusOr<Entry> ReadShared(const std::string* tenant, const Digest& key);
  absl::StatusOr<AliasRecord> ReadSharedAlias(const Digest& id);
  void Withdraw(const Digest& key, const std::string& reason);
  // Returns true if the shared store has yet to quarantine the key, or could not.
  bool IsWithdrawn(const Digest& key);
  // Queues `write`. Writes run one after the other in the order of the calls.
  void WriteShared(uint64_t bytes, std::function<absl::Status(RecipeStore&)> write);

  const std::shared_ptr<RecipeStore> shared_;
  WriteBehind* const behind_;
  const bool read_only_;
  const std::shared_ptr<Hedge> hedge_;
  HedgedLookUps<Entry> entries_;
  HedgedLookUps<AliasRecord> aliases_;
  std::mutex withdrawn_mutex_;
  // withdrawn_mutex_ guards both. withdrawn_ counts how often the shared store has yet to
  // quarantine a key. distrusted_ holds the keys that it could not quarantine, or may not because
  // it is read only; a key stays there until our Put has replaced the entry in the shared store.
  std::map<Digest, int> withdrawn_;
  std::set<Digest> distrusted_;
  std::atomic<uint64_t> withdrawals_{0};
  std::atomic<uint64_t> hits_{0};
  std::atomic<uint64_t> misses_{0};
  std::atomic<uint64_t> read_failures_{0};
  std::atomic<uint64_t> write_failures_{0};
};

}  // namespace hpu::store
