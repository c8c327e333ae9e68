// Three servers that share a Remote Execution API cache, with and without Redis for the leases.
#include <gmock/gmock.h>

#include "tests/service/network_testing.h"
#include "tests/service/shared_store_testing.h"
#include "tests/store/fake_remote_cache.h"

namespace hpu::server {
namespace {

class RemoteCacheServersTest : public SharedStoreTest {
 protected:
  void SetUp() override {
    UseCache();
    SharedStoreTest::SetUp();
  }
  void UseCache() { options_.store.remote_cache = store::TestOptionsOf(cache_.address()); }
  void TearDown() override {
    more_.clear();
    server_.reset();
    EXPECT_THAT(cache_.Violations(), testing::IsEmpty());
  }

  store::FakeRemoteCache cache_;
};

TEST_F(RemoteCacheServersTest, OneCompilationPerKeyWithLeasesInRedis) {
  constexpr int kKeys = 6;
  ExpectOneCompilationOfEach(kKeys);
  // The programs are written in the background.
  EXPECT_TRUE(Eventually([&] { return Sum("remote_cache.puts") >= kKeys; }));
  EXPECT_EQ(Sum("remote_cache.puts"), static_cast<uint64_t>(kKeys));
  for (const std::string& key : redis_->Keys("*")) {
    EXPECT_TRUE(key.starts_with("{hpu:l}:")) << key << ": Redis keeps leases only";
  }
}

class RemoteCacheAloneTest : public RemoteCacheServersTest {
 protected:
  void SetUp() override {
    UseCache();
    StartServers();
  }
};

TEST_F(RemoteCacheAloneTest, EachServerCompilesANewKeyOnceAndFindsWhatOthersCompiled) {
  ASSERT_TRUE(CompileAt(0, 1, "quick").ok());
  ASSERT_TRUE(FetchAt(1, 1).ok());
  ASSERT_TRUE(CompileAt(2, 2, "quick").ok()) << "by its graph, under another name";
  EXPECT_EQ(compiles(), 1u) << "what was compiled is shared all the same";
  CompileAllEverywhere(2);
  EXPECT_LE(compiles(), 1u + 2 * kServers);
}

TEST_F(RemoteCacheServersTest, ALostCacheIsADelayAndHeals) {
  cache_.Stop();
  for (int server = 0; server < kServers; ++server) {
    ASSERT_TRUE(CompileAt(server, 1, "quick").ok());
  }
  EXPECT_EQ(compiles(), 3u) << "each for itself";
  EXPECT_GE(Sum("remote_cache.server_failures"), 3u);
  EXPECT_EQ(Sum("remote_cache.timeouts"), 0u);
  cache_.Start();
  uint64_t key = 2;
  EXPECT_TRUE(Eventually([&] {
    EXPECT_TRUE(CompileAt(0, key, "graph " + std::to_string(key)).ok());
    ++key;
    return Sum("remote_cache.puts") > 0;
  }));
}

// Flipped bits, wherever they are, must cost a compilation and nothing else.
TEST_F(RemoteCacheServersTest, DamagedProgramsAreCompiledAnew) {
  const absl::StatusOr<Compiled> made = CompileAt(0, 1, "quick");
  ASSERT_TRUE(made.ok());
  ASSERT_TRUE(Eventually([&] { return CounterAt(0, "remote_cache.puts") == 1; }));
  cache_.Use(
      [&](auto& state) { state.blobs.at(ToHex(made->entry.manifest.program.digest))[5] ^= 1; });
  const absl::StatusOr<Compiled> again = CompileAt(1, 1, "quick");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(store::CheckDigests(again->entry).ok());
  EXPECT_EQ(compiles(), 2u);
  EXPECT_EQ(CounterAt(1, "remote_cache.withdrawn"), 1u);
  // It was sent again, complete.
  ASSERT_TRUE(Eventually([&] { return CounterAt(1, "remote_cache.puts") == 1; }));
  EXPECT_TRUE(CompileAt(2, 1, "quick").ok());
  EXPECT_EQ(compiles(), 2u);
}

class RemoteCacheTlsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("openssl version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no openssl command";
    authority_.emplace(folder_.path());
    authority_->Issue("server");
    authority_->Issue("node7");
    std::ofstream(folder_.path("token")) << "secret\n";
    options_.retry_after = milliseconds(100);
    options_.access.ca_file = authority_->ca();
  }
  static std::string Read(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void Listen(bool wants_certificates, const std::string& authorization) {
    grpc::SslServerCredentialsOptions tls(
        wants_certificates ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                           : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
    tls.pem_key_cert_pairs = {
        {Read(authority_->key("server")), Read(authority_->certificate("server"))}};
    if (wants_certificates) tls.pem_root_certs = Read(authority_->ca());
    store::FakeRemoteCache::Options options;
    options.authorization = authorization;
    options.credentials = grpc::SslServerCredentials(tls);
    cache_.emplace(options);
    options_.address = "grpcs://" + cache_->target();
  }
  absl::Status Put() const { return store::RemoteStoreAt(options_)->Put(store::EntryOf(1)); }

  const store::TemporaryFolder folder_;
  std::optional<Authority> authority_;
  std::optional<store::FakeRemoteCache> cache_;
  store::RemoteCacheOptions options_;
};

TEST_F(RemoteCacheTlsTest, TheServersCertificateIsChecked) {
  Listen(/*wants_certificates=*/false, "");
  EXPECT_TRUE(Put().ok()) << Put();
  ASSERT_EQ(mkdir(folder_.path("wrong").c_str(), 0700), 0);
  options_.access.ca_file = Authority(folder_.path("wrong")).ca();
  EXPECT_TRUE(absl::IsUnavailable(Put()));
  options_.access.ca_file = "";  // the authorities of the system
  EXPECT_TRUE(absl::IsUnavailable(Put()));
  options_.access.ca_file = authority_->ca();
  options_.address = "grpc://" + cache_->target();
  options_.access.ca_file = "";
  EXPECT_TRUE(absl::IsUnavailable(Put())) << "it does not speak in the clear";
}

TEST_F(RemoteCacheTlsTest, WeShowACertificateAndAToken) {
  Listen(/*wants_certificates=*/true, "Bearer secret");
  EXPECT_TRUE(absl::IsUnavailable(Put())) << "no certificate";
  options_.access.certificate_file = authority_->certificate("node7");
  options_.access.key_file = authority_->key("node7");
  EXPECT_TRUE(absl::IsUnavailable(Put())) << "no token";
  options_.access.token_file = folder_.path("token");
  EXPECT_TRUE(Put().ok()) << Put();
  std::ofstream(options_.access.token_file) << "other\n";
  EXPECT_TRUE(absl::IsUnavailable(Put()));
  std::ofstream(options_.access.token_file) << "no\x01header\n";
  EXPECT_TRUE(absl::IsUnavailable(Put()));
  // A corrected token is accepted without a restart.
  const auto store = store::RemoteStoreAt(options_);
  EXPECT_FALSE(store->Put(store::EntryOf(1)).ok());
  std::ofstream(options_.access.token_file) << "secret\n";
  EXPECT_TRUE(Eventually([&] { return store->Put(store::EntryOf(1)).ok(); }));
}

}  // namespace
}  // namespace hpu::server
