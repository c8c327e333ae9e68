#include "recipe_store/store_index.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/store/store_testing.h"

namespace hpu::store {
namespace {

// This is the obvious implementation. It computes everything from a list each time.
class Model {
 public:
  explicit Model(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  struct Item {
    Digest key;
    uint64_t manifest_bytes;
    std::vector<BlobRef> refs;
    std::vector<std::pair<Digest, uint64_t>> aliases;  // id, bytes
  };

  bool Put(Item item) {
    const auto known = Find(item.key);
    if (known != items_.end()) item.aliases = known->aliases;
    if (Weigh({item}) > max_bytes_) return false;
    std::erase_if(items_, [&](const Item& other) { return other.key == item.key; });
    items_.push_back(item);
    while (Weigh(items_) > max_bytes_) items_.erase(items_.begin());
    return true;
  }
  bool PutAlias(const Digest& id, const Digest& key, uint64_t bytes) {
    const std::vector<Item> before = items_;
    for (Item& item : items_) {
      std::erase_if(item.aliases, [&](const auto& alias) { return alias.first == id; });
    }
    const auto item = Find(key);
    if (item != items_.end()) {
      item->aliases.emplace_back(id, bytes);
      if (Weigh({*item}) <= max_bytes_) {
        while (Weigh(items_) > max_bytes_) {
          items_.erase(items_.front().key == key ? items_.begin() + 1 : items_.begin());
        }
        return true;
      }
    }
    items_ = before;
    return false;
  }
  std::set<Digest> Aliases() const {
    std::set<Digest> ids;
    for (const Item& item : items_) {
      for (const auto& [id, bytes] : item.aliases) ids.insert(id);
    }
    return ids;
  }
  void Touch(const Digest& key) {
    const auto at = Find(key);
    if (at != items_.end()) std::rotate(at, at + 1, items_.end());
  }
  void Remove(const Digest& key) {
    std::erase_if(items_, [&](const Item& item) { return item.key == key; });
  }
  uint64_t total_bytes() const { return Weigh(items_); }
  std::set<Digest> Keys() const {
    std::set<Digest> keys;
    for (const Item& item : items_) keys.insert(item.key);
    return keys;
  }
  std::set<Digest> Blobs() const {
    std::set<Digest> blobs;
    for (const Item& item : items_) {
      for (const BlobRef& ref : item.refs) blobs.insert(ref.digest);
    }
    return blobs;
  }

 private:
  std::vector<Item>::iterator Find(const Digest& key) {
    return std::find_if(items_.begin(), items_.end(),
                        [&](const Item& item) { return item.key == key; });
  }
  static uint64_t Weigh(const std::vector<Item>& items) {
    uint64_t bytes = 0;
    std::set<Digest> seen;
    for (const Item& item : items) {
      bytes += item.manifest_bytes;
      for (const auto& [id, alias_bytes] : item.aliases) bytes += alias_bytes;
      for (const BlobRef& ref : item.refs) {
        if (seen.insert(ref.digest).second) bytes += ref.size_bytes;
      }
    }
    return bytes;
  }

  const uint64_t max_bytes_;
  std::vector<Item> items_;  // least recently used first
};

TEST(StoreIndex, AgreesWithTheModel) {
  constexpr uint64_t kMaxBytes = 3000;
  uint64_t now = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    StoreIndex index(kMaxBytes);
    Model model(kMaxBytes);
    std::set<Digest> blobs;  // the blobs that a store would hold
    std::set<Digest> aliases;
    for (int step = 0; step < 1000; ++step) {
      const Digest key = DigestOf(random() % 30);
      const uint32_t action = random() % 14;
      if (action < 6) {
        Model::Item item{key, 10 + random() % 50, {}, {}};
        // There are few digests, so that entries share them. The size follows from the digest.
        for (uint32_t n = random() % 5; n > 0; --n) {
          const uint32_t blob = random() % 12;
          item.refs.push_back({DigestOf(1000 + blob), blob == 11 ? 5000u : blob * 60u});
        }
        const auto change = index.PlanInsert(key, item.manifest_bytes, item.refs);
        ASSERT_EQ(change.ok(), model.Put(item));
        if (!change.ok()) continue;
        index.Apply(*change);
        index.Insert(key, item.manifest_bytes, item.refs, 0, ++now);
        for (const Digest& digest : change->dropped_blobs) ASSERT_EQ(blobs.erase(digest), 1u);
        for (const Digest& gone : change->removed_aliases) ASSERT_EQ(aliases.erase(gone), 1u);
        for (const BlobRef& ref : item.refs) blobs.insert(ref.digest);
      } else if (action < 9) {
        EXPECT_EQ(index.Touch(key, ++now), model.Keys().contains(key));
        model.Touch(key);
      } else if (action < 12) {
        const Digest id = DigestOf(2000 + random() % 40);
        const uint64_t bytes = random() % 200;
        const auto change = index.PlanAlias(id, "", key, bytes);
        ASSERT_EQ(change.ok(), model.PutAlias(id, key, bytes));
        if (!change.ok()) continue;
        index.Apply(*change);
        index.InsertAlias(id, "", key, bytes);
        for (const Digest& digest : change->dropped_blobs) ASSERT_EQ(blobs.erase(digest), 1u);
        for (const Digest& gone : change->removed_aliases) aliases.erase(gone);
        aliases.insert(id);
      } else {
        const StoreIndex::Change change = index.PlanRemove(key);
        index.Apply(change);
        for (const Digest& digest : change.dropped_blobs) ASSERT_EQ(blobs.erase(digest), 1u);
        for (const Digest& gone : change.removed_aliases) ASSERT_EQ(aliases.erase(gone), 1u);
        model.Remove(key);
      }
      ASSERT_EQ(index.total_bytes(), model.total_bytes()) << "seed " << seed << " step " << step;
      ASSERT_EQ(index.entry_count(), model.Keys().size());
      ASSERT_EQ(blobs, model.Blobs());
      ASSERT_EQ(index.blob_count(), blobs.size());
      ASSERT_EQ(aliases, model.Aliases());
      ASSERT_EQ(index.alias_count(), aliases.size());
      for (const Digest& known : model.Keys()) ASSERT_TRUE(index.Contains(known));
    }
  }
}

TEST(StoreIndex, AnEntryKeepsItsNewestAliases) {
  StoreIndex index(1'000'000);
  index.Insert(DigestOf(1), 10, {}, 0, 1);
  for (uint64_t n = 0; n < StoreIndex::kMaxAliases; ++n) {
    index.InsertAlias(DigestOf(100 + n), "a", DigestOf(1), 5);
  }
  const StoreIndex::Change change = index.PlanAlias(DigestOf(99), "a", DigestOf(1), 5).value();
  EXPECT_EQ(change.removed_aliases, std::vector<Digest>{DigestOf(100)});
  index.Apply(change);
  index.InsertAlias(DigestOf(99), "a", DigestOf(1), 5);
  EXPECT_EQ(index.alias_count(), StoreIndex::kMaxAliases);
  EXPECT_EQ(index.total_bytes(), 10 + 5 * StoreIndex::kMaxAliases);
}

constexpr uint64_t kEntry = 100;
constexpr uint64_t kName = 5;

// Inserts entry `number` of kEntry bytes, with an alias of each tenant.
void Add(StoreIndex& index, uint64_t number, const std::vector<std::string>& tenants) {
  index.Insert(DigestOf(number), kEntry, {}, 0, number);
  for (const std::string& tenant : tenants) {
    index.InsertAlias(AliasId(tenant, DigestOf(number)), tenant, DigestOf(number), kName);
  }
}

TEST(StoreIndex, ATenantThatHasTooMuchLosesItsOldestAndOthersNothing) {
  StoreIndex index(1'000'000);
  Add(index, 1, {"b"});
  Add(index, 2, {"a"});
  Add(index, 3, {"a", "b"});
  Add(index, 4, {"a"});
  Add(index, 5, {"a"});
  ASSERT_TRUE(index.Pin(DigestOf(2), true));
  EXPECT_EQ(index.LargestShare(), 4 * (kEntry + kName));
  const auto plan = [&](uint64_t entries) {
    return index.PlanShare("a", entries * (kEntry + kName), DigestOf(6), kEntry, kName);
  };
  EXPECT_TRUE(plan(5)->removed_aliases.empty());
  const StoreIndex::Change names = plan(4).value();
  EXPECT_EQ(names.removed_keys, std::vector<Digest>()) << "the other tenant has it still";
  EXPECT_EQ(names.removed_aliases, std::vector<Digest>{AliasId("a", DigestOf(3))});
  const StoreIndex::Change both = plan(3).value();
  EXPECT_EQ(both.removed_keys, std::vector<Digest>{DigestOf(4)});
  ASSERT_EQ(both.losses.size(), 2u);
  for (const StoreIndex::Loss& loss : both.losses) {
    EXPECT_EQ(loss.tenant, "a");
    EXPECT_TRUE(loss.of_share);
  }
  EXPECT_EQ(plan(2)->removed_keys.size(), 2u);
  EXPECT_TRUE(absl::IsResourceExhausted(plan(1).status())) << "what is pinned stays";
  // An entry that the tenant has already costs nothing.
  EXPECT_TRUE(
      index.PlanShare("a", 4 * (kEntry + kName), DigestOf(5), kEntry, 0)->removed_aliases.empty());
  index.Apply(both);
  EXPECT_EQ(index.LargestShare(), 2 * (kEntry + kName));
  EXPECT_TRUE(index.ContainsAlias(AliasId("b", DigestOf(3))));
}

TEST(StoreIndex, ATenantsNamesPushOutItsOwnOnly) {
  StoreIndex index(1'000'000);
  Add(index, 1, {"b"});
  for (uint64_t n = 0; n < StoreIndex::kMaxAliases; ++n) {
    EXPECT_TRUE(index.PlanAlias(DigestOf(99), "a", DigestOf(1), kName)->removed_aliases.empty());
    index.InsertAlias(DigestOf(100 + n), "a", DigestOf(1), kName);
  }
  EXPECT_EQ(index.PlanAlias(DigestOf(99), "a", DigestOf(1), kName)->removed_aliases,
            std::vector<Digest>{DigestOf(100)});
}

// The index is compared with a sum over all.
TEST(StoreIndex, SharesAreWhatTheNamesLeadTo) {
  std::mt19937_64 random(1);
  StoreIndex index(5'000);
  std::map<Digest, uint64_t> sizes;
  std::map<Digest, std::tuple<std::string, Digest, uint64_t>> names;
  const auto apply = [&](const StoreIndex::Change& change) {
    index.Apply(change);
    for (const Digest& gone : change.removed_keys) sizes.erase(gone);
    for (const Digest& gone : change.removed_aliases) names.erase(gone);
  };
  for (int step = 0; step < 3000; ++step) {
    const Digest key = DigestOf(random() % 20);
    const std::string tenant(1, static_cast<char>('a' + random() % 3));
    const uint64_t bytes = 1 + random() % 500;
    if (random() % 2 == 0) {
      const auto change = index.PlanInsert(key, bytes, {{DigestOf(bytes), bytes}});
      if (!change.ok()) continue;
      apply(*change);
      index.Insert(key, bytes, {{DigestOf(bytes), bytes}}, 0, static_cast<uint64_t>(step));
      sizes[key] = 2 * bytes;
    } else if (sizes.contains(key)) {
      const Digest id = DigestOf(1000 + random() % 60);
      const auto room = index.PlanShare(tenant, 3'000, key, sizes.at(key), bytes);
      if (!room.ok()) continue;
      apply(*room);
      const auto change = index.PlanAlias(id, tenant, key, bytes);
      if (!change.ok()) continue;
      apply(*change);
      index.InsertAlias(id, tenant, key, bytes);
      names[id] = {tenant, key, bytes};
    } else {
      apply(index.PlanRemove(key));
    }
    std::map<std::string, uint64_t> shares;
    std::set<std::pair<std::string, Digest>> counted;
    for (const auto& [id, name] : names) {
      const auto& [whose, named, size] = name;
      shares[whose] += size + (counted.emplace(whose, named).second ? sizes.at(named) : 0);
    }
    uint64_t largest = 0;
    for (const auto& [whose, share] : shares) largest = std::max(largest, share);
    ASSERT_EQ(index.LargestShare(), largest) << "step " << step;
  }
}

}  // namespace
}  // namespace hpu::store
