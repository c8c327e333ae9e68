// Several Redis servers: replicas, a cluster whose slots move, sentinels and a failover.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recipe_store/redis/redis_lease.h"
#include "tests/store/redis_server.h"

namespace hpu::store {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

std::vector<std::string> ReplicaOf(const RedisServer& master) {
  return {"--replicaof", "127.0.0.1 " + std::to_string(master.port()), "--repl-diskless-sync-delay",
          "0"};
}

bool HasMaster(const RedisServer& replica) {
  return replica.Text({"INFO", "replication"}).find("master_link_status:up") != std::string::npos;
}

class RedisReplicas : public testing::Test {
 protected:
  void SetUp() override {
    if (!WhyNoRedis().empty()) GTEST_SKIP() << WhyNoRedis();
    master_ =
        std::make_unique<RedisServer>(std::vector<std::string>{"--repl-diskless-sync-delay", "0"});
    replica_ = std::make_unique<RedisServer>(ReplicaOf(*master_));
    ASSERT_TRUE(Eventually([&] { return HasMaster(*replica_); }));
  }
  bool Replicated(const std::string& key) {
    return Eventually([&] { return replica_->Text({"EXISTS", key}) == "1"; });
  }

  std::unique_ptr<RedisServer> master_;
  std::unique_ptr<RedisServer> replica_;
};

TEST_F(RedisReplicas, TheAddressThatTakesWritesIsFound) {
  const auto store = StoreAt(replica_->address() + "," + master_->address());
  EXPECT_TRUE(absl::IsNotFound(store->Get(KeyOf(1)).status())) << "a replica can be read";
  ASSERT_TRUE(store->Put(EntryOf(1)).ok());
  EXPECT_EQ(master_->Text({"EXISTS", "hpu:m:" + ToHex(KeyOf(1))}), "1");
  EXPECT_TRUE(SameEntry(store->Get(KeyOf(1)).value(), EntryOf(1)));
  EXPECT_EQ(CounterOf(*store, "redis.server_failures"), 0u);
}

TEST_F(RedisReplicas, ALoneReplicaIsReadAndRefusesWrites) {
  ASSERT_TRUE(StoreAt(master_->address())->Put(EntryOf(1)).ok());
  ASSERT_TRUE(Replicated("hpu:i"));
  const auto store = StoreAt(replica_->address());
  const absl::Status refused = store->Put(EntryOf(2));
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("name its master too"));
  EXPECT_TRUE(SameEntry(store->Get(KeyOf(1)).value(), EntryOf(1)));
}

TEST_F(RedisReplicas, ReadsGoOnWithoutTheMasterAndWritesWhenThereIsANewOne) {
  const auto store = StoreAt(master_->address() + "," + replica_->address());
  ASSERT_TRUE(store->Put(EntryOf(1)).ok());
  ASSERT_TRUE(Replicated("hpu:i"));
  master_->Kill();
  EXPECT_TRUE(Eventually([&] { return store->Get(KeyOf(1)).ok(); }));
  EXPECT_TRUE(absl::IsUnavailable(store->Put(EntryOf(2))));
  EXPECT_TRUE(store->Get(KeyOf(1)).ok()) << "a refused write costs no reads";
  replica_->Command({"REPLICAOF", "NO", "ONE"});
  EXPECT_TRUE(Eventually([&] { return store->Put(EntryOf(2)).ok(); }));
}

TEST(RedisSentinel, AFailoverIsFollowed) {
  if (!WhyNoRedis().empty()) GTEST_SKIP() << WhyNoRedis();
  RedisServer master({"--repl-diskless-sync-delay", "0"});
  RedisServer replica(ReplicaOf(master));
  ASSERT_TRUE(Eventually([&] { return HasMaster(replica); }));
  RedisServer sentinel({},
                       "sentinel monitor main 127.0.0.1 " + std::to_string(master.port()) +
                           " 1\nsentinel down-after-milliseconds main 2000\n"
                           "sentinel failover-timeout main 5000\n",
                       /*is_sentinel=*/true);
  const auto unknown = StoreAt("sentinel:other@" + sentinel.address());
  EXPECT_THAT(std::string(unknown->Get(KeyOf(1)).status().message()),
              HasSubstr("the sentinel knows no master other"));
  // No server has the first address.
  const auto store = StoreAt("sentinel:main@127.0.0.1:1," + sentinel.address());
  ASSERT_TRUE(store->Put(EntryOf(1)).ok());
  EXPECT_EQ(master.Text({"EXISTS", "hpu:m:" + ToHex(KeyOf(1))}), "1");
  // The sentinel must know the replica.
  ASSERT_TRUE(Eventually([&] {
    return sentinel.Text({"SENTINEL", "CKQUORUM", "main"}).starts_with("OK") &&
           sentinel.Command({"SENTINEL", "REPLICAS", "main"}).elements.size() == 1 &&
           replica.Text({"EXISTS", "hpu:i"}) == "1";
  }));
  master.Kill();
  EXPECT_TRUE(absl::IsUnavailable(store->Put(EntryOf(2))));
  EXPECT_TRUE(Eventually([&] { return store->Put(EntryOf(2)).ok(); }));
  EXPECT_TRUE(SameEntry(store->Get(KeyOf(1)).value(), EntryOf(1)));
  EXPECT_EQ(replica.Text({"EXISTS", "hpu:m:" + ToHex(KeyOf(2))}), "1");
}

