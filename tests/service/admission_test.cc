// Tests which requests are admitted, which go first, and what the others are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "compiler_server/service/queue/fair_queue.h"
#include "compiler_server/service/queue/tenant_budget.h"
#include "tests/service/service_testing.h"

namespace hpu::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<uint64_t> PopAll(FairQueue& queue) {
  std::map<Digest, uint64_t> numbers;
  for (uint64_t n = 0; n < 100; ++n) numbers[DigestOf(n)] = n;
  std::vector<uint64_t> popped;
  while (const std::optional<Digest> key = queue.Pop()) popped.push_back(numbers.at(*key));
  return popped;
}

TEST(FairQueue, TenantsTakeTurns) {
  FairQueue queue;
  for (uint64_t n = 0; n < 4; ++n) queue.Push(DigestOf(n), "many", false);
  queue.Push(DigestOf(10), "few", false);
  queue.Push(DigestOf(20), "other", false);
  queue.Push(DigestOf(21), "other", false);
  EXPECT_EQ(queue.size(), 7u);
  EXPECT_EQ(queue.size_of("many"), 4u);
  EXPECT_EQ(queue.Order().size(), 7u);
  EXPECT_THAT(PopAll(queue), ElementsAre(10, 0, 20, 1, 21, 2, 3));
  EXPECT_TRUE(queue.empty());
}

TEST(FairQueue, WhoWaitsGoesFirstAndWarmUpIsNotStarved) {
  FairQueue queue;
  for (uint64_t n = 50; n < 53; ++n) queue.Push(DigestOf(n), "t", true);
  for (uint64_t n = 0; n < 16; ++n) queue.Push(DigestOf(n), "t", false);
  EXPECT_THAT(PopAll(queue),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 50, 7, 8, 9, 10, 11, 12, 13, 51, 14, 15, 52));
}

TEST(FairQueue, OneThatSomebodyWaitsForNowIsPromoted) {
  FairQueue queue;
  queue.Push(DigestOf(1), "t", true);
  queue.Push(DigestOf(2), "t", true);
  queue.Push(DigestOf(3), "t", false);
  queue.Promote(DigestOf(2));
  queue.Promote(DigestOf(2));
  queue.Promote(DigestOf(99));
  queue.Erase(DigestOf(3));
  queue.Erase(DigestOf(3));
  EXPECT_THAT(PopAll(queue), ElementsAre(2, 1));
}

TEST(TenantBudget, IsUsedUpAndFillsAgain) {
  const auto start = TenantBudget::Clock::now();
  const auto at = [&](int seconds) { return start + std::chrono::seconds(seconds); };
  TenantBudget budget(std::chrono::seconds(60));
  EXPECT_EQ(budget.Wait("a", at(0)).count(), 0);
  budget.Charge("a", std::chrono::seconds(90), at(0));
  // It owes 30 s, and earns one in 60.
  EXPECT_EQ(budget.Wait("a", at(0)).count(), 1'800'001);
  EXPECT_EQ(budget.Wait("b", at(0)).count(), 0);
  EXPECT_GT(budget.Wait("a", at(1799)).count(), 0);
  EXPECT_EQ(budget.Wait("a", at(1801)).count(), 0);
  // No more than the budget of an hour is saved.
  EXPECT_EQ(budget.Wait("a", at(1'000'000)).count(), 0);
  budget.Charge("a", std::chrono::seconds(61), at(1'000'000));
  EXPECT_GT(budget.Wait("a", at(1'000'000)).count(), 0);
  TenantBudget none(std::chrono::seconds(0));
  none.Charge("a", std::chrono::hours(9), at(0));
  EXPECT_EQ(none.Wait("a", at(0)).count(), 0);
}

class AdmissionTest : public ServiceTest {
 protected:
  void SetUp() override {
    options_.queue.workers = 1;
    ServiceTest::SetUp();
  }

  std::unique_ptr<client::RpcClient> ImpatientClient() {
    client::RpcClient::Options options = client::LocalServer(options_.socket_path);
    options.busy_retries = 0;
    return std::make_unique<client::RpcClient>(std::move(options));
  }
  absl::Status Refusal(const client::CompileCall& call) {
    return ImpatientClient()->Compile(call, kTimeout, kNoProgress, kNoInterrupt).status();
  }
  // A compilation that occupies the worker.
  std::thread Busy(const std::string& name) {
    std::thread thread([this, name] { EXPECT_TRUE(Compile(1000, name).ok()); });
    EXPECT_TRUE(Reaches("compile.running", 1));
    return thread;
  }
};

