// Clients that ask for programs and read nothing: what they cost the server, and for how long.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "compile_service.grpc.pb.h"
#include "tests/service/service_testing.h"

namespace hpu::server {
namespace {

constexpr int kStreams = 300;
constexpr uint64_t kMiB = 1 << 20;
// Memory that may stay longer: the C library keeps the stacks of threads that ended, 40 MiB of them
// at most, and arenas of threads that still wait. The streams' chunks would be several times as
// much.
constexpr uint64_t kStaysMiB = 80;

// The server runs in a process of its own, so that its memory can be measured.
class ServerProcess {
 public:
  explicit ServerProcess(const store::TemporaryFolder& folder)
      : socket_(folder.path("cache/run/server.sock")), log_(folder.path("cache/server.log")) {
    const std::string cache = folder.path("cache");
    const char* arguments[] = {FAKE_SERVER, "--cache-dir", cache.c_str(), "--workers",
                               "1",         "--log-level", "2",           nullptr};
    EXPECT_EQ(posix_spawn(&pid_, FAKE_SERVER, nullptr, nullptr, const_cast<char* const*>(arguments),
                          environ),
              0);
    EXPECT_TRUE(Eventually([&] { return client()->Hello(kNoInterrupt).ok(); }));
  }
  ~ServerProcess() {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }
  std::unique_ptr<client::RpcClient> client() const {
    client::RpcClient::Options options = client::LocalServer(socket_);
    options.call_timeout = kTimeout;
    return std::make_unique<client::RpcClient>(std::move(options));
  }
  uint64_t ResidentMiB() const {
    std::ifstream in("/proc/" + std::to_string(pid_) + "/statm");
    uint64_t pages = 0;
    in >> pages >> pages;
    return pages * static_cast<uint64_t>(getpagesize()) / kMiB;
  }
  int FetchesBegun() const {
    int begun = 0;
    std::ifstream log(log_);
    for (std::string line; std::getline(log, line);) begun += line.find("fetched ") != line.npos;
    return begun;
  }
  int StreamsGivenUp() const {
    const std::string text = "their streams are ended count=";
    int given_up = 0;
    std::ifstream log(log_);
    for (std::string line; std::getline(log, line);) {
      const size_t at = line.find(text);
      if (at != line.npos) given_up += std::atoi(line.c_str() + at + text.size());
    }
    return given_up;
  }
  const std::string& socket() const { return socket_; }

 private:
  const std::string socket_;
  const std::string log_;
  pid_t pid_ = 0;
};

// Connects with gRPC's first window of 64 KiB, and keeps it. Otherwise gRPC probes how fast the
// connection is and widens the window although nobody reads: to 4 MiB for most streams, and for one
// to four of these so far that they take the whole program and end well.
std::shared_ptr<grpc::Channel> ConnectWithFixedWindow(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection for each channel
  return grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
}

struct Unread {
  std::unique_ptr<wire::CompileService::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReader<wire::ProgramPart>> reader;
};

TEST(UnreadStreams, CostLittleAreGivenUpAndGiveTheirMemoryBack) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer keeps what is freed";
#endif
  const store::TemporaryFolder folder;
  const ServerProcess server(folder);
  client::CompileCall call;
  call.front_end = {store::DigestOf(1), {}, "unread"};
  call.graph = GraphThatSays("size:8000000");
  call.device_kind = "gaudi2";
  ASSERT_TRUE(server.client()->Compile(call, kTimeout, kNoProgress, kNoInterrupt).ok());
  wire::GetProgramRequest request;
  const Digest key = call.front_end->key;
  request.set_front_end_key(std::string(key.begin(), key.end()));
  const uint64_t before = server.ResidentMiB();
  std::vector<std::unique_ptr<Unread>> streams;
  for (int i = 0; i < kStreams; ++i) {
    auto stream = std::make_unique<Unread>();
    stream->stub = wire::CompileService::NewStub(ConnectWithFixedWindow(server.socket()));
    stream->reader = stream->stub->GetProgram(&stream->context, request);
    streams.push_back(std::move(stream));
  }
  EXPECT_TRUE(Eventually([&] { return server.FetchesBegun() == kStreams; }));
  EXPECT_TRUE(server.client()->Get(client::ByFrontEndKey{key}, kNoInterrupt).ok())
      << "others are served meanwhile";
  uint64_t most = before;
  EXPECT_TRUE(Eventually([&] {
    most = std::max(most, server.ResidentMiB());
    return server.StreamsGivenUp() == kStreams;
  }));
  EXPECT_LT(most - before, 150u) << "half a MiB for each stream, whatever the program's size";
  for (const auto& stream : streams) {
    wire::ProgramPart part;
    EXPECT_FALSE(stream->reader->Read(&part)) << "a message is larger than the window";
    EXPECT_EQ(stream->reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  streams.clear();
  EXPECT_TRUE(Eventually([&] { return server.ResidentMiB() < before + kStaysMiB; }))
      << "memory is given back";
  RecordProperty("before_mib", std::to_string(before));
  RecordProperty("most_mib", std::to_string(most));
  RecordProperty("after_mib", std::to_string(server.ResidentMiB()));
}

}  // namespace
}  // namespace hpu::server
