// A server in this process with real worker processes around a compiler that does what the graph's
// name says (fake_backend.h).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "base/log.h"
#include "compile_client/program_list.h"
#include "compiler_server/service/compile_server.h"
#include "graph/graph_builder.h"
#include "tests/eventually.h"
#include "tests/service/fake_backend.h"
#include "tests/store/store_testing.h"

namespace hpu::server {

using client::Compiled;
using client::Origin;
using std::chrono::milliseconds;
using store::DigestOf;

// Calls that are not about their own time end after this only if something hangs.
inline constexpr milliseconds kTimeout = kHangLimit;
inline const client::Interrupt kNoInterrupt = [] { return absl::OkStatus(); };

inline absl::StatusOr<std::vector<client::Listed>> ListAll(client::RpcClient& client,
                                                           uint32_t limit = 0,
                                                           bool upstream = false) {
  client::ProgramList list(&client, limit, upstream);
  std::vector<client::Listed> programs;
  while (true) {
    ASSIGN_OR_RETURN(std::optional<client::Listed> next, list.Next(kNoInterrupt));
    if (!next.has_value()) return programs;
    programs.push_back(*std::move(next));
  }
}
inline const client::ProgressSink kNoProgress = [](const client::Progress&) {
  return absl::OkStatus();
};

// Makes a graph that tells the fake compiler what to do.
inline std::string GraphThatSays(const std::string& text) {
  GraphBuilder builder("fake");
  const auto size = static_cast<int64_t>(text.size());
  const uint32_t constant =
      builder.AddConstant({{DType::kU8, {size}, {1}, 0}, Bytes(text.begin(), text.end())});
  builder.SetOutputs({{TensorArgument{constant}}});
  const Bytes bytes = EncodeGraph(builder.Finish().value());
  return std::string(bytes.begin(), bytes.end());
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
    // Other servers are waited for, because on a busy machine they may be late without being slow.
    options_.store.hedge_after = options_.upstream.hedge_after = milliseconds(0);
    options_.queue.worker_command = {FAKE_SERVER, "--worker", "--log-level", "6"};
    options_.queue.time_limit = kTimeout;
    Start();
  }

  virtual void Start() { server_ = CompileServer::Start(options_).value(); }
  void Restart() {
    server_.reset();
    Start();
  }

  std::unique_ptr<client::RpcClient> Client() {
    client::RpcClient::Options options = client::LocalServer(options_.socket_path);
    options.call_timeout = kTimeout;
    return std::make_unique<client::RpcClient>(std::move(options));
  }

  // The request of a front end that knows the graph by DigestOf(key).
  client::CompileCall CallFor(uint64_t key, const std::string& name) {
    client::CompileCall call;
    call.graph = GraphThatSays(name);
    call.device_kind = "gaudi2";
    call.front_end = {DigestOf(key), {{"graph", name}}, "label " + name};
    return call;
  }
  static absl::StatusOr<store::Entry> EntryOf(absl::StatusOr<client::Fetched> fetched) {
    if (!fetched.ok()) return fetched.status();
    return std::move(fetched->entry);
  }
  absl::StatusOr<store::Entry> Get(uint64_t key) {
    return EntryOf(Client()->Get(client::ByFrontEndKey{DigestOf(key)}, kNoInterrupt));
  }
  absl::StatusOr<store::Entry> GetContent(const std::string& name) {
    return EntryOf(Client()->Get(client::ByContentKey{ContentKeyOf(name)}, kNoInterrupt));
  }
  // The entry as the server stores it.
  Digest ContentKeyOf(const std::string& name) const {
    const std::string graph = GraphThatSays(name);
    return store::ContentKey(
        {GraphDigest({reinterpret_cast<const uint8_t*>(graph.data()), graph.size()}).value(),
         store::CanonicalOptions({}).value(), "gaudi2", "", options_.build_id});
  }

  absl::StatusOr<Compiled> Compile(uint64_t key, const std::string& name,
                                   milliseconds timeout = kTimeout,
                                   const client::Interrupt& interrupt = kNoInterrupt) {
    return Client()->Compile(CallFor(key, name), timeout, kNoProgress, interrupt);
  }

  // A graph whose compilation lasts until Release().
  std::string Held(const std::string& name = "") const {
    return "held:" + folder_.path("gate") + " " + name;
  }
  void Release() const { std::ofstream gate(folder_.path("gate")); }
  void HoldAgain() const { ASSERT_TRUE(std::filesystem::remove(folder_.path("gate"))); }

  size_t compiles() const {
    std::ifstream in(folder_.path("compiles"));
    return static_cast<size_t>(std::count(std::istreambuf_iterator<char>(in), {}, '\n'));
  }
  uint64_t Counter(const std::string& name) {
    return Client()->Stats(kNoInterrupt).value().at(name);
  }
  [[nodiscard]] bool Reaches(const std::string& counter, uint64_t value) {
    return Eventually([&] { return Counter(counter) >= value; });
  }

  const store::TemporaryFolder folder_;
  ServerOptions options_;
  std::unique_ptr<CompileServer> server_;
};

}  // namespace hpu::server