TEST_F(AdmissionTest, TooMuchAtOnceIsRefusedWithATime) {
  options_.queue.max_request_bytes = 100;
  Restart();
  std::thread busy = Busy(Held());
  const absl::Status refused = Refusal(CallFor(2, "quick"));
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("bytes of requests are waiting; ask again"));
  EXPECT_EQ(client::RetryHint(refused), milliseconds(500));
  // A patient client asks again at the time that it was given, and is admitted when the other
  // compilation is done.
  std::thread patient([this] { EXPECT_TRUE(Compile(2, "quick").ok()); });
  EXPECT_TRUE(Reaches("compile.turned_away", 2));
  Release();
  patient.join();
  busy.join();
  EXPECT_EQ(Counter("compile.request_bytes"), 0u);
}

TEST_F(AdmissionTest, ATenantHasSoManyPlacesAndSoMuchTime) {
  options_.queue.max_waiting_of_tenant = 2;
  options_.queue.tenant_budget = std::chrono::seconds(1);
  Restart();
  const std::string first = Held("sleep:1100");  // more than the budget
  std::thread busy = Busy(first);
  std::thread waiting([this] { EXPECT_TRUE(Compile(1, "quick second").ok()); });
  EXPECT_TRUE(Reaches("compile.waiting", 1));
  // A request that joins a running compilation counts as well.
  EXPECT_TRUE(absl::IsResourceExhausted(Refusal(CallFor(4, first))));
  EXPECT_THAT(std::string(Refusal(CallFor(2, "quick")).message()),
              HasSubstr("2 requests of tenant local are waiting; ask again in"));
  Release();
  busy.join();
  waiting.join();
  const absl::Status spent = Refusal(CallFor(3, "quick"));
  EXPECT_THAT(std::string(spent.message()),
              HasSubstr("tenant local has used its 1 compile seconds of an hour; ask again in"));
  EXPECT_EQ(client::RetryHint(spent), milliseconds(60'000));
  EXPECT_EQ(Compile(1, "quick second")->origin, Origin::kStore) << "what is there costs nothing";
}

TEST_F(AdmissionTest, WarmUpWaitsForThoseWhoWait) {
  std::thread busy = Busy(Held());
  std::vector<std::thread> threads;
  const auto ask = [&](uint64_t key, const std::string& name, bool warm_up, uint64_t waiting) {
    threads.emplace_back([this, key, name, warm_up] {
      client::CompileCall call = CallFor(key, name);
      call.warm_up = warm_up;
      EXPECT_TRUE(Client()->Compile(call, kTimeout, kNoProgress, kNoInterrupt).ok());
    });
    EXPECT_TRUE(Reaches("compile.waiting", waiting));
  };
  ask(1, "quick warm", true, 1);
  ask(2, "quick warm and wanted", true, 2);
  ask(3, "quick asked", false, 3);
  threads.emplace_back([this] { EXPECT_TRUE(Compile(2, "quick warm and wanted").ok()); });
  EXPECT_TRUE(Reaches("compile.coalesced", 1));
  Release();
  busy.join();
  for (std::thread& thread : threads) thread.join();
  std::ifstream log(folder_.path("compiles"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(log, line);) lines.push_back(line);
  EXPECT_THAT(lines, ElementsAre(Held(), "quick asked", "quick warm and wanted", "quick warm"));
}

TEST_F(AdmissionTest, AFrozenRequestLeavesTheStoreAsItIs) {
  ASSERT_TRUE(Compile(1, "quick").ok());
  client::CompileCall call = CallFor(1, "quick");
  call.frozen = true;
  call.skip_cache_lookup = true;
  EXPECT_TRUE(absl::IsNotFound(Refusal(call)));
  EXPECT_EQ(Compile(1, "quick")->origin, Origin::kStore);
  EXPECT_EQ(Counter("rocksdb.quarantined"), 0u);
}

TEST_F(AdmissionTest, FrozenIsFromTheStoreOrNotAtAll) {
  client::CompileCall call = CallFor(1, "quick");
  call.frozen = true;
  const absl::Status missed = Refusal(call);
  EXPECT_TRUE(absl::IsNotFound(missed)) << missed;
  EXPECT_THAT(std::string(missed.message()),
              HasSubstr("no program is stored for " + ToHex(ContentKeyOf("quick")) +
                        ", and the request is frozen: nothing is compiled"));
  ASSERT_TRUE(Compile(1, "quick").ok());
  EXPECT_TRUE(Refusal(call).ok());
  options_.frozen = true;
  Restart();
  EXPECT_EQ(Compile(1, "quick")->origin, Origin::kStore);
  EXPECT_THAT(std::string(Refusal(CallFor(2, "other")).message()),
              HasSubstr("and this server is frozen"));
  EXPECT_EQ(Counter("compile.frozen_misses"), 1u);
  EXPECT_EQ(compiles(), 1u);
}

}  // namespace
}  // namespace hpu::server
