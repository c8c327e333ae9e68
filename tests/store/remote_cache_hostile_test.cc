// Servers of a remote cache that lie, and strangers at its address. Every call ends, none ends the
// process, and no wrong answer is trusted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "recipe_store/layers/verifying_recipe_store.h"
#include "tests/store/fake_remote_cache.h"
#include "tests/store/redis_server.h"

namespace hpu::store {
namespace {

using std::chrono::milliseconds;

// Returns true for what a store may say of a server that misbehaves.
bool IsBearable(const absl::Status& status) {
  return status.ok() || absl::IsUnavailable(status) || absl::IsDataLoss(status) ||
         absl::IsNotFound(status);
}

class RemoteCacheHostile : public testing::Test {
 protected:
  RemoteCacheHostile() { store_ = RemoteStoreAt(cache_.address()); }

  FakeRemoteCache cache_;
  std::unique_ptr<RemoteCacheRecipeStore> store_;
};

// Every call returns every code. No code is taken for what it is not, and an answer does not make
// the server lost.
TEST_F(RemoteCacheHostile, NoStatusEndsTheProcessOrIsBelieved) {
  ASSERT_TRUE(store_->Put(EntryOf(1, 1, 200'000)).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(1, 1)).ok());
  for (const char* const name :
       {"GetCapabilities", "GetActionResult", "UpdateActionResult", "FindMissingBlobs",
        "BatchUpdateBlobs", "BatchReadBlobs", "Read", "Write"}) {
    for (const int code : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 31, -1}) {
      SCOPED_TRACE(std::string(name) + " " + std::to_string(code));
      cache_.before = [&](const std::string& call) {
        return call == name ? grpc::Status(static_cast<grpc::StatusCode>(code),
                                           "\x1b[31m\n" + std::string(1000, 'x'))
                            : grpc::Status::OK;
      };
      store_ = RemoteStoreAt(cache_.address());
      const absl::StatusOr<Entry> found = store_->Get(KeyOf(1));
      EXPECT_TRUE(IsBearable(found.status())) << found.status();
      EXPECT_LT(found.status().message().size(), 600u);
      EXPECT_EQ(found.status().message().find_first_of("\x1b\n"), std::string::npos);
      EXPECT_TRUE(IsBearable(store_->GetAlias(AliasIdOf(1)).status()));
      EXPECT_TRUE(IsBearable(store_->Put(EntryOf(2, 1, 150'000))));
      EXPECT_TRUE(IsBearable(store_->PutAlias(AliasOf(1, 1))));
      EXPECT_TRUE(IsBearable(store_->DropAlias(AliasIdOf(9))));
      EXPECT_TRUE(IsBearable(store_->Quarantine(KeyOf(9), "x")));
      cache_.Use([](auto& state) {
        state.results.erase(ToHex(ActionOf(RemoteKind::kProgram, KeyOf(2)).name().digest));
        state.blobs.erase(ToHex(EntryOf(2, 1, 150'000).manifest.recipes[0].digest));
      });
    }
  }
}

TEST_F(RemoteCacheHostile, HostileResultsAreRefused) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(store_->Put(EntryOf(2)).ok());
  reapi::ActionResult of_another;
  cache_.Use([&](auto& state) {
    of_another = state.results.at(ToHex(ActionOf(RemoteKind::kProgram, KeyOf(2)).name().digest));
  });
  using Change = std::function<void(reapi::ActionResult&)>;
  const std::pair<const char*, Change> changes[] = {
      {"swapped", [&](auto& r) { r = of_another; }},
      {"empty", [](auto& r) { r.Clear(); }},
      {"huge",
       [](auto& r) { r.mutable_output_files(0)->mutable_digest()->set_size_bytes(1L << 60); }},
      {"largest record",
       [](auto& r) {
         r.mutable_output_files(0)->mutable_digest()->set_size_bytes(kMaxStoredRecordBytes);
       }},
      {"negative",
       [](auto& r) { r.mutable_output_files(0)->mutable_digest()->set_size_bytes(-1); }},
      {"no hash", [](auto& r) { r.mutable_output_files(0)->mutable_digest()->clear_hash(); }},
      {"long hash",
       [](auto& r) {
         r.mutable_output_files(0)->mutable_digest()->set_hash(std::string(1 << 20, 'a'));
       }},
      {"a blob as record",
       [](auto& r) { *r.mutable_output_files(0)->mutable_digest() = r.output_files(1).digest(); }},
      {"other contents", [](auto& r) { r.mutable_output_files(0)->set_contents("x"); }},
      {"large contents",
       [](auto& r) { r.mutable_output_files(0)->set_contents(std::string(6 << 20, 'x')); }},
      {"contents above a message's bound",
       [](auto& r) { r.mutable_output_files(0)->set_contents(std::string(20 << 20, 'x')); }},
      {"many files",
       [](auto& r) {
         r.mutable_output_files(0)->set_path("x");
         for (int i = 0; i < 100'000; ++i) r.add_output_files()->set_path("y");
       }},
  };
  for (const auto& [what, change] : changes) {
    SCOPED_TRACE(what);
    cache_.on_result = change;
    auto inner = RemoteStoreAt(cache_.address());
    VerifyingRecipeStore store(std::move(inner), &TestKeys());
    const absl::StatusOr<Entry> found = store.Get(KeyOf(1));
    EXPECT_FALSE(found.ok());
    EXPECT_TRUE(IsBearable(found.status())) << found.status();
    EXPECT_FALSE(store.GetAlias(AliasIdOf(1)).ok());
    cache_.on_result = nullptr;
    ASSERT_TRUE(RemoteStoreAt(cache_.address())->Put(EntryOf(1)).ok());
  }
}

TEST_F(RemoteCacheHostile, ContentsThatComeAlongAreUsed) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  const Bytes record = EncodeSignedRecord(EntryOf(1).signed_manifest);
  cache_.on_result = [&](auto& result) {
    result.mutable_output_files(0)->set_contents(record.data(), record.size());
  };
  EXPECT_TRUE(store_->Get(KeyOf(1)).ok());
  EXPECT_EQ(cache_.Calls("BatchReadBlobs"), 1) << "the blobs, but not the record";
}

TEST_F(RemoteCacheHostile, HostileBatchesAreRefused) {
  const Entry entry = EntryOf(1, 2);
  using Reply = reapi::BatchReadBlobsResponse;
  const std::pair<const char*, std::function<void(Reply&)>> changes[] = {
      {"other bytes", [](Reply& r) { (*r.mutable_responses(0)->mutable_data())[0] ^= 1; }},
      {"shorter", [](Reply& r) { r.mutable_responses(0)->mutable_data()->pop_back(); }},
      {"longer", [](Reply& r) { r.mutable_responses(0)->mutable_data()->push_back('x'); }},
      {"much longer",
       [](Reply& r) { r.mutable_responses(0)->set_data(std::string(5 << 20, 'x')); }},
      {"above the bound",
       [](Reply& r) { r.mutable_responses(0)->set_data(std::string(20 << 20, 'x')); }},
      {"nothing", [](Reply& r) { r.Clear(); }},
      {"missing", [](Reply& r) { r.mutable_responses()->RemoveLast(); }},
      {"unknown code", [](Reply& r) { r.mutable_responses(0)->mutable_status()->set_code(-99); }},
      {"internal", [](Reply& r) { r.mutable_responses(0)->mutable_status()->set_code(13); }},
      {"not asked for",
       [](Reply& r) { r.mutable_responses(0)->mutable_digest()->set_hash(std::string(64, 'a')); }},
      {"no digest", [](Reply& r) { r.mutable_responses(0)->clear_digest(); }},
      {"swapped",
       [](Reply& r) {
         if (r.responses_size() > 1) {
           r.mutable_responses(0)->mutable_data()->swap(*r.mutable_responses(1)->mutable_data());
         } else {
           r.Clear();
         }
       }},
      {"many",
       [](Reply& r) {
         for (int i = 0; i < 100'000; ++i) r.add_responses()->mutable_status()->set_code(5);
         r.mutable_responses(0)->clear_data();
       }},
  };
  for (const auto& [what, change] : changes) {
    SCOPED_TRACE(what);
    for (const bool record_too : {true, false}) {
      ASSERT_TRUE(RemoteStoreAt(cache_.address())->Put(entry).ok());
      std::atomic<int> reads{0};
      cache_.on_batch_read = [&](Reply& reply) {
        if (reads++ > 0 || record_too) change(reply);
      };
      const auto store = RemoteStoreAt(cache_.address());
      const absl::StatusOr<Entry> found = store->Get(KeyOf(1));
      EXPECT_FALSE(found.ok());
      EXPECT_TRUE(IsBearable(found.status())) << found.status();
      cache_.on_batch_read = nullptr;
    }
  }
}

TEST_F(RemoteCacheHostile, HostileStreamsAreRefused) {
  using google::bytestream::ReadResponse;
  using Writer = grpc::ServerWriter<ReadResponse>;
  const Entry entry = EntryOf(1, 1, 200'000);
  const Bytes& large = *entry.blobs[1];
  const auto send = [](Writer& writer, const std::string& data) {
    ReadResponse chunk;
    chunk.set_data(data);
    return writer.Write(chunk);
  };
  const std::string good(large.begin(), large.end());
  const std::pair<const char*, std::function<void(Writer&)>> streams[] = {
      {"endless",
       [&](Writer& writer) {
         while (send(writer, good)) continue;
       }},
      // These two last until the client leaves; the pauses make the server slow.
      {"nothing, for ever",
       [&](Writer& writer) {
         while (send(writer, "")) std::this_thread::sleep_for(milliseconds(1));
       }},
      {"a byte now and then",
       [&](Writer& writer) {
         while (send(writer, "x")) std::this_thread::sleep_for(milliseconds(20));
       }},
      {"one byte more", [&](Writer& writer) { send(writer, good) && send(writer, "x"); }},
      {"one byte less", [&](Writer& writer) { send(writer, good.substr(1)); }},
      {"empty", [&](Writer&) {}},
      {"other bytes", [&](Writer& writer) { send(writer, std::string(good.size(), 'x')); }},
      {"a large message", [&](Writer& writer) { send(writer, std::string(20 << 20, 'x')); }},
  };
  for (const auto& [what, stream] : streams) {
    SCOPED_TRACE(what);
    ASSERT_TRUE(RemoteStoreAt(cache_.address())->Put(entry).ok());
    cache_.on_stream_read = [&](const std::string&, Writer& writer) {
      stream(writer);
      return true;
    };
    const auto store = RemoteStoreAt(ImpatientOptionsOf(cache_.address()));
    const absl::StatusOr<Entry> found = store->Get(KeyOf(1));
    EXPECT_FALSE(found.ok());
    EXPECT_TRUE(IsBearable(found.status())) << found.status();
    EXPECT_LT(CounterOf(*store, "remote_cache.bytes_read"), 1'000'000u);
    cache_.on_stream_read = nullptr;
  }
}

// A manifest that nobody signed decides how much is read before its signature is looked at.
TEST_F(RemoteCacheHostile, HugeSizesInARecordAreBounded) {
  Manifest manifest = EntryOf(1).manifest;
  for (int i = 0; i < 100; ++i) {
    manifest.recipes.push_back({DigestOf(static_cast<uint64_t>(i)), kMaxBlobBytes});
  }
  const Bytes record =
      EncodeSignedRecord(TestKey().Sign(RecordKind::kManifest, EncodeManifest(manifest).value()));
  cache_.on_result = [&](auto& result) {
    result = ResultOf({Sha256(record), record.size()}, {});
    result.mutable_output_files(0)->set_contents(record.data(), record.size());
  };
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(1)).status()));
  EXPECT_EQ(cache_.Calls("BatchReadBlobs") + cache_.Calls("Read"), 0);
  manifest.recipes = {{DigestOf(1), 400 << 20}};  // within bounds, but it never comes
  const Bytes other =
      EncodeSignedRecord(TestKey().Sign(RecordKind::kManifest, EncodeManifest(manifest).value()));
  cache_.on_result = [&](auto& result) {
    result = ResultOf({Sha256(other), other.size()}, {});
    result.mutable_output_files(0)->set_contents(other.data(), other.size());
  };
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(1)).status()));
}

// Makes all calls at something that is no server of this protocol.
void ExpectBearable(const std::string& target) {
  const auto check = [&](const char* call, const std::function<absl::Status(RecipeStore&)>& run) {
    RemoteCacheOptions options = TestOptionsOf("grpc://" + target);
    options.timeout = milliseconds(150);
    options.retry_after = options.max_retry_after = kHangLimit;
    const auto store = RemoteStoreAt(options);
    const absl::Status status = run(*store);
    EXPECT_TRUE(absl::IsUnavailable(status)) << call << ": " << status;
    EXPECT_TRUE(absl::IsUnavailable(run(*store))) << call;
    EXPECT_EQ(CounterOf(*store, "remote_cache.open_circuit"), 1u) << call;
  };
  check("Get", [](RecipeStore& store) { return store.Get(KeyOf(1)).status(); });
  check("Put", [](RecipeStore& store) { return store.Put(EntryOf(1, 1, 3'000'000)); });
  check("GetAlias", [](RecipeStore& store) { return store.GetAlias(AliasIdOf(1)).status(); });
  check("PutAlias", [](RecipeStore& store) { return store.PutAlias(AliasOf(1, 1)); });
  check("DropAlias", [](RecipeStore& store) { return store.DropAlias(AliasIdOf(1)); });
  check("Quarantine", [](RecipeStore& store) { return store.Quarantine(KeyOf(1), "x"); });
}

TEST(RemoteCacheStrangers, SilentServersBlackHolesAndOthersAreBounded) {
  ExpectBearable(FakeServer(nullptr).address());
  ExpectBearable(FullListener().address());
  ExpectBearable("no-such-host.invalid:8980");
  for (const std::string& text :
       {std::string("HTTP/1.1 200 OK\r\n\r\n"), std::string("\0\0\0\4\0\0\0\0\0", 9),
        std::string(3'000'000, '\0'), std::string(3'000'000, '\xff'), std::string("+OK\r\n")}) {
    for (const auto manner : {FakeServer::Manner::kStays, FakeServer::Manner::kClosesAfterAnswer}) {
      FakeServer hostile([&](const std::string&) { return text; }, manner);
      ExpectBearable(hostile.address());
    }
  }
}

}  // namespace
}  // namespace hpu::store
