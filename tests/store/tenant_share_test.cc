// Shares of tenants while writes are filed together, the index is read in the background, and
// eviction goes on by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "recipe_store/rocksdb/rocksdb_recipe_store.h"
#include "tests/eventually.h"
#include "tests/store/store_testing.h"

namespace hpu::store {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

uint64_t Counter(const RecipeStore& store, const std::string& name) {
  std::map<std::string, uint64_t> counters;
  store.AddCounters(counters);
  return counters.at(name);
}

// Told holds what a store told its sink.
class Told {
 public:
  EvictionSink sink() {
    return [this](const Eviction& eviction) {
      const std::lock_guard<std::mutex> lock(mutex_);
      all_.push_back(eviction);
    };
  }
  std::vector<Eviction> all() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return all_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<Eviction> all_;
};

class TenantShare : public testing::Test {
 protected:
  void Open(uint64_t max_bytes, uint64_t tenant_bytes,
            milliseconds patience = milliseconds(60'000)) {
    store_ = nullptr;
    store_ = RocksDbRecipeStore::Open(folder_.path("db"), {max_bytes, tenant_bytes, told_.sink()},
                                      patience)
                 .value();
  }
  // Files a program as the service does.
  absl::Status File(const std::string& tenant, uint64_t number) {
    const Entry entry = EntryOf(number);
    RETURN_IF_ERROR(store_->MakeRoom(tenant, entry));
    RETURN_IF_ERROR(store_->Put(entry));
    return store_->PutAlias(AliasOf(number, number, tenant));
  }
  std::vector<uint64_t> NamedBy(const std::string& tenant, uint64_t count) {
    std::vector<uint64_t> named;
    for (uint64_t n = 0; n < count; ++n) {
      if (store_->GetAlias(AliasIdOf(n, tenant)).ok()) named.push_back(n);
    }
    return named;
  }
  static uint64_t Bytes(uint64_t programs) {
    return programs * (EntryOf(1).size_bytes() + AliasOf(1, 1, "a").size_bytes() + 8);
  }

  const TemporaryFolder folder_;
  Told told_;
  std::unique_ptr<RocksDbRecipeStore> store_;
};

TEST_F(TenantShare, WhatGoesInTheBackgroundIsTold) {
  constexpr uint64_t kMaxBytes = 400'000;
  Open(kMaxBytes, 0);
  uint64_t filed = 0;
  // The store is filled up to where the housekeeper begins, and not to where a writer would have
  // to.
  while (Counter(*store_, "rocksdb.bytes") <= kMaxBytes - kMaxBytes / 128) {
    ASSERT_TRUE(File(filed % 2 == 0 ? "a" : "b", filed).ok());
    ++filed;
  }
  const auto is_done = [&] {
    return Counter(*store_, "rocksdb.bytes") <= kMaxBytes - kMaxBytes / 128 &&
           told_.all().size() == Counter(*store_, "rocksdb.evictions");
  };
  EXPECT_TRUE(Eventually(is_done));
  const std::vector<Eviction> told = told_.all();
  ASSERT_GE(told.size(), 3u);
  EXPECT_EQ(told.size(), Counter(*store_, "rocksdb.evictions"));
  for (uint64_t n = 0; n < told.size(); ++n) {
    EXPECT_EQ(told[n].key, KeyOf(n)) << "the oldest first";
    EXPECT_EQ(told[n].tenant, n % 2 == 0 ? "a" : "b");
    EXPECT_FALSE(told[n].of_share);
  }
  // A command or damage is no loss for want of room.
  ASSERT_TRUE(store_->Quarantine(KeyOf(filed - 1), "test").ok());
  ASSERT_FALSE(store_->CollectGarbage(0, 0).value().empty());
  EXPECT_EQ(told_.all().size(), told.size());
}

TEST_F(TenantShare, IsKnownAlsoWhenTheIndexIsReadInTheBackground) {
  Open(100'000'000, 0);
  for (uint64_t n = 0; n < 600; ++n) ASSERT_TRUE(File(n % 100 == 0 ? "a" : "b", n).ok());
  const uint64_t largest = Counter(*store_, "rocksdb.largest_share_bytes");
  // Numbers of more digits take some bytes more.
  const uint64_t limit = largest + 50;
  Open(100'000'000, limit, milliseconds(0));
  // It counts as used, also if it is not known yet.
  ASSERT_TRUE(store_->Get(KeyOf(1)).ok());
  ASSERT_TRUE(File("b", 1000).ok());
  EXPECT_LE(Counter(*store_, "rocksdb.largest_share_bytes"), limit);
  EXPECT_EQ(Counter(*store_, "rocksdb.share_evictions"), 1u);
  const std::vector<Eviction> told = told_.all();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].key, KeyOf(2)) << "the oldest of its own that was not used";
  EXPECT_EQ(told[0].tenant, "b");
  EXPECT_TRUE(told[0].of_share);
}

