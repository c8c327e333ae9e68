// Three servers that share one Redis engine.
#include "recipe_store/redis/redis_lease.h"
#include "tests/service/shared_store_testing.h"

namespace hpu::server {
namespace {

TEST_F(SharedStoreTest, OneCompilationPerKeyWhateverServerIsAsked) {
  constexpr int kKeys = 6;
  CompileAllEverywhere(kKeys);
  EXPECT_EQ(compiles(), static_cast<size_t>(kKeys));
  EXPECT_EQ(Sum("compile.compiled"), static_cast<uint64_t>(kKeys));
  EXPECT_EQ(Sum("lease.taken"), static_cast<uint64_t>(kKeys));
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
  // This is the lease of a server that died, so nobody renews it.
  const auto client = store::RedisClient::Make(*options_.store.redis).value();
  store::RedisLeaseKeeper dead(client);
  const Digest key = ContentKeyOf("quick");
  ASSERT_TRUE(dead.TryTake(key, "a server that died", milliseconds(1500)).ok());
  const auto begin = std::chrono::steady_clock::now();
  const absl::StatusOr<Compiled> compiled = CompileAt(1, 1, "quick");
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(took, milliseconds(800));
  EXPECT_LT(took, milliseconds(6000));
  EXPECT_EQ(CounterAt(1, "lease.waited"), 1u);
  EXPECT_EQ(compiles(), 1u);
}

TEST_F(SharedStoreTest, ALostEngineIsADelayAndHeals) {
  redis_->Kill();
  const auto begin = std::chrono::steady_clock::now();
  for (int server = 0; server < kServers; ++server) {
    ASSERT_TRUE(CompileAt(server, 1, "quick").ok());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(6));
  EXPECT_EQ(compiles(), 3u) << "each for itself";
  redis_->Start();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const uint64_t before = Sum("lease.taken");
  for (uint64_t key = 2; Sum("lease.taken") == before; ++key) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    ASSERT_TRUE(CompileAt(0, key, "graph " + std::to_string(key)).ok());
    std::this_thread::sleep_for(milliseconds(200));
  }
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
