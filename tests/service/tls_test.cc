// Connections under TLS: the server's certificate, and clients that are known by theirs.
#include <sys/stat.h>

#include <optional>
#include <thread>

#include "tests/service/network_testing.h"

namespace hpu::server {
namespace {

using client::Endpoint;

class TlsTest : public NetworkTest {
 protected:
  void SetUp() override {
    if (std::system("openssl version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no openssl command";
    authority_.emplace(folder_.path());
    authority_->Issue("server");
    authority_->Issue("node7");
    options_.network.certificate_file = authority_->certificate("server");
    options_.network.key_file = authority_->key("server");
    NetworkTest::SetUp();
  }
  void Listen(bool wants_certificates) {
    server_.reset();
    if (wants_certificates) options_.network.client_ca_file = authority_->ca();
    options_.network.listen = {{Endpoint::Kind::kTls, "127.0.0.1:" + std::to_string(FreePort())}};
    Start();
  }
  client::RpcClient::Options TlsOptionsOf(const std::string& name) const {
    client::RpcClient::Options options = OptionsOf(name);
    options.servers.access.ca_file = authority_->ca();
    return options;
  }
  static std::string HelloCode(const client::RpcClient::Options& options) {
    return CodeOf(client::RpcClient(options).Hello(kNoInterrupt).status());
  }

  std::optional<Authority> authority_;
};

TEST_F(TlsTest, TheServersCertificateIsChecked) {
  Listen(/*wants_certificates=*/false);
  EXPECT_EQ(HelloCode(TlsOptionsOf("worker")), "OK");
  EXPECT_EQ(HelloCode(TlsOptionsOf("")), "UNAUTHENTICATED");
  ASSERT_EQ(mkdir(folder_.path("wrong").c_str(), 0700), 0);
  const Authority wrong(folder_.path("wrong"));
  client::RpcClient::Options options = TlsOptionsOf("worker");
  options.servers.access.ca_file = wrong.ca();
  const absl::Status refused = client::RpcClient(options).Hello(kNoInterrupt).status();
  EXPECT_TRUE(client::IsServerUnavailable(refused));
  EXPECT_THAT(std::string(refused.message()),
              testing::HasSubstr("(nobody listens there, or a certificate is refused)"));
  // The certificate has another name.
  options = TlsOptionsOf("worker");
  std::string& target = options.servers.endpoints[0].target;
  target = "127.0.0.2" + target.substr(target.rfind(':'));
  EXPECT_EQ(HelloCode(options), "UNAVAILABLE");
}

TEST_F(TlsTest, AClientIsKnownByItsCertificate) {
  Listen(/*wants_certificates=*/true);
  EXPECT_EQ(HelloCode(TlsOptionsOf("worker")), "UNAVAILABLE") << "no certificate, no connection";
  client::RpcClient::Options options = TlsOptionsOf("");
  options.servers.access.certificate_file = authority_->certificate("node7");
  options.servers.access.key_file = authority_->key("node7");
  EXPECT_EQ(HelloCode(options), "OK");
  // The certificate is valid but belongs to no caller; a token identifies the caller.
  options.servers.access.certificate_file = authority_->certificate("server");
  options.servers.access.key_file = authority_->key("server");
  EXPECT_EQ(HelloCode(options), "UNAUTHENTICATED");
  options.servers.access.token_file = TlsOptionsOf("worker").servers.access.token_file;
  EXPECT_EQ(HelloCode(options), "OK");
}

TEST_F(TlsTest, ACertificateIsReplacedWithoutARestart) {
  Listen(/*wants_certificates=*/false);
  ASSERT_EQ(HelloCode(TlsOptionsOf("worker")), "OK");
  const Authority next(folder_.path());  // replaces the old authority
  next.Issue("server");
  std::thread maintenance([&] { server_->WaitForStopRequest(); });
  EXPECT_TRUE(Eventually([&] { return HelloCode(TlsOptionsOf("worker")) == "OK"; }));
  server_->RequestStop("test");
  maintenance.join();
}

}  // namespace
}  // namespace hpu::server
