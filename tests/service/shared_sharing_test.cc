// Tenants that do not share, at two servers with one engine.
#include "tests/service/network_testing.h"
#include "tests/store/fake_remote_cache.h"
#include "tests/store/redis_server.h"

namespace hpu::server {
namespace {

enum class Engine { kRedis, kRemoteCache };

class SharingEngineTest : public NetworkTest, public testing::WithParamInterface<Engine> {
 protected:
  void SetUp() override {
    if (GetParam() == Engine::kRedis) {
      if (const std::string why = store::WhyNoRedis(); !why.empty()) GTEST_SKIP() << why;
      redis_.emplace();
      options_.store.redis = store::TestOptions(redis_->address());
    } else {
      cache_.emplace();
      options_.store.remote_cache = store::TestOptionsOf(cache_->address());
    }
    options_.store.trusted_keys = folder_.path("keys");
    ASSERT_EQ(mkdir(options_.store.trusted_keys.c_str(), 0700), 0);
    NetworkTest::SetUp();
    ServerOptions other = options_;
    other.socket_path = folder_.path("other.sock");
    other.store.folder = folder_.path("other");
    other.network.listen[0].target = "127.0.0.1:" + std::to_string(FreePort());
    other_ = CompileServer::Start(other).value();
    addresses_ = {options_.network.listen[0], other.network.listen[0]};
    Trust(options_.socket_path, "first");
    Trust(other.socket_path, "other");
    other_.reset();
    Restart();
    other_ = CompileServer::Start(other).value();
  }
  void Trust(const std::string& socket, const std::string& name) const {
    ASSERT_TRUE(store::WritePublicKey(folder_.path("keys/" + name + ".pub"),
                                      store::ReadKeyring(socket + ".pub")->keys()[0])
                    .ok());
  }
  client::RpcClient At(size_t server, const std::string& name) const {
    client::RpcClient::Options options = OptionsOf(name);
    options.servers.endpoints = {addresses_[server]};
    options.call_timeout = kTimeout;
    return client::RpcClient(std::move(options));
  }
  absl::StatusOr<Compiled> CompileAt(size_t server, const std::string& name, uint64_t key,
                                     const std::string& graph, bool frozen = false) {
    client::CompileCall call = CallFor(key, graph);
    call.frozen = frozen;
    return At(server, name).Compile(call, kTimeout, kNoProgress, kNoInterrupt);
  }
  // Waits for what is written in the background.
  absl::StatusOr<Compiled> FindAt(size_t server, const std::string& name, uint64_t key,
                                  const std::string& graph) {
    absl::StatusOr<Compiled> found = absl::UnknownError("");
    EXPECT_TRUE(Eventually([&] {
      found = CompileAt(server, name, key, graph, /*frozen=*/true);
      return found.ok();
    }));
    return found;
  }

  std::optional<store::RedisServer> redis_;
  std::optional<store::FakeRemoteCache> cache_;
  std::unique_ptr<CompileServer> other_;
  std::vector<client::Endpoint> addresses_;
};

TEST_P(SharingEngineTest, AProgramIsFoundThereByWhoHadItCompiledOnly) {
  ASSERT_TRUE(CompileAt(0, "worker", 1, "quick").ok());
  const absl::StatusOr<Compiled> found = FindAt(1, "worker", 2, "quick");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->origin, Origin::kStore);
  EXPECT_EQ(compiles(), 1u);
  for (size_t server : {0u, 1u}) {
    EXPECT_TRUE(absl::IsNotFound(CompileAt(server, "stranger", 1, "quick", true).status()));
    const auto by_name =
        At(server, "stranger").Get(client::ByFrontEndKey{DigestOf(1)}, kNoInterrupt);
    EXPECT_TRUE(absl::IsNotFound(by_name.status()));
  }
  EXPECT_EQ(CompileAt(1, "stranger", 1, "quick")->origin, Origin::kCompiled);
  EXPECT_EQ(compiles(), 2u);
  EXPECT_TRUE(FindAt(0, "stranger", 3, "quick").ok());
  EXPECT_TRUE(FindAt(0, "worker", 4, "quick").ok());
  EXPECT_EQ(compiles(), 2u);
}

TEST_P(SharingEngineTest, ATenantDoesNotWaitForAnothersCompilation) {
  std::array<Origin, 3> origins{};
  std::vector<std::thread> threads;
  const auto compile = [&](size_t i, size_t server, const char* name) {
    threads.emplace_back(
        [&, i, server, name] { origins[i] = CompileAt(server, name, i, Held())->origin; });
  };
  compile(0, 0, "worker");
  EXPECT_TRUE(Eventually([&] { return compiles() == 1; }));
  compile(1, 1, "stranger");
  EXPECT_TRUE(Eventually([&] { return compiles() == 2; }));
  compile(2, 1, "worker");
  EXPECT_TRUE(Eventually([&] {
    if (!redis_.has_value()) return compiles() == 3;
    return At(1, "operator").Stats(kNoInterrupt)->at("lease.waited") == 1;
  }));
  Release();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(origins[0], Origin::kCompiled);
  EXPECT_EQ(origins[1], Origin::kCompiled);
  // Redis holds the leases.
  EXPECT_EQ(origins[2], redis_.has_value() ? Origin::kStore : Origin::kCompiled);
}

INSTANTIATE_TEST_SUITE_P(Engines, SharingEngineTest,
                         testing::Values(Engine::kRedis, Engine::kRemoteCache),
                         [](const testing::TestParamInfo<Engine>& test) {
                           return test.param == Engine::kRedis ? "Redis" : "RemoteCache";
                         });

}  // namespace
}  // namespace hpu::server
