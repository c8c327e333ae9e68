// Tests what administrators can do to the programs of a server, who may do it, and what the audit
// log records about it.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <gtest/gtest.h>

#include <thread>

#include "compile_client/request_id.h"
#include "compiler_server/service/admin/audit_log.h"
#include "recipe_store/rocksdb/rocksdb_open.h"
#include "tests/service/network_testing.h"

namespace hpu::server {
namespace {

using client::ByContentKey;
using client::ByFrontEndKey;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class AdministrationTest : public NetworkTest {
 protected:
  void SetUp() override {
    options_.audit_file = folder_.path("audit.log");
    NetworkTest::SetUp();
  }

  client::Exported Export(uint64_t key, const std::string& name) {
    const client::Fetched fetched =
        Client()->Get(ByFrontEndKey{DigestOf(key)}, kNoInterrupt).value();
    EXPECT_EQ(fetched.entry.manifest.key(), ContentKeyOf(name));
    return {fetched.entry.signed_manifest, fetched.entry.blobs, {fetched.alias->signed_record}};
  }
  absl::StatusOr<uint64_t> Import(const client::Exported& program) {
    return Client()->Import(program, kTimeout, kNoInterrupt);
  }
  // "ACTION RESULT" for each line.
  std::vector<std::string> Audited() const {
    std::vector<std::string> found;
    std::ifstream file(options_.audit_file);
    const auto field = [](const std::string& line, const std::string& name) {
      const size_t begin = line.find("\"" + name + "\":\"") + name.size() + 4;
      return line.substr(begin, line.find('"', begin) - begin);
    };
    for (std::string line; std::getline(file, line);) {
      found.push_back(field(line, "caller") + " " + field(line, "action") + " " +
                      field(line, "result"));
    }
    return found;
  }
};

TEST_F(AdministrationTest, IsForAdministrators) {
  ASSERT_TRUE(Compile(1, "quick").ok());
  const client::Exported program = Export(1, "quick");
  const auto answers = [&](const std::string& name) {
    client::RpcClient client(OptionsOf(name));
    const Digest key = ContentKeyOf("quick");
    return std::vector<absl::StatusCode>{
        client.Pin(key, true, kNoInterrupt).code(),
        client.CollectGarbage(1 << 30, std::chrono::seconds(0), kTimeout, kNoInterrupt)
            .status()
            .code(),
        client
            .Verify(
                kTimeout, [](const client::VerifiedProgram&) { return absl::OkStatus(); },
                kNoInterrupt)
            .code(),
        client.Import(program, kTimeout, kNoInterrupt).status().code()};
  };
  using Codes = std::vector<absl::StatusCode>;
  EXPECT_EQ(answers(""), Codes(4, absl::StatusCode::kUnauthenticated));
  EXPECT_EQ(answers("reader"), Codes(4, absl::StatusCode::kPermissionDenied));
  EXPECT_EQ(answers("worker"), Codes(4, absl::StatusCode::kPermissionDenied));
  EXPECT_EQ(answers("operator"), Codes(4, absl::StatusCode::kOk));
  EXPECT_TRUE(ListAll(*Client())->at(0).pinned);
}

TEST_F(AdministrationTest, IsWrittenDown) {
  ASSERT_TRUE(Compile(1, "quick").ok());
  client::RpcClient worker(OptionsOf("worker"));
  client::RpcClient admin(OptionsOf("operator"));
  ASSERT_TRUE(worker.Compile(CallFor(2, "sleep:1"), kTimeout, kNoProgress, kNoInterrupt).ok());
  ASSERT_TRUE(worker.Compile(CallFor(2, "sleep:1"), kTimeout, kNoProgress, kNoInterrupt).ok());
  EXPECT_FALSE(worker.Pin(ContentKeyOf("quick"), true, kNoInterrupt).ok());
  EXPECT_FALSE(admin.Pin(DigestOf(99), true, kNoInterrupt).ok());
  ASSERT_TRUE(admin.Pin(ContentKeyOf("quick"), true, kNoInterrupt).ok());
  // A log that was moved away is started again.
  std::filesystem::rename(options_.audit_file, folder_.path("audit.log.1"));
  const client::Garbage garbage =
      admin.CollectGarbage(0, std::chrono::seconds(0), kTimeout, kNoInterrupt).value();
  EXPECT_EQ(garbage.removed, 1u) << "the other one is pinned";
  EXPECT_GT(garbage.bytes_before, garbage.bytes_after);
  ASSERT_TRUE(admin.Pin(ContentKeyOf("quick"), false, kNoInterrupt).ok());
  EXPECT_THAT(Audited(), ElementsAre("operator collect-garbage OK", "operator unpin OK"));
  options_.audit_file = folder_.path("audit.log.1");
  EXPECT_THAT(Audited(), ElementsAre("own user compile OK", "worker compile OK",
                                     "worker refuse PERMISSION_DENIED", "operator pin NOT_FOUND",
                                     "operator pin OK"));
}

TEST_F(AdministrationTest, EvictionsAreWrittenDownWithWhoseTheyWereAndWhy) {
  server_.reset();
  options_.store.max_bytes = 21'000;
  options_.store.tenant_bytes = 14'000;
  Start();
  const auto compile = [&](const std::string& name, int number) {
    const std::string graph = "size:5000 number " + std::to_string(number);
    const auto call = CallFor(static_cast<uint64_t>(number), graph);
    client::RpcClient client(OptionsOf(name));
    EXPECT_TRUE(client.Compile(call, kTimeout, kNoProgress, kNoInterrupt).ok());
    return ToHex(ContentKeyOf(graph));
  };
  const std::string first = compile("worker", 1);
  const std::string second = compile("stranger", 2);
  compile("stranger", 3);
  compile("stranger", 4);  // over its share
  compile("operator", 5);  // the store is full, and the worker's program is the oldest
  std::vector<std::string> evictions;
  std::ifstream file(options_.audit_file);
  for (std::string line; std::getline(file, line);) {
    if (line.find("\"evict\"") == std::string::npos) continue;
    evictions.push_back(line.substr(line.find("\"caller\"")));
  }
  const auto line = [](const std::string& tenant, const std::string& key, const std::string& why) {
    return "\"caller\":\"\",\"tenant\":\"" + tenant +
           "\",\"door\":\"\",\"action\":\"evict\",\"result\":\"OK\",\"key\":\"" + key +
           "\",\"detail\":\"" + why + "\"}";
  };
  EXPECT_THAT(evictions, ElementsAre(line("team-b", second, "the tenant's share is full"),
                                     line("team-a", first, "the store is full")));
}

TEST_F(AdministrationTest, AStrangerDoesNotFillTheLog) {
  for (int i = 0; i < 30; ++i) {
    EXPECT_FALSE(client::RpcClient(OptionsOf("nobody")).Hello(kNoInterrupt).ok());
  }
  EXPECT_FALSE(client::RpcClient(OptionsOf("reader")).Stats(kNoInterrupt).ok());
  EXPECT_EQ(Counter("server.refused"), 31u);
  EXPECT_EQ(Audited().size(), 2u) << "one of each reason";
}

TEST(RefusalLog, OneLineOfAnAddressAndReasonInAWhile) {
  RefusalLog log;
  const RefusalLog::Time begin = RefusalLog::Time() + std::chrono::hours(1);
  const auto later = [&](int seconds) { return begin + std::chrono::seconds(seconds); };
  EXPECT_EQ(log.Add("a", "who", begin), 0u);
  EXPECT_EQ(log.Add("a", "who", later(1)), std::nullopt);
  EXPECT_EQ(log.Add("a", "who", later(9)), std::nullopt);
  EXPECT_EQ(log.Add("a", "why", later(9)), 0u);
  EXPECT_EQ(log.Add("b", "who", later(9)), 0u);
  EXPECT_EQ(log.Add("a", "who", later(10)), 2u) << "those that were left out";
  EXPECT_EQ(log.Add("a", "who", later(20)), 0u);
  // The count does not depend on the number of addresses.
  size_t lines = 0;
  for (int i = 0; i < 10'000; ++i) {
    lines += log.Add("address " + std::to_string(i), "who", later(20)).has_value() ? 1 : 0;
  }
  EXPECT_LE(lines, RefusalLog::kMaxKinds);
  EXPECT_EQ(log.Add("quiet", "who", later(30)), 0u) << "there is place again";
  uint64_t left_out = 0;
  for (int i = 0; i < 300; ++i) {
    left_out += log.Add("more " + std::to_string(i), "who", later(30)).value_or(0);
  }
  EXPECT_GE(left_out, 9'000u);
}

TEST(RefusalLog, AnAddressHasNoPort) {
  EXPECT_EQ(AddressOf("ipv4:10.0.0.7:50123"), "ipv4:10.0.0.7");
  EXPECT_EQ(AddressOf("ipv6:%5B::1%5D:50123"), "ipv6:%5B::1%5D");
  EXPECT_EQ(AddressOf("unix:"), "unix:");
}

TEST(AuditLog, ALineIsOneJsonObjectWhateverIsInIt) {
  EXPECT_EQ(ToJsonLine({"na\"me", "a\\b", "unix", "compile", absl::StatusCode::kNotFound, "00",
                        "two\nlines \x01 \xc3\xa9"},
                       1'000),
            "{\"time\":\"1970-01-01T00:00:01.000Z\",\"caller\":\"na\\\"me\",\"tenant\":\"a\\\\b\","
            "\"door\":\"unix\",\"action\":\"compile\",\"result\":\"NOT_FOUND\",\"key\":\"00\","
            "\"detail\":\"two\\u000alines \\u0001 \\u00c3\\u00a9\"}\n");
  EXPECT_TRUE(absl::IsUnavailable(AuditLog::Open("/nowhere/audit.log").status()));
}

TEST_F(AdministrationTest, VerifyFindsWhatIsDamagedUnderTheCache) {
  for (uint64_t n = 0; n < 3; ++n) ASSERT_TRUE(Compile(n, "quick " + std::to_string(n)).ok());
  const Digest victim = ContentKeyOf("quick 1");
  const store::BlobRef blob = Get(1)->manifest.program;
  server_.reset();
  {
    store::Database database = store::OpenDatabase(options_.store.folder + "/db").value();
    const rocksdb::Slice key(reinterpret_cast<const char*>(blob.digest.data()), blob.digest.size());
    ASSERT_TRUE(database.db->Put({}, database.blobs, key, "damaged").ok());
  }
  Start();
  std::map<Digest, std::string> problems;
  const auto note = [&](const client::VerifiedProgram& program) {
    EXPECT_EQ(program.total, 3u);
    EXPECT_EQ(program.done, problems.size() + 1);
    problems[program.content_key] = program.problem;
    return absl::OkStatus();
  };
  ASSERT_TRUE(Client()->Verify(kTimeout, note, kNoInterrupt).ok());
  EXPECT_THAT(problems.at(victim), HasSubstr("DATA_LOSS"));
  EXPECT_THAT(problems.at(ContentKeyOf("quick 0")), IsEmpty());
  EXPECT_THAT(problems.at(ContentKeyOf("quick 2")), IsEmpty());
  EXPECT_TRUE(absl::IsNotFound(Get(1).status())) << "it is set aside";
  EXPECT_EQ(Compile(1, "quick 1")->origin, Origin::kCompiled);
}

TEST_F(AdministrationTest, VerifyFindsManifestsThatCannotBeRead) {
  ASSERT_TRUE(Compile(1, "quick 1").ok());
  ASSERT_TRUE(Compile(2, "quick 2").ok());
  const Digest victim = ContentKeyOf("quick 1");
  server_.reset();
  {
    store::Database database = store::OpenDatabase(options_.store.folder + "/db").value();
    const rocksdb::Slice key(reinterpret_cast<const char*>(victim.data()), victim.size());
    ASSERT_TRUE(database.db->Put({}, database.manifests, key, "damaged").ok());
  }
  Start();
  std::map<Digest, std::string> problems;
  const auto note = [&](const client::VerifiedProgram& program) {
    problems[program.content_key] = program.problem;
    return absl::OkStatus();
  };
  ASSERT_TRUE(Client()->Verify(kTimeout, note, kNoInterrupt).ok());
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_THAT(problems.at(victim), HasSubstr("DATA_LOSS"));
  EXPECT_THAT(problems.at(ContentKeyOf("quick 2")), IsEmpty());
  EXPECT_EQ(Counter("rocksdb.quarantined"), 1u);
}

TEST_F(AdministrationTest, LookingIsNoUse) {
  for (uint64_t n = 0; n < 3; ++n) ASSERT_TRUE(Compile(n, "quick " + std::to_string(n)).ok());
  const uint64_t size = Get(0)->size_bytes();
  Restart();
  ASSERT_TRUE(Get(1).ok());
  const auto ignore = [](const client::VerifiedProgram&) { return absl::OkStatus(); };
  ASSERT_TRUE(Client()->Verify(kTimeout, ignore, kNoInterrupt).ok());
  ASSERT_TRUE(GetContent("quick 0").ok());
  // There is room for one program and its alias: the one that was used stays.
  ASSERT_TRUE(Client()
                  ->CollectGarbage(size + size / 2, std::chrono::seconds(0), kTimeout, kNoInterrupt)
                  .ok());
  const std::vector<client::Listed> left = ListAll(*Client()).value();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].manifest.key(), ContentKeyOf("quick 1"));
}

TEST_F(AdministrationTest, ProgramsOfForeignSignersAreNamedAndStay) {
  ASSERT_TRUE(Compile(1, "quick").ok());
  server_.reset();
  ASSERT_TRUE(std::filesystem::remove(options_.store.folder + "/signing.key"));
  Start();
  std::vector<std::string> problems;
  const auto note = [&](const client::VerifiedProgram& program) {
    problems.push_back(program.problem);
    return absl::OkStatus();
  };
  ASSERT_TRUE(Client()->Verify(kTimeout, note, kNoInterrupt).ok());
  EXPECT_THAT(problems, ElementsAre(HasSubstr("signed by a key not trusted")));
  EXPECT_EQ(ListAll(*Client())->size(), 1u);
}

TEST_F(AdministrationTest, AnExportedProgramComesBackAsItWas) {
  ASSERT_TRUE(Compile(1, "size:3000000").ok());
  const client::Exported program = Export(1, "size:3000000");
  ASSERT_EQ(Client()->CollectGarbage(0, std::chrono::seconds(0), kTimeout, kNoInterrupt)->removed,
            1u);
  ASSERT_TRUE(absl::IsNotFound(Get(1).status()));
  EXPECT_EQ(Import(program).value(), 1u);
  const store::Entry entry = Get(1).value();
  EXPECT_EQ(entry.signed_manifest, program.manifest);
  EXPECT_EQ(*entry.blobs[1], *program.blobs[1]);
  EXPECT_EQ(compiles(), 1u);
}

TEST_F(AdministrationTest, NothingForeignOrDamagedIsImported) {
  ASSERT_TRUE(Compile(1, "size:3000").ok());
  ASSERT_TRUE(Compile(2, "size:5000").ok());
  const client::Exported good = Export(1, "size:3000");
  const client::Exported other = Export(2, "size:5000");
  ASSERT_EQ(Client()->CollectGarbage(0, std::chrono::seconds(0), kTimeout, kNoInterrupt)->removed,
            2u);
  const auto refusal = [&](const std::function<void(client::Exported&)>& change) {
    client::Exported changed = good;
    change(changed);
    return Import(changed).status().code();
  };
  using Code = absl::StatusCode;
  const store::SigningKey stranger = store::SigningKey::Generate();
  EXPECT_EQ(refusal([&](client::Exported& p) {
              p.manifest = stranger.Sign(store::RecordKind::kManifest, p.manifest.record);
            }),
            Code::kPermissionDenied);
  EXPECT_EQ(refusal([](client::Exported& p) { p.manifest.record[30] ^= 1; }),
            Code::kPermissionDenied);
  EXPECT_EQ(refusal([](client::Exported& p) {
              Bytes bytes = *p.blobs[1];
              bytes[100] ^= 1;
              p.blobs[1] = std::make_shared<const Bytes>(std::move(bytes));
            }),
            Code::kDataLoss);
  EXPECT_EQ(refusal([](client::Exported& p) { p.blobs.pop_back(); }), Code::kDataLoss);
  EXPECT_EQ(refusal([&](client::Exported& p) { p.blobs = other.blobs; }), Code::kDataLoss);
  EXPECT_EQ(refusal([](client::Exported& p) { p.manifest.record = {1, 2, 3}; }), Code::kDataLoss);
  EXPECT_THAT(ListAll(*Client()).value(), IsEmpty());
  // The program is valid here; its alias belongs to another one, or is signed by somebody else.
  EXPECT_EQ(refusal([&](client::Exported& p) { p.aliases = other.aliases; }),
            Code::kInvalidArgument);
  EXPECT_EQ(refusal([&](client::Exported& p) {
              p.aliases = {stranger.Sign(store::RecordKind::kAlias, p.aliases[0].record)};
            }),
            Code::kPermissionDenied);
  EXPECT_TRUE(absl::IsNotFound(Get(1).status()));
  EXPECT_TRUE(absl::IsNotFound(Get(2).status()));
}

// Does what grpcurl and similar tools do. It sends raw bytes, because the messages are not from our
// protocol.
TEST_F(AdministrationTest, TheNetworkPortTellsItsProtocol) {
  grpc::GenericStub stub(
      grpc::CreateChannel(options_.network.listen[0].target, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTimeout);
  grpc::CompletionQueue queue;
  const auto wait = [&] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto call = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  call->StartCall(&stub);
  ASSERT_TRUE(wait());
  // list_services = "*"
  const grpc::Slice request("\x3a\x01*", 3);
  call->Write(grpc::ByteBuffer(&request, 1), &stub);
  ASSERT_TRUE(wait());
  grpc::ByteBuffer answer;
  call->Read(&answer, &stub);
  ASSERT_TRUE(wait());
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(answer.Dump(&slices).ok());
  std::string text;
  for (const grpc::Slice& slice : slices) text.append(slice.begin(), slice.end());
  EXPECT_THAT(text, HasSubstr("hpu.wire.CompileService"));
  EXPECT_THAT(text, HasSubstr("grpc.health.v1.Health"));
}

TEST_F(AdministrationTest, ACallHasOneNameInTheLogsOfAll) {
  const std::string log = folder_.path("server.log");
  ConfigureLog("test", LogLevel::kInfo, log);
  {
    const client::RequestScope scope("name-of-this-call");
    ASSERT_TRUE(Compile(1, "quick").ok());
    EXPECT_THAT(ToText(Compile(2, "invalid").status()), testing::Not(HasSubstr("name-of")));
    EXPECT_THAT(ToText(client::RpcClient(OptionsOf("reader")).Stats(kNoInterrupt).status()),
                HasSubstr("(request name-of-this-call)"));
  }
  ConfigureLog("test", LogLevel::kOff, "");
  std::ifstream file(log);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_THAT(text, HasSubstr("kept=1 request=name-of-this-call")) << "of the compiling thread";
  EXPECT_THAT(text, testing::ContainsRegex("answered key=[^\n]* request=name-of-this-call"));
  EXPECT_TRUE(client::IsRequestId(client::NewRequestId()));
  for (const char* bad : {"", "two words", "a\nb", "caf\xc3\xa9"}) {
    EXPECT_FALSE(client::IsRequestId(bad)) << bad;
  }
  EXPECT_FALSE(client::IsRequestId(std::string(65, 'a')));
}

}  // namespace
}  // namespace hpu::server
