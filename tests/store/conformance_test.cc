// These tests check what a store promises about programs and aliases. They run for every layer.
#include "tests/store/conformance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

namespace hpu::store {
namespace {

TEST_P(StoreConformance, AnUnknownKeyIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(1)).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->GetAlias(AliasIdOf(1)).status()));
}

TEST_P(StoreConformance, GetAnswersWhatWasPut) {
  for (const size_t recipes : {0, 1, 5}) {
    const Entry entry = EntryOf(recipes, recipes);
    ASSERT_TRUE(store_->Put(entry).ok());
    const absl::StatusOr<Entry> found = store_->Get(KeyOf(recipes));
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_TRUE(SameEntry(*found, entry));
    EXPECT_EQ(found->manifest, entry.manifest);
  }
}

TEST_P(StoreConformance, EmptyAndRepeatedBlobsAreKept) {
  const Bytes same = BytesOf(7, 500);
  const Entry entry = EntryOf(1, {BytesOf(1, 10), same, Bytes(), same});
  ASSERT_TRUE(store_->Put(entry).ok());
  EXPECT_TRUE(SameEntry(store_->Get(KeyOf(1)).value(), entry));
}

TEST_P(StoreConformance, PuttingAgainReplaces) {
  ASSERT_TRUE(store_->Put(EntryOf(1, {BytesOf(1, 10), BytesOf(2, 2000)})).ok());
  const Entry second = EntryOf(1, {BytesOf(3, 10)});
  ASSERT_TRUE(store_->Put(second).ok());
  EXPECT_TRUE(SameEntry(store_->Get(KeyOf(1)).value(), second));
}

TEST_P(StoreConformance, AnAliasNamesItsProgram) {
  EXPECT_TRUE(absl::IsNotFound(store_->PutAlias(AliasOf(1, 1)))) << "there is no program";
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(store_->Put(EntryOf(2)).ok());
  // Two front ends have one program, and a third has another.
  for (const uint64_t number : {3, 1, 2}) {
    ASSERT_TRUE(store_->PutAlias(AliasOf(number, number == 2 ? 2 : 1)).ok());
  }
  EXPECT_EQ(store_->GetAlias(AliasIdOf(1)).value(), AliasOf(1, 1));
  EXPECT_EQ(store_->GetAlias(AliasIdOf(2)).value(), AliasOf(2, 2));
  EXPECT_EQ(store_->GetAlias(AliasIdOf(3)).value(), AliasOf(3, 1));
  if (!GetParam().maintains) return;
  std::vector<std::string> labels;
  const std::vector<Alias> aliases = store_->AliasesOf(KeyOf(1)).value();
  for (const Alias& alias : aliases) labels.push_back(alias.label);
  EXPECT_TRUE(store_->AliasesOf(KeyOf(99)).value().empty());
  EXPECT_THAT(labels, testing::ElementsAre("graph_1", "graph_3"));
}

TEST_P(StoreConformance, TenantsHaveAliasesOfTheirOwn) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(store_->Put(EntryOf(2)).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(1, 1, "a")).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->GetAlias(AliasIdOf(1, "b")).status()));
  ASSERT_TRUE(store_->PutAlias(AliasOf(1, 2, "b")).ok());
  EXPECT_EQ(store_->GetAlias(AliasIdOf(1, "a")).value(), AliasOf(1, 1, "a"));
  EXPECT_EQ(store_->GetAlias(AliasIdOf(1, "b")).value(), AliasOf(1, 2, "b"));
}

TEST_P(StoreConformance, AnAliasIsReplacedAndDropped) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(store_->Put(EntryOf(2)).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(1, 1)).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(1, 2)).ok());
  EXPECT_EQ(store_->GetAlias(AliasIdOf(1)).value(), AliasOf(1, 2));
  if (GetParam().maintains) {
    EXPECT_TRUE(store_->AliasesOf(KeyOf(1)).value().empty());
    EXPECT_EQ(store_->AliasesOf(KeyOf(2)).value().size(), 1u);
  }
  for (int i = 0; i < 2; ++i) {
    const absl::Status dropped = store_->DropAlias(AliasIdOf(1));
    EXPECT_TRUE(dropped.ok() || absl::IsInternal(dropped)) << dropped;
    EXPECT_TRUE(absl::IsNotFound(store_->GetAlias(AliasIdOf(1)).status()));
  }
}

TEST_P(StoreConformance, AliasesLiveAndDieWithTheirProgram) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(1, 1)).ok());
  ASSERT_TRUE(store_->Put(EntryOf(1, {BytesOf(3, 10)})).ok());
  EXPECT_TRUE(store_->GetAlias(AliasIdOf(1)).ok()) << "its program was made anew";
  for (uint64_t number = 2; number < 30; ++number) {
    ASSERT_TRUE(store_->Put(EntryOf(number, 1, 10'000)).ok());
  }
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(1)).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->GetAlias(AliasIdOf(1)).status()));
  EXPECT_TRUE(store_->AliasesOf(KeyOf(1)).value().empty());
}

