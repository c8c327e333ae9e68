// Servers that die, stop, never answer or lie. Every call ends in time, none ends the process, and
// the store heals by itself. Whether a call waited is told by counters, and a hang by a clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <latch>

#include "tests/store/redis_server.h"

namespace hpu::store {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class RedisFailure : public testing::Test {
 protected:
  void SetUp() override {
    if (!WhyNoRedis().empty()) GTEST_SKIP() << WhyNoRedis();
    server_ = std::make_unique<RedisServer>();
    store_ = StoreAt(server_->address());
  }
  bool Heals() {
    return Eventually([&] { return store_->Put(EntryOf(1)).ok(); });
  }

  std::unique_ptr<RedisServer> server_;
  std::unique_ptr<RedisRecipeStore> store_;
};

TEST_F(RedisFailure, AKilledServerIsUnavailableAtOnceAndHealsWhenItIsBack) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  server_->Kill();
  absl::Status lost;
  lost = store_->Get(KeyOf(1)).status();
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  EXPECT_THAT(std::string(lost.message()), HasSubstr(server_->address()));
  EXPECT_EQ(CounterOf(*store_, "redis.timeouts"), 0u);
  server_->Start();
  EXPECT_TRUE(Heals());
  EXPECT_TRUE(SameEntry(store_->Get(KeyOf(1)).value(), EntryOf(1)));
}

TEST_F(RedisFailure, AKilledServerIsLeftAlone) {
  RedisOptions options = TestOptions(server_->address());
  options.retry_after = options.max_retry_after = kHangLimit;
  store_ = StoreAt(options);
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  server_->Kill();
  EXPECT_TRUE(absl::IsUnavailable(store_->Get(KeyOf(1)).status()));
  const uint64_t connects = CounterOf(*store_, "redis.connects");
  const uint64_t failures = CounterOf(*store_, "redis.server_failures");
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(absl::IsUnavailable(store_->Get(KeyOf(1)).status()));
  }
  EXPECT_EQ(CounterOf(*store_, "redis.connects"), connects);
  EXPECT_EQ(CounterOf(*store_, "redis.server_failures"), failures);
  EXPECT_GE(CounterOf(*store_, "redis.open_circuit"), 100u);
  EXPECT_EQ(CounterOf(*store_, "redis.errors"), 101u);
}

TEST_F(RedisFailure, ARestartBetweenTwoCallsIsNotNoticed) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  server_->Kill();
  server_->Start();
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(1)).status())) << "it has forgotten";
  EXPECT_EQ(CounterOf(*store_, "redis.server_failures"), 0u);
}

TEST_F(RedisFailure, AServerThatIsDownAtTheStartIsFoundLater) {
  server_->Kill();
  store_ = StoreAt(server_->address());
  EXPECT_TRUE(absl::IsUnavailable(store_->Get(KeyOf(1)).status()));
  server_->Start();
  EXPECT_TRUE(Heals());
}

TEST_F(RedisFailure, AStoppedServerCostsOneBoundAndThenNothing) {
  RedisOptions options = ImpatientOptions(server_->address());
  options.retry_after = options.max_retry_after = milliseconds(5000);
  store_ = StoreAt(options);
  server_->Signal(SIGSTOP);
  absl::Status lost;
  const milliseconds first = TimeOf([&] { lost = store_->Get(KeyOf(1)).status(); });
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  EXPECT_THAT(std::string(lost.message()), HasSubstr("no answer in time"));
  EXPECT_GE(first, milliseconds(250));
  lost = store_->Put(EntryOf(1));
  EXPECT_THAT(std::string(lost.message()), HasSubstr("left alone"));
  EXPECT_EQ(CounterOf(*store_, "redis.timeouts"), 1u);
  server_->Signal(SIGCONT);
  EXPECT_TRUE(Heals());
}

// The first answer is an error, and the next one waits.
TEST(RedisHostile, ASlowServerIsTriedByOneOfManyThreads) {
  constexpr int kThreads = 8;
  std::latch release(1);
  std::atomic<int> requests{0};
  FakeServer slow(
      [&](const std::string&) {
        if (++requests > 1) release.wait();
        return "nonsense\r\n";
      },
      FakeServer::Manner::kClosesAfterAnswer);
  const std::unique_ptr<RedisRecipeStore> store = StoreAt(slow.address());
  EXPECT_FALSE(store->Get(KeyOf(1)).ok());
  std::atomic<int> left{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      do {
        EXPECT_FALSE(store->Get(KeyOf(1)).ok());
      } while (requests < 2);  // the pause may not be over
      ++left;
    });
  }
  EXPECT_TRUE(Eventually([&] { return left == kThreads - 1; }));
  EXPECT_EQ(requests, 2);
  release.count_down();
  for (std::thread& thread : threads) thread.join();
}

