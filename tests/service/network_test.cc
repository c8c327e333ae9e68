#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>

#include <atomic>
#include <functional>
#include <thread>
#include <tuple>

#include "tests/service/network_testing.h"

namespace hpu::server {
namespace {

using client::ByContentKey;
using client::ByFrontEndKey;
using client::Endpoint;

TEST(Endpoints, AreReadAndRefusedByName) {
  const auto text = [](const char* given) {
    const auto parsed = client::ParseEndpoints(given);
    return parsed.ok() ? client::ToText(*parsed) : ToText(parsed.status());
  };
  EXPECT_EQ(text("tls://a.example:1, tcp://127.0.0.1:2,unix:/run/x,,"),
            "tls://a.example:1,tcp://127.0.0.1:2,unix:/run/x");
  EXPECT_EQ(text("tcp://[::1]:80"), "tcp://[::1]:80");
  EXPECT_EQ(text(" , "), "INVALID_ARGUMENT: no compile server address is given");
  EXPECT_EQ(
      text("a:80"),
      "INVALID_ARGUMENT: compile server address 'a:80': it begins with tls://, tcp:// or unix:");
  EXPECT_EQ(
      text("tcp://10.0.0.1:80"),
      "INVALID_ARGUMENT: compile server address 'tcp://10.0.0.1:80': plain tcp:// is for this "
      "host only (127.0.0.1, [::1], localhost); use tls://10.0.0.1:80");
  EXPECT_EQ(text("tls://host"),
            "INVALID_ARGUMENT: compile server address 'tls://host': it needs a port from 1 to "
            "65535, as in tls://compile.example:8471");
  EXPECT_EQ(text("tls://::1:80"),
            "INVALID_ARGUMENT: compile server address 'tls://::1:80': an IPv6 address stands in "
            "brackets, as in tls://[::1]:8471");
  EXPECT_EQ(text("unix:run/x"),
            "INVALID_ARGUMENT: compile server address 'unix:run/x': it needs an absolute path, as "
            "in unix:/run/hpu/server.sock");
}

TEST(CallerTable, TellsLineAndFieldOfWhatIsWrong) {
  const auto refusal = [](const std::string& text) {
    return std::string(ParseCallers("# comment\n\n" + text).status().message());
  };
  const std::string digest = "sha256:" + std::string(64, 'a');
  const std::string kFields =
      "line 3: it has four fields, NAME TENANT ROLES CREDENTIAL, and may have a fifth, the last "
      "day";
  EXPECT_EQ(refusal("a b read certificate tomorrow"),
            "line 3, field LAST DAY: 'tomorrow' is not a date as 2027-01-31");
  EXPECT_EQ(refusal("a b read certificate 2027-02-31"),
            "line 3, field LAST DAY: '2027-02-31' is not a date as 2027-01-31");
  EXPECT_EQ(refusal("a b read certificate 27-01-31"),
            "line 3, field LAST DAY: '27-01-31' is not a date as 2027-01-31");
  EXPECT_EQ(refusal("a b read certificate 2027-01-31x"),
            "line 3, field LAST DAY: '2027-01-31x' is not a date as 2027-01-31");
  EXPECT_EQ(refusal("a b read"), kFields);
  EXPECT_EQ(refusal("a b read certificate 2027-01-31 more"), kFields);
  EXPECT_EQ(refusal("a/ b read certificate"),
            "line 3, field NAME: 'a/' is not 1 to 64 letters, digits or ._-@");
  EXPECT_EQ(refusal("a b owner certificate"),
            "line 3, field ROLES: 'owner' is not read, compile or admin, separated by commas");
  EXPECT_EQ(refusal("a b read sha256:12"),
            "line 3, field CREDENTIAL: 'sha256:12' is not 'certificate' or 'sha256:' and 64 "
            "hexadecimal digits");
  EXPECT_EQ(refusal("a b read " + digest + "\na c read certificate"),
            "line 4, field NAME: 'a' is not new: an earlier line has it");
  const auto rows = ParseCallers("a b read,compile " + digest + "  # why\n").value();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].caller.tenant, "b");
  EXPECT_TRUE(rows[0].caller.Has(Role::kCompile));
  EXPECT_FALSE(rows[0].caller.Has(Role::kAdmin));
}

