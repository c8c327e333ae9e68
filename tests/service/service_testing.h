// A server in this process with real worker processes around a compiler that does what the graph's
// name says (fake_backend.h).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "backend/client/rpc_client.h"
#include "base/log.h"
#include "compiler_server/service/compile_server.h"
#include "graph.pb.h"
#include "tests/service/fake_backend.h"
#include "tests/store/store_testing.h"

namespace hpu::server {

using client::Compiled;
using client::Origin;
using std::chrono::milliseconds;
using store::KeyOf;

inline constexpr milliseconds kTimeout{20'000};
inline const client::Interrupt kNoInterrupt = [] { return absl::OkStatus(); };
inline const client::ProgressSink kNoProgress = [](const client::Progress&) {
  return absl::OkStatus();
};

inline std::string GraphNamed(const std::string& name) {
  wire::Graph graph;
  graph.set_version(1);
  graph.set_name(name);
  return graph.SerializeAsString();
}

class ServiceTest : public testing::Test {
 protected:
  void SetUp() override {
    ConfigureLog("test", LogLevel::kOff, "");
    setenv(kFakeCompileLogVariable, folder_.path("compiles").c_str(), 1);
    options_.socket_path = folder_.path("server.sock");
    options_.build_id = "build one";
    options_.store.folder = folder_.path("store");
    options_.stop_grace = milliseconds(300);
    options_.queue.worker_command = {FAKE_SERVER, "--worker", "--log-level", "6"};
    options_.queue.time_limit = kTimeout;
    Start();
  }

  void Start() { server_ = CompileServer::Start(options_).value(); }
  void Restart() {
    server_.reset();
    Start();
  }

  std::unique_ptr<client::RpcClient> Client() {
    return std::make_unique<client::RpcClient>(client::RpcClient::Options{
        .socket_path = options_.socket_path, .public_key_path = "", .call_timeout = kTimeout});
  }

  client::CompileCall CallFor(uint64_t key, const std::string& name) {
    client::CompileCall call;
    call.key = KeyOf(key);
    call.graph = GraphNamed(name);
    call.factors = {{"graph", name}};
    call.device_kind = "gaudi2";
    return call;
  }

  absl::StatusOr<Compiled> Compile(uint64_t key, const std::string& name,
                                   milliseconds timeout = kTimeout,
                                   const client::Interrupt& interrupt = kNoInterrupt) {
    return Client()->Compile(CallFor(key, name), timeout, kNoProgress, interrupt);
  }

  size_t compiles() const {
    std::ifstream in(folder_.path("compiles"));
    return static_cast<size_t>(std::count(std::istreambuf_iterator<char>(in), {}, '\n'));
  }
  uint64_t Counter(const std::string& name) {
    return Client()->Stats(kNoInterrupt).value().at(name);
  }

  const store::TemporaryFolder folder_;
  ServerOptions options_;
  std::unique_ptr<CompileServer> server_;
};

}  // namespace hpu::server
