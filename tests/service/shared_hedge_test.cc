// A slow shared engine: no request may take longer because of it than a compilation takes.
#include <signal.h>

#include <future>

#include "recipe_store/redis/redis_lease.h"
#include "tests/service/shared_store_testing.h"

namespace hpu::server {
namespace {

class SharedHedgeTest : public SharedStoreTest {
 protected:
  void SetUp() override {
    if (const std::string why = store::WhyNoRedis(); !why.empty()) GTEST_SKIP() << why;
    redis_.emplace();
    options_.store.redis = store::TestOptions(redis_->address());
    // This is so long that the test would notice a wait for it.
    options_.store.redis->connect_timeout = options_.store.redis->command_timeout =
        milliseconds(15'000);
    StartServers();
  }
  // Other servers must not wait for it while it does not answer.
  void Start() override {
    options_.store.hedge_after = milliseconds(100);
    SharedStoreTest::Start();
  }
  milliseconds TimeOf(const std::function<void()>& what) {
    const auto begin = std::chrono::steady_clock::now();
    what();
    return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin);
  }
  void WaitFor(const std::function<bool()>& what) {
    const auto deadline = std::chrono::steady_clock::now() + kTimeout;
    while (!what() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    EXPECT_TRUE(what());
  }
};

TEST_F(SharedHedgeTest, AnEngineThatSaysNothingIsNotWaitedFor) {
  redis_->Signal(SIGSTOP);
  const milliseconds took = TimeOf([&] {
    ASSERT_FALSE(Get(1).ok());
    const absl::StatusOr<Compiled> compiled = Compile(1, "quick");
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_EQ(compiled->origin, Origin::kCompiled);
  });
  EXPECT_LT(took, milliseconds(5000)) << "one answer would take 15 s";
  EXPECT_GE(Counter("shared.hedged"), 1u);
  EXPECT_EQ(Counter("compile.hedged"), 1u) << "the lease";
  redis_->Signal(SIGCONT);
}

TEST_F(SharedHedgeTest, WhatTheEngineHasOvertakesACompilation) {
  const std::string slow = "sleep:5000";
  std::thread first([&] { ASSERT_TRUE(CompileAt(1, 1, slow).ok()); });
  WaitFor([&] { return compiles() == 1; });
  first.join();
  WaitFor([&] { return CounterAt(1, "shared.waiting_writes") == 0; });
  redis_->Signal(SIGSTOP);
  std::thread back([&] {
    WaitFor([&] { return compiles() == 2; });
    redis_->Signal(SIGCONT);
  });
  absl::StatusOr<Compiled> found = absl::UnknownError("");
  const milliseconds took = TimeOf([&] { found = CompileAt(0, 1, slow); });
  back.join();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->origin, Origin::kStore);
  EXPECT_LT(took, milliseconds(4000)) << "it compiles for 5 s";
  EXPECT_EQ(CounterAt(0, "compile.overtaken"), 1u);
  EXPECT_GE(CounterAt(0, "shared.late"), 1u);
}

TEST_F(SharedHedgeTest, ALeaseThatComesTooLateIsGivenBack) {
  const auto client = store::RedisClient::Make(*options_.store.redis).value();
  store::RedisLeaseKeeper other(client);
  // A compilation of normal length can be seen while it runs.
  const std::string slow = "sleep:2000";
  std::thread compiling([&] { ASSERT_TRUE(Compile(2, slow).ok()); });
  WaitFor([&] { return other.Look(ContentKeyOf(slow)).ok(); });
  compiling.join();
  WaitFor([&] { return absl::IsNotFound(other.Look(ContentKeyOf(slow)).status()); });

  redis_->Signal(SIGSTOP);
  ASSERT_TRUE(Compile(1, "quick").ok());
  redis_->Signal(SIGCONT);
  WaitFor([&] { return Counter("lease.taken") == 2; });
  WaitFor([&] { return absl::IsNotFound(other.Look(ContentKeyOf("quick")).status()); });
}

TEST_F(SharedHedgeTest, AnEngineThatSaysNothingDelaysNoRecompilation) {
  ASSERT_TRUE(Compile(1, "quick").ok());
  WaitFor([&] { return Counter("shared.waiting_writes") == 0; });
  redis_->Signal(SIGSTOP);
  client::CompileCall anew = CallFor(1, "quick");
  anew.skip_cache_lookup = true;
  const milliseconds took = TimeOf([&] {
    const auto compiled = Client()->Compile(anew, kTimeout, kNoProgress, kNoInterrupt);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_EQ(compiled->origin, Origin::kCompiled);
  });
  EXPECT_LT(took, milliseconds(5000)) << "setting the old program aside would take 15 s";
  redis_->Signal(SIGCONT);
  // The old program is withdrawn there before the new one is written.
  WaitFor([&] { return Counter("shared.waiting_writes") == 0; });
  const absl::StatusOr<Compiled> other = CompileAt(1, 1, "quick");
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->origin, Origin::kStore);
  EXPECT_EQ(compiles(), 2u);
}

TEST_F(SharedHedgeTest, AFrozenRequestWaitsForTheEngine) {
  ASSERT_TRUE(CompileAt(1, 1, "quick").ok());
  WaitFor([&] { return CounterAt(1, "shared.waiting_writes") == 0; });
  redis_->Signal(SIGSTOP);
  std::thread back([&] {
    std::this_thread::sleep_for(milliseconds(1000));
    redis_->Signal(SIGCONT);
  });
  client::CompileCall frozen = CallFor(1, "quick");
  frozen.frozen = true;
  const auto found = Client()->Compile(frozen, kTimeout, kNoProgress, kNoInterrupt);
  EXPECT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(compiles(), 1u);
  back.join();
}

// The lease arrives after the compilation is complete, and after that was reported.
TEST(CompileQueueHedge, CompletionIsReportedAgainAfterALateLease) {
  std::promise<void> answer;
  std::promise<void> again;
  std::atomic<int> completed{0};
  QueueOptions options;
  options.workers = 1;
  options.worker_command = {FAKE_SERVER, "--worker", "--log-level", "6"};
  options.time_limit = kTimeout;
  options.hedge_after = milliseconds(20);
  QueueHooks hooks;
  hooks.look_up = [](const CompileJob&) -> absl::StatusOr<store::Entry> {
    return NotFound("none");
  };
  hooks.forward = [&](const CompileJob&, const ProgressFunction&) -> absl::StatusOr<CompileResult> {
    answer.get_future().wait();
    return Error(absl::StatusCode::kUnavailable, "the lease is this server's");
  };
  hooks.publish = [](const CompileJob&, CompileOutput, std::chrono::microseconds) {
    return absl::StatusOr<store::Entry>(store::EntryOf(1));
  };
  hooks.completed = [&](const CompileJob&) {
    if (++completed == 2) again.set_value();
  };
  hooks.fail = [](const CompileJob&, const absl::Status& failure) { ADD_FAILURE() << failure; };
  CompileQueue queue(options, hooks);
  CompileJob job;
  job.input.graph = GraphThatSays("quick");
  const absl::StatusOr<CompileQueue::Waiter> waiter = queue.Join(job);
  InflightCompilation::View view;
  while (!view.result.has_value()) view = waiter->inflight().Wait(view.version, kTimeout);
  EXPECT_TRUE(view.result->ok()) << view.result->status();
  EXPECT_EQ(completed, 1);
  answer.set_value();
  EXPECT_EQ(again.get_future().wait_for(kTimeout), std::future_status::ready);
}

}  // namespace
}  // namespace hpu::server