TEST_F(NetworkTest, ATokenEndsAfterItsLastDay) {
  const auto line = [](const std::string& name, const std::string& day) {
    std::string text = TokenLine(name, "team-a", "read");
    text.pop_back();
    return text + " " + day + "\n";
  };
  EXPECT_EQ(ParseCallers(line("a", "2027-01-31")).value()[0].end_unix_seconds, 1801440000);
  WriteCallers(line("past", "2020-12-31") + line("future", "9999-12-31"));
  Restart();
  EXPECT_TRUE(client::RpcClient(OptionsOf("future")).Hello(kNoInterrupt).ok());
  const absl::Status past = client::RpcClient(OptionsOf("past")).Hello(kNoInterrupt).status();
  EXPECT_EQ(CodeOf(past), "UNAUTHENTICATED");
  EXPECT_NE(past.message().find("the time of this token is over"), std::string::npos) << past;
}

TEST_F(NetworkTest, EveryCallHasItsRole) {
  ASSERT_TRUE(Compile(1, "quick").ok());  // by the server's own user
  // Hello, Get, Get by content, Compile, Stats, List, Shutdown
  const auto answers = [&](const std::string& name, uint64_t key) {
    client::RpcClient client(OptionsOf(name));
    std::vector<std::string> codes;
    codes.push_back(CodeOf(client.Hello(kNoInterrupt).status()));
    codes.push_back(CodeOf(client.Get(ByFrontEndKey{DigestOf(1)}, kNoInterrupt).status()));
    codes.push_back(CodeOf(client.Get(ByContentKey{ContentKeyOf("quick")}, kNoInterrupt).status()));
    codes.push_back(CodeOf(
        client.Compile(CallFor(key, "quick"), kTimeout, kNoProgress, kNoInterrupt).status()));
    codes.push_back(CodeOf(client.Stats(kNoInterrupt).status()));
    codes.push_back(CodeOf(ListAll(client).status()));
    codes.push_back(CodeOf(client.Shutdown("", kNoInterrupt)));
    return codes;
  };
  using Codes = std::vector<std::string>;
  const std::string no = "PERMISSION_DENIED";
  const std::string who = "UNAUTHENTICATED";
  EXPECT_EQ(answers("", 2), Codes(7, who));
  EXPECT_EQ(answers("nobody", 2), Codes(7, who));
  EXPECT_EQ(answers("reader", 2), (Codes{"OK", "NOT_FOUND", no, no, no, "OK", no}));
  EXPECT_EQ(answers("worker", 2), (Codes{"OK", "NOT_FOUND", no, "OK", no, "OK", no}));
  EXPECT_EQ(answers("operator", 2), (Codes{"OK", "NOT_FOUND", "OK", "OK", "OK", "OK", no}));
  EXPECT_EQ(Counter("server.refused"), 7u + 7u + 3u + 2u + 1u);
  EXPECT_TRUE(Client()->Hello(kNoInterrupt).ok()) << "nobody has stopped it";
}

// Calls every method with every set of roles, and compares with docs/cluster.md whether the call is
// admitted.
TEST_F(NetworkTest, EverySetOfRolesAgainstEveryCall) {
  const std::vector<std::string> roles = {
      "read",         "compile",           "admin", "read,admin", "compile,admin",
      "read,compile", "read,compile,admin"};
  std::string callers;
  for (size_t i = 0; i < roles.size(); ++i) {
    callers += TokenLine("role" + std::to_string(i), "team-a", roles[i]);
  }
  WriteCallers(callers);
  Restart();
  ASSERT_TRUE(Compile(1, "quick").ok());
  const Digest content = ContentKeyOf("quick");
  using Call = std::function<absl::Status(client::RpcClient&)>;
  const std::vector<std::tuple<std::string, std::vector<std::string>, Call>> calls = {
      {"Hello",
       {"read", "compile", "admin"},
       [](client::RpcClient& client) { return client.Hello(kNoInterrupt).status(); }},
      {"GetProgram",
       {"read", "admin"},
       [](client::RpcClient& client) {
         return client.Get(ByFrontEndKey{DigestOf(1)}, kNoInterrupt).status();
       }},
      {"GetProgram by content key",
       {"admin"},
       [&](client::RpcClient& client) {
         return client.Get(ByContentKey{content}, kNoInterrupt).status();
       }},
      {"Compile",
       {"compile"},
       [&](client::RpcClient& client) {
         return client.Compile(CallFor(2, "quick"), kTimeout, kNoProgress, kNoInterrupt).status();
       }},
      {"GetStats",
       {"admin"},
       [](client::RpcClient& client) { return client.Stats(kNoInterrupt).status(); }},
      {"List",
       {"read", "admin"},
       [](client::RpcClient& client) { return ListAll(client).status(); }},
      {"Pin",
       {"admin"},
       [&](client::RpcClient& client) { return client.Pin(content, true, kNoInterrupt); }},
      {"CollectGarbage",
       {"admin"},
       [](client::RpcClient& client) {
         return client.CollectGarbage(1 << 30, std::chrono::seconds(0), kTimeout, kNoInterrupt)
             .status();
       }},
      {"Verify",
       {"admin"},
       [](client::RpcClient& client) {
         return client.Verify(
             kTimeout, [](const client::VerifiedProgram&) { return absl::OkStatus(); },
             kNoInterrupt);
       }},
      {"Import",
       {"admin"},
       [](client::RpcClient& client) {
         return client.Import({}, kTimeout, kNoInterrupt).status();
       }},
      {"Shutdown", {}, [](client::RpcClient& client) { return client.Shutdown("", kNoInterrupt); }},
  };
  for (size_t i = 0; i < roles.size(); ++i) {
    client::RpcClient client(OptionsOf("role" + std::to_string(i)));
    for (const auto& [name, wanted, call] : calls) {
      const bool may = std::ranges::any_of(wanted, [&](const std::string& role) {
        return ("," + roles[i] + ",").find("," + role + ",") != std::string::npos;
      });
      const absl::Status status = call(client);
      EXPECT_EQ(!absl::IsPermissionDenied(status), may)
          << roles[i] << " " << name << ": " << status;
    }
  }
}

