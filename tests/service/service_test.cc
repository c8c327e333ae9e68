// Tests the answers of the server and its worker processes to requests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "program/program.h"
#include "recipe_store/rocksdb/rocksdb_open.h"
#include "tests/service/service_testing.h"

namespace hpu::server {
namespace {

TEST_F(ServiceTest, CompilesOnceAndThenAnswersFromTheStore) {
  EXPECT_TRUE(absl::IsNotFound(Get(1).status()));
  const Compiled compiled = Compile(1, "size:3000000").value();
  EXPECT_EQ(compiled.origin, Origin::kCompiled);
  EXPECT_EQ(compiled.entry.blobs.at(1)->size(), 3'000'000u);
  EXPECT_EQ(compiled.entry.manifest.content.compiler_build_id, "build one");
  EXPECT_EQ(DecodeProgram(*compiled.entry.blobs.at(0)).value().recipes.at(0).size_bytes,
            3'000'000u);
  EXPECT_EQ(Compile(1, "size:3000000").value().origin, Origin::kStore);
  EXPECT_TRUE(store::SameEntry(Get(1).value(), compiled.entry));
  Restart();
  EXPECT_TRUE(store::SameEntry(Get(1).value(), compiled.entry));
  EXPECT_EQ(compiles(), 1u);
  const client::Listed listed = ListAll(*Client()).value().at(0);
  EXPECT_EQ(listed.manifest.key(), ContentKeyOf("size:3000000"));
  EXPECT_EQ(listed.aliases.at(0).label, "label size:3000000");
  EXPECT_EQ(listed.aliases.at(0).factors.at(0).value, "size:3000000");
}

TEST_F(ServiceTest, ManyRequestsForOneKeyAreOneCompilation) {
  constexpr int kClients = 32;
  std::atomic<int> compiled{0};
  std::atomic<int> coalesced{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&] {
      const absl::StatusOr<Compiled> result = Compile(1, Held());
      if (!result.ok()) return;
      if (result->origin == Origin::kCompiled) ++compiled;
      if (result->origin == Origin::kCoalesced) ++coalesced;
    });
  }
  EXPECT_TRUE(Reaches("compile.coalesced", kClients - 1));
  Release();
  for (std::thread& thread : clients) thread.join();
  EXPECT_EQ(compiles(), 1u);
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(coalesced, kClients - 1);
}

TEST_F(ServiceTest, ALeaderThatLeavesDoesNotTakeTheCompilationAlong) {
  std::atomic<bool> leave{false};
  std::thread leader([&] {
    const absl::StatusOr<Compiled> result = Compile(1, Held(), kTimeout, [&] {
      return leave ? absl::CancelledError("left") : absl::OkStatus();
    });
    EXPECT_TRUE(absl::IsCancelled(result.status()));
  });
  EXPECT_TRUE(Eventually([&] { return compiles() == 1; }));
  absl::StatusOr<Compiled> followed = absl::UnknownError("");
  std::thread follower([&] { followed = Compile(1, Held()); });
  EXPECT_TRUE(Reaches("compile.coalesced", 1));
  leave = true;
  leader.join();
  Release();
  follower.join();
  ASSERT_TRUE(followed.ok()) << followed.status();
  EXPECT_EQ(followed->origin, Origin::kCoalesced);
  EXPECT_EQ(compiles(), 1u);
}

