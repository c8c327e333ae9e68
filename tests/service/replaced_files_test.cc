// An operator replaces files while the server runs. An unusable file must block nothing, and the
// old content stays in use until there is a usable one.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <thread>

#include "tests/service/made_certificates.h"
#include "tests/service/network_testing.h"
#include "tests/store/redis_server.h"

namespace hpu::server {
namespace {

namespace fs = std::filesystem;

class ReplacedFilesTest : public NetworkTest {
 protected:
  void SetUp() override {
    folder_keys_ = folder_.path("keys");
    fs::create_directory(folder_keys_);
    options_.store.trusted_keys = folder_keys_;
    options_.network.certificate_file = folder_.path("server.pem");
    options_.network.key_file = folder_.path("server.key");
    options_.network.client_ca_file = folder_.path("clients.pem");
    Show(first_);
    WriteChain(options_.network.client_ca_file, {authority_});
    WriteChain(folder_.path("ca.pem"), {authority_});
    const Pair node7 = MakeCertificate({.name = "node7"}, &authority_);
    WriteChain(folder_.path("node7.pem"), {node7});
    WriteKey(folder_.path("node7.key"), node7.key);
    NetworkTest::SetUp();
    server_.reset();
    options_.network.listen = {
        {client::Endpoint::Kind::kTls, "127.0.0.1:" + std::to_string(FreePort())}};
    Start();
    maintenance_ = std::thread([this] { server_->WaitForStopRequest(); });
  }
  void TearDown() override {
    server_->RequestStop("test");
    maintenance_.join();
  }

  // The certificate and key of the server.
  void Show(const Pair& pair) const {
    WriteChain(options_.network.certificate_file, {pair});
    WriteKey(options_.network.key_file, pair.key);
  }
  client::RpcClient::Options TlsOptionsOf(const std::string& name) const {
    client::RpcClient::Options options = OptionsOf(name);
    options.servers.access.ca_file = folder_.path("ca.pem");
    options.servers.access.certificate_file = folder_.path("node7.pem");
    options.servers.access.key_file = folder_.path("node7.key");
    return options;
  }
  std::string Hello(const std::string& name) const {
    const absl::Status status = client::RpcClient(TlsOptionsOf(name)).Hello(kNoInterrupt).status();
    return status.ok() ? "OK" : absl::StatusCodeToString(status.code());
  }
  void AwaitRefused(uint64_t refused) {
    EXPECT_TRUE(Eventually([&] { return Counter("server.configuration_refused") == refused; }))
        << refused;
  }
  // Puts something else there, and then the file again. Everything must continue meanwhile.
  void Disturb(const std::string& path, const std::function<void()>& lay) {
    SCOPED_TRACE(path);
    const std::string aside = folder_.path("aside");
    fs::rename(path, aside);
    lay();
    AwaitRefused(1);
    EXPECT_EQ(Hello(""), "OK") << "the old content holds";
    fs::remove_all(path);
    fs::rename(aside, path);
    AwaitRefused(0);
    EXPECT_EQ(Hello(""), "OK");
  }

  const Pair authority_ = MakeCertificate({.name = "root", .authority = true}, nullptr);
  const Pair first_ = MakeCertificate({.name = "first"}, &authority_);
  std::string folder_keys_;
  std::thread maintenance_;
};

TEST_F(ReplacedFilesTest, AFifoInPlaceOfAnyOfThemStopsNothing) {
  const NetworkOptions& network = options_.network;
  for (const std::string& path :
       {network.callers_file, network.certificate_file, network.key_file, network.client_ca_file}) {
    Disturb(path, [&] { ASSERT_EQ(mkfifo(path.c_str(), 0600), 0); });
  }
  const std::string key = folder_keys_ + "/other.pub";
  ASSERT_EQ(mkfifo(key.c_str(), 0600), 0);
  AwaitRefused(1);
  fs::remove(key);
  AwaitRefused(0);
  // The new file is read after all that, so maintenance still runs.
  WriteCallers(TokenLine("another", "team-a", "read"));
  EXPECT_TRUE(Eventually([&] { return Hello("worker") == "UNAUTHENTICATED"; }));
}

TEST_F(ReplacedFilesTest, WhatCannotBeUsedChangesNothing) {
  const NetworkOptions& network = options_.network;
  const auto lay_chain = [&](const std::string& path, const Pair& pair) {
    Disturb(path, [&] { WriteChain(path, {pair}); });
  };
  lay_chain(network.certificate_file, MakeCertificate({}, &authority_));  // for another key
  lay_chain(network.certificate_file,
            MakeCertificate({.ends_in = -60, .key = first_.key}, &authority_));
  lay_chain(network.client_ca_file, first_);
  Disturb(network.key_file, [&] { fs::create_directory(network.key_file); });
  Disturb(network.key_file, [] {});  // there is no file
  Disturb(network.callers_file, [&] {
    std::ofstream(network.callers_file) << "node7 team-a read certificate\n";
    ASSERT_EQ(chmod(network.callers_file.c_str(), 0666), 0);
  });
}

TEST_F(ReplacedFilesTest, ACertificateThatExpiresMeanwhileIsTold) {
  ASSERT_EQ(Hello(""), "OK");
  Show(MakeCertificate({.ends_in = 4}, &authority_));
  EXPECT_TRUE(Eventually([&] { return Hello("") == "UNAVAILABLE"; }));
  AwaitRefused(1);
  EXPECT_EQ(Counter("server.configuration_refused"), 1u) << "the unix socket's door is open still";
  Show(MakeCertificate({}, &authority_));
  AwaitRefused(0);
  EXPECT_EQ(Hello(""), "OK");
}

TEST_F(ReplacedFilesTest, NewOnesAreShownAndAsked) {
  ASSERT_EQ(Hello(""), "OK");
  const Pair next = MakeCertificate({.name = "next", .authority = true}, nullptr);
  // The server's own certificate, by another authority: old clients refuse it, new ones do not.
  Show(MakeCertificate({.name = "second"}, &next));
  EXPECT_TRUE(Eventually([&] { return Hello("") == "UNAVAILABLE"; }));
  WriteChain(folder_.path("ca.pem"), {authority_, next});
  EXPECT_EQ(Hello(""), "OK");
  // The authorities that clients' certificates must come from.
  WriteChain(options_.network.client_ca_file, {next});
  EXPECT_TRUE(Eventually([&] { return Hello("") == "UNAVAILABLE"; }));
  const Pair node7 = MakeCertificate({.name = "node7"}, &next);
  WriteChain(folder_.path("node7.pem"), {node7});
  WriteKey(folder_.path("node7.key"), node7.key);
  EXPECT_EQ(Hello(""), "OK");
  // One certificate of the right authority has expired, and one is for another purpose.
  for (const CertificateWish& wish :
       {CertificateWish{.name = "node7", .ends_in = -60},
        CertificateWish{.name = "node7", .key_usage = "serverAuth"}}) {
    const Pair refused = MakeCertificate(wish, &next);
    WriteChain(folder_.path("node7.pem"), {refused});
    WriteKey(folder_.path("node7.key"), refused.key);
    EXPECT_EQ(Hello(""), "INVALID_ARGUMENT") << "said by the client itself";
  }
}

}  // namespace
}  // namespace hpu::server
