// Three servers that share one engine.
#pragma once

#include <sys/stat.h>

#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "tests/service/service_testing.h"
#include "tests/store/redis_server.h"

namespace hpu::server {

inline constexpr int kServers = 3;

class SharedStoreTest : public ServiceTest {
 protected:
  void SetUp() override {
    if (const std::string why = store::WhyNoRedis(); !why.empty()) GTEST_SKIP() << why;
    redis_.emplace();
    options_.store.redis = store::TestOptions(redis_->address());
    StartServers();
  }
  void StartServers() {
    ASSERT_EQ(mkdir(folder_.path("keys").c_str(), 0700), 0);
    options_.store.trusted_keys = folder_.path("keys");
    ServiceTest::SetUp();
    for (int i = 1; i < kServers; ++i) StartMore(i);
    // All servers trust each other.
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
  // Compiles each of `keys` graphs, by several clients of each server, all of which ask before one
  // is answered. `before_release` runs when all have asked.
  void CompileAllEverywhere(int keys, const std::function<void()>& before_release = [] {}) {
    constexpr int kClients = 4;
    std::vector<std::thread> clients;
    std::atomic<int> good{0};
    const uint64_t before = Sum("compile.requests");
    for (int client = 0; client < kClients; ++client) {
      for (int server = 0; server < kServers; ++server) {
        for (int key = 1; key <= keys; ++key) {
          clients.emplace_back([this, server, key, &good] {
            const auto compiled = CompileAt(server, key, Held(std::to_string(key)));
            good += compiled.ok() ? 1 : 0;
          });
        }
      }
    }
    const uint64_t asked = keys * kServers * kClients;
    EXPECT_TRUE(Eventually([&] { return Sum("compile.requests") >= before + asked; }));
    before_release();
    Release();
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(good, keys * kServers * kClients);
  }
  // Compiles them, where leases are shared: each key has one lease while all servers want it, and
  // one compilation. Later a server may look just before the program arrives and take the lease
  // just after it was given back; it then finds the program.
  void ExpectOneCompilationOfEach(int keys) {
    const auto count = static_cast<uint64_t>(keys);
    CompileAllEverywhere(keys, [&] {
      EXPECT_TRUE(
          Eventually([&] { return Sum("lease.taken") + Sum("lease.waited") == count * kServers; }));
      EXPECT_EQ(Sum("lease.taken"), count);
    });
    EXPECT_EQ(compiles(), count);
    EXPECT_EQ(Sum("compile.compiled"), count);
  }
  // Waits until it is there, because shared programs are written in the background.
  absl::StatusOr<client::Fetched> FetchAt(int i, uint64_t key) {
    absl::StatusOr<client::Fetched> found = absl::UnknownError("");
    EXPECT_TRUE(Eventually([&] {
      client::RpcClient client(client::LocalServer(SocketOf(i)));
      found = client.Get(client::ByFrontEndKey{DigestOf(key)}, kNoInterrupt);
      return found.ok();
    }));
    return found;
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

}  // namespace hpu::server