class RedisCluster : public testing::Test {
 protected:
  static constexpr size_t kNodes = 3;

  void SetUp() override {
    if (!WhyNoRedis().empty()) GTEST_SKIP() << WhyNoRedis();
    std::string addresses;
    for (size_t i = 0; i < kNodes; ++i) {
      nodes_.push_back(std::make_unique<RedisServer>(
          std::vector<std::string>{"--cluster-enabled", "yes", "--cluster-node-timeout", "60000",
                                   "--cluster-require-full-coverage", "no"}));
      addresses += " " + nodes_.back()->address();
    }
    ASSERT_EQ(
        std::system(
            ("redis-cli --cluster create" + addresses + " --cluster-yes >/dev/null 2>&1").c_str()),
        0);
    ASSERT_TRUE(Eventually([&] {
      for (const auto& node : nodes_) {
        if (node->Text({"CLUSTER", "INFO"}).find("cluster_state:ok") == std::string::npos) {
          return false;
        }
      }
      return true;
    }));
    store_ = StoreAt(nodes_[1]->address());
  }
  // Returns the node that serves a key, by asking all of them.
  size_t OwnerOf(const std::string& key) const {
    for (size_t i = 0; i < kNodes; ++i) {
      if (!nodes_[i]->Command({"EXISTS", key}).is_error()) return i;
    }
    return kNodes;
  }
  std::string IdOf(size_t node) const { return nodes_[node]->Text({"CLUSTER", "MYID"}); }
  void SetSlot(size_t node, const std::string& slot, const std::string& state, size_t other) {
    EXPECT_EQ(nodes_[node]->Text({"CLUSTER", "SETSLOT", slot, state, IdOf(other)}), "OK");
  }
  // Moves the keys of a slot. FinishMove says which node owns it.
  void BeginMove(const std::string& slot, size_t from, size_t to) {
    SetSlot(to, slot, "IMPORTING", from);
    SetSlot(from, slot, "MIGRATING", to);
    for (const RedisReply& key :
         nodes_[from]->Command({"CLUSTER", "GETKEYSINSLOT", slot, "100"}).elements) {
      EXPECT_EQ(nodes_[from]->Text({"MIGRATE", "127.0.0.1", std::to_string(nodes_[to]->port()),
                                    key.text(), "0", "2000"}),
                "OK");
    }
  }
  void FinishMove(const std::string& slot, size_t to) {
    SetSlot(to, slot, "NODE", to);
    for (size_t i = 0; i < kNodes; ++i) {
      if (i != to) SetSlot(i, slot, "NODE", to);
    }
  }

  std::vector<std::unique_ptr<RedisServer>> nodes_;
  std::unique_ptr<RedisRecipeStore> store_;
};

