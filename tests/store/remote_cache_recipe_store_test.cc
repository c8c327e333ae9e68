// These tests show what is filed in a remote cache, how it gets there and back, and how it is taken
// out of service.
#include "recipe_store/remote_cache/remote_cache_recipe_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/store/remote_cache_testing.h"

namespace hpu::store {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

std::string NameOf(RemoteKind kind, const Digest& name) {
  return ToHex(ActionOf(kind, name).name().digest);
}
std::string ProgramName(uint64_t number) { return NameOf(RemoteKind::kProgram, KeyOf(number)); }
std::string AliasName(uint64_t number) { return NameOf(RemoteKind::kAlias, AliasIdOf(number)); }

// Another implementation of the messages has computed these. If they change, everything that is
// stored anywhere is disowned.
TEST_F(RemoteCacheTest, NamesAreFixed) {
  Digest name;
  for (size_t i = 0; i < name.size(); ++i) name[i] = static_cast<uint8_t>(i);
  EXPECT_EQ(NameOf(RemoteKind::kProgram, name),
            "7c4477760d7a9c6dc6b71d0bdc43cc9e6a21334bb392f7e334a547e5e2e74345");
  EXPECT_EQ(NameOf(RemoteKind::kAlias, name),
            "4323e016df7012d6ee15f288cb503325927bf44f8da43fea43f0b4524ee2a693");
}

TEST_F(RemoteCacheTest, AResultNamesTheRecordAndEachBlobOnce) {
  const Bytes same = BytesOf(7, 500);
  const Entry entry = EntryOf(1, {BytesOf(1, 10), same, Bytes(), same});
  ASSERT_TRUE(store_->Put(entry).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(1, 1)).ok());
  cache_->Use([&](auto& state) {
    std::vector<std::string> paths;
    for (const auto& file : state.results.at(ProgramName(1)).output_files()) {
      paths.push_back(file.path());
    }
    EXPECT_THAT(paths, ElementsAre("record", "blob/0", "blob/1"));
    EXPECT_EQ(state.results.at(AliasName(1)).output_files_size(), 1);
    EXPECT_EQ(state.results.size(), 2u);
    // There are two blobs and a record, the alias's record, and two actions with their commands.
    EXPECT_EQ(state.blobs.size(), 8u);
    EXPECT_TRUE(state.blobs.contains(ToHex(Sha256(same))));
  });
  EXPECT_TRUE(SameEntry(store_->Get(KeyOf(1)).value(), entry));
  EXPECT_EQ(store_->GetAlias(AliasIdOf(1)).value(), AliasOf(1, 1));
}

TEST_F(RemoteCacheTest, WhatTheServerHasIsNotSentAgain) {
  const Bytes shared = BytesOf(9, 3000);
  ASSERT_TRUE(store_->Put(EntryOf(1, {BytesOf(1, 10), shared})).ok());
  EXPECT_EQ(Counter("blobs_written"), 5u) << "two, the record, the action and its command";
  const uint64_t before = Counter("bytes_written");
  ASSERT_TRUE(store_->Put(EntryOf(2, {BytesOf(2, 10), shared})).ok());
  EXPECT_EQ(Counter("blobs_written"), 9u);
  EXPECT_EQ(Counter("blobs_known"), 1u);
  EXPECT_LT(Counter("bytes_written") - before, 3000u);
}

TEST_F(RemoteCacheTest, TheResultIsWrittenLast) {
  std::vector<std::string> calls;
  cache_->before = [&](const std::string& call) {
    calls.push_back(call);
    return grpc::Status::OK;
  };
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  EXPECT_THAT(calls, ElementsAre("GetCapabilities", "FindMissingBlobs", "BatchUpdateBlobs",
                                 "UpdateActionResult"));
}

