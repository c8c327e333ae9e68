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
    // A call that waits for an answer has no time left.
    options_.store.redis->connect_timeout = options_.store.redis->command_timeout = 2 * kTimeout;
    StartServers();
  }
  // Other servers must not wait for it while it does not answer.
  void Start() override {
    options_.store.hedge_after = milliseconds(100);
    SharedStoreTest::Start();
  }
};

TEST_F(SharedHedgeTest, AnEngineThatSaysNothingIsNotWaitedFor) {
  redis_->Signal(SIGSTOP);
  EXPECT_TRUE(absl::IsNotFound(Get(1).status()));
  const absl::StatusOr<Compiled> compiled = Compile(1, "quick");
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(compiled->origin, Origin::kCompiled);
  EXPECT_GE(Counter("shared.hedged"), 1u);
  EXPECT_EQ(Counter("compile.hedged"), 1u) << "the lease";
  redis_->Signal(SIGCONT);
}

TEST_F(SharedHedgeTest, WhatTheEngineHasOvertakesACompilation) {
  Release();
  ASSERT_TRUE(CompileAt(1, 1, Held()).ok());
  HoldAgain();
  EXPECT_TRUE(Eventually([&] { return CounterAt(1, "shared.waiting_writes") == 0; }));
  redis_->Signal(SIGSTOP);
  std::thread back([&] {
    EXPECT_TRUE(Eventually([&] { return compiles() == 2; }));
    redis_->Signal(SIGCONT);
  });
  const absl::StatusOr<Compiled> found = CompileAt(0, 1, Held());
  back.join();
  Release();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->origin, Origin::kStore);
  EXPECT_EQ(CounterAt(0, "compile.overtaken"), 1u);
  EXPECT_GE(CounterAt(0, "shared.late"), 1u);
}

TEST_F(SharedHedgeTest, ALeaseThatComesTooLateIsGivenBack) {
  const auto client = store::RedisClient::Make(*options_.store.redis).value();
  store::RedisLeaseKeeper other(client);
  const auto is_free = [&](const std::string& name) {
    return absl::IsNotFound(other.Look(ContentKeyOf(name)).status());
  };
  // A lease that comes in time can be seen while its compilation runs.
  std::thread compiling([&] { EXPECT_TRUE(Compile(2, Held()).ok()); });
  EXPECT_TRUE(Eventually([&] { return other.Look(ContentKeyOf(Held())).ok(); }));
  Release();
  compiling.join();
  EXPECT_TRUE(Eventually([&] { return is_free(Held()); }));

  redis_->Signal(SIGSTOP);
  ASSERT_TRUE(Compile(1, "quick").ok());
  redis_->Signal(SIGCONT);
  EXPECT_TRUE(Reaches("lease.taken", 2));
  EXPECT_TRUE(Eventually([&] { return is_free("quick"); }));
}

TEST_F(SharedHedgeTest, AnEngineThatSaysNothingDelaysNoRecompilation) {
  ASSERT_TRUE(Compile(1, "quick").ok());
  EXPECT_TRUE(Eventually([&] { return Counter("shared.waiting_writes") == 0; }));
  redis_->Signal(SIGSTOP);
  client::CompileCall anew = CallFor(1, "quick");
  anew.skip_cache_lookup = true;
  const auto compiled = Client()->Compile(anew, kTimeout, kNoProgress, kNoInterrupt);
  redis_->Signal(SIGCONT);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(compiled->origin, Origin::kCompiled);
  // The old program is withdrawn there before the new one is written.
  EXPECT_TRUE(Eventually([&] { return Counter("shared.waiting_writes") == 0; }));
  const absl::StatusOr<Compiled> other = CompileAt(1, 1, "quick");
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->origin, Origin::kStore);
  EXPECT_EQ(compiles(), 2u);
}

TEST_F(SharedHedgeTest, AFrozenRequestWaitsForTheEngine) {
  ASSERT_TRUE(CompileAt(1, 1, "quick").ok());
  EXPECT_TRUE(Eventually([&] { return CounterAt(1, "shared.waiting_writes") == 0; }));
  redis_->Signal(SIGSTOP);
  std::thread back([&] {
    EXPECT_TRUE(Reaches("compile.requests", 1));
    // A request that comes later does not wait, and has left.
    EXPECT_TRUE(absl::IsNotFound(Get(2).status()));
    EXPECT_GE(Counter("shared.hedged"), 1u);
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