TEST(RedisHostile, ASilentServerCostsOneBoundPerCall) {
  FakeServer silent(nullptr);
  const std::unique_ptr<RedisRecipeStore> store = StoreAt(ImpatientOptions(silent.address()));
  absl::Status lost = store->Get(KeyOf(1)).status();
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  EXPECT_EQ(CounterOf(*store, "redis.timeouts"), 1u);
  // This is more than the kernel buffers of both sides hold, so the bound holds for sending as
  // well.
  RedisOptions options = ImpatientOptions(silent.address());
  options.min_bytes_per_second = 1'000'000'000;
  const std::unique_ptr<RedisRecipeStore> other = StoreAt(options);
  lost = other->Put(EntryOf(1, 1, 30'000'000));
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  EXPECT_EQ(CounterOf(*other, "redis.timeouts"), 1u);
}

TEST(RedisHostile, ABlackHoleCostsOneConnectTimeout) {
  FullListener black_hole;
  RedisOptions options = TestOptions(black_hole.address());
  options.connect_timeout = milliseconds(100);
  options.command_timeout = 2 * kHangLimit;
  options.retry_after = options.max_retry_after = kHangLimit;
  const std::unique_ptr<RedisRecipeStore> store = StoreAt(options);
  absl::Status lost;
  const milliseconds first = TimeOf([&] { lost = store->Get(KeyOf(1)).status(); });
  EXPECT_GE(first, milliseconds(90));
  EXPECT_LT(first, kHangLimit) << "a command may take longer";
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  EXPECT_THAT(std::string(lost.message()), HasSubstr("connecting: no answer in time"));
  EXPECT_FALSE(store->Get(KeyOf(1)).ok());
  EXPECT_EQ(CounterOf(*store, "redis.timeouts"), 1u);
  EXPECT_EQ(CounterOf(*store, "redis.open_circuit"), 1u);
}

TEST(RedisHostile, ABlackHoleAmongTheAddressesIsPassedBy) {
  if (!WhyNoRedis().empty()) GTEST_SKIP() << WhyNoRedis();
  FullListener black_hole;
  RedisServer server;
  RedisOptions options = TestOptions(black_hole.address() + "," + server.address());
  options.connect_timeout = milliseconds(1000);
  const auto store = StoreAt(options);
  EXPECT_TRUE(store->Put(EntryOf(1)).ok());
  EXPECT_TRUE(store->Get(KeyOf(1)).ok());
  EXPECT_EQ(CounterOf(*store, "redis.timeouts"), 1u) << "once";
}

TEST(RedisHostile, AnUnknownNameIsUnavailableInTime) {
  RedisOptions options = TestOptions("no-such-host.invalid:6379");
  options.connect_timeout = milliseconds(100);
  options.retry_after = options.max_retry_after = kHangLimit;
  const std::unique_ptr<RedisRecipeStore> store = StoreAt(options);
  const absl::Status lost = store->Get(KeyOf(1)).status();
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  EXPECT_THAT(std::string(lost.message()), HasSubstr("no-such-host.invalid"));
  EXPECT_FALSE(store->Get(KeyOf(1)).ok());
  EXPECT_EQ(CounterOf(*store, "redis.server_failures"), 1u);
  EXPECT_EQ(CounterOf(*store, "redis.open_circuit"), 1u);
}

// No single read takes long, and the whole answer would take half an hour.
TEST(RedisHostile, ATricklingServerCostsOneBound) {
  FakeServer trickling([&](const std::string&) { return "$99999\r\n" + std::string(99999, 'x'); },
                       FakeServer::Manner::kTrickles);
  const std::unique_ptr<RedisRecipeStore> store = StoreAt(ImpatientOptions(trickling.address()));
  const absl::Status lost = store->Get(KeyOf(1)).status();
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  EXPECT_THAT(std::string(lost.message()), HasSubstr("no answer in time"));
  EXPECT_EQ(CounterOf(*store, "redis.timeouts"), 1u);
}

// Makes all calls at a server that answers everything with `text`, or everything but the first
// question, which is whether it is a cluster.
void ExpectBearable(const std::string& text, bool says_no_cluster, FakeServer::Manner manner) {
  SCOPED_TRACE(text.substr(0, 40) + (says_no_cluster ? " no cluster" : "") +
               (manner == FakeServer::Manner::kStays ? " stays" : " closes"));
  FakeServer hostile(
      [&](const std::string& request) -> std::string {
        const bool asked = says_no_cluster && request.find("CLUSTER") != std::string::npos;
        return asked ? "-ERR This instance has cluster support disabled\r\n" : text;
      },
      manner);
  const auto check = [&](const char* call, const std::function<absl::Status(RecipeStore&)>& run) {
    RedisOptions options = ImpatientOptions(hostile.address());
    options.command_timeout = milliseconds(50);
    const std::unique_ptr<RedisRecipeStore> store = StoreAt(options);
    const absl::Status status = run(*store);
    EXPECT_TRUE(status.ok() || absl::IsUnavailable(status) || absl::IsDataLoss(status) ||
                absl::IsNotFound(status))
        << call << ": " << status;
  };
  check("Get", [](RecipeStore& store) { return store.Get(KeyOf(1)).status(); });
  check("Put", [](RecipeStore& store) { return store.Put(EntryOf(1)); });
  check("GetAlias", [](RecipeStore& store) { return store.GetAlias(AliasIdOf(1)).status(); });
  check("PutAlias", [](RecipeStore& store) { return store.PutAlias(AliasOf(1, 1)); });
  check("DropAlias", [](RecipeStore& store) { return store.DropAlias(AliasIdOf(1)); });
  check("Quarantine", [](RecipeStore& store) { return store.Quarantine(KeyOf(1), "x"); });
}

