// Damage of what a remote cache keeps: the store trusts none of it, and it does not stay.
#include <google/protobuf/stubs/logging.h>

#include <random>

#include "recipe_store/layers/verifying_recipe_store.h"
#include "tests/store/remote_cache_testing.h"

namespace hpu::store {
namespace {

TEST_F(RemoteCacheTest, ADamagedBlobIsSentAgain) {
  const Entry entry = EntryOf(1);
  ASSERT_TRUE(store_->Put(entry).ok());
  const std::string name = ToHex(entry.manifest.recipes[0].digest);
  cache_->Use([&](auto& state) { state.blobs.at(name)[3] ^= 1; });
  VerifyingRecipeStore verifying(std::move(store_), &TestKeys());
  EXPECT_TRUE(absl::IsDataLoss(verifying.Get(KeyOf(1)).status()));
  EXPECT_TRUE(absl::IsNotFound(verifying.Get(KeyOf(1)).status())) << "withdrawn";
  ASSERT_TRUE(verifying.Put(entry).ok());
  EXPECT_TRUE(SameEntry(verifying.Get(KeyOf(1)).value(), entry));
}

// The server keeps what it has, whatever is sent.
TEST_F(RemoteCacheTest, ADamagedBlobThatStaysIsNotBelieved) {
  const Entry entry = EntryOf(1, 1, 200'000);
  ASSERT_TRUE(store_->Put(entry).ok());
  const std::string name = ToHex(entry.manifest.recipes[0].digest);
  cache_->Use([&](auto& state) { state.blobs.at(name)[150'000] ^= 1; });
  VerifyingRecipeStore verifying(std::move(store_), &TestKeys());
  EXPECT_TRUE(absl::IsDataLoss(verifying.Get(KeyOf(1)).status()));
  ASSERT_TRUE(verifying.Put(entry).ok()) << "the stream ends early: it is there";
  EXPECT_TRUE(absl::IsDataLoss(verifying.Get(KeyOf(1)).status()));
  EXPECT_TRUE(absl::IsNotFound(verifying.Get(KeyOf(1)).status()));
}

// Flips a bit of every 7th byte of everything that is stored, one at a time.
TEST_F(RemoteCacheTest, FlippedBitsAreNeverBelieved) {
  const Entry entry = EntryOf(1, {BytesOf(1, 50), BytesOf(2, 60)});
  ASSERT_TRUE(store_->Put(entry).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(1, 1)).ok());
  std::map<std::string, std::string> blobs;
  std::map<std::string, reapi::ActionResult> results;
  cache_->Use([&](auto& state) { blobs = state.blobs, results = state.results; });
  int refused = 0;
  const auto look = [&] {
    Open();
    VerifyingRecipeStore verifying(std::move(store_), &TestKeys());
    const absl::StatusOr<Entry> found = verifying.Get(KeyOf(1));
    EXPECT_TRUE(!found.ok() || SameEntry(*found, entry));
    refused += found.ok() ? 0 : 1;
    const absl::StatusOr<AliasRecord> alias = verifying.GetAlias(AliasIdOf(1));
    EXPECT_TRUE(!alias.ok() || *alias == AliasOf(1, 1));
    refused += alias.ok() ? 0 : 1;
    cache_->Use([&](auto& state) { state.blobs = blobs, state.results = results; });
  };
  int flips = 0;
  for (const auto& [name, data] : blobs) {
    for (size_t at = 0; at < data.size(); at += 7, ++flips) {
      cache_->Use([&](auto& state) { state.blobs.at(name)[at] ^= 1 << (at % 8); });
      look();
    }
  }
  for (const auto& [name, result] : results) {
    const std::string text = result.SerializeAsString();
    for (size_t at = 0; at < text.size(); at += 7, ++flips) {
      std::string damaged = text;
      damaged[at] ^= 1 << (at % 8);
      reapi::ActionResult parsed;
      if (!parsed.ParseFromString(damaged)) continue;
      cache_->Use([&](auto& state) { state.results.at(name) = parsed; });
      look();
    }
  }
  EXPECT_GT(flips, 100);
  EXPECT_GT(refused, flips / 2);
}

TEST_F(RemoteCacheTest, MutatedResultsAreBoundedAndNeverCrash) {
  const Entry entry = EntryOf(1, 3);
  const Bytes record = EncodeSignedRecord(entry.signed_manifest);
  reapi::ActionResult good = ResultOf({Sha256(record), record.size()}, BlobRefs(entry.manifest));
  good.mutable_output_files(0)->set_contents(record.data(), record.size());
  const std::string text = good.SerializeAsString();
  ASSERT_EQ(*RecordIn(good)->contents, record);
  // Protobuf would log thousands of names that are no UTF-8.
  google::protobuf::SetLogHandler(nullptr);
  std::mt19937 random(1);
  int parsed = 0;
  for (int round = 0; round < 50'000; ++round) {
    std::string mutated = text;
    for (unsigned i = 0; i < 1 + round % 4u; ++i) {
      const size_t at = random() % mutated.size();
      switch (random() % 3) {
        case 0:
          mutated[at] = static_cast<char>(random());
          break;
        case 1:
          mutated.erase(at, random() % 40);
          break;
        default:
          mutated.insert(at, mutated.substr(random() % mutated.size(), random() % 40));
      }
      if (mutated.empty()) mutated = text;
    }
    reapi::ActionResult result;
    if (!result.ParseFromString(mutated)) continue;
    ++parsed;
    const absl::StatusOr<RecordFile> found = RecordIn(result);
    if (!found.ok()) {
      EXPECT_TRUE(absl::IsNotFound(found.status()) || absl::IsDataLoss(found.status()));
      continue;
    }
    EXPECT_LE(found->ref.size_bytes, kMaxStoredRecordBytes);
    EXPECT_TRUE(!found->contents || Sha256(*found->contents) == found->ref.digest);
  }
  EXPECT_GT(parsed, 1000);
}

}  // namespace
}  // namespace hpu::store
