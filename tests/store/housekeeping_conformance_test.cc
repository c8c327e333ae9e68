// What every store promises that looks after its entries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/clock.h"
#include "tests/store/conformance.h"

namespace hpu::store {
namespace {

// Engines that servers share look after their entries themselves.
#define HOUSEKEEPING_OR_SKIP() \
  if (absl::IsUnimplemented(store_->Pinned().status())) GTEST_SKIP() << "does none"

TEST_P(StoreConformance, PinnedEntriesAreNotEvicted) {
  HOUSEKEEPING_OR_SKIP();
  EXPECT_TRUE(absl::IsNotFound(store_->Pin(KeyOf(1), true)));
  ASSERT_TRUE(store_->Put(EntryOf(0, 1, 10'000)).ok());
  ASSERT_TRUE(store_->Pin(KeyOf(0), true).ok());
  for (uint64_t number = 1; number < 30; ++number) {
    ASSERT_TRUE(store_->Put(EntryOf(number, 1, 10'000)).ok());
  }
  EXPECT_TRUE(SameEntry(store_->Get(KeyOf(0)).value(), EntryOf(0, 1, 10'000)));
  EXPECT_THAT(store_->Pinned().value(), testing::ElementsAre(KeyOf(0)));
  // What comes anew under its key stays pinned.
  ASSERT_TRUE(store_->Put(EntryOf(0, 1, 10'000)).ok());
  EXPECT_THAT(store_->Pinned().value(), testing::ElementsAre(KeyOf(0)));
  ASSERT_TRUE(store_->Pin(KeyOf(0), false).ok());
  EXPECT_TRUE(store_->Pinned().value().empty());
}

TEST_P(StoreConformance, AStoreFullOfPinnedEntriesTakesNoMore) {
  HOUSEKEEPING_OR_SKIP();
  for (uint64_t number = 0; number < 9; ++number) {
    ASSERT_TRUE(store_->Put(EntryOf(number, 1, 10'000)).ok());
    ASSERT_TRUE(store_->Pin(KeyOf(number), true).ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(store_->Put(EntryOf(9, 1, 10'000))));
  for (uint64_t number = 0; number < 9; ++number) EXPECT_TRUE(store_->Get(KeyOf(number)).ok());
}

TEST_P(StoreConformance, GarbageIsWhatWasNotUsedAndWhatIsTooMuch) {
  HOUSEKEEPING_OR_SKIP();
  for (uint64_t number = 0; number < 6; ++number) {
    ASSERT_TRUE(store_->Put(EntryOf(number, 1, 10'000)).ok());
  }
  ASSERT_TRUE(store_->Pin(KeyOf(1), true).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(2, 2)).ok());
  const uint64_t now = MicrosOfEpoch() + 1;
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  ASSERT_TRUE(store_->Get(KeyOf(0)).ok());
  EXPECT_TRUE(store_->CollectGarbage(kConformanceBytes, 0).value().empty());
  // 1 is pinned, 0 was used since; of the others two fit beside them.
  EXPECT_THAT(store_->CollectGarbage(45'000, 0).value(),
              testing::UnorderedElementsAre(KeyOf(2), KeyOf(3)));
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(2)).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->GetAlias(AliasIdOf(2)).status()));
  EXPECT_THAT(store_->CollectGarbage(kConformanceBytes, now).value(),
              testing::UnorderedElementsAre(KeyOf(4), KeyOf(5)));
  EXPECT_TRUE(store_->Get(KeyOf(0)).ok());
  EXPECT_TRUE(store_->Get(KeyOf(1)).ok());
}

TEST_P(StoreConformance, VerifyReadsWhatIsThere) {
  HOUSEKEEPING_OR_SKIP();
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  EXPECT_TRUE(store_->Verify(KeyOf(1)).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Verify(KeyOf(2))));
}

}  // namespace
}  // namespace hpu::store