TEST_F(RedisCluster, EverythingWorksAndMovingSlotsAreFollowed) {
  for (uint64_t number = 0; number < 20; ++number) {
    ASSERT_TRUE(store_->Put(EntryOf(number, 3, 2000)).ok());
    ASSERT_TRUE(store_->PutAlias(AliasOf(number, number)).ok());
  }
  for (uint64_t number = 0; number < 20; ++number) {
    EXPECT_TRUE(SameEntry(store_->Get(KeyOf(number)).value(), EntryOf(number, 3, 2000)));
    EXPECT_EQ(store_->GetAlias(AliasIdOf(number)).value(), AliasOf(number, number));
  }
  ASSERT_TRUE(store_->Quarantine(KeyOf(19), "test").ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(19)).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->GetAlias(AliasIdOf(19)).status()));
  for (const auto& node : nodes_) EXPECT_GT(std::stoi(node->Text({"DBSIZE"})), 10) << "spread";
  EXPECT_EQ(CounterOf(*store_, "redis.redirects"), 0u) << "each key is asked for where it is";

  // Half way, the keys are there and the slot is not.
  const std::string manifest = "hpu:m:" + ToHex(KeyOf(1));
  const std::string slot = std::to_string(RedisSlot(manifest));
  const size_t from = OwnerOf(manifest);
  ASSERT_LT(from, kNodes);
  const size_t to = (from + 1) % kNodes;
  BeginMove(slot, from, to);
  EXPECT_TRUE(SameEntry(store_->Get(KeyOf(1)).value(), EntryOf(1, 3, 2000)));
  EXPECT_EQ(CounterOf(*store_, "redis.redirects"), 1u) << "ASK";
  EXPECT_TRUE(store_->Get(KeyOf(1)).ok());
  EXPECT_EQ(CounterOf(*store_, "redis.redirects"), 2u) << "ASK is for once";
  EXPECT_TRUE(store_->Put(EntryOf(1, 3, 2000)).ok());
  EXPECT_EQ(nodes_[to]->Text({"CLUSTER", "COUNTKEYSINSLOT", slot}), "1");
  FinishMove(slot, to);
  const uint64_t asked = CounterOf(*store_, "redis.redirects");
  const uint64_t discoveries = CounterOf(*store_, "redis.discoveries");
  EXPECT_TRUE(SameEntry(store_->Get(KeyOf(1)).value(), EntryOf(1, 3, 2000)));
  EXPECT_EQ(CounterOf(*store_, "redis.redirects"), asked + 1) << "MOVED";
  // After MOVED the client asks for the slots, at once or a moment later.
  EXPECT_TRUE(Eventually([&] {
    EXPECT_TRUE(store_->Get(KeyOf(1)).ok());
    return CounterOf(*store_, "redis.discoveries") > discoveries;
  }));
  const uint64_t known = CounterOf(*store_, "redis.redirects");
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(store_->Get(KeyOf(1)).ok());
  EXPECT_EQ(CounterOf(*store_, "redis.redirects"), known) << "MOVED is for good";
}

TEST_F(RedisCluster, ReadersNeverSeeAMovingSlotAndALostNodeCostsItsKeysOnly) {
  for (uint64_t number = 0; number < 6; ++number) {
    ASSERT_TRUE(store_->Put(EntryOf(number, 2, 2000)).ok());
  }
  std::atomic<bool> stop{false};
  std::atomic<int> reads{0};
  std::atomic<int> wrong{0};
  std::thread reader([&] {
    for (uint64_t i = 0; !stop; ++i) {
      const absl::StatusOr<Entry> found = store_->Get(KeyOf(i % 6));
      ++reads;
      if (found.ok() && SameEntry(*found, EntryOf(i % 6, 2, 2000))) continue;
      ++wrong;
      ADD_FAILURE() << found.status();
    }
  });
  for (uint64_t number = 0; number < 6; ++number) {
    const std::string manifest = "hpu:m:" + ToHex(KeyOf(number));
    const std::string slot = std::to_string(RedisSlot(manifest));
    const size_t from = OwnerOf(manifest);
    ASSERT_LT(from, kNodes);
    const uint64_t redirects = CounterOf(*store_, "redis.redirects");
    BeginMove(slot, from, (from + 1) % kNodes);
    EXPECT_TRUE(Eventually([&] { return CounterOf(*store_, "redis.redirects") > redirects; }))
        << "the reader comes by";
    FinishMove(slot, (from + 1) % kNodes);
  }
  stop = true;
  reader.join();
  EXPECT_GE(reads, 6) << "each move was seen by a read";
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(CounterOf(*store_, "redis.redirects"), 6u);

  RedisLeaseKeeper leases(RedisClient::Make(TestOptions(nodes_[0]->address())).value());
  EXPECT_TRUE(leases.TryTake(KeyOf(1), "a", milliseconds(1000)).ok()) << "one slot for its keys";

  // One node is lost, without replicas. Entries that are elsewhere are served.
  nodes_[1]->Kill();  // the store was given its address
  int served = 0;
  for (uint64_t number = 0; number < 60; ++number) {
    served += store_->Put(EntryOf(number, {BytesOf(number, 10)}, 1)).ok() &&
              store_->Get(KeyOf(number)).ok();
  }
  EXPECT_GT(served, 10);
  EXPECT_LT(served, 60);
}

}  // namespace
}  // namespace hpu::store