// The server refuses larger batches.
TEST_F(RemoteCacheTest, BatchesKeepTheServersBound) {
  FakeRemoteCache::Options options;
  options.max_batch_bytes = 1000;
  options.instance = "team/main";
  cache_ = std::make_unique<FakeRemoteCache>(options);
  Open([](auto& o) { o.instance = "team/main"; });
  const Entry entry = EntryOf(1, {BytesOf(1, 1000), BytesOf(2, 400), BytesOf(3, 400),
                                  BytesOf(4, 400), BytesOf(5, 1001), BytesOf(6, 600'000)});
  ASSERT_TRUE(store_->Put(entry).ok());
  EXPECT_EQ(cache_->Calls("Write"), 2);
  EXPECT_GE(cache_->Calls("BatchUpdateBlobs"), 3);
  EXPECT_TRUE(SameEntry(store_->Get(KeyOf(1)).value(), entry));
  EXPECT_EQ(cache_->Calls("Read"), 2);
  EXPECT_GE(cache_->Calls("BatchReadBlobs"), 3);
}

TEST_F(RemoteCacheTest, AnUnboundedServerGetsOurBatches) {
  FakeRemoteCache::Options options;
  options.max_batch_bytes = 0;
  cache_ = std::make_unique<FakeRemoteCache>(options);
  Open();
  const Entry entry = EntryOf(1, 3, 2'000'000);
  ASSERT_TRUE(store_->Put(entry).ok());
  EXPECT_EQ(cache_->Calls("Write"), 0);
  EXPECT_TRUE(SameEntry(store_->Get(KeyOf(1)).value(), entry));
  EXPECT_EQ(cache_->Calls("BatchReadBlobs"), 4) << "the record, and three that do not fit together";
}

TEST_F(RemoteCacheTest, AResultWhosePartsAreGoneIsAMiss) {
  const Entry entry = EntryOf(1, {BytesOf(1, 100), BytesOf(2, 200'000)});
  const Digest small = entry.manifest.program.digest;
  const Digest large = entry.manifest.recipes[0].digest;
  const Digest record = Sha256(EncodeSignedRecord(entry.signed_manifest));
  uint64_t incomplete = 0;
  for (const Digest& part : {small, large, record}) {
    ASSERT_TRUE(store_->Put(entry).ok());
    ASSERT_TRUE(store_->Get(KeyOf(1)).ok());
    EraseBlob(part);
    EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(1)).status()));
    EXPECT_EQ(Counter("incomplete"), ++incomplete);
  }
  EXPECT_EQ(Counter("misses"), 3u);
  EXPECT_EQ(Counter("errors"), 0u);
  EXPECT_EQ(Counter("server_failures"), 0u);
}

TEST_F(RemoteCacheTest, AnAliasWithoutItsProgramIsAMiss) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(1, 1)).ok());
  cache_->Use([](auto& state) { state.results.erase(ProgramName(1)); });
  EXPECT_TRUE(absl::IsNotFound(store_->GetAlias(AliasIdOf(1)).status()));
  EXPECT_TRUE(absl::IsNotFound(store_->PutAlias(AliasOf(1, 1))));
}

TEST_F(RemoteCacheTest, LargerThanWhatIsReadIsAMiss) {
  ASSERT_TRUE(store_->Put(EntryOf(1, 1, 5000)).ok());
  Open([](auto& o) { o.max_entry_bytes = 4000; });
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(1)).status()));
  EXPECT_EQ(cache_->Calls("BatchReadBlobs"), 1) << "the record";
}

TEST_F(RemoteCacheTest, ReadOnlyWritesNothing) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  Open([](auto& o) { o.read_only = true; });
  const int writes = cache_->Calls("UpdateActionResult");
  EXPECT_TRUE(store_->Get(KeyOf(1)).ok());
  EXPECT_TRUE(absl::IsUnavailable(store_->Put(EntryOf(2))));
  EXPECT_TRUE(absl::IsUnavailable(store_->PutAlias(AliasOf(1, 1))));
  EXPECT_TRUE(store_->Quarantine(KeyOf(1), "test").ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(1)).status())) << "avoided here";
  EXPECT_EQ(cache_->Calls("UpdateActionResult"), writes);
  EXPECT_EQ(cache_->Calls("FindMissingBlobs"), 1);
  EXPECT_EQ(Counter("refused_writes"), 2u);
}

TEST_F(RemoteCacheTest, AServerThatTakesNoResultsIsOnlyRead) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  cache_->Use([](auto& state) { state.takes_results = false; });
  Open([](auto& o) { o.capabilities_live = milliseconds(100); });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(absl::IsUnavailable(store_->Put(EntryOf(2))));
  EXPECT_TRUE(store_->Get(KeyOf(1)).ok());
  EXPECT_EQ(Counter("refused_writes"), 3u);
  EXPECT_EQ(Counter("server_failures"), 0u);
  EXPECT_EQ(cache_->Calls("FindMissingBlobs"), 1) << "no blob without a result";
  cache_->Use([](auto& state) { state.takes_results = true; });
  EXPECT_TRUE(Eventually([&] { return store_->Put(EntryOf(2)).ok(); }));
}

TEST_F(RemoteCacheTest, AServerThatRefusesOneWriteIsOnlyRead) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  for (const grpc::StatusCode code :
       {grpc::StatusCode::PERMISSION_DENIED, grpc::StatusCode::UNAUTHENTICATED,
        grpc::StatusCode::UNIMPLEMENTED}) {
    Open();
    cache_->before = [code](const std::string& call) {
      return call == "FindMissingBlobs" ? grpc::Status(code, "not you") : grpc::Status::OK;
    };
    const int before = cache_->Calls("FindMissingBlobs");
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(absl::IsUnavailable(store_->Put(EntryOf(2))));
    EXPECT_EQ(cache_->Calls("FindMissingBlobs"), before + 1);
    EXPECT_TRUE(store_->Get(KeyOf(1)).ok());
    EXPECT_EQ(Counter("server_failures"), 0u);
  }
}

