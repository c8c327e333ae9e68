// The service with real worker processes around a compiler that does what the graph's name says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <random>
#include <thread>

#include "backend/client/program_assembler.h"
#include "backend/client/rpc_client.h"
#include "base/log.h"
#include "compile_service.pb.h"
#include "compiler_server/service/compile_server.h"
#include "compiler_server/service/program_stream.h"
#include "graph.pb.h"
#include "program/program.h"
#include "recipe_store/rocksdb_open.h"
#include "tests/service/fake_backend.h"
#include "tests/store/store_testing.h"

namespace hpu::server {
namespace {

using client::Compiled;
using client::Origin;
using std::chrono::milliseconds;
using store::KeyOf;

constexpr milliseconds kTimeout{20'000};
const client::Interrupt kNoInterrupt = [] { return absl::OkStatus(); };
const client::ProgressSink kNoProgress = [](const client::Progress&) { return absl::OkStatus(); };

std::string GraphNamed(const std::string& name) {
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

TEST_F(ServiceTest, CompilesOnceAndThenAnswersFromTheStore) {
  EXPECT_TRUE(absl::IsNotFound(Client()->Get(KeyOf(1), kNoInterrupt).status()));
  const Compiled compiled = Compile(1, "size:3000000").value();
  EXPECT_EQ(compiled.origin, Origin::kCompiled);
  EXPECT_EQ(compiled.entry.blobs.at(1)->size(), 3'000'000u);
  EXPECT_EQ(compiled.entry.manifest.compiler_build_id, "build one");
  EXPECT_EQ(DecodeProgram(*compiled.entry.blobs.at(0)).value().name, "size:3000000");
  EXPECT_EQ(Compile(1, "size:3000000").value().origin, Origin::kStore);
  EXPECT_TRUE(store::SameEntry(Client()->Get(KeyOf(1), kNoInterrupt).value(), compiled.entry));
  Restart();
  EXPECT_TRUE(store::SameEntry(Client()->Get(KeyOf(1), kNoInterrupt).value(), compiled.entry));
  EXPECT_EQ(compiles(), 1u);
  EXPECT_EQ(Client()->List(0, kNoInterrupt).value().at(0).factors.at(0).value, "size:3000000");
}

TEST_F(ServiceTest, ManyRequestsForOneKeyAreOneCompilation) {
  constexpr int kClients = 32;
  std::atomic<int> compiled{0};
  std::atomic<int> coalesced{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&] {
      const absl::StatusOr<Compiled> result = Compile(1, "sleep:1500");
      if (!result.ok()) return;
      if (result->origin == Origin::kCompiled) ++compiled;
      if (result->origin == Origin::kCoalesced) ++coalesced;
    });
  }
  for (std::thread& thread : clients) thread.join();
  EXPECT_EQ(compiles(), 1u);
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(coalesced, kClients - 1);
}

TEST_F(ServiceTest, ALeaderThatLeavesDoesNotTakeTheCompilationAlong) {
  std::atomic<bool> leave{false};
  std::thread leader([&] {
    const absl::StatusOr<Compiled> result = Compile(1, "sleep:1500", kTimeout, [&] {
      return leave ? absl::CancelledError("left") : absl::OkStatus();
    });
    EXPECT_TRUE(absl::IsCancelled(result.status()));
  });
  while (compiles() == 0) std::this_thread::sleep_for(milliseconds(5));
  absl::StatusOr<Compiled> followed = absl::UnknownError("");
  std::thread follower([&] { followed = Compile(1, "sleep:1500"); });
  while (Counter("compile.coalesced") == 0) std::this_thread::sleep_for(milliseconds(5));
  leave = true;
  leader.join();
  follower.join();
  ASSERT_TRUE(followed.ok()) << followed.status();
  EXPECT_EQ(followed->origin, Origin::kCoalesced);
  EXPECT_EQ(compiles(), 1u);
}

TEST_F(ServiceTest, ADeadlineEndsTheCallAndNotTheCompilation) {
  EXPECT_TRUE(absl::IsDeadlineExceeded(Compile(1, "sleep:800", milliseconds(200)).status()));
  while (Counter("compile.running") > 0) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_TRUE(Client()->Get(KeyOf(1), kNoInterrupt).ok());
}

TEST_F(ServiceTest, ACrashCostsOneRequest) {
  for (const char* name : {"crash", "exit:7"}) {
    const absl::Status status = Compile(1, name).status();
    EXPECT_TRUE(absl::IsInternal(status)) << status;
  }
  EXPECT_THAT(std::string(Compile(2, "crash").status().message()),
              testing::HasSubstr("signal 11 (Segmentation fault)"));
  EXPECT_TRUE(Compile(1, "quick").ok()) << "a crash is not remembered";
  EXPECT_EQ(Counter("compile.worker_losses"), 3u);
}

TEST_F(ServiceTest, AWorkerGoesFirstWhenMemoryEnds) {
  EXPECT_EQ(Compile(1, "oom_score").status().message(), "out-of-memory score 500");
}

TEST_F(ServiceTest, ACompilationOverItsMemoryLimitCostsOneRequest) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's worker cannot be limited (worker_main.cc)";
#endif
  options_.queue.worker_memory_bytes = uint64_t{1} << 30;
  Restart();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(ToText(Compile(1, "memory").status()),
              "RESOURCE_EXHAUSTED: the compilation needs more memory than a compile worker may "
              "take: 1024 MiB of address space (--worker-memory of the server)");
  }
  EXPECT_EQ(Counter("compile.worker_losses"), 2u);
  EXPECT_EQ(Counter("compile.negative_entries"), 0u);
  EXPECT_TRUE(Compile(1, "size:3000000").ok()) << "a fresh worker has all of its memory";
}