TEST(RedisHostile, NoAnswerEndsTheProcessOrIsBelieved) {
  std::string nested;
  for (int i = 0; i < 1000; ++i) nested += "*1\r\n";
  for (const std::string& text : {std::string("+OK\r\n"),
                                  std::string("-\r\n"),
                                  std::string(":7\r\n"),
                                  std::string(":-1\r\n"),
                                  std::string("$-1\r\n"),
                                  std::string("$3\r\nabc\r\n"),
                                  std::string("*0\r\n"),
                                  std::string("*-1\r\n"),
                                  std::string("*2147483647\r\n"),
                                  std::string("$2147483647\r\n"),
                                  std::string("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$0\r\n\r\n:1\r\n"),
                                  std::string("*3\r\n:1\r\n:2\r\n$1\r\nx\r\n"),
                                  nested,
                                  std::string(3'000'000, 'x'),
                                  "+" + std::string(3'000'000, 'x'),
                                  "$3000000\r\n" + std::string(3'000'000, 'x') + "\r\n",
                                  std::string("HTTP/1.1 200 OK\r\n\r\n"),
                                  std::string("\0\1\2\3", 4),
                                  std::string("-MOVED 1 127.0.0.1:1\r\n"),
                                  std::string("-MOVED 1 :x\r\n"),
                                  std::string("-READONLY\r\n"),
                                  std::string("-LOADING\r\n"),
                                  std::string("-TRYAGAIN\r\n"),
                                  std::string("+OK\r\n+OK\r\n+OK\r\n+OK\r\n+OK\r\n")}) {
    ExpectBearable(text, false, FakeServer::Manner::kClosesAfterAnswer);
    ExpectBearable(text, true, FakeServer::Manner::kClosesAfterAnswer);
    ExpectBearable(text, true, FakeServer::Manner::kStays);
  }
  // The client waits for this server, because more should come.
  ExpectBearable("$5\r\nabc", false, FakeServer::Manner::kStays);
}

// Without MSG_NOSIGNAL the second write ends the process.
TEST(RedisHostile, WritingToAClosedConnectionIsAnError) {
  FakeServer closing([](const std::string&) { return "+OK\r\n"; },
                     FakeServer::Manner::kClosesAfterAnswer);
  const Deadline deadline = std::chrono::steady_clock::now() + kHangLimit;
  auto connection = RedisConnection::Open(closing.endpoint(), "", "", deadline).value();
  RedisCommand ping;
  ping.words = {"PING"};
  const RedisCommand* const commands[] = {&ping};
  RedisTraffic traffic;
  EXPECT_TRUE(connection->Run(commands, deadline, traffic).ok());
  EXPECT_TRUE(Eventually([&] { return !connection->reusable(); }));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(absl::IsUnavailable(connection->Run(commands, deadline, traffic).status()));
  }
}

TEST(RedisHostile, AnAnswerBeforeTheQuestionIsRefused) {
  std::latch is_refused(1);
  std::atomic<int> calls{0};
  FakeServer hasty([&](const std::string&) -> std::string {
    if (calls++ > 0) is_refused.wait();
    return "+OK\r\n";
  });
  const Deadline deadline = std::chrono::steady_clock::now() + kHangLimit;
  auto connection = RedisConnection::Open(hasty.endpoint(), "", "", deadline).value();
  const Bytes large(50'000'000);
  RedisCommand set;
  set.words = {"SET", "x"};
  set.payload = large;
  const RedisCommand* const commands[] = {&set};
  RedisTraffic traffic;
  const absl::Status status = connection->Run(commands, deadline, traffic).status();
  is_refused.count_down();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("answered more than it was asked"));
}

// The server sends all commands to itself.
TEST(RedisHostile, RedirectionsEnd) {
  std::string address;
  FakeServer circular([&](const std::string& request) -> std::string {
    if (request.find("CLUSTER") != std::string::npos) return "-ERR no cluster\r\n";
    return "-MOVED 1 " + address + "\r\n";
  });
  address = circular.address();
  const absl::Status lost = StoreAt(address)->Get(KeyOf(1)).status();
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  EXPECT_THAT(std::string(lost.message()), HasSubstr("6 servers in turn"));
}

}  // namespace
}  // namespace hpu::store