TEST_F(ServiceTest, ADeadlineEndsTheCallAndNotTheCompilation) {
  const absl::Status late = Compile(1, Held(), milliseconds(1000)).status();
  EXPECT_EQ(ToText(late),
            "DEADLINE_EXCEEDED: no program within the 1000 ms that compile_timeout_s gives; the "
            "server goes on and keeps what it makes");
  EXPECT_FALSE(client::IsServerUnavailable(late)) << "the server says every 2 s that it is there";
  Release();
  EXPECT_TRUE(Eventually([&] { return GetContent(Held()).ok(); }));
  EXPECT_EQ(Compile(1, Held()).value().origin, Origin::kStore);
  EXPECT_TRUE(Get(1).ok());
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

TEST_F(ServiceTest, CompilationsShareTheThreads) {
  options_.queue.workers = 2;
  options_.queue.threads = 6;
  Restart();
  EXPECT_EQ(Compile(1, "threads").status().message(), "6 threads");
  std::thread other([&] { EXPECT_TRUE(Compile(2, Held()).ok()); });
  EXPECT_TRUE(Reaches("compile.running", 1));
  EXPECT_EQ(Compile(3, "threads:2").status().message(), "3 threads");
  Release();
  other.join();
  options_.queue.threads = 1;
  Restart();
  EXPECT_EQ(Compile(4, "threads:3").status().message(), "1 threads");
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
  EXPECT_TRUE(absl::IsNotFound(Get(1).status()));
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
  // A request may demand a new compilation.
  client::CompileCall again = CallFor(1, "unimplemented");
  again.skip_cache_lookup = true;
  EXPECT_TRUE(absl::IsUnimplemented(
      Client()->Compile(again, kTimeout, kNoProgress, kNoInterrupt).status()));
  EXPECT_EQ(compiles(), 6u);
}

TEST_F(ServiceTest, NoVerdictIsTakenForALostServer) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status verdict =
        Compile(static_cast<uint64_t>(code), "code:" + std::to_string(code)).status();
    EXPECT_FALSE(client::IsServerUnavailable(verdict)) << verdict;
    EXPECT_THAT(std::string(verdict.message()), testing::HasSubstr("as it was told to"));
  }
  server_.reset();
  const absl::Status lost = Compile(1, "quick").status();
  EXPECT_TRUE(client::IsServerUnavailable(lost)) << lost;
  EXPECT_TRUE(client::IsServerUnavailable(Annotate(lost, "asking"))) << "the type stays";
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
  options_.queue.time_limit = milliseconds(2000);
  Restart();
  const absl::Status status = Compile(1, Held()).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(status));
  EXPECT_FALSE(client::IsServerUnavailable(status));
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("longer than 2000 ms"));
  EXPECT_EQ(Counter("compile.negative_entries"), 0u);
  EXPECT_TRUE(Compile(1, "quick").ok());
}

TEST_F(ServiceTest, AnotherCompilersProgramsAreMisses) {
  ASSERT_TRUE(Compile(1, "quick").ok());
  options_.build_id = "build two";
  Restart();
  EXPECT_TRUE(absl::IsNotFound(Get(1).status()));
  EXPECT_EQ(Compile(1, "quick").value().origin, Origin::kCompiled);
  EXPECT_EQ(Get(1).value().manifest.content.compiler_build_id, "build two");
  EXPECT_EQ(ListAll(*Client()).value().size(), 2u) << "the old one ages out";
}

TEST_F(ServiceTest, StoppingEndsWaitingRequestsWithinTheGrace) {
  std::vector<std::thread> clients;
  std::atomic<int> unavailable{0};
  for (uint64_t key = 0; key < 4; ++key) {  // two run, two wait
    clients.emplace_back([&, key] {
      if (absl::IsUnavailable(Compile(key, Held(std::to_string(key))).status())) ++unavailable;
    });
  }
  EXPECT_TRUE(Eventually([&] { return compiles() == 2; }));
  EXPECT_TRUE(Reaches("compile.waiting", 2));
  ASSERT_TRUE(Client()->Shutdown("test", kNoInterrupt).ok());
  EXPECT_FALSE(std::filesystem::exists(options_.socket_path));
  EXPECT_EQ(server_->WaitForStopRequest(), "client: test");
  server_->Stop();  // nobody releases what is compiled
  for (std::thread& thread : clients) thread.join();
  EXPECT_EQ(unavailable, 4);
}

TEST_F(ServiceTest, EndsWhenIdle) {
  options_.idle_timeout = std::chrono::seconds(1);
  Restart();
  ASSERT_TRUE(Client()->Hello(kNoInterrupt).ok());
  EXPECT_EQ(server_->WaitForStopRequest(), "idle");
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
  EXPECT_TRUE(absl::IsNotFound(Get(1).status()));
  EXPECT_EQ(Compile(1, "size:100000").value().origin, Origin::kCompiled);
  EXPECT_TRUE(Get(1).ok());
}

TEST(NegativeCache, KeepsVerdictsForTheirTimeAndIsBounded) {
  NegativeCache cache(2, std::chrono::seconds(10));
  const auto now = NegativeCache::Clock::now();
  cache.Remember(DigestOf(1), Unimplemented("a"), now);
  cache.Remember(DigestOf(2), absl::DeadlineExceededError("b"), now);
  EXPECT_TRUE(cache.Find(DigestOf(1), now).has_value());
  EXPECT_FALSE(cache.Find(DigestOf(2), now).has_value());
  EXPECT_FALSE(cache.Find(DigestOf(1), now + std::chrono::seconds(11)).has_value());
  for (uint64_t key = 1; key <= 3; ++key) {
    cache.Remember(DigestOf(key), InvalidArgument("x"), now + std::chrono::seconds(key));
  }
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_FALSE(cache.Find(DigestOf(1), now).has_value());
}

}  // namespace
}  // namespace hpu::server