TEST_F(ServiceTest, BadOutputNeverReachesTheStore) {
  EXPECT_TRUE(absl::IsInternal(Compile(1, "garbage").status()));
  EXPECT_TRUE(absl::IsNotFound(Client()->Get(KeyOf(1), kNoInterrupt).status()));
}

TEST_F(ServiceTest, VerdictsAreRememberedFaultsAreNot) {
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = Compile(1, "unimplemented").status();
    EXPECT_TRUE(absl::IsUnimplemented(status));
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("aten.fake.default"));
    EXPECT_TRUE(absl::IsInvalidArgument(Compile(2, "invalid").status()));
    EXPECT_TRUE(absl::IsInternal(Compile(3, "internal").status()));
  }
  EXPECT_EQ(compiles(), 5u) << "one, one, three";
  EXPECT_EQ(Counter("compile.negative_hits"), 4u);
  // A request may insist.
  client::CompileCall again = CallFor(1, "quick");
  again.skip_cache_lookup = true;
  EXPECT_TRUE(Client()->Compile(again, kTimeout, kNoProgress, kNoInterrupt).ok());
}

TEST_F(ServiceTest, LongMessagesAreCutBetweenCharacters) {
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = Compile(1, "verbose:5000000").status();
    EXPECT_TRUE(absl::IsUnimplemented(status)) << status.code();
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("x\u00e9\u00e9"));
    EXPECT_THAT(std::string(status.message()), testing::EndsWith("\u00e9... (10000001 bytes)"));
    EXPECT_LT(status.message().size(), 4300u);
  }
  EXPECT_EQ(Counter("compile.negative_hits"), 1u);
}

TEST_F(ServiceTest, ACompilationOverItsTimeLimitIsStopped) {
  options_.queue.time_limit = milliseconds(300);
  Restart();
  const absl::Status status = Compile(1, "sleep:10000").status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("longer than 300 ms"));
  EXPECT_EQ(Counter("compile.negative_entries"), 0u);
  EXPECT_TRUE(Compile(1, "quick").ok());
}

TEST_F(ServiceTest, AnotherCompilersProgramsAreMisses) {
  ASSERT_TRUE(Compile(1, "quick").ok());
  options_.build_id = "build two";
  Restart();
  EXPECT_TRUE(absl::IsNotFound(Client()->Get(KeyOf(1), kNoInterrupt).status()));
  EXPECT_EQ(Compile(1, "quick").value().origin, Origin::kCompiled);
  EXPECT_EQ(Client()->Get(KeyOf(1), kNoInterrupt).value().manifest.compiler_build_id, "build two");
}

