// The server's page for Prometheus.
#include <chrono>
#include <thread>

#include "compiler_server/service/doors/certificates.h"
#include "proto/tls_files.h"
#include "tests/service/network_testing.h"

namespace hpu::server {
namespace {

// Returns the answer of an HTTP server on this host.
std::string Fetch(uint16_t port, const std::string& path) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  const std::string request = "GET " + path + " HTTP/1.0\r\n\r\n";
  EXPECT_EQ(write(fd, request.data(), request.size()), static_cast<ssize_t>(request.size()));
  std::string answer(1 << 20, '\0');
  size_t size = 0;
  for (ssize_t got = 1; got > 0; size += static_cast<size_t>(std::max<ssize_t>(got, 0))) {
    got = read(fd, answer.data() + size, answer.size() - size);
  }
  close(fd);
  answer.resize(size);
  return answer;
}

TEST_F(NetworkTest, PrometheusSeesCountersAndHowLongCallsTook) {
  server_.reset();
  const uint16_t port = FreePort();
  options_.metrics_address = "127.0.0.1:" + std::to_string(port);
  Start();
  ASSERT_TRUE(Compile(1, "quick").ok());
  ASSERT_FALSE(Compile(2, "sleep:150 invalid").ok());  // more than a tenth of a second
  ASSERT_TRUE(Compile(1, "quick").ok()) << "a hit, no compilation";
  EXPECT_FALSE(client::RpcClient(OptionsOf("nobody")).Hello(kNoInterrupt).ok());
  // Gauges and times of calls are updated a moment after the answer.
  std::string page;
  EXPECT_TRUE(Eventually([&] {
    page = Fetch(port, "/metrics");
    return page.find("\nhpu_compile_running 0") != std::string::npos &&
           page.find("code=\"ok\",door=\"unix\"} 3") != std::string::npos;
  }));
  for (const char* line :
       {"# TYPE hpu_compile_compiled_total counter", "\nhpu_compile_compiled_total 1",
        "# TYPE hpu_compile_running gauge", "\nhpu_compile_running 0",
        "# TYPE hpu_compile_micros_total counter", "\nhpu_server_refused_total 1",
        "\nhpu_build_info{build=\"build one\"} 1", "# TYPE hpu_rocksdb_disk_bytes gauge",
        "\nhpu_server_configuration_refused 0", "# TYPE hpu_compile_seconds histogram",
        "\nhpu_compile_seconds_count{code=\"ok\"} 1",
        "\nhpu_compile_seconds_bucket{code=\"ok\",le=\"600\"} 1",
        "\nhpu_compile_seconds_bucket{code=\"invalid_argument\",le=\"0.1\"} 0",
        "\nhpu_compile_seconds_bucket{code=\"invalid_argument\",le=\"600\"} 1",
        "\nhpu_call_seconds_count{call=\"Compile\",code=\"ok\",door=\"unix\"} 3",
        "\nhpu_call_seconds_count{call=\"Hello\",code=\"unauthenticated\",door=\"network\"} 1"}) {
    EXPECT_THAT(page, testing::HasSubstr(line));
  }
  options_.metrics_address = "192.0.2.1:1";
  server_.reset();
  EXPECT_THAT(ToText(CompileServer::Start(options_).status()),
              testing::HasSubstr("UNAVAILABLE: cannot show metrics at 192.0.2.1:1"));
}

class CertificateTest : public NetworkTest {
 protected:
  void SetUp() override {
    if (std::system("openssl version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no openssl command";
    authority_.emplace(folder_.path());
    authority_->Issue("server", 20);
    port_ = FreePort();
    options_.metrics_address = "127.0.0.1:" + std::to_string(port_);
    options_.network.certificate_file = authority_->certificate("server");
    options_.network.key_file = authority_->key("server");
    // The file does not exist yet.
    options_.upstream.access.certificate_file = folder_.path("upstream.pem");
    NetworkTest::SetUp();
  }
  std::string Figure(const std::string& name) const {
    const std::string page = Fetch(port_, "/metrics");
    const size_t at = page.find("\n" + name + " ");
    if (at == std::string::npos) return "none";
    const size_t begin = at + name.size() + 2;
    return page.substr(begin, page.find('\n', begin) - begin);
  }
  double DaysLeft() const {
    const std::string figure =
        Figure("hpu_certificate_expiry_timestamp_seconds{option=\"tls-certificate\"}");
    return (std::stod(figure) - static_cast<double>(std::time(nullptr))) / 86'400;
  }

  std::optional<Authority> authority_;
  uint16_t port_ = 0;
};

TEST_F(CertificateTest, TheFirstEndOfAChainCounts) {
  const auto now = static_cast<int64_t>(std::time(nullptr));
  const absl::StatusOr<int64_t> leaf = ExpiryOfChain("x", authority_->certificate("server"));
  ASSERT_TRUE(leaf.ok()) << leaf.status();
  EXPECT_NEAR(static_cast<double>(*leaf), static_cast<double>(now + 20 * 86'400), 60);
  const std::string chain = folder_.path("chain.pem");
  std::ofstream(chain) << std::ifstream(authority_->certificate("server")).rdbuf()
                       << std::ifstream(authority_->ca()).rdbuf();  // valid for two days
  EXPECT_NEAR(static_cast<double>(ExpiryOfChain("x", chain).value()),
              static_cast<double>(now + 2 * 86'400), 60);
  std::ofstream(chain, std::ios::app) << "-----BEGIN CERTIFICATE-----\nAAAA\n"
                                         "-----END CERTIFICATE-----\n";
  EXPECT_THAT(
      ToText(ExpiryOfChain("x", chain).status()),
      testing::StartsWith("INVALID_ARGUMENT: --x " + chain + ": certificate 3 cannot be read: "));
  EXPECT_EQ(ToText(ExpiryOfChain("x", authority_->key("server")).status()),
            "INVALID_ARGUMENT: --x " + authority_->key("server") + " has no certificate in PEM");
}

TEST_F(CertificateTest, ThePageFollowsTheFiles) {
  EXPECT_NEAR(DaysLeft(), 20, 0.01);
  const std::string upstream =
      "hpu_certificate_expiry_timestamp_seconds{option=\"upstream-certificate\"}";
  EXPECT_EQ(Figure(upstream), "none") << "there is no such file";
  std::thread waiting([&] { server_->WaitForStopRequest(); });
  EXPECT_TRUE(Eventually([&] { return Figure("hpu_server_configuration_refused") == "1"; }));
  authority_->Issue("upstream", 5);
  EXPECT_TRUE(Eventually([&] { return Figure("hpu_server_configuration_refused") == "0"; }));
  EXPECT_NE(Figure(upstream), "none");
  authority_->Issue("server", 40);
  EXPECT_TRUE(Eventually([&] { return DaysLeft() > 39; }));
  EXPECT_NEAR(DaysLeft(), 40, 0.01);
  // The file is half written, so the old one is still in use.
  std::ofstream(authority_->certificate("server")) << "-----BEGIN CERTIFICATE-----\n";
  EXPECT_TRUE(Eventually([&] { return Figure("hpu_server_configuration_refused") == "1"; }));
  EXPECT_NEAR(DaysLeft(), 40, 0.01);
  server_->RequestStop("test");
  waiting.join();
}

}  // namespace
}  // namespace hpu::server
