// Servers of a remote cache that die, stop or are late. Every call ends in time, and the store
// heals by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/store/fake_remote_cache.h"
#include "tests/store/redis_server.h"

namespace hpu::store {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// This is the 300 ms of TestOptionsOf and what a busy machine adds.
constexpr int64_t kBound = 1200;
// An answer without a network takes less.
constexpr int64_t kAtOnce = 150;

class RemoteCacheFailure : public testing::Test {
 protected:
  RemoteCacheFailure() { store_ = RemoteStoreAt(cache_.address()); }
  bool Heals() {
    return Eventually(milliseconds(5000), [&] { return store_->Put(EntryOf(1)).ok(); });
  }
  uint64_t Counter(const std::string& name) { return CounterOf(*store_, "remote_cache." + name); }

  FakeRemoteCache cache_;
  std::unique_ptr<RemoteCacheRecipeStore> store_;
};

TEST_F(RemoteCacheFailure, ALostServerIsUnavailableAtOnceAndHealsWhenItIsBack) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  cache_.Stop();
  absl::Status lost;
  EXPECT_LT(Millis([&] { lost = store_->Get(KeyOf(1)).status(); }), kBound);
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  EXPECT_THAT(std::string(lost.message()), HasSubstr(cache_.address()));
  EXPECT_LT(Millis([&] {
              for (int i = 0; i < 100; ++i) {
                EXPECT_TRUE(absl::IsUnavailable(store_->Get(KeyOf(1)).status()));
              }
            }),
            kAtOnce);
  EXPECT_GE(Counter("open_circuit"), 90u);
  EXPECT_EQ(Counter("errors"), 101u);
  cache_.Start();
  EXPECT_TRUE(Heals());
  EXPECT_TRUE(SameEntry(store_->Get(KeyOf(1)).value(), EntryOf(1)));
}

TEST_F(RemoteCacheFailure, AServerThatIsDownAtTheStartIsFoundLater) {
  cache_.Stop();
  store_ = RemoteStoreAt(cache_.address());
  EXPECT_TRUE(absl::IsUnavailable(store_->Get(KeyOf(1)).status()));
  cache_.Start();
  EXPECT_TRUE(Heals());
}

TEST_F(RemoteCacheFailure, ASlowServerCostsOneBoundAndThenNothing) {
  RemoteCacheOptions options = TestOptionsOf(cache_.address());
  options.retry_after = options.max_retry_after = milliseconds(1000);
  store_ = RemoteStoreAt(options);
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  std::atomic<bool> slow{true};
  cache_.before = [&](const std::string&) {
    for (int i = 0; i < 200 && slow; ++i) std::this_thread::sleep_for(milliseconds(10));
    return grpc::Status::OK;
  };
  absl::Status lost;
  const int64_t first = Millis([&] { lost = store_->Get(KeyOf(1)).status(); });
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  EXPECT_GE(first, 250);
  EXPECT_LT(first, kBound);
  EXPECT_LT(Millis([&] { lost = store_->Put(EntryOf(1)); }), kAtOnce);
  EXPECT_THAT(std::string(lost.message()), HasSubstr("left alone"));
  EXPECT_EQ(Counter("timeouts"), 1u);
  slow = false;
  EXPECT_TRUE(Heals());
}

TEST_F(RemoteCacheFailure, ASlowServerIsTriedByOneOfManyThreads) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  std::atomic<bool> slow{true};
  cache_.before = [&](const std::string&) {
    for (int i = 0; i < 200 && slow; ++i) std::this_thread::sleep_for(milliseconds(10));
    return grpc::Status::OK;
  };
  EXPECT_FALSE(store_->Get(KeyOf(1)).ok());
  std::this_thread::sleep_for(milliseconds(300));  // the first pause is over
  std::atomic<int> waited{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const int64_t time = Millis([&] { EXPECT_FALSE(store_->Get(KeyOf(1)).ok()); });
      if (time > 150) ++waited;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(waited, 1);
  slow = false;
}

// However large the entry is, a caller does not wait longer for it than compiling took (5 ms).
TEST_F(RemoteCacheFailure, ASlowReadEndsWhenCompilingWouldHave) {
  RemoteCacheOptions options = TestOptionsOf(cache_.address());
  options.min_bytes_per_second = 10'000;  // 20 s for what is read here
  store_ = RemoteStoreAt(options);
  ASSERT_TRUE(store_->Put(EntryOf(1, 1, 200'000)).ok());
  std::atomic<bool> slow{true};
  cache_.before = [&](const std::string& call) {
    for (int i = 0; call == "Read" && i < 500 && slow; ++i) {
      std::this_thread::sleep_for(milliseconds(10));
    }
    return grpc::Status::OK;
  };
  absl::Status lost;
  EXPECT_LT(Millis([&] { lost = store_->Get(KeyOf(1)).status(); }), kBound);
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  slow = false;
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