TEST_F(ServiceTest, StoppingEndsWaitingRequestsWithinTheGrace) {
  std::vector<std::thread> clients;
  std::atomic<int> unavailable{0};
  for (uint64_t key = 0; key < 4; ++key) {  // two run, two wait
    clients.emplace_back([&, key] {
      if (absl::IsUnavailable(Compile(key, "sleep:20000").status())) ++unavailable;
    });
  }
  while (compiles() < 2) std::this_thread::sleep_for(milliseconds(5));
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(Client()->Shutdown("test", kNoInterrupt).ok());
  EXPECT_EQ(server_->WaitForStopRequest(), "client: test");
  server_->Stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(8));
  for (std::thread& thread : clients) thread.join();
  EXPECT_EQ(unavailable, 4);
  EXPECT_FALSE(std::filesystem::exists(options_.socket_path));
}

TEST_F(ServiceTest, EndsWhenIdle) {
  options_.idle_timeout = std::chrono::seconds(1);
  Restart();
  ASSERT_TRUE(Client()->Hello(kNoInterrupt).ok());
  EXPECT_EQ(server_->WaitForStopRequest(), "idle");
}

TEST_F(ServiceTest, OneServerPerSocketAndOnlyInAPrivateFolder) {
  EXPECT_TRUE(absl::IsAlreadyExists(CompileServer::Start(options_).status()));
  ASSERT_EQ(chmod(folder_.path().c_str(), 0755), 0);
  options_.socket_path = folder_.path("second.sock");
  EXPECT_TRUE(absl::IsFailedPrecondition(CompileServer::Start(options_).status()));
}

// An own connection to a unix socket; closed with the object.
class RawConnection {
 public:
  explicit RawConnection(const std::string& path)
      : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    const timeval patience{10, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  ~RawConnection() { close(fd_); }
  RawConnection(const RawConnection&) = delete;
  bool connected() const { return connected_; }
  // What the server says first: 1 = a byte, 0 = it hung up, -1 = nothing for a long time.
  ssize_t FirstByte() const {
    char byte = 0;
    return read(fd_, &byte, 1);
  }

 private:
  const int fd_;
  bool connected_ = false;
};

TEST_F(ServiceTest, AnotherUsersConnectionIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be another user";
  // The modes that would keep others out by themselves.
  ASSERT_EQ(chmod(folder_.path().c_str(), 0711), 0);
  ASSERT_EQ(chmod(options_.socket_path.c_str(), 0666), 0);
  {
    const store::AsOtherUser other;
    const RawConnection connection(options_.socket_path);
    ASSERT_TRUE(connection.connected());
    EXPECT_EQ(connection.FirstByte(), 0);
  }
  EXPECT_EQ(RawConnection(options_.socket_path).FirstByte(), 1) << "gRPC's settings";
  EXPECT_TRUE(Client()->Hello(kNoInterrupt).ok());
}

TEST_F(ServiceTest, AServerOfAnotherUserIsToldNothing) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be another user";
  ASSERT_EQ(chmod(folder_.path().c_str(), 0777), 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder_.path("other.sock");
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  {
    const store::AsOtherUser other;
    ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(listen(listener, 1), 0);
  }
  client::RpcClient client({path, "", kTimeout});
  EXPECT_EQ(ToText(client.Hello(kNoInterrupt).status()),
            "PERMISSION_DENIED: the server at " + path + " belongs to another user");
  const int accepted = accept(listener, nullptr, nullptr);
  char byte = 0;
  EXPECT_EQ(read(accepted, &byte, 1), 0) << "the client says nothing and hangs up";
  close(accepted);
  close(listener);
}

TEST_F(ServiceTest, AClientThatTrustsAnotherKeyGetsNothing) {
  ASSERT_TRUE(Compile(1, "quick").ok());
  const std::string other = folder_.path("other.pub");
  ASSERT_TRUE(store::WritePublicKey(other, store::TestKey().public_key()).ok());
  client::RpcClient client({options_.socket_path, other, kTimeout});
  EXPECT_TRUE(absl::IsPermissionDenied(client.Get(KeyOf(1), kNoInterrupt).status()));
}

TEST_F(ServiceTest, DamageOnDiskIsCompiledAnew) {
  ASSERT_TRUE(Compile(1, "size:100000").ok());
  server_.reset();
  {
    auto database = store::OpenDatabase(folder_.path("store/db")).value();
    const std::unique_ptr<rocksdb::Iterator> it(database.db->NewIterator({}, database.blobs));
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      std::string bytes = it->value().ToString();
      bytes[bytes.size() / 2] ^= 1;
      ASSERT_TRUE(database.db->Put({}, database.blobs, it->key(), bytes).ok());
    }
  }
  Start();
  EXPECT_TRUE(absl::IsNotFound(Client()->Get(KeyOf(1), kNoInterrupt).status()));
  EXPECT_EQ(Compile(1, "size:100000").value().origin, Origin::kCompiled);
  EXPECT_TRUE(Client()->Get(KeyOf(1), kNoInterrupt).ok());
}

