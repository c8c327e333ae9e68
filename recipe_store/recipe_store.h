// A RecipeStore leads from an alias to a content key, from the content key to a manifest, and from
// the manifest to content-addressed blobs. It has three interfaces: ProgramStore, AliasStore and
// StoreMaintenance. Engines implement them, and layers change single functions of the store below
// them. stack/factory.h stacks engines and layers.
//
// A store may forget, but it may not lie: Get returns what was put under that key. Entries are
// immutable; a Put under the same key replaces the entry as a whole. An alias lives at most as long
// as the entry that it names.
//
// All methods are thread-safe. Arguments are read during the call only, and results belong to the
// caller.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/status.h"
#include "recipe_store/signing/alias.h"
#include "recipe_store/signing/manifest.h"

namespace hpu::store {

// Blobs are immutable. The layers, the calls that send them and the memory caches share them.
using Blob = std::shared_ptr<const Bytes>;

// An Entry is what is filed under a content key. `manifest` is the decoded form of
// `signed_manifest.record`.
struct Entry {
  SignedRecord signed_manifest;
  Manifest manifest;
  std::vector<Blob> blobs;  // the program, then the recipes in the manifest's order

  // Returns the number of bytes that the blobs and the manifest take.
  uint64_t size_bytes() const;
};

// Returns the references of all blobs of a manifest in the order of Entry::blobs.
std::vector<BlobRef> BlobRefs(const Manifest& manifest);

// Joins a manifest with its blobs. Returns DATA_LOSS if the manifest is damaged, or if the number
// or the sizes of the blobs differ from it. Digests are not checked here; CheckDigests does that.
absl::StatusOr<Entry> MakeEntry(SignedRecord signed_manifest, std::vector<Blob> blobs);

// Returns DATA_LOSS, naming the blob, unless every blob has the digest that the manifest gives it.
absl::Status CheckDigests(const Entry& entry);

// Sorts newest first, removes duplicates, and cuts to `limit` (0 means all). StoreMaintenance::List
// promises this order.
void NewestFirst(std::vector<Manifest>& manifests, size_t limit);
// Sorts oldest first. StoreMaintenance::AliasesOf promises this order.
void OldestFirst(std::vector<Alias>& aliases);

// An Eviction says that a tenant lost an entry for want of room: it lost its names of the entry,
// and the store lost the entry unless other tenants have names for it. `tenant` is empty if the
// entry had no name.
struct Eviction {
  Digest key{};
  std::string tenant;
  bool of_share = false;  // true if the tenant had too much, false if the store was full
};
using EvictionSink = std::function<void(const Eviction& eviction)>;

// A Purpose says why an entry is read.
enum class Purpose {
  kUse,      // The program is needed, so the read counts as a use.
  kInspect,  // Somebody looks at the store, so the read counts as no use.
  kVerify,   // As kInspect, but past caches: the entry is read from where it lasts and its digests
             // are checked.
};

class ProgramStore {
 public:
  virtual ~ProgramStore() = default;

  // Returns the entry of a content key. NOT_FOUND is a miss, and only that. DATA_LOSS: the entry is
  // damaged. UNAVAILABLE: the store cannot be read now. PERMISSION_DENIED, for kVerify only: a key
  // that is not trusted has signed the entry. Engines that servers share take kInspect for kUse.
  virtual absl::StatusOr<Entry> Find(const Digest& key, Purpose purpose) = 0;

  // These three are Find for one purpose, with its errors.
  absl::StatusOr<Entry> Get(const Digest& key) { return Find(key, Purpose::kUse); }
  absl::StatusOr<Entry> Peek(const Digest& key) { return Find(key, Purpose::kInspect); }
  absl::Status Verify(const Digest& key) { return Find(key, Purpose::kVerify).status(); }

  // Files the entry under its manifest's key. Later calls see all of it or nothing, also after a
  // crash. RESOURCE_EXHAUSTED: the entry is larger than the store. UNAVAILABLE: the store cannot be
  // written now.
  virtual absl::Status Put(const Entry& entry) = 0;

  // Takes a damaged entry and its aliases out of service. Persistent stores keep its manifest and
  // the reason aside for inspection. Returns OK if the key is unknown. UNAVAILABLE: as Put.
  virtual absl::Status Quarantine(const Digest& key, const std::string& reason) = 0;
};

class AliasStore {
 public:
  virtual ~AliasStore() = default;

  // Returns the alias of an AliasId, with the errors of ProgramStore::Get. The entry that it names
  // can come and go at any time.
  virtual absl::StatusOr<AliasRecord> GetAlias(const Digest& id) = 0;

  // Files the alias in place of an older one of its id. NOT_FOUND: the entry that it names is not
  // there. RESOURCE_EXHAUSTED, UNAVAILABLE: as ProgramStore::Put.
  virtual absl::Status PutAlias(const AliasRecord& alias) = 0;

  // Removes the alias. Returns OK if there is none of that id. UNAVAILABLE: as ProgramStore::Put.
  virtual absl::Status DropAlias(const Digest& id) = 0;
};

// StoreMaintenance is what a store does about the entries that it keeps itself. The defaults are
// those of an engine that servers share: it looks after its entries alone, so it makes room without
// being asked, and lists, pins and garbage are UNIMPLEMENTED. UNAVAILABLE from any call: the store
// cannot be read or written now.
class StoreMaintenance {
 public:
  virtual ~StoreMaintenance() = default;

  // Counts a use of an entry that a layer above had.
  virtual void NoteUse(const Digest& key);

  // Makes room before the Put of an entry that the tenant will name: takes what the tenant used
  // longest ago from it if it would have more than its share. RESOURCE_EXHAUSTED: the entry is
  // larger than the share.
  virtual absl::Status MakeRoom(const std::string& tenant, const Entry& entry);

  // Returns the aliases of an entry, oldest first. There are none if there is no such entry.
  virtual absl::StatusOr<std::vector<Alias>> AliasesOf(const Digest& key);

  // Returns the manifests that come after `after`, newest first (ListPosition); limit 0 means all.
  // Fewer than `limit` are the last ones.
  virtual absl::StatusOr<std::vector<Manifest>> List(size_t limit,
                                                     const std::optional<ListPosition>& after);

  // As List, and includes entries whose manifests cannot be read, which List passes over.
  virtual absl::StatusOr<std::vector<ListPosition>> Positions(
      size_t limit, const std::optional<ListPosition>& after);

  // Pins or unpins an entry. A pinned entry is not evicted, and the pin outlives the process where
  // the entry does. NOT_FOUND: there is no such entry.
  virtual absl::Status Pin(const Digest& key, bool pinned);
  virtual absl::StatusOr<std::vector<Digest>> Pinned();

  // Removes what was last used before `unused_since` (microseconds since the epoch; 0 removes
  // nothing), then what was used longest ago until at most `max_bytes` are left. Pinned entries
  // stay. Returns the keys that were removed.
  virtual absl::StatusOr<std::vector<Digest>> CollectGarbage(uint64_t max_bytes,
                                                             uint64_t unused_since);

  // Makes lazily written state (access times) durable. Entries are durable when Put returns.
  virtual absl::Status Flush();

  // Adds the counters of this layer and of those below it, named "<layer>.<what>".
  virtual void AddCounters(std::map<std::string, uint64_t>& counters) const = 0;
};

class RecipeStore : public ProgramStore, public AliasStore, public StoreMaintenance {};

}  // namespace hpu::store
