// Two servers: `server_` belongs to the cluster, and `daemon_` is a user's server that asks it.
#include <signal.h>

#include <thread>

#include "tests/service/network_testing.h"

namespace hpu::server {
namespace {

using client::ByFrontEndKey;
using client::Endpoint;

class UpstreamTest : public NetworkTest {
 protected:
  void SetUp() override {
    NetworkTest::SetUp();
    ASSERT_EQ(mkdir(folder_.path("keys").c_str(), 0700), 0);
    Trust("cluster.pub");
    daemon_options_ = options_;
    daemon_options_.socket_path = folder_.path("daemon.sock");
    daemon_options_.store.folder = folder_.path("daemon-store");
    daemon_options_.store.trusted_keys = folder_.path("keys");
    daemon_options_.network = {};
    daemon_options_.upstream.endpoints = options_.network.listen;
    daemon_options_.upstream.access = OptionsOf("worker").servers.access;
    daemon_options_.upstream.fetch_timeout = kTimeout;
    StartDaemon();
  }
  void Trust(const std::string& name) const {
    const auto own = store::ReadKeyring(options_.socket_path + ".pub");
    ASSERT_TRUE(store::WritePublicKey(folder_.path("keys/" + name), own->keys()[0]).ok());
  }
  void StartDaemon() { daemon_ = CompileServer::Start(daemon_options_).value(); }
  client::RpcClient AtDaemon() const {
    client::RpcClient::Options options = client::LocalServer(daemon_options_.socket_path);
    options.call_timeout = kTimeout;
    return client::RpcClient(std::move(options));
  }
  absl::StatusOr<Compiled> CompileAtDaemon(uint64_t key, const std::string& name) {
    return AtDaemon().Compile(CallFor(key, name), kTimeout, kNoProgress, kNoInterrupt);
  }
  uint64_t DaemonCounter(const std::string& name) {
    return AtDaemon().Stats(kNoInterrupt).value().at(name);
  }

  ServerOptions daemon_options_;
  std::unique_ptr<CompileServer> daemon_;
};

TEST_F(UpstreamTest, WhatOneHostHadCompiledTheNextOneFinds) {
  const absl::StatusOr<Compiled> first = CompileAtDaemon(1, "quick");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->origin, Origin::kCompiled);
  EXPECT_EQ(Counter("compile.compiled"), 1u);
  EXPECT_EQ(DaemonCounter("compile.compiled"), 0u);
  EXPECT_EQ(DaemonCounter("upstream.compiled"), 1u);
  // Another host has an empty store and the same cluster.
  daemon_.reset();
  daemon_options_.store.folder = folder_.path("other-store");
  StartDaemon();
  const auto found = AtDaemon().Get(ByFrontEndKey{DigestOf(1)}, kNoInterrupt);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(store::SameEntry(found->entry, first->entry));
  EXPECT_EQ(found->alias->alias.tenant, "local") << "here it is the user's own name";
  EXPECT_EQ(found->alias->alias.label, "label quick");
  EXPECT_EQ(DaemonCounter("upstream.hits"), 1u);
  // From now on it is local, with or without the cluster.
  server_.reset();
  EXPECT_TRUE(AtDaemon().Get(ByFrontEndKey{DigestOf(1)}, kNoInterrupt).ok());
  EXPECT_EQ(compiles(), 1u);
}

TEST_F(UpstreamTest, ALostClusterIsADelayAndHeals) {
  server_.reset();
  const absl::StatusOr<Compiled> compiled = CompileAtDaemon(1, "quick");
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(DaemonCounter("compile.compiled"), 1u);
  EXPECT_GE(DaemonCounter("upstream.failures"), 1u);
  ASSERT_TRUE(CompileAtDaemon(2, "another").ok());
  Start();
  Trust("cluster.pub");
  uint64_t key = 3;
  EXPECT_TRUE(Eventually([&] {
    EXPECT_TRUE(CompileAtDaemon(key, "graph " + std::to_string(key)).ok());
    ++key;
    return DaemonCounter("upstream.compiled") > 0;
  }));
  EXPECT_EQ(DaemonCounter("upstream.compiled"), 1u);
}

// Accepts connections and never answers.
class SilentServer {
 public:
  SilentServer() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const at = reinterpret_cast<sockaddr*>(&address);
    HPU_CHECK(bind(socket_, at, size) == 0 && listen(socket_, 16) == 0, "no port is free");
    HPU_CHECK(getsockname(socket_, at, &size) == 0, "the socket has no name");
    port_ = ntohs(address.sin_port);
  }
  ~SilentServer() { close(socket_); }
  Endpoint endpoint() const { return {Endpoint::Kind::kTcp, "127.0.0.1:" + std::to_string(port_)}; }

 private:
  const int socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int port_ = 0;
};

TEST_F(UpstreamTest, AServerThatAcceptsAndSaysNothingIsPassedOver) {
  const SilentServer silent;
  daemon_.reset();
  daemon_options_.upstream.endpoints = {silent.endpoint(), options_.network.listen[0]};
  daemon_options_.upstream.fetch_timeout = milliseconds(1500);
  StartDaemon();
  ASSERT_TRUE(CompileAtDaemon(1, "quick").ok());
  EXPECT_EQ(DaemonCounter("upstream.compiled"), 1u) << "by the second server";
}