TEST_F(RemoteCacheTest, AFullServerIsStillRead) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  cache_->before = [](const std::string& call) {
    return call == "BatchUpdateBlobs" || call == "Write"
               ? grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full")
               : grpc::Status::OK;
  };
  for (const size_t size : {100, 200'000}) {
    EXPECT_TRUE(absl::IsUnavailable(store_->Put(EntryOf(2, 1, size))));
  }
  EXPECT_TRUE(store_->Get(KeyOf(1)).ok());
  EXPECT_EQ(Counter("server_failures"), 0u);
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(2)).status())) << "no result without its blobs";
}

TEST_F(RemoteCacheTest, ABlobThatIsNotTakenLeavesNoResult) {
  const std::function<void(reapi::BatchUpdateBlobsResponse&)> answers[] = {
      [](auto& reply) { reply.mutable_responses(0)->mutable_status()->set_code(13); },
      [](auto& reply) { reply.mutable_responses(0)->mutable_status()->set_code(-7); },
      [](auto& reply) { reply.mutable_responses()->RemoveLast(); },
      [](auto& reply) { reply.Clear(); },
      [](auto& reply) { reply.mutable_responses(0)->mutable_digest()->set_hash("x"); },
  };
  for (const auto& answer : answers) {
    cache_->on_batch_update = answer;
    EXPECT_TRUE(absl::IsUnavailable(store_->Put(EntryOf(1))));
    cache_->Use([](auto& state) {
      EXPECT_TRUE(state.results.empty());
      state.blobs.clear();
    });
  }
}

TEST_F(RemoteCacheTest, WhatIsWithdrawnIsGoneForAll) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(1, 1)).ok());
  const auto other = RemoteStoreAt(cache_->address());
  ASSERT_TRUE(other->GetAlias(AliasIdOf(1)).ok());
  ASSERT_TRUE(store_->Quarantine(KeyOf(1), "test").ok());
  EXPECT_TRUE(absl::IsNotFound(other->Get(KeyOf(1)).status()));
  EXPECT_TRUE(absl::IsNotFound(other->GetAlias(AliasIdOf(1)).status())) << "nor its name";
  const int asked = cache_->Calls("GetActionResult");
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(1)).status()));
  EXPECT_EQ(cache_->Calls("GetActionResult"), asked) << "not asked for by whom it was bad for";
  EXPECT_EQ(Counter("avoided_reads"), 5u);
  ASSERT_TRUE(other->Put(EntryOf(1)).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(1)).status())) << "not for a while";
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  EXPECT_TRUE(store_->Get(KeyOf(1)).ok());
}

TEST_F(RemoteCacheTest, WhatCannotBeWithdrawnIsAvoidedForAWhile) {
  Open([](auto& o) { o.avoid_bad_for = milliseconds(2000); });
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  cache_->before = [](const std::string& call) {
    return call == "UpdateActionResult" ? grpc::Status(grpc::StatusCode::ALREADY_EXISTS, "once")
                                        : grpc::Status::OK;
  };
  EXPECT_FALSE(store_->Quarantine(KeyOf(1), "test").ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(1)).status()));
  EXPECT_TRUE(Eventually([&] { return store_->Get(KeyOf(1)).ok(); }));
}

TEST(RemoteCacheRealServer, KeepsLargeAndSmall) {
  const char* const address = std::getenv("HPU_TEST_REMOTE_CACHE");
  if (address == nullptr) GTEST_SKIP() << "run it by tests/store/buildgrid.py";
  RemoteCacheOptions options;
  options.address = address;
  options.instance = "store16";
  options.timeout = milliseconds(20'000);
  const auto store = RemoteStoreAt(options);
  std::vector<Bytes> blobs = {BytesOf(1, 100), BytesOf(2, 20'000'000), Bytes(),
                              BytesOf(3, 5'000'000)};
  for (uint64_t i = 0; i < 200; ++i) blobs.push_back(BytesOf(100 + i, 40'000));
  const Entry entry = EntryOf(1, std::move(blobs), 1);
  EXPECT_TRUE(absl::IsNotFound(store->Get(KeyOf(1)).status()));
  ASSERT_TRUE(store->Put(entry).ok());
  ASSERT_TRUE(store->PutAlias(AliasOf(1, 1)).ok());
  const auto other = RemoteStoreAt(options);
  const absl::StatusOr<Entry> found = other->Get(KeyOf(1));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(SameEntry(*found, entry));
  EXPECT_EQ(other->GetAlias(AliasIdOf(1)).value(), AliasOf(1, 1));
  ASSERT_TRUE(store->Put(entry).ok());
  EXPECT_EQ(CounterOf(*store, "remote_cache.blobs_known"), 206u);
  ASSERT_TRUE(other->Quarantine(KeyOf(1), "test").ok());
  EXPECT_TRUE(absl::IsNotFound(store->Get(KeyOf(1)).status()));
  EXPECT_TRUE(absl::IsNotFound(store->GetAlias(AliasIdOf(1)).status()));
}

}  // namespace
}  // namespace hpu::store