TEST_F(ServiceTest, MalformedRequestsAreRefused) {
  client::CompileCall call = CallFor(1, "quick");
  call.graph = "";
  EXPECT_TRUE(absl::IsInvalidArgument(
      Client()->Compile(call, kTimeout, kNoProgress, kNoInterrupt).status()));
  call.graph.assign(kMaxGraphBytes + 1, 'x');
  const absl::Status large = Client()->Compile(call, kTimeout, kNoProgress, kNoInterrupt).status();
  EXPECT_TRUE(absl::IsInvalidArgument(large)) << large;
  std::mt19937 random(5);
  const std::string good = GraphNamed("quick");
  for (uint64_t key = 10; key < 200; ++key) {
    call = CallFor(key, "");
    call.graph = good;
    for (int n = 0; n < 3; ++n) call.graph[random() % good.size()] = static_cast<char>(random());
    const absl::Status status =
        Client()->Compile(call, kTimeout, kNoProgress, kNoInterrupt).status();
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  }
  EXPECT_EQ(Counter("compile.worker_losses"), 0u);
}

// Any order and any bytes of parts give an error or exactly the program.
TEST(ProgramAssembler, SurvivesMutatedStreams) {
  const store::Entry entry = store::EntryOf(1, 3, 2000);
  std::vector<wire::ProgramPart> parts;
  ProgramStream stream(entry, 700);
  for (wire::ProgramPart part; stream.Next(&part);) parts.push_back(part);
  ASSERT_EQ(parts.size(), 1u + 1u + 3u * 3u);
  std::mt19937 random(6);
  int whole = 0;
  for (int i = 0; i < 3000; ++i) {
    std::vector<wire::ProgramPart> sent = parts;
    switch (random() % 5) {
      case 0:
        sent.erase(sent.begin() + static_cast<long>(random() % sent.size()));
        break;
      case 1:
        std::swap(sent[random() % sent.size()], sent[random() % sent.size()]);
        break;
      case 2:
        sent.push_back(sent[random() % sent.size()]);
        break;
      case 3: {
        std::string bytes = sent[random() % sent.size()].SerializeAsString();
        bytes[random() % bytes.size()] ^= static_cast<char>(1 + random() % 255);
        wire::ProgramPart mutated;
        if (mutated.ParseFromString(bytes)) sent[random() % sent.size()] = mutated;
        break;
      }
      default:
        break;
    }
    client::ProgramAssembler assembler(KeyOf(1), store::TestKey().public_key());
    absl::Status status;
    for (const wire::ProgramPart& part : sent) {
      if (status.ok()) status = assembler.Add(part);
    }
    const absl::StatusOr<store::Entry> result =
        status.ok() ? assembler.Finish() : absl::StatusOr<store::Entry>(status);
    if (!result.ok()) continue;
    ++whole;
    EXPECT_TRUE(store::SameEntry(*result, entry));
  }
  EXPECT_GT(whole, 300);
  EXPECT_LT(whole, 1500);
}

TEST(NegativeCache, KeepsVerdictsForTheirTimeAndIsBounded) {
  NegativeCache cache(2, std::chrono::seconds(10));
  const auto now = NegativeCache::Clock::now();
  cache.Remember(KeyOf(1), Unimplemented("a"), now);
  cache.Remember(KeyOf(2), absl::DeadlineExceededError("b"), now);
  EXPECT_TRUE(cache.Find(KeyOf(1), now).has_value());
  EXPECT_FALSE(cache.Find(KeyOf(2), now).has_value());
  EXPECT_FALSE(cache.Find(KeyOf(1), now + std::chrono::seconds(11)).has_value());
  for (uint64_t key = 1; key <= 3; ++key) {
    cache.Remember(KeyOf(key), InvalidArgument("x"), now + std::chrono::seconds(key));
  }
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_FALSE(cache.Find(KeyOf(1), now).has_value());
}

}  // namespace
}  // namespace hpu::server
