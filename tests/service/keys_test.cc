// Content keys and front-end keys: who may claim which program, and how the keys lead to one
// program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "compile_client/connection.h"
#include "program/program.h"
#include "proto/grpc_status.h"
#include "tests/service/service_testing.h"

namespace hpu::server {
namespace {

using KeysTest = ServiceTest;

std::string NameOf(const absl::StatusOr<store::Entry>& entry) {
  return DecodeProgram(*entry.value().blobs.at(0)).value().functions[0].name;
}

TEST_F(KeysTest, AnotherGraphsKeyMisleadsNobodyElse) {
  // First tenant "a" compiles model A, then tenant "b" compiles model B's graph with model A's
  // front-end key.
  options_.tenant = "a";
  Restart();
  ASSERT_TRUE(Compile(1, "size:10 A").ok());
  options_.tenant = "b";
  Restart();
  EXPECT_TRUE(absl::IsNotFound(Get(1).status())) << "the aliases of a are not b's";
  EXPECT_EQ(Compile(1, "size:20 B").value().entry.blobs.at(1)->size(), 20u);
  EXPECT_EQ(NameOf(Get(1)), "size:20 B") << "b harms itself";
  EXPECT_EQ(NameOf(GetContent("size:10 A")), "size:10 A");
  EXPECT_EQ(NameOf(GetContent("size:20 B")), "size:20 B");
  // When b compiles A it gets A, and the wrong alias is replaced.
  const Compiled compiled = Compile(1, "size:10 A").value();
  EXPECT_EQ(compiled.origin, Origin::kStore);
  EXPECT_EQ(compiled.entry.manifest.key(), ContentKeyOf("size:10 A"));
  EXPECT_EQ(NameOf(Get(1)), "size:10 A");
  EXPECT_EQ(Counter("alias.replaced"), 1u);
  ASSERT_TRUE(Compile(1, "size:10 A").ok());
  EXPECT_EQ(Counter("alias.replaced"), 1u) << "the same again replaces nothing";
  options_.tenant = "a";
  Restart();
  EXPECT_EQ(NameOf(Get(1)), "size:10 A") << "never touched";
}

TEST_F(KeysTest, FrontEndsMeetInOneProgram) {
  ASSERT_EQ(Compile(1, "quick").value().origin, Origin::kCompiled);
  EXPECT_EQ(Compile(2, "quick").value().origin, Origin::kStore);
  client::CompileCall said = CallFor(3, "quick");
  said.options = {{"deterministic", "false"}};
  EXPECT_EQ(Client()->Compile(said, kTimeout, kNoProgress, kNoInterrupt)->origin, Origin::kStore);
  client::CompileCall bare = CallFor(0, "quick");
  bare.front_end.reset();
  EXPECT_EQ(Client()->Compile(bare, kTimeout, kNoProgress, kNoInterrupt)->origin, Origin::kStore);
  EXPECT_EQ(compiles(), 1u);
  for (const uint64_t key : {1, 2, 3}) {
    EXPECT_EQ(Get(key)->manifest.key(), ContentKeyOf("quick"));
  }
  EXPECT_TRUE(absl::IsNotFound(Get(0).status())) << "nobody filed it";
  const std::vector<client::Listed> listed = ListAll(*Client()).value();
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].aliases.size(), 3u);
  // Three compilations and three fetches found it; a look at its content does not count.
  EXPECT_EQ(listed[0].hits, 6u);
  ASSERT_TRUE(GetContent("quick").ok());
  EXPECT_EQ(ListAll(*Client())->at(0).hits, 6u);
}

TEST_F(KeysTest, OptionsAndDeviceMakeAnotherProgram) {
  ASSERT_TRUE(Compile(1, "quick").ok());
  client::CompileCall call = CallFor(2, "quick");
  call.options = {{"deterministic", "true"}};
  EXPECT_EQ(Client()->Compile(call, kTimeout, kNoProgress, kNoInterrupt)->origin,
            Origin::kCompiled);
  call = CallFor(3, "quick");
  call.isa_level = "x86-64-v2";
  EXPECT_EQ(Client()->Compile(call, kTimeout, kNoProgress, kNoInterrupt)->origin,
            Origin::kCompiled);
  EXPECT_EQ(compiles(), 3u);
}

TEST_F(KeysTest, JoinedRequestsFileTheirOwnKeys) {
  std::vector<std::future<Origin>> origins;
  for (uint64_t key = 1; key <= 3; ++key) {
    origins.push_back(std::async(std::launch::async,
                                 [this, key] { return Compile(key, Held()).value().origin; }));
  }
  EXPECT_TRUE(Reaches("compile.coalesced", 2));
  Release();
  int compiled = 0;
  for (std::future<Origin>& origin : origins) compiled += origin.get() == Origin::kCompiled ? 1 : 0;
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(compiles(), 1u);
  for (uint64_t key = 1; key <= 3; ++key) EXPECT_TRUE(Get(key).ok()) << key;
}

TEST_F(KeysTest, CompilingAnewQuarantinesWhatWasThere) {
  ASSERT_TRUE(Compile(1, "quick").ok());
  client::CompileCall call = CallFor(1, "quick");
  call.skip_cache_lookup = true;
  EXPECT_EQ(Client()->Compile(call, kTimeout, kNoProgress, kNoInterrupt)->origin,
            Origin::kCompiled);
  EXPECT_EQ(compiles(), 2u);
  EXPECT_EQ(Counter("rocksdb.quarantined"), 1u);
  EXPECT_EQ(Counter("compile.recompiles"), 1u);
  EXPECT_TRUE(Get(1).ok());
}

