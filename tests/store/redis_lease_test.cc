// The leases of servers that share a Redis engine.
#include "recipe_store/redis/redis_lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "tests/store/redis_server.h"

namespace hpu::store {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// No test takes so long.
constexpr milliseconds kLong{600'000};

class RedisLease : public testing::Test {
 protected:
  void SetUp() override {
    if (!WhyNoRedis().empty()) GTEST_SKIP() << WhyNoRedis();
    server_ = std::make_unique<RedisServer>();
    a_ = std::make_unique<RedisLeaseKeeper>(Client());
    b_ = std::make_unique<RedisLeaseKeeper>(Client());
  }
  std::shared_ptr<RedisClient> Client() const {
    return RedisClient::Make(TestOptions(server_->address())).value();
  }

  std::unique_ptr<RedisServer> server_;
  std::unique_ptr<RedisLeaseKeeper> a_;
  std::unique_ptr<RedisLeaseKeeper> b_;
};

TEST_F(RedisLease, OneOfTwoHoldersHasIt) {
  const Lease lease = a_->TryTake(KeyOf(1), "server a", kLong).value();
  const absl::Status refused = b_->TryTake(KeyOf(1), "server b", kLong).status();
  EXPECT_TRUE(absl::IsAlreadyExists(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("is held by server a for "));
  EXPECT_TRUE(absl::IsAlreadyExists(a_->TryTake(KeyOf(1), "server a", kLong).status()))
      << "another thread of the holder";
  const LeaseHolder holder = b_->Look(KeyOf(1)).value();
  EXPECT_EQ(holder.holder, "server a");
  EXPECT_EQ(holder.fencing_token, lease.fencing_token);
  EXPECT_GT(holder.remaining, kLong / 2);
  EXPECT_LE(holder.remaining, kLong);
  EXPECT_TRUE(b_->TryTake(KeyOf(2), "server b", kLong).ok()) << "of another key";
  EXPECT_TRUE(a_->Release(lease).ok());
  EXPECT_TRUE(absl::IsNotFound(b_->Look(KeyOf(1)).status()));
  EXPECT_TRUE(b_->TryTake(KeyOf(1), "server b", kLong).ok());
}

TEST_F(RedisLease, ItEndsByItselfAndItsHolderLearnsThat) {
  Lease lease = a_->TryTake(KeyOf(1), "a", milliseconds(60)).value();
  EXPECT_TRUE(Eventually([&] { return b_->TryTake(KeyOf(1), "b", kLong).ok(); }));
  EXPECT_LE(lease.expires_at, std::chrono::steady_clock::now()) << "the holder knew in time";
  const absl::Status renewed = a_->Renew(lease, kLong);
  EXPECT_TRUE(absl::IsAborted(renewed)) << renewed;
  EXPECT_THAT(std::string(renewed.message()), HasSubstr("is no longer of a with token "));
  EXPECT_TRUE(absl::IsAborted(a_->Release(lease)));
  EXPECT_EQ(b_->Look(KeyOf(1)).value().holder, "b") << "nobody else's lease was ended";
}

TEST_F(RedisLease, RenewalProlongsIt) {
  Lease lease = a_->TryTake(KeyOf(1), "a", kLong).value();
  const auto first_end = lease.expires_at;
  ASSERT_TRUE(a_->Renew(lease, 10 * kLong).ok());
  EXPECT_GT(lease.expires_at, first_end + 8 * kLong);
  EXPECT_GT(b_->Look(KeyOf(1)).value().remaining, 8 * kLong);
}

TEST_F(RedisLease, AnotherHolderCanNeitherRenewNorReleaseIt) {
  const Lease lease = a_->TryTake(KeyOf(1), "a", kLong).value();
  Lease forged = lease;
  forged.proof.replace(forged.proof.find(' ') + 1, 4, "0000");
  EXPECT_TRUE(absl::IsAborted(b_->Renew(forged, milliseconds(1))));
  EXPECT_TRUE(absl::IsAborted(b_->Release(forged)));
  EXPECT_TRUE(a_->Release(lease).ok());
}

TEST_F(RedisLease, FencingTokensGrowAlsoWhenTheEngineForgets) {
  uint64_t last = 0;
  for (int i = 0; i < 5; ++i) {
    for (RedisLeaseKeeper* const keeper : {a_.get(), b_.get()}) {
      const Lease lease = keeper->TryTake(KeyOf(1), "x", kLong).value();
      EXPECT_GT(lease.fencing_token, last);
      last = lease.fencing_token;
      ASSERT_TRUE(keeper->Release(lease).ok());
    }
    // Tokens are at least clock milliseconds.
    EXPECT_TRUE(Eventually([&] { return MicrosOfEpoch() / 1000 > last; }));
    server_->Command({"FLUSHALL"});
  }
}

TEST_F(RedisLease, ADeadServerIsUnavailableAndALostLeaseIsTakenAgain) {
  Lease lease = a_->TryTake(KeyOf(1), "a", kLong).value();
  server_->Kill();
  EXPECT_TRUE(absl::IsUnavailable(a_->Renew(lease, kLong)));
  EXPECT_TRUE(absl::IsUnavailable(b_->Look(KeyOf(1)).status()));
  server_->Start();
  absl::StatusOr<Lease> second = absl::UnavailableError("");
  EXPECT_TRUE(Eventually([&] {
    second = b_->TryTake(KeyOf(1), "b", kLong);
    return second.ok();
  }));
  EXPECT_GT(second->fencing_token, lease.fencing_token);
  EXPECT_TRUE(Eventually([&] { return absl::IsAborted(a_->Renew(lease, kLong)); }));
}

TEST_F(RedisLease, ForeignValuesAreNoLease) {
  server_->Command({"SET", "{hpu:l}:" + ToHex(KeyOf(1)), "nonsense"});
  EXPECT_TRUE(absl::IsDataLoss(a_->TryTake(KeyOf(1), "a", kLong).status()));
  server_->Command({"SET", "{hpu:l}:" + ToHex(KeyOf(1)), "7 nonce somebody"});
  EXPECT_THAT(std::string(a_->TryTake(KeyOf(1), "a", kLong).status().message()),
              HasSubstr("it has no end"));
  server_->Command({"DEL", "{hpu:l}:" + ToHex(KeyOf(1))});
  server_->Command({"SET", "{hpu:l}:token", "nonsense"});
  EXPECT_TRUE(a_->TryTake(KeyOf(1), "a", kLong).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(a_->TryTake(KeyOf(1), "", milliseconds(1)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(a_->TryTake(KeyOf(1), "a", milliseconds(0)).status()));
}

}  // namespace
}  // namespace hpu::store
