// These tests check what a store that looks after its entries promises. They run for every layer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/clock.h"
#include "tests/store/conformance.h"

namespace hpu::store {
namespace {

TEST_P(StoreConformance, PinnedEntriesAreNotEvicted) {
  MAINTENANCE_OR_SKIP();
  EXPECT_TRUE(absl::IsNotFound(store_->Pin(KeyOf(1), true)));
  ASSERT_TRUE(store_->Put(EntryOf(0, 1, 10'000)).ok());
  ASSERT_TRUE(store_->Pin(KeyOf(0), true).ok());
  for (uint64_t number = 1; number < 30; ++number) {
    ASSERT_TRUE(store_->Put(EntryOf(number, 1, 10'000)).ok());
  }
  EXPECT_TRUE(SameEntry(store_->Get(KeyOf(0)).value(), EntryOf(0, 1, 10'000)));
  EXPECT_THAT(store_->Pinned().value(), testing::ElementsAre(KeyOf(0)));
  // An entry that is put again stays pinned.
  ASSERT_TRUE(store_->Put(EntryOf(0, 1, 10'000)).ok());
  EXPECT_THAT(store_->Pinned().value(), testing::ElementsAre(KeyOf(0)));
  ASSERT_TRUE(store_->Pin(KeyOf(0), false).ok());
  EXPECT_TRUE(store_->Pinned().value().empty());
}

TEST_P(StoreConformance, AStoreFullOfPinnedEntriesTakesNoMore) {
  MAINTENANCE_OR_SKIP();
  for (uint64_t number = 0; number < 9; ++number) {
    ASSERT_TRUE(store_->Put(EntryOf(number, 1, 10'000)).ok());
    ASSERT_TRUE(store_->Pin(KeyOf(number), true).ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(store_->Put(EntryOf(9, 1, 10'000))));
  for (uint64_t number = 0; number < 9; ++number) EXPECT_TRUE(store_->Get(KeyOf(number)).ok());
}

TEST_P(StoreConformance, GarbageIsWhatWasNotUsedAndWhatIsTooMuch) {
  MAINTENANCE_OR_SKIP();
  for (uint64_t number = 0; number < 6; ++number) {
    ASSERT_TRUE(store_->Put(EntryOf(number, 1, 10'000)).ok());
  }
  ASSERT_TRUE(store_->Pin(KeyOf(1), true).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(2, 2)).ok());
  const uint64_t now = MicrosOfEpoch() + 1;
  while (MicrosOfEpoch() <= now) std::this_thread::yield();
  ASSERT_TRUE(store_->Get(KeyOf(0)).ok());
  EXPECT_TRUE(store_->CollectGarbage(kConformanceBytes, 0).value().empty());
  // Entry 1 is pinned and 0 was used since, so two of the others fit beside them.
  EXPECT_THAT(store_->CollectGarbage(45'000, 0).value(),
              testing::UnorderedElementsAre(KeyOf(2), KeyOf(3)));
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(2)).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->GetAlias(AliasIdOf(2)).status()));
  EXPECT_THAT(store_->CollectGarbage(kConformanceBytes, now).value(),
              testing::UnorderedElementsAre(KeyOf(4), KeyOf(5)));
  EXPECT_TRUE(store_->Get(KeyOf(0)).ok());
  EXPECT_TRUE(store_->Get(KeyOf(1)).ok());
}

TEST_P(StoreConformance, EnginesThatDoNoMaintenanceSaySo) {
  if (GetParam().maintains) GTEST_SKIP() << "does maintenance";
  EXPECT_TRUE(absl::IsUnimplemented(store_->AliasesOf(KeyOf(1)).status()));
  EXPECT_TRUE(absl::IsUnimplemented(store_->List(0, {}).status()));
  EXPECT_TRUE(absl::IsUnimplemented(store_->Positions(0, {}).status()));
  EXPECT_TRUE(absl::IsUnimplemented(store_->Pin(KeyOf(1), true)));
  EXPECT_TRUE(absl::IsUnimplemented(store_->Pinned().status()));
  EXPECT_TRUE(absl::IsUnimplemented(store_->CollectGarbage(0, 0).status()));
  EXPECT_TRUE(store_->MakeRoom("a", EntryOf(1)).ok()) << "the engine makes room by itself";
}

TEST_P(StoreConformance, PositionsAreThoseOfTheList) {
  MAINTENANCE_OR_SKIP();
  for (const uint64_t number : {2, 5, 3}) ASSERT_TRUE(store_->Put(EntryOf(number)).ok());
  std::vector<ListPosition> listed;
  const std::vector<Manifest> manifests = store_->List(0, {}).value();
  for (const Manifest& manifest : manifests) listed.push_back(PositionOf(manifest));
  EXPECT_EQ(store_->Positions(0, {}).value(), listed);
  EXPECT_THAT(store_->Positions(1, listed[0]).value(), testing::ElementsAre(listed[1]));
}

TEST_P(StoreConformance, VerifyReadsWhatIsThere) {
  MAINTENANCE_OR_SKIP();
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  EXPECT_TRUE(store_->Verify(KeyOf(1)).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Verify(KeyOf(2))));
}

}  // namespace
}  // namespace hpu::store
