// Servers on the network of this host, with their certificates and callers.
#pragma once

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/hash.h"
#include "tests/free_port.h"
#include "tests/service/service_testing.h"

namespace hpu::server {

// An authority with the certificates that it has signed, which the openssl command makes.
class Authority {
 public:
  explicit Authority(std::string folder) : folder_(std::move(folder)) {
    Run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "
        "/CN=test"
        " -keyout " +
        ca_key() + " -out " + ca());
  }

  // Makes NAME.pem and NAME.key: for servers on this host, and for clients with that common name.
  void Issue(const std::string& name, int days = 2) const {
    const std::string request = folder_ + "/" + name + ".csr";
    const std::string extension = folder_ + "/" + name + ".ext";
    std::ofstream(extension) << "subjectAltName=IP:127.0.0.1,DNS:localhost\n";
    Run("openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=" + name +
        " -keyout " + key(name) + " -out " + request);
    Run("openssl x509 -req -CA " + ca() + " -CAkey " + ca_key() + " -CAcreateserial -days " +
        std::to_string(days) + " -in " + request + " -extfile " + extension + " -out " +
        certificate(name));
  }

  std::string ca() const { return folder_ + "/ca.pem"; }
  std::string certificate(const std::string& name) const { return folder_ + "/" + name + ".pem"; }
  std::string key(const std::string& name) const { return folder_ + "/" + name + ".key"; }

 private:
  std::string ca_key() const { return folder_ + "/ca.key"; }
  static void Run(const std::string& command) {
    ASSERT_EQ(std::system((command + " 2>/dev/null").c_str()), 0) << command;
  }

  const std::string folder_;
};

inline std::string CodeOf(const absl::Status& status) {
  return status.ok() ? "OK" : absl::StatusCodeToString(status.code());
}

inline std::string TokenLine(const std::string& name, const std::string& tenant,
                             const std::string& roles) {
  const std::string token = "token of " + name;
  return name + " " + tenant + " " + roles + " sha256:" +
         ToHex(Sha256({reinterpret_cast<const uint8_t*>(token.data()), token.size()})) + "\n";
}

// A ServiceTest whose server also listens on a port, for callers with several roles.
class NetworkTest : public ServiceTest {
 protected:
  void SetUp() override {
    WriteCallers(TokenLine("reader", "team-a", "read") +
                 TokenLine("worker", "team-a", "read,compile") +
                 TokenLine("stranger", "team-b", "read,compile") +
                 TokenLine("operator", "ops", "read,compile,admin") +
                 "node7 team-a read,compile certificate\n");
    options_.network.callers_file = folder_.path("callers");
    options_.network.listen = {
        {client::Endpoint::Kind::kTcp, "127.0.0.1:" + std::to_string(FreePort())}};
    ServiceTest::SetUp();
  }

  void WriteCallers(const std::string& text) const { Replace("callers", text); }

  // This is one step, because others may read or replace the file at the same time.
  void Replace(const std::string& name, const std::string& text) const {
    static std::atomic<int> number{0};
    const std::string written = folder_.path(name + "." + std::to_string(number++));
    std::ofstream(written) << text;
    ASSERT_EQ(rename(written.c_str(), folder_.path(name).c_str()), 0);
  }

  // Sends no token if `name` is empty.
  client::RpcClient::Options OptionsOf(const std::string& name) const {
    client::RpcClient::Options options = client::LocalServer(options_.socket_path);
    options.servers.endpoints = options_.network.listen;
    options.call_timeout = kTimeout;
    if (!name.empty()) {
      options.servers.access.token_file = folder_.path(name + ".token");
      Replace(name + ".token", "token of " + name + "\n");
    }
    return options;
  }
};

}  // namespace hpu::server
