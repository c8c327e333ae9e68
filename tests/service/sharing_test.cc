// Tests what a tenant learns about programs that were compiled for another tenant: everything if
// the operator allows it (--share-programs all), and otherwise nothing.
#include <gmock/gmock.h>

#include <ctime>
#include <thread>

#include "tests/service/network_testing.h"

namespace hpu::server {
namespace {

using client::ByContentKey;
using client::ByFrontEndKey;
using testing::ElementsAre;
using testing::IsEmpty;

// `worker` and `reader` belong to one tenant, `stranger` to another.
class SharingTest : public NetworkTest {
 protected:
  absl::StatusOr<Compiled> CompileAs(const std::string& name, client::CompileCall call) {
    return client::RpcClient(OptionsOf(name)).Compile(call, kTimeout, kNoProgress, kNoInterrupt);
  }
  Origin CompileAs(const std::string& name, uint64_t key, const std::string& graph) {
    return CompileAs(name, CallFor(key, graph)).value().origin;
  }
  // Answers from the store, or fails.
  absl::StatusCode FindAs(const std::string& name, const std::string& graph) {
    client::CompileCall call = CallFor(1000, graph);
    call.frozen = true;
    call.front_end.reset();
    return CompileAs(name, call).status().code();
  }
  absl::StatusCode GetAs(const std::string& name, const Digest& front_end_key) {
    client::RpcClient client(OptionsOf(name));
    return client.Get(ByFrontEndKey{front_end_key}, kNoInterrupt).status().code();
  }
  std::vector<client::Listed> ListAs(const std::string& name, uint32_t limit = 0) {
    client::RpcClient client(OptionsOf(name));
    return ListAll(client, limit).value();
  }
  void ShareAll() {
    options_.share_programs = true;
    Restart();
  }
};

constexpr auto kMiss = absl::StatusCode::kNotFound;
constexpr auto kHit = absl::StatusCode::kOk;

TEST_F(SharingTest, ATenantIsGivenWhatItHadCompiledAndNothingElse) {
  EXPECT_EQ(CompileAs("worker", 1, "quick"), Origin::kCompiled);
  EXPECT_EQ(FindAs("worker", "quick"), kHit) << "by its content, without a name";
  EXPECT_EQ(FindAs("stranger", "quick"), kMiss);
  EXPECT_EQ(GetAs("stranger", DigestOf(1)), kMiss);
  EXPECT_EQ(GetAs("stranger", ContentKeyOf("quick")), kMiss) << "as if it had a claim";
  EXPECT_THAT(ListAs("stranger"), IsEmpty());
  EXPECT_EQ(CompileAs("stranger", 1, "quick"), Origin::kCompiled);
  EXPECT_EQ(compiles(), 2u);
  // Both have it now, by any name, and it is stored once.
  EXPECT_EQ(CompileAs("stranger", 2, "quick"), Origin::kStore);
  EXPECT_EQ(CompileAs("worker", 3, "quick"), Origin::kStore);
  EXPECT_EQ(GetAs("reader", DigestOf(3)), kHit) << "of one team";
  EXPECT_EQ(GetAs("reader", DigestOf(2)), kMiss);
  EXPECT_EQ(Counter("rocksdb.entries"), 1u);
  EXPECT_EQ(compiles(), 2u);
}

TEST_F(SharingTest, SharedProgramsAreCompiledOnceForAll) {
  ShareAll();
  EXPECT_EQ(CompileAs("worker", 1, "quick"), Origin::kCompiled);
  EXPECT_EQ(FindAs("stranger", "quick"), kHit);
  EXPECT_EQ(CompileAs("stranger", 1, "quick"), Origin::kStore);
  EXPECT_EQ(compiles(), 1u);
  EXPECT_EQ(Counter("rocksdb.aliases"), 2u) << "names, and no claims";
}

TEST_F(SharingTest, AFrontEndKeyThatLooksLikeAClaimIsNone) {
  EXPECT_EQ(CompileAs("worker", 1, "quick"), Origin::kCompiled);
  client::CompileCall forged = CallFor(2, "another graph");
  forged.front_end->key = ContentKeyOf("quick");
  ASSERT_TRUE(CompileAs("stranger", forged).ok());
  EXPECT_EQ(FindAs("stranger", "quick"), kMiss);
  // Nor does it take away another tenant's claim.
  EXPECT_EQ(FindAs("worker", "quick"), kHit);
}

TEST_F(SharingTest, WhoIsCompilingIsNotTold) {
  std::vector<std::thread> threads;
  std::array<Origin, 4> origins{};
  const std::array<const char*, 4> names{"worker", "worker", "stranger", "stranger"};
  for (size_t i = 0; i < names.size(); ++i) {
    threads.emplace_back([&, i] { origins[i] = CompileAs(names[i], i, Held()); });
  }
  EXPECT_TRUE(Reaches("compile.coalesced", 2));
  Release();
  for (std::thread& thread : threads) thread.join();
  std::ranges::sort(origins.begin(), origins.begin() + 2);
  std::ranges::sort(origins.begin() + 2, origins.end());
  EXPECT_THAT(origins, ElementsAre(Origin::kCompiled, Origin::kCoalesced, Origin::kCompiled,
                                   Origin::kCoalesced));
  EXPECT_EQ(compiles(), 2u);
}

TEST_F(SharingTest, VerdictsAreRememberedForEachTenant) {
  EXPECT_FALSE(CompileAs("worker", CallFor(1, "unimplemented")).ok());
  EXPECT_FALSE(CompileAs("stranger", CallFor(1, "unimplemented")).ok());
  EXPECT_EQ(compiles(), 2u);
  EXPECT_FALSE(CompileAs("worker", CallFor(1, "unimplemented")).ok());
  EXPECT_FALSE(CompileAs("stranger", CallFor(1, "unimplemented")).ok());
  EXPECT_EQ(compiles(), 2u);
}

TEST_F(SharingTest, CompilingAnewTakesNothingFromOthers) {
  EXPECT_EQ(CompileAs("worker", 1, "quick"), Origin::kCompiled);
  client::CompileCall anew = CallFor(1, "quick");
  anew.skip_cache_lookup = true;
  ASSERT_TRUE(CompileAs("stranger", anew).ok());
  EXPECT_EQ(compiles(), 2u);
  EXPECT_EQ(GetAs("worker", DigestOf(1)), kHit);
  EXPECT_EQ(FindAs("worker", "quick"), kHit);
}

TEST_F(SharingTest, ATenantKeepsItsProgramsOverARestartAndLosesThemByEviction) {
  EXPECT_EQ(CompileAs("worker", 1, "quick"), Origin::kCompiled);
  Restart();
  EXPECT_EQ(FindAs("worker", "quick"), kHit);
  EXPECT_EQ(FindAs("stranger", "quick"), kMiss);
  ASSERT_TRUE(Client()->CollectGarbage(0, std::chrono::seconds(0), kTimeout, kNoInterrupt).ok());
  EXPECT_EQ(FindAs("worker", "quick"), kMiss);
  EXPECT_EQ(Counter("rocksdb.aliases"), 0u);
  EXPECT_EQ(CompileAs("worker", 1, "quick"), Origin::kCompiled);
  EXPECT_EQ(FindAs("stranger", "quick"), kMiss) << "that it is there again says nothing to others";
}

TEST_F(SharingTest, TheListShowsATenantItsOwnAndTheOperatorAll) {
  EXPECT_EQ(CompileAs("worker", 1, "first"), Origin::kCompiled);
  EXPECT_EQ(CompileAs("worker", 1, "first"), Origin::kStore);
  EXPECT_EQ(CompileAs("stranger", 1, "first"), Origin::kCompiled);
  const std::time_t first_second = std::time(nullptr);
  EXPECT_TRUE(Eventually([&] { return std::time(nullptr) > first_second; })) << "by whole seconds";
  EXPECT_EQ(CompileAs("stranger", 2, "second"), Origin::kCompiled);
  EXPECT_EQ(CompileAs("stranger", 3, "third"), Origin::kCompiled);
  const std::vector<client::Listed> own = ListAs("worker", 1);
  ASSERT_EQ(own.size(), 1u) << "others' programs do not count";
  EXPECT_EQ(own[0].hits, 1u);
  ASSERT_EQ(own[0].aliases.size(), 1u) << "claims are no names";
  EXPECT_EQ(own[0].aliases[0].label, "label first");
  uint64_t hits_of_stranger = 0;
  for (const client::Listed& listed : ListAs("stranger")) hits_of_stranger += listed.hits;
  EXPECT_EQ(hits_of_stranger, 0u);
  EXPECT_EQ(ListAs("operator").size(), 3u);
  EXPECT_EQ(ListAs("operator", 2).size(), 2u);
  client::RpcClient admin(OptionsOf("operator"));
  EXPECT_TRUE(admin.Get(ByContentKey{ContentKeyOf("second")}, kNoInterrupt).ok());
}

// There is room for three programs of 5 kB, of which a tenant may have two.
class ShareOfStoreTest : public SharingTest {
 protected:
  void SetUp() override {
    options_.store.max_bytes = 21'000;
    options_.store.tenant_bytes = 14'000;
    SharingTest::SetUp();
  }
  static std::string Graph(int number) { return "size:5000 number " + std::to_string(number); }
  // This is what the disk holds; memory keeps more.
  std::vector<int> Kept(const std::string& name) {
    Restart();
    std::vector<int> kept;
    for (int n = 0; n < 10; ++n) {
      if (FindAs(name, Graph(n)) == kHit) kept.push_back(n);
    }
    return kept;
  }
};

TEST_F(ShareOfStoreTest, WhoHasTooMuchLosesItsOwn) {
  EXPECT_EQ(CompileAs("worker", 1, Graph(0)), Origin::kCompiled);
  for (int n = 0; n < 6; ++n) CompileAs("stranger", static_cast<uint64_t>(n), Graph(n));
  EXPECT_EQ(Counter("rocksdb.share_evictions"), 4u);
  EXPECT_LE(Counter("rocksdb.largest_share_bytes"), 14'000u);
  EXPECT_THAT(Kept("stranger"), ElementsAre(4, 5));
  EXPECT_THAT(Kept("worker"), ElementsAre(0)) << "that the stranger had it too took it from nobody";
  // Programs that are used stay.
  EXPECT_EQ(FindAs("stranger", Graph(4)), kHit);
  CompileAs("stranger", 7, Graph(7));
  EXPECT_THAT(Kept("stranger"), ElementsAre(4, 7));
}

TEST_F(ShareOfStoreTest, WhatIsLargerThanAShareIsCompiledAndNotKept) {
  CompileAs("worker", 1, Graph(1));
  CompileAs("stranger", 2, Graph(2));
  EXPECT_EQ(CompileAs("stranger", 3, "size:15000"), Origin::kCompiled);
  EXPECT_THAT(Kept("stranger"), ElementsAre(2));
  EXPECT_THAT(Kept("worker"), ElementsAre(1));
  EXPECT_EQ(FindAs("stranger", "size:15000"), kMiss);
}

TEST_F(ShareOfStoreTest, WhereAllIsSharedEachIsChargedForWhatItUses) {
  options_.share_programs = true;
  Restart();
  for (int n = 0; n < 2; ++n) CompileAs("worker", static_cast<uint64_t>(n), Graph(n));
  CompileAs("operator", 2, Graph(2));
  EXPECT_EQ(Counter("rocksdb.share_evictions"), 0u);
  for (int n = 0; n < 3; ++n) {
    EXPECT_EQ(CompileAs("stranger", static_cast<uint64_t>(n), Graph(n)), Origin::kStore);
  }
  EXPECT_EQ(Counter("rocksdb.share_evictions"), 1u) << "a name of its own";
  EXPECT_EQ(Counter("rocksdb.entries"), 3u) << "which others have too";
}

// To servers upstream, everything that a server asks for belongs to one tenant.
TEST_F(SharingTest, ServersUpstreamAreAskedForTheOwnUserOnly) {
  ServerOptions between = options_;
  between.socket_path = folder_.path("between.sock");
  between.store.folder = folder_.path("between");
  between.store.trusted_keys = folder_.path("keys");
  ASSERT_EQ(mkdir(between.store.trusted_keys.c_str(), 0700), 0);
  ASSERT_TRUE(store::WritePublicKey(folder_.path("keys/cluster.pub"),
                                    store::ReadKeyring(options_.socket_path + ".pub")->keys()[0])
                  .ok());
  between.upstream.endpoints = options_.network.listen;
  between.upstream.access = OptionsOf("worker").servers.access;
  between.network.listen[0].target = "127.0.0.1:" + std::to_string(FreePort());
  const auto server = CompileServer::Start(between).value();
  client::RpcClient own(client::LocalServer(between.socket_path));
  ASSERT_TRUE(own.Compile(CallFor(1, "quick"), kTimeout, kNoProgress, kNoInterrupt).ok());
  EXPECT_EQ(own.Stats(kNoInterrupt)->at("upstream.compiled"), 1u);
  client::RpcClient::Options options = client::LocalServer(between.socket_path);
  options.servers.endpoints = between.network.listen;
  options.servers.access = OptionsOf("stranger").servers.access;
  client::RpcClient stranger(options);
  EXPECT_TRUE(absl::IsNotFound(stranger.Get(ByFrontEndKey{DigestOf(1)}, kNoInterrupt).status()));
  EXPECT_THAT(ListAll(stranger, 0, /*upstream=*/true).value(), IsEmpty());
  EXPECT_EQ(stranger.Compile(CallFor(1, "quick"), kTimeout, kNoProgress, kNoInterrupt)->origin,
            Origin::kCompiled);
  EXPECT_EQ(own.Stats(kNoInterrupt)->at("compile.compiled"), 1u) << "here, not upstream";
  EXPECT_EQ(own.Stats(kNoInterrupt)->at("upstream.misses"), 0u);
  // The program that its own user received from upstream stays with that user.
  EXPECT_EQ(own.Compile(CallFor(2, "quick"), kTimeout, kNoProgress, kNoInterrupt)->origin,
            Origin::kStore);
}

}  // namespace
}  // namespace hpu::server