TEST_P(StoreConformance, ListIsNewestFirstAndBounded) {
  MAINTENANCE_OR_SKIP();
  for (const uint64_t number : {2, 5, 3}) ASSERT_TRUE(store_->Put(EntryOf(number)).ok());
  const auto created = [&](size_t limit) {
    std::vector<int64_t> times;
    const std::vector<Manifest> manifests = store_->List(limit, {}).value();
    for (const Manifest& manifest : manifests) {
      times.push_back(manifest.created_unix_seconds);
    }
    return times;
  };
  EXPECT_THAT(created(0), testing::ElementsAre(5, 3, 2));
  EXPECT_THAT(created(2), testing::ElementsAre(5, 3));
}

TEST_P(StoreConformance, AListGoesOnWhereItsPageEnded) {
  MAINTENANCE_OR_SKIP();
  // Two entries are of one second, and their keys tell them apart.
  for (const uint64_t number : {2, 5, 3, 7}) {
    ASSERT_TRUE(store_->Put(EntryOf(number, {BytesOf(number, 10)}, number < 4 ? 1 : 2)).ok());
  }
  const std::vector<Manifest> all = store_->List(0, {}).value();
  ASSERT_EQ(all.size(), 4u);
  std::vector<Manifest> pages;
  std::optional<ListPosition> last;
  while (true) {
    const std::vector<Manifest> page = store_->List(3, last).value();
    pages.insert(pages.end(), page.begin(), page.end());
    if (page.size() < 3) break;
    last = PositionOf(page.back());
    // A new entry belongs before those of the first page.
    ASSERT_TRUE(store_->Put(EntryOf(9, {BytesOf(9, 10)}, 100)).ok());
  }
  EXPECT_EQ(pages, all);
}

TEST_P(StoreConformance, TheLeastRecentlyUsedGoFirst) {
  // 100,000 bytes hold nine entries of about 10,300.
  for (uint64_t number = 0; number < 9; ++number) {
    ASSERT_TRUE(store_->Put(EntryOf(number, 1, 10'000)).ok());
  }
  ASSERT_TRUE(store_->Get(KeyOf(0)).ok());
  for (uint64_t number = 9; number < 12; ++number) {
    ASSERT_TRUE(store_->Put(EntryOf(number, 1, 10'000)).ok());
  }
  std::set<int64_t> found;
  const std::vector<Manifest> manifests = store_->List(0, {}).value();
  for (const Manifest& manifest : manifests) found.insert(manifest.created_unix_seconds);
  EXPECT_TRUE(found.contains(0));
  for (const int64_t gone : {1, 2}) EXPECT_FALSE(found.contains(gone)) << gone;
  for (int64_t kept = 4; kept < 12; ++kept) EXPECT_TRUE(found.contains(kept)) << kept;
}

TEST_P(StoreConformance, AnEntryLargerThanTheStoreIsRefused) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(store_->Put(EntryOf(2, 1, kConformanceBytes + 1))));
  EXPECT_TRUE(store_->Get(KeyOf(1)).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(2)).status()));
}

TEST_P(StoreConformance, SharedBlobsSurviveTheirFirstEntry) {
  const Bytes shared = BytesOf(9, 3000);
  ASSERT_TRUE(store_->Put(EntryOf(1, {BytesOf(1, 10), shared})).ok());
  const Entry second = EntryOf(2, {BytesOf(2, 10), shared});
  ASSERT_TRUE(store_->Put(second).ok());
  ASSERT_TRUE(store_->Put(EntryOf(1, {BytesOf(3, 10)})).ok());
  EXPECT_TRUE(SameEntry(store_->Get(KeyOf(2)).value(), second));
}

TEST_P(StoreConformance, QuarantineTakesAnEntryOutOfService) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(store_->Put(EntryOf(2)).ok());
  EXPECT_TRUE(store_->Quarantine(KeyOf(1), "test").ok());
  EXPECT_TRUE(store_->Quarantine(KeyOf(99), "unknown keys are fine").ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(1)).status()));
  EXPECT_TRUE(store_->Get(KeyOf(2)).ok());
  if (GetParam().maintains) {
    EXPECT_EQ(store_->List(0, {}).value().size(), 1u);
  }
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  EXPECT_TRUE(SameEntry(store_->Get(KeyOf(1)).value(), EntryOf(1)));
}

TEST_P(StoreConformance, FlushSucceeds) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(store_->Get(KeyOf(1)).ok());
  EXPECT_TRUE(store_->Flush().ok());
}

TEST_P(StoreConformance, ManyThreadsSeeWholeEntries) {
  constexpr int kThreads = 4;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 50; ++i) {
        const uint64_t number = (i * 7 + static_cast<uint64_t>(t)) % 20;
        if (i % 2 == 0) {
          if (!store_->Put(EntryOf(number, 2, 3000)).ok()) ++wrong;
        }
        const absl::StatusOr<Entry> found = store_->Get(KeyOf(number));
        if (!found.ok() && !absl::IsNotFound(found.status())) ++wrong;
        if (found.ok() && !SameEntry(*found, EntryOf(number, 2, 3000))) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Layers, StoreConformance, testing::ValuesIn(Layers()),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace hpu::store
