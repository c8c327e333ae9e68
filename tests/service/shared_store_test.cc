// Three servers over one Redis engine.
#include <sys/stat.h>

#include <thread>

#include "recipe_store/redis_lease.h"
#include "tests/service/service_testing.h"
#include "tests/store/redis_server.h"

namespace hpu::server {
namespace {

constexpr int kServers = 3;

class SharedStoreTest : public ServiceTest {
 protected:
  void SetUp() override {
    if (const std::string why = store::WhyNoRedis(); !why.empty()) GTEST_SKIP() << why;
    redis_.emplace();
    ASSERT_EQ(mkdir(folder_.path("keys").c_str(), 0700), 0);
    options_.store.redis = store::TestOptions(redis_->address());
    options_.store.trusted_keys = folder_.path("keys");
    ServiceTest::SetUp();
    for (int i = 1; i < kServers; ++i) StartMore(i);
    // All trust all.
    for (int i = 0; i < kServers; ++i) {
      ASSERT_TRUE(store::WritePublicKey(folder_.path("keys/" + std::to_string(i) + ".pub"),
                                        store::ReadKeyring(SocketOf(i) + ".pub")->keys()[0])
                      .ok());
    }
    more_.clear();
    Restart();
    for (int i = 1; i < kServers; ++i) StartMore(i);
  }
  std::string SocketOf(int i) const {
    return i == 0 ? options_.socket_path : folder_.path("server" + std::to_string(i));
  }
  void StartMore(int i) {
    ServerOptions options = options_;
    options.socket_path = SocketOf(i);
    options.store.folder = folder_.path("store" + std::to_string(i));
    more_.push_back(CompileServer::Start(options).value());
  }
  absl::StatusOr<Compiled> CompileAt(int i, uint64_t key, const std::string& name) {
    client::RpcClient::Options options = client::LocalServer(SocketOf(i));
    options.call_timeout = kTimeout;
    return client::RpcClient(options).Compile(CallFor(key, name), kTimeout, kNoProgress,
                                              kNoInterrupt);
  }
  uint64_t CounterAt(int i, const std::string& name) {
    client::RpcClient client(client::LocalServer(SocketOf(i)));
    return client.Stats(kNoInterrupt).value().at(name);
  }
  uint64_t Sum(const std::string& name) {
    uint64_t sum = 0;
    for (int i = 0; i < kServers; ++i) sum += CounterAt(i, name);
    return sum;
  }

  std::optional<store::RedisServer> redis_;
  std::vector<std::unique_ptr<CompileServer>> more_;
};

TEST_F(SharedStoreTest, OneCompilationPerKeyWhateverServerIsAsked) {
  constexpr int kKeys = 6;
  constexpr int kClients = 4;  // for each key at each server
  std::vector<std::thread> clients;
  std::atomic<int> good{0};
  for (int client = 0; client < kClients; ++client) {
    for (int server = 0; server < kServers; ++server) {
      for (int key = 1; key <= kKeys; ++key) {
        clients.emplace_back([this, server, key, &good] {
          const auto compiled = CompileAt(server, key, "sleep:20" + std::to_string(key));
          good += compiled.ok() ? 1 : 0;
        });
      }
    }
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, kKeys * kServers * kClients);
  EXPECT_EQ(compiles(), static_cast<size_t>(kKeys));
  EXPECT_EQ(Sum("compile.compiled"), static_cast<uint64_t>(kKeys));
  EXPECT_EQ(Sum("lease.taken"), static_cast<uint64_t>(kKeys));
}

TEST_F(SharedStoreTest, AServerWithoutAStoreOfItsOwnFindsWhatAnotherCompiled) {
  const absl::StatusOr<Compiled> made = CompileAt(0, 1, "quick");
  ASSERT_TRUE(made.ok()) << made.status();
  const auto deadline = std::chrono::steady_clock::now() + kTimeout;
  absl::StatusOr<client::Fetched> found = absl::UnknownError("");
  while (!found.ok() && std::chrono::steady_clock::now() < deadline) {
    client::RpcClient client(client::LocalServer(SocketOf(1)));
    found = client.Get(client::ByFrontEndKey{DigestOf(1)}, kNoInterrupt);
  }
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(store::SameEntry(found->entry, made->entry));
  EXPECT_EQ(CounterAt(1, "shared.hits"), 1u);
  // Now it is near: neither the engine nor the other server is needed.
  redis_->Kill();
  client::RpcClient client(client::LocalServer(SocketOf(1)));
  EXPECT_TRUE(client.Get(client::ByFrontEndKey{DigestOf(1)}, kNoInterrupt).ok());
  EXPECT_EQ(compiles(), 1u);
}

TEST_F(SharedStoreTest, TheDeathOfWhoCompilesFreesTheKey) {
  // The lease of a server that died: nobody renews it.
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
