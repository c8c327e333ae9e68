// Three servers that share one Redis engine.
#include "recipe_store/redis/redis_lease.h"
#include "tests/service/shared_store_testing.h"

namespace hpu::server {
namespace {

TEST_F(SharedStoreTest, OneCompilationPerKeyWhateverServerIsAsked) {
  constexpr int kKeys = 6;
  ExpectOneCompilationOfEach(kKeys);
}

TEST_F(SharedStoreTest, AServerWithoutAStoreOfItsOwnFindsWhatAnotherCompiled) {
  const absl::StatusOr<Compiled> made = CompileAt(0, 1, "quick");
  ASSERT_TRUE(made.ok()) << made.status();
  const absl::StatusOr<client::Fetched> found = FetchAt(1, 1);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(store::SameEntry(found->entry, made->entry));
  EXPECT_EQ(CounterAt(1, "shared.hits"), 1u);
  // Now the program is local: neither the engine nor the other server is needed.
  redis_->Kill();
  client::RpcClient client(client::LocalServer(SocketOf(1)));
  EXPECT_TRUE(client.Get(client::ByFrontEndKey{DigestOf(1)}, kNoInterrupt).ok());
  EXPECT_EQ(compiles(), 1u);
}

TEST_F(SharedStoreTest, TheDeathOfWhoCompilesFreesTheKey) {
  // This is the lease of a server that died; its end comes when the test wants it.
  const auto client = store::RedisClient::Make(*options_.store.redis).value();
  store::RedisLeaseKeeper dead(client);
  const Digest key = ContentKeyOf("quick");
  absl::StatusOr<store::Lease> lease = dead.TryTake(key, "a server that died", 10 * kTimeout);
  ASSERT_TRUE(lease.ok()) << lease.status();
  std::thread compiling([&] { EXPECT_TRUE(CompileAt(1, 1, "quick").ok()); });
  EXPECT_TRUE(Eventually([&] { return CounterAt(1, "lease.waited") == 1; }));
  EXPECT_EQ(compiles(), 0u);
  ASSERT_TRUE(dead.Renew(*lease, milliseconds(1)).ok());
  compiling.join();
  EXPECT_EQ(CounterAt(1, "lease.taken"), 1u);
  EXPECT_EQ(CounterAt(1, "lease.waited"), 1u);
  EXPECT_EQ(compiles(), 1u);
}

TEST_F(SharedStoreTest, ALostEngineIsADelayAndHeals) {
  redis_->Kill();
  for (int server = 0; server < kServers; ++server) {
    ASSERT_TRUE(CompileAt(server, 1, "quick").ok());
  }
  EXPECT_EQ(compiles(), 3u) << "each for itself";
  EXPECT_EQ(Sum("lease.without"), 3u);
  EXPECT_EQ(Sum("redis.timeouts"), 0u);
  redis_->Start();
  uint64_t key = 2;
  EXPECT_TRUE(Eventually([&] {
    EXPECT_TRUE(CompileAt(0, key, "graph " + std::to_string(key)).ok());
    ++key;
    return Sum("lease.taken") > 0;
  }));
}

TEST_F(SharedStoreTest, AServerThatStopsHandsItsProgramsOver) {
  ASSERT_TRUE(CompileAt(0, 1, "size:3000000").ok());
  server_.reset();
  client::RpcClient client(client::LocalServer(SocketOf(1)));
  EXPECT_TRUE(client.Get(client::ByFrontEndKey{DigestOf(1)}, kNoInterrupt).ok());
  EXPECT_EQ(compiles(), 1u);
}

}  // namespace
}  // namespace hpu::server