TEST_F(UpstreamTest, AServerThatSaysNothingIsNotWaitedFor) {
  const SilentServer silent;
  daemon_.reset();
  daemon_options_.upstream.endpoints = {silent.endpoint()};
  daemon_options_.upstream.fetch_timeout = 2 * kTimeout;
  daemon_options_.upstream.hedge_after = milliseconds(100);
  StartDaemon();
  EXPECT_FALSE(AtDaemon().Get(ByFrontEndKey{DigestOf(1)}, kNoInterrupt).ok());
  ASSERT_TRUE(CompileAtDaemon(1, "quick").ok());
  EXPECT_EQ(DaemonCounter("compile.hedged"), 1u);
  EXPECT_EQ(DaemonCounter("upstream.hedged"), 1u);
}

TEST_F(UpstreamTest, AServerThatCompilesIsWaitedFor) {
  daemon_.reset();
  daemon_options_.upstream.hedge_after = milliseconds(2000);
  StartDaemon();
  ASSERT_TRUE(CompileAtDaemon(1, "sleep:2500").ok()) << "longer than it waits for a sign of life";
  EXPECT_EQ(DaemonCounter("upstream.compiled"), 1u);
  EXPECT_EQ(DaemonCounter("compile.hedged"), 0u) << "it says that it works";
  EXPECT_EQ(compiles(), 1u);
}

TEST_F(UpstreamTest, AProgramOfAKeyThatIsNotTrustedIsCompiledHere) {
  ASSERT_EQ(rename(folder_.path("keys/cluster.pub").c_str(),
                   folder_.path("keys/cluster.revoked").c_str()),
            0);
  daemon_.reset();
  StartDaemon();
  const absl::StatusOr<Compiled> compiled = CompileAtDaemon(1, "quick");
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(compiles(), 2u) << "there, and because that is not believed, here";
  EXPECT_EQ(DaemonCounter("upstream.compiled"), 0u);
  const auto keys = store::ReadKeyring(daemon_options_.socket_path + ".pub");
  EXPECT_TRUE(keys->Trusts(compiled->entry.signed_manifest.public_key));
  EXPECT_EQ(keys->keys().size(), 1u);
}

TEST_F(UpstreamTest, ARevokedKeyIsRefusedWhileTheDaemonRuns) {
  ASSERT_TRUE(CompileAtDaemon(1, "quick").ok());
  std::thread waiting([&] { daemon_->WaitForStopRequest(); });
  Trust("cluster.revoked");
  absl::Status refused;
  EXPECT_TRUE(Eventually([&] {
    refused = AtDaemon().Get(ByFrontEndKey{DigestOf(1)}, kNoInterrupt).status();
    return !refused.ok();
  }));
  EXPECT_THAT(ToText(refused), testing::HasSubstr("PERMISSION_DENIED: manifest is signed by key"));
  // This is what a client does then.
  client::CompileCall anew = CallFor(1, "quick");
  anew.skip_cache_lookup = true;
  EXPECT_TRUE(AtDaemon().Compile(anew, kTimeout, kNoProgress, kNoInterrupt).ok());
  EXPECT_TRUE(AtDaemon().Get(ByFrontEndKey{DigestOf(1)}, kNoInterrupt).ok());
  daemon_->RequestStop("test");
  waiting.join();
}

TEST_F(UpstreamTest, OtherCompilersProgramsAreNotTaken) {
  daemon_.reset();
  daemon_options_.build_id = "build two";
  StartDaemon();
  ASSERT_TRUE(CompileAtDaemon(1, "quick").ok());
  EXPECT_EQ(DaemonCounter("compile.compiled"), 1u);
  EXPECT_EQ(Counter("compile.compiled"), 0u) << "nothing is compiled for nobody";
}

TEST_F(UpstreamTest, AServerOfAnotherBuildIsPassedOverForTheNext) {
  ServerOptions old = options_;
  old.socket_path = folder_.path("old.sock");
  old.store.folder = folder_.path("old-store");
  old.build_id = "build zero";
  old.network.listen = {{Endpoint::Kind::kTcp, "127.0.0.1:" + std::to_string(FreePort())}};
  const std::unique_ptr<CompileServer> before = CompileServer::Start(old).value();
  daemon_.reset();
  daemon_options_.upstream.endpoints = {old.network.listen[0], options_.network.listen[0]};
  StartDaemon();
  ASSERT_TRUE(CompileAtDaemon(1, "quick").ok());
  EXPECT_EQ(DaemonCounter("upstream.compiled"), 1u);
  EXPECT_EQ(Counter("compile.compiled"), 1u);
}

TEST_F(UpstreamTest, AVerdictIsTheVerdictHereToo) {
  const absl::Status verdict = CompileAtDaemon(1, "unimplemented").status();
  EXPECT_TRUE(absl::IsUnimplemented(verdict)) << verdict;
  EXPECT_EQ(DaemonCounter("compile.compiled"), 0u);
  EXPECT_TRUE(absl::IsUnimplemented(CompileAtDaemon(1, "unimplemented").status()));
  EXPECT_EQ(DaemonCounter("compile.negative_hits"), 1u);
}

TEST_F(UpstreamTest, EightRanksAreOneRequest) {
  std::vector<std::thread> ranks;
  std::atomic<int> good{0};
  for (int rank = 0; rank < 8; ++rank) {
    ranks.emplace_back([&] { good += CompileAtDaemon(1, Held()).ok() ? 1 : 0; });
  }
  EXPECT_TRUE(Eventually([&] { return DaemonCounter("compile.coalesced") == 7; }));
  Release();
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(good, 8);
  EXPECT_EQ(Counter("compile.requests"), 1u);
  EXPECT_EQ(compiles(), 1u);
}

}  // namespace
}  // namespace hpu::server
