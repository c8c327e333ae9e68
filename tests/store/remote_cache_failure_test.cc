// Servers of a remote cache that die, stop or are late. Every call ends in time, and the store
// heals by itself. Whether a call waited is told by counters, and a hang by a clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "tests/store/fake_remote_cache.h"
#include "tests/store/redis_server.h"

namespace hpu::store {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class RemoteCacheFailure : public testing::Test {
 protected:
  RemoteCacheFailure() { store_ = RemoteStoreAt(cache_.address()); }
  bool Heals() {
    return Eventually([&] { return store_->Put(EntryOf(1)).ok(); });
  }
  uint64_t Counter(const std::string& name) { return CounterOf(*store_, "remote_cache." + name); }

  FakeRemoteCache cache_;
  std::unique_ptr<RemoteCacheRecipeStore> store_;
};

TEST_F(RemoteCacheFailure, ALostServerIsUnavailableAtOnceAndHealsWhenItIsBack) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  cache_.Stop();
  const absl::Status lost = store_->Get(KeyOf(1)).status();
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  EXPECT_THAT(std::string(lost.message()), HasSubstr(cache_.address()));
  EXPECT_EQ(Counter("timeouts"), 0u);
  cache_.Start();
  EXPECT_TRUE(Heals());
  EXPECT_TRUE(SameEntry(store_->Get(KeyOf(1)).value(), EntryOf(1)));
}

TEST_F(RemoteCacheFailure, ALostServerIsLeftAlone) {
  RemoteCacheOptions options = TestOptionsOf(cache_.address());
  options.retry_after = options.max_retry_after = kHangLimit;
  store_ = RemoteStoreAt(options);
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  cache_.Stop();
  for (int i = 0; i < 101; ++i) {
    EXPECT_TRUE(absl::IsUnavailable(store_->Get(KeyOf(1)).status()));
  }
  EXPECT_EQ(Counter("server_failures"), 1u);
  EXPECT_EQ(Counter("open_circuit"), 100u);
  EXPECT_EQ(Counter("errors"), 101u);
}

TEST_F(RemoteCacheFailure, AServerThatIsDownAtTheStartIsFoundLater) {
  cache_.Stop();
  store_ = RemoteStoreAt(cache_.address());
  EXPECT_TRUE(absl::IsUnavailable(store_->Get(KeyOf(1)).status()));
  cache_.Start();
  EXPECT_TRUE(Heals());
}

TEST_F(RemoteCacheFailure, ASlowServerCostsOneBoundAndThenNothing) {
  RemoteCacheOptions options = ImpatientOptionsOf(cache_.address());
  options.retry_after = options.max_retry_after = milliseconds(5000);
  store_ = RemoteStoreAt(options);
  std::latch release(1);
  cache_.before = [&](const std::string&) {
    release.wait();
    return grpc::Status::OK;
  };
  absl::Status lost;
  const milliseconds first = TimeOf([&] { lost = store_->Get(KeyOf(1)).status(); });
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  EXPECT_GE(first, milliseconds(250));
  lost = store_->Put(EntryOf(1));
  EXPECT_THAT(std::string(lost.message()), HasSubstr("left alone"));
  EXPECT_EQ(Counter("timeouts"), 1u);
  release.count_down();
  EXPECT_TRUE(Heals());
  cache_.Stop();  // what was held uses the latch
}

TEST_F(RemoteCacheFailure, ASlowServerIsTriedByOneOfManyThreads) {
  constexpr int kThreads = 8;
  std::latch release(1);
  std::atomic<int> requests{0};
  cache_.before = [&](const std::string&) {
    if (++requests > 1) release.wait();
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "not now");
  };
  EXPECT_FALSE(store_->Get(KeyOf(1)).ok());
  std::atomic<int> left{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      do {
        EXPECT_FALSE(store_->Get(KeyOf(1)).ok());
      } while (requests < 2);  // the pause may not be over
      ++left;
    });
  }
  EXPECT_TRUE(Eventually([&] { return left == kThreads - 1; }));
  EXPECT_EQ(requests, 2);
  release.count_down();
  for (std::thread& thread : threads) thread.join();
  cache_.Stop();  // what was held uses the latch
}

// However large the entry is, a caller does not wait longer for it than compiling took (5 ms).
TEST_F(RemoteCacheFailure, ASlowReadEndsWhenCompilingWouldHave) {
  RemoteCacheOptions options = ImpatientOptionsOf(cache_.address());
  options.min_bytes_per_second = 1000;  // 200 s for what is read here
  store_ = RemoteStoreAt(options);
  ASSERT_TRUE(store_->Put(EntryOf(1, 1, 200'000)).ok());
  std::latch release(1);
  cache_.before = [&](const std::string& call) {
    if (call == "Read") release.wait();
    return grpc::Status::OK;
  };
  absl::Status lost;
  EXPECT_LT(TimeOf([&] { lost = store_->Get(KeyOf(1)).status(); }), kHangLimit);
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  release.count_down();
  cache_.Stop();  // what was held uses the latch
}

TEST_F(RemoteCacheFailure, WithoutSha256NothingIsAskedFor) {
  cache_.Use([](auto& state) { state.offers_sha256 = false; });
  const absl::Status lost = store_->Put(EntryOf(1));
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  EXPECT_THAT(std::string(lost.message()), HasSubstr("SHA-256"));
  EXPECT_TRUE(absl::IsUnavailable(store_->Get(KeyOf(1)).status()));
  EXPECT_EQ(cache_.Calls("GetCapabilities"), 1);
  EXPECT_EQ(cache_.Calls("FindMissingBlobs") + cache_.Calls("GetActionResult"), 0);
  cache_.Use([](auto& state) { state.offers_sha256 = true; });
  EXPECT_TRUE(Heals());
}

TEST_F(RemoteCacheFailure, AWrongInstanceIsLeftAlone) {
  RemoteCacheOptions options = TestOptionsOf(cache_.address());
  options.instance = "no-such";
  store_ = RemoteStoreAt(options);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(absl::IsUnavailable(store_->Get(KeyOf(1)).status()));
  EXPECT_EQ(cache_.Calls("GetCapabilities"), 1);
}

}  // namespace
}  // namespace hpu::store