TEST_F(TenantShare, ThatWasLoweredIsTrimmedInTheBackground) {
  Open(100'000'000, 0);
  for (uint64_t n = 0; n < 900; ++n) ASSERT_TRUE(File("a", n).ok());
  for (uint64_t n = 0; n < 3; ++n) ASSERT_TRUE(File("b", n).ok());
  Open(100'000'000, Bytes(5));
  EXPECT_TRUE(
      Eventually([&] { return Counter(*store_, "rocksdb.largest_share_bytes") <= Bytes(5); }));
  // The other tenant filed 0 to 2 again, and so used them.
  EXPECT_THAT(NamedBy("a", 900), ElementsAre(0, 1, 2, 898, 899));
  EXPECT_THAT(NamedBy("b", 900), ElementsAre(0, 1, 2));
  EXPECT_EQ(Counter(*store_, "rocksdb.entries"), 5u);
  EXPECT_EQ(told_.all().size(), 895u);
}

TEST_F(TenantShare, IsKeptByManyWritersAtOnce) {
  Open(100'000'000, Bytes(4));
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t n = t; n < 320; n += 16) {
        const absl::Status filed = File(t % 2 == 0 ? "a" : "b", n);
        // Another writer's entry may have driven it out before it had its name.
        if (!filed.ok() && !absl::IsNotFound(filed)) ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0) << "those that are filed together drive one another out in turn";
  EXPECT_LE(Counter(*store_, "rocksdb.largest_share_bytes"), Bytes(4));
  EXPECT_THAT(NamedBy("a", 320), testing::SizeIs(4));
  EXPECT_THAT(NamedBy("b", 320), testing::SizeIs(4));
}

TEST_F(TenantShare, LargeProgramsThatNeedMoreThanASlice) {
  Open(100'000'000, Bytes(600));
  for (uint64_t n = 0; n < 600; ++n) ASSERT_TRUE(File("a", n).ok());
  EXPECT_THAT(told_.all(), IsEmpty());
  const Entry too_large = EntryOf(1000, 1, Bytes(600));
  EXPECT_TRUE(absl::IsResourceExhausted(store_->MakeRoom("a", too_large)));
  EXPECT_THAT(told_.all(), IsEmpty()) << "nothing goes for what does not fit";
  const Entry large = EntryOf(1001, 1, Bytes(500));
  ASSERT_TRUE(store_->MakeRoom("a", large).ok());
  ASSERT_TRUE(store_->Put(large).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(1001, 1001, "a")).ok());
  EXPECT_LE(Counter(*store_, "rocksdb.largest_share_bytes"), Bytes(600));
  EXPECT_GE(told_.all().size(), 500u);
}

// One plan has several writes, as a batch files them: the bounds hold when they are applied.
TEST(StorePlan, SeesTheSharesOfWritesBeforeIt) {
  constexpr uint64_t kMaxBytes = 6'000;
  constexpr uint64_t kShare = 2'500;
  std::mt19937_64 random(1);
  StoreIndex index(kMaxBytes, kShare);
  int filed = 0;
  for (int step = 0; step < 3000; ++step) {
    StorePlan plan(index);
    std::vector<std::pair<StoreIndex::Change, std::function<void()>>> group;
    std::set<uint64_t> subjects;
    for (uint64_t n = 1 + random() % 5; n > 0; --n) {
      const uint64_t number = random() % 30;
      const uint64_t alias = random() % 90;
      const Digest key = DigestOf(number);
      const Digest id = DigestOf(1000 + alias);
      const std::string tenant(1, static_cast<char>('a' + alias % 3));
      const uint64_t bytes = 100 + number * 20;
      const int kind = static_cast<int>(random() % 5);
      if (subjects.contains(number) || subjects.contains(1000 + alias)) continue;
      std::function<void()> written = [] {};
      if (kind < 2) {
        subjects.insert(number);
        if (!plan.Insert(key, bytes, {{DigestOf(number % 7), 50}}).ok()) continue;
        written = [&index, key, number, bytes, step] {
          index.Insert(key, bytes, {{DigestOf(number % 7), 50}}, 0, static_cast<uint64_t>(step));
        };
      } else if (kind < 4) {
        subjects.insert({number, 1000 + alias});
        if (!plan.Alias(id, tenant, key, 10).ok()) continue;
        written = [&index, id, tenant, key] { index.InsertAlias(id, tenant, key, 10); };
        ++filed;
      } else {
        subjects.insert(1000 + alias);
        plan.RemoveAlias(id);
      }
      group.emplace_back(plan.TakeChange(), written);
    }
    for (const auto& [change, written] : group) {
      index.Apply(change);
      written();
    }
    ASSERT_EQ(index.total_bytes(), plan.total_bytes());
    ASSERT_LE(index.total_bytes(), kMaxBytes);
    ASSERT_LE(index.LargestShare(), kShare) << "step " << step;
  }
  EXPECT_GT(filed, 1000);
}

}  // namespace
}  // namespace hpu::store