TEST_F(NetworkTest, TenantsSeeTheirOwnNamesAndShareWhatIsCompiled) {
  options_.share_programs = true;
  Restart();
  client::RpcClient worker(OptionsOf("worker"));
  client::RpcClient reader(OptionsOf("reader"));
  client::RpcClient stranger(OptionsOf("stranger"));
  const auto compile = [&](client::RpcClient& client) {
    return client.Compile(CallFor(1, "quick"), kTimeout, kNoProgress, kNoInterrupt)->origin;
  };
  const auto labels = [](client::RpcClient& client) {
    std::vector<std::string> found;
    for (const client::Listed& listed : ListAll(client).value()) {
      for (const store::Alias& alias : listed.aliases) found.push_back(alias.label);
    }
    return found;
  };
  EXPECT_EQ(compile(worker), Origin::kCompiled);
  EXPECT_TRUE(reader.Get(ByFrontEndKey{DigestOf(1)}, kNoInterrupt).ok()) << "of one team";
  EXPECT_TRUE(absl::IsNotFound(stranger.Get(ByFrontEndKey{DigestOf(1)}, kNoInterrupt).status()));
  EXPECT_EQ(ListAll(stranger)->size(), 0u);
  EXPECT_EQ(compile(stranger), Origin::kStore) << "the same graph is the same program";
  EXPECT_EQ(labels(worker), std::vector<std::string>{"label quick"});
  EXPECT_EQ(labels(stranger), std::vector<std::string>{"label quick"});
  EXPECT_EQ(compiles(), 1u);
}

TEST_F(NetworkTest, CallersAreReadAgainAndAWrongFileChangesNothing) {
  client::RpcClient worker(OptionsOf("worker"));
  ASSERT_TRUE(worker.Hello(kNoInterrupt).ok());
  const auto code = [&] { return CodeOf(worker.Hello(kNoInterrupt).status()); };
  std::thread waiting([&] { server_->WaitForStopRequest(); });
  WriteCallers("nonsense\n");
  EXPECT_TRUE(Reaches("server.configuration_refused", 1));
  EXPECT_EQ(code(), "OK");
  WriteCallers(TokenLine("another", "team-a", "read"));
  EXPECT_TRUE(Eventually([&] { return code() == "UNAUTHENTICATED"; }));
  server_->RequestStop("test");
  waiting.join();
}