TEST_F(KeysTest, AProgramWithoutItsAliasOrTheOtherWayRoundIsAMiss) {
  ASSERT_TRUE(Compile(1, "quick").ok());
  server_.reset();
  {
    store::OpenedStore opened = store::OpenStore(options_.store).value();
    ASSERT_TRUE(opened.store->DropAlias(store::AliasId("local", DigestOf(1))).ok());
  }
  Start();
  EXPECT_TRUE(absl::IsNotFound(Get(1).status()));
  EXPECT_TRUE(GetContent("quick").ok());
  EXPECT_EQ(Compile(1, "quick").value().origin, Origin::kStore);
  server_.reset();
  {
    store::OpenedStore opened = store::OpenStore(options_.store).value();
    ASSERT_TRUE(opened.store->Quarantine(ContentKeyOf("quick"), "test").ok());
  }
  Start();
  EXPECT_TRUE(absl::IsNotFound(Get(1).status()));
  EXPECT_EQ(Compile(1, "quick").value().origin, Origin::kCompiled);
  EXPECT_TRUE(Get(1).ok());
}

// A request that no client of ours sends.
absl::Status Ask(const std::string& socket, const wire::CompileRequest& request) {
  const auto connection = client::ConnectUnix(socket).value();
  grpc::ClientContext context;
  const auto reader = connection->stub->Compile(&context, request);
  for (wire::CompileEvent event; reader->Read(&event);) {
  }
  return FromGrpc(reader->Finish());
}

TEST_F(KeysTest, WrongFieldsAreNamed) {
  wire::CompileRequest good;
  good.set_graph(GraphThatSays("quick"));
  good.set_device_kind("gaudi2");
  good.mutable_front_end()->set_key(std::string(32, 'k'));
  EXPECT_TRUE(Ask(options_.socket_path, good).ok());
  wire::CompileRequest request = good;
  request.mutable_front_end()->set_key("short");
  EXPECT_EQ(ToText(Ask(options_.socket_path, request)),
            "INVALID_ARGUMENT: front-end key has 5 bytes; a digest has 32");
  request = good;
  request.mutable_front_end()->set_label(std::string(257, 'x'));
  EXPECT_EQ(ToText(Ask(options_.socket_path, request)),
            "INVALID_ARGUMENT: the label has 257 bytes; at most 256 are taken");
  request = good;
  request.mutable_front_end()->add_factors()->set_value(std::string(600'000, 'x'));
  EXPECT_THAT(ToText(Ask(options_.socket_path, request)),
              testing::HasSubstr("key factors has 600000 bytes; at most 524288"));
  request = good;
  wire::CompileOption* option = request.add_options();
  option->set_name("disabled_passes");
  option->set_value("fuse");
  EXPECT_EQ(ToText(Ask(options_.socket_path, request)),
            "INVALID_ARGUMENT: unknown compile option disabled_passes; there are: deterministic");
  option->set_name("deterministic");
  option->set_value("True");
  EXPECT_EQ(ToText(Ask(options_.socket_path, request)),
            "INVALID_ARGUMENT: option deterministic is 'True'; allowed: true, false");
  EXPECT_EQ(compiles(), 1u);
}

TEST_F(KeysTest, AnotherProtocolVersionIsRefusedWithAdvice) {
  const auto connection = client::ConnectUnix(options_.socket_path).value();
  grpc::ClientContext context;
  wire::HelloRequest request;
  request.set_protocol_version(1);
  wire::HelloReply reply;
  EXPECT_EQ(ToText(FromGrpc(connection->stub->Hello(&context, request, &reply))),
            "FAILED_PRECONDITION: the client speaks version 1 of the compile protocol, the server "
            "version 4: they are of two installations; stop the daemon (hpu-compile stop), or give "
            "each installation a cache folder of its own (HPU_CACHE_DIR)");
  EXPECT_EQ(Client()->Hello(kNoInterrupt).value().protocol_version, 4u);
}

// Another request may store the program between this one's look-up and its place in the queue.
TEST(CompileQueue, TheLastLookIsToldAsTheStores) {
  const store::Entry entry = store::EntryOf(1);
  QueueOptions options;
  options.workers = 1;
  options.worker_command = {FAKE_SERVER, "--worker", "--log-level", "6"};
  QueueHooks hooks;
  hooks.look_up = [&](const CompileJob&) { return entry; };
  hooks.publish = [](const CompileJob&, CompileOutput,
                     std::chrono::microseconds) -> absl::StatusOr<store::Entry> {
    return Internal("nothing is to be compiled");
  };
  hooks.fail = [](const CompileJob&, const absl::Status&) {};
  CompileQueue queue(options, hooks);
  CompileJob job;
  job.key = entry.manifest.key();
  const absl::StatusOr<CompileQueue::Waiter> waiter = queue.Join(job);
  InflightCompilation::View view;
  while (!view.result.has_value()) view = waiter->inflight().Wait(view.version, kTimeout);
  ASSERT_TRUE(view.result->ok()) << view.result->status();
  EXPECT_TRUE((*view.result)->from_store);
  EXPECT_TRUE(store::SameEntry((*view.result)->entry, entry));
}

}  // namespace
}  // namespace hpu::server