TEST(Connect, ARefusalIsKnownLongBeforeTheTimeout) {
  const Endpoint nobody{Endpoint::Kind::kTcp, "127.0.0.1:" + std::to_string(FreePort())};
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status refused = client::Connect(nobody, {}, milliseconds(120'000)).status();
  EXPECT_TRUE(client::IsServerUnavailable(refused)) << refused;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kHangLimit);
}

TEST_F(NetworkTest, NobodyWaitsWhileSomebodyElseConnects) {
  // Connections to it wait until the test closes them.
  const int hole = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(hole, reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(hole, 16), 0);
  ASSERT_EQ(getsockname(hole, reinterpret_cast<sockaddr*>(&address), &size), 0);
  client::ServerSet::Options options;
  options.endpoints = {
      {Endpoint::Kind::kTcp, "127.0.0.1:" + std::to_string(ntohs(address.sin_port))},
      options_.network.listen[0]};
  options.access = OptionsOf("worker").servers.access;
  options.connect_timeout = kTimeout;
  client::ServerSet servers(options);
  const auto choose = [&] {
    client::ServerSet::Tried tried = servers.NoneTried();
    return servers.Choose(tried).value();
  };
  // A refused connection is tried a second time before the next server is asked.
  const auto refuse = [&](int connections) {
    for (int i = 0; i < connections; ++i) close(accept4(hole, nullptr, nullptr, SOCK_CLOEXEC));
  };
  std::thread refusing([&] { refuse(2); });
  const client::ServerSet::Choice choice = choose();
  refusing.join();
  ASSERT_EQ(choice.index, 1u);
  std::atomic<bool> connected = false;
  std::thread connecting([&] {
    EXPECT_EQ(choose().index, 1u);
    connected = true;
  });
  const int waiting = accept4(hole, nullptr, nullptr, SOCK_CLOEXEC);
  servers.Worked(choice);
  EXPECT_EQ(choose().connection, choice.connection);
  EXPECT_FALSE(connected) << "the other thread still connects";
  close(waiting);
  refuse(1);
  connecting.join();
  close(hole);
}

TEST(CheckNetwork, NamesWhatIsMissing) {
  NetworkOptions options;
  EXPECT_TRUE(CheckNetwork(options).ok());
  options.listen = {{Endpoint::Kind::kTls, "0.0.0.0:8471"}};
  EXPECT_EQ(ToText(CheckNetwork(options)),
            "INVALID_ARGUMENT: --listen needs --callers: a file that says who may call "
            "(docs/operations.md)");
  options.callers_file = "/callers";
  EXPECT_EQ(ToText(CheckNetwork(options)),
            "INVALID_ARGUMENT: --listen tls://... needs --tls-certificate and --tls-key");
  options.certificate_file = options.key_file = "/no/such";
  EXPECT_EQ(ToText(CheckNetwork(options)),
            "NOT_FOUND: --tls-certificate: there is no file /no/such");
  options.certificate_file = "/dev/null";
  EXPECT_EQ(ToText(CheckNetwork(options)),
            "UNAVAILABLE: --tls-certificate: /dev/null cannot be read: it is a device and not a "
            "regular file");
}

TEST_F(NetworkTest, AnAddressThatCannotBeListenedOnIsNamedWithTheReason) {
  ServerOptions second = options_;
  second.socket_path = folder_.path("second.sock");
  second.store.folder = folder_.path("second");
  const std::string taken = client::ToText(options_.network.listen);
  EXPECT_EQ(ToText(CompileServer::Start(second).status()),
            "UNAVAILABLE: cannot listen: " + taken + ": Address already in use");
  const Endpoint free{Endpoint::Kind::kTcp, "127.0.0.1:" + std::to_string(FreePort())};
  second.network.listen.push_back(free);
  EXPECT_EQ(ToText(CompileServer::Start(second).status()),
            "UNAVAILABLE: cannot listen: " + taken + ": Address already in use");
  EXPECT_EQ(WhyNotListening(free), "");
  EXPECT_EQ(WhyNotListening({Endpoint::Kind::kTls, "192.0.2.1:8471"}),
            "tls://192.0.2.1:8471: Cannot assign requested address");
  EXPECT_EQ(WhyNotListening({Endpoint::Kind::kTls, "[::ffff:192.0.2.1]:8471"}),
            "tls://[::ffff:192.0.2.1]:8471: Cannot assign requested address");
  EXPECT_EQ(WhyNotListening({Endpoint::Kind::kTls, "no-such-host.invalid:8471"}).substr(0, 33),
            "tls://no-such-host.invalid:8471: ");
}

TEST_F(NetworkTest, HealthIsToldWithoutAToken) {
  const auto channel =
      grpc::CreateChannel(options_.network.listen[0].target, grpc::InsecureChannelCredentials());
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  // HealthCheckRequest {} and HealthCheckResponse {status: SERVING} of grpc.health.v1.
  const grpc::Slice nothing;
  const grpc::ByteBuffer request(&nothing, 1);
  const auto call =
      stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
  grpc::ByteBuffer reply;
  grpc::Status status;
  call->StartCall();
  call->Finish(&reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&tag, &ok));
  ASSERT_TRUE(status.ok()) << status.error_message();
  grpc::Slice slice;
  ASSERT_TRUE(reply.DumpToSingleSlice(&slice).ok());
  EXPECT_EQ(std::string(slice.begin(), slice.end()), "\x08\x01");
}

}  // namespace
}  // namespace hpu::server
