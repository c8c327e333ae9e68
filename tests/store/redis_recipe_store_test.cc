// RedisRecipeStore at one real server: keys, damage, eviction, a full engine, passwords.
#include "recipe_store/redis/redis_recipe_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recipe_store/layers/verifying_recipe_store.h"
#include "recipe_store/redis/redis_lease.h"
#include "tests/store/redis_server.h"

namespace hpu::store {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

class RedisStore : public testing::Test {
 protected:
  void SetUp() override {
    if (!WhyNoRedis().empty()) GTEST_SKIP() << WhyNoRedis();
    static RedisServer* const server = Shared();
    server_ = server;
    server_->Command({"FLUSHALL"});
    server_->Command({"CONFIG", "SET", "maxmemory", "0"});
    options_ = TestOptions(server_->address());
    store_ = StoreAt(options_);
  }
  // Returns one server for all tests of this file. It ends with the program.
  static RedisServer* Shared() {
    static RedisServer server;
    return &server;
  }
  std::string Key(const char* kind, const Digest& name) const {
    return std::string("hpu:") + kind + ":" + ToHex(name);
  }
  Digest BlobOf(const Entry& entry, size_t i) const { return Sha256(*entry.blobs[i]); }
  // Changes one byte of a stored string.
  void Flip(const std::string& key, size_t at) const {
    const std::string text = server_->Text({"GET", key});
    const char flipped[] = {static_cast<char>(text.at(at) ^ 0x10), 0};
    server_->Command({"SETRANGE", key, std::to_string(at), std::string(flipped, 1)});
  }

  RedisServer* server_ = nullptr;
  RedisOptions options_;
  std::unique_ptr<RedisRecipeStore> store_;
};

TEST_F(RedisStore, KeepsWhatTheHeaderSays) {
  const Entry entry = EntryOf(1);
  ASSERT_TRUE(store_->Put(entry).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(1, 1)).ok());
  std::vector<std::string> expected = {Key("a", AliasIdOf(1)),     Key("b", BlobOf(entry, 0)),
                                       Key("b", BlobOf(entry, 1)), "hpu:i",
                                       Key("m", KeyOf(1)),         Key("r", KeyOf(1))};
  std::ranges::sort(expected);
  EXPECT_EQ(server_->Keys("*"), expected);
  EXPECT_EQ(server_->Text({"STRLEN", Key("b", BlobOf(entry, 1))}), "1000");
  EXPECT_EQ(server_->Text({"ZRANGE", "hpu:i", "0", "-1"}), ToHex(KeyOf(1)));
  EXPECT_EQ(server_->Text({"ZSCORE", "hpu:i", ToHex(KeyOf(1))}), "1");
  EXPECT_EQ(server_->Text({"PTTL", Key("m", KeyOf(1))}), "-1") << "lives for good";
}

TEST_F(RedisStore, AnEntryOfThreeMegabytesCrossesTheNetworkOncePerGet) {
  const Entry entry = EntryOf(1, 3, 1'000'000);
  ASSERT_TRUE(store_->Put(entry).ok());
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(store_->Get(KeyOf(1)).value().size_bytes(), entry.size_bytes());
  }
  EXPECT_EQ(CounterOf(*store_, "redis.hits"), 20u);
  EXPECT_GT(CounterOf(*store_, "redis.bytes_read"), 60'000'000u);
  EXPECT_LT(CounterOf(*store_, "redis.bytes_read"), 61'000'000u);
  EXPECT_GT(CounterOf(*store_, "redis.bytes_written"), 3'000'000u);
  EXPECT_LT(CounterOf(*store_, "redis.bytes_written"), 3'100'000u);
  EXPECT_EQ(CounterOf(*store_, "redis.connects"), 1u);
}

TEST_F(RedisStore, BlobsThatAreThereAreNotWrittenAgain) {
  const Bytes shared = BytesOf(9, 100'000);
  ASSERT_TRUE(store_->Put(EntryOf(1, {BytesOf(1, 10), shared})).ok());
  const uint64_t written = CounterOf(*store_, "redis.bytes_written");
  ASSERT_TRUE(store_->Put(EntryOf(2, {BytesOf(2, 10), shared})).ok());
  EXPECT_LT(CounterOf(*store_, "redis.bytes_written") - written, 3000u);
  EXPECT_EQ(CounterOf(*store_, "redis.blobs_written"), 3u);
  EXPECT_EQ(CounterOf(*store_, "redis.blobs_known"), 1u);
}

TEST_F(RedisStore, AnEvictedBlobIsAMissUntilTheNextPut) {
  const Entry entry = EntryOf(1, 2);
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(store_->Put(entry).ok());
    server_->Command({"DEL", Key("b", BlobOf(entry, i))});
    const absl::Status missed = store_->Get(KeyOf(1)).status();
    EXPECT_TRUE(absl::IsNotFound(missed)) << missed;
    EXPECT_THAT(std::string(missed.message()), HasSubstr(ToHex(BlobOf(entry, i))));
  }
  EXPECT_EQ(CounterOf(*store_, "redis.incomplete"), 3u);
  EXPECT_EQ(CounterOf(*store_, "redis.misses"), 3u);
  ASSERT_TRUE(store_->Put(entry).ok());
  EXPECT_TRUE(SameEntry(store_->Get(KeyOf(1)).value(), entry));
}

TEST_F(RedisStore, ABlobOfAnotherSizeIsAMissAndHealed) {
  const Entry entry = EntryOf(1);
  ASSERT_TRUE(store_->Put(entry).ok());
  const std::string blob = Key("b", BlobOf(entry, 1));
  for (const std::string& bytes : {std::string("short"), std::string(5'000'000, 'x')}) {
    server_->Command({"SET", blob, bytes});
    EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(1)).status()));
    ASSERT_TRUE(store_->Put(entry).ok());
    EXPECT_TRUE(SameEntry(store_->Get(KeyOf(1)).value(), entry));
  }
  EXPECT_EQ(CounterOf(*store_, "redis.server_failures"), 0u) << "the server did nothing wrong";
  EXPECT_LT(CounterOf(*store_, "redis.bytes_read"), 20'000u) << "only what was asked for came";
}

TEST_F(RedisStore, APutOverADamagedBlobHealsIt) {
  VerifyingRecipeStore store(StoreAt(options_), &TestKeys());
  const Entry entry = EntryOf(1);
  ASSERT_TRUE(store.Put(entry).ok());
  Flip(Key("b", BlobOf(entry, 1)), 17);
  ASSERT_TRUE(store.Put(entry).ok()) << "nobody has read it meanwhile";
  EXPECT_TRUE(SameEntry(store.Get(KeyOf(1)).value(), entry));
}

TEST_F(RedisStore, FlippedBitsAreNeverServed) {
  VerifyingRecipeStore store(StoreAt(options_), &TestKeys());
  const Entry entry = EntryOf(1, 1, 200);
  int damaged = 0;
  const std::vector<std::string> keys = {Key("m", KeyOf(1)), Key("b", BlobOf(entry, 0)),
                                         Key("b", BlobOf(entry, 1)), Key("a", AliasIdOf(1))};
  for (const std::string& key : keys) {
    const size_t kSteps = 24;
    for (size_t step = 0; step < kSteps; ++step) {
      ASSERT_TRUE(store.Put(entry).ok());
      ASSERT_TRUE(store.PutAlias(AliasOf(1, 1)).ok());
      const size_t size = std::stoul(server_->Text({"STRLEN", key}));
      Flip(key, size * step / kSteps);
      const bool is_alias = key == keys[3];
      const absl::Status got =
          is_alias ? store.GetAlias(AliasIdOf(1)).status() : store.Get(KeyOf(1)).status();
      EXPECT_TRUE(absl::IsDataLoss(got) || absl::IsNotFound(got)) << key << " " << step << got;
      damaged += absl::IsDataLoss(got) ? 1 : 0;
      // The damaged entry is gone, so the next Put heals it.
      ASSERT_TRUE(store.Put(entry).ok());
      EXPECT_TRUE(SameEntry(store.Get(KeyOf(1)).value(), entry)) << key << " " << step;
    }
  }
  EXPECT_GE(damaged, 48) << "each flip of a blob, at least";
}

TEST_F(RedisStore, ForeignTypesAreDataLoss) {
  const Entry entry = EntryOf(1);
  ASSERT_TRUE(store_->Put(entry).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(1, 1)).ok());
  for (const std::string& key : {Key("m", KeyOf(1)), Key("b", BlobOf(entry, 0))}) {
    server_->Command({"DEL", key});
    server_->Command({"LPUSH", key, "x"});
    const absl::Status read = store_->Get(KeyOf(1)).status();
    EXPECT_TRUE(absl::IsDataLoss(read)) << read;
    EXPECT_THAT(std::string(read.message()), HasSubstr("not ours: WRONGTYPE"));
    ASSERT_TRUE(store_->Put(entry).ok());
    EXPECT_TRUE(store_->Get(KeyOf(1)).ok());
  }
  server_->Command({"DEL", "hpu:i"});
  server_->Command({"SET", "hpu:i", "x"});
  EXPECT_TRUE(store_->Put(entry).ok()) << "an index is not worth failing for";
}

TEST_F(RedisStore, AManifestUnderAnotherKeyIsDataLoss) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  server_->Command({"RENAME", Key("m", KeyOf(1)), Key("m", KeyOf(2))});
  EXPECT_TRUE(absl::IsDataLoss(store_->Get(KeyOf(2)).status()));
}

TEST_F(RedisStore, AnAliasDiesWithItsProgram) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(1, 1)).ok());
  server_->Command({"DEL", Key("m", KeyOf(1))});
  EXPECT_TRUE(absl::IsNotFound(store_->GetAlias(AliasIdOf(1)).status()));
  EXPECT_EQ(server_->Text({"EXISTS", Key("a", AliasIdOf(1))}), "0") << "and is gone";
  EXPECT_TRUE(absl::IsNotFound(store_->PutAlias(AliasOf(1, 1))));
}

TEST_F(RedisStore, AnEntryKeepsItsNewestAliases) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  constexpr uint64_t kMore = RedisRecipeStore::kMaxAliases + 5;
  for (uint64_t number = 0; number < kMore; ++number) {
    ASSERT_TRUE(store_->PutAlias(AliasOf(number, 1)).ok());
  }
  EXPECT_TRUE(absl::IsNotFound(store_->GetAlias(AliasIdOf(4)).status()));
  EXPECT_TRUE(store_->GetAlias(AliasIdOf(5)).ok());
  EXPECT_EQ(server_->Text({"ZCARD", Key("r", KeyOf(1))}), "256");
}

TEST_F(RedisStore, QuarantineKeepsTheManifestAsideAndDropsAliases) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(store_->Put(EntryOf(2)).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(1, 1)).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(2, 1)).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(2, 2)).ok()) << "names another program by now";
  const std::string stored = server_->Text({"GET", Key("m", KeyOf(1))});
  ASSERT_TRUE(store_->Quarantine(KeyOf(1), "bit rot").ok());
  EXPECT_EQ(server_->Text({"GET", Key("q", KeyOf(1))}), "bit rot\n" + stored);
  EXPECT_EQ(server_->Text({"EXISTS", Key("m", KeyOf(1)), Key("r", KeyOf(1))}), "0");
  EXPECT_EQ(server_->Text({"EXISTS", Key("a", AliasIdOf(1))}), "0");
  EXPECT_EQ(store_->GetAlias(AliasIdOf(2)).value(), AliasOf(2, 2));
  EXPECT_EQ(server_->Text({"ZRANGE", "hpu:i", "0", "-1"}), ToHex(KeyOf(2)));
  EXPECT_EQ(CounterOf(*store_, "redis.quarantined"), 1u);
}

TEST_F(RedisStore, QuarantineIsBounded) {
  for (size_t i = 0; i < RedisRecipeStore::kMaxQuarantined; ++i) {
    const std::string name = ToHex(DigestOf(i));
    server_->Command({"ZADD", "hpu:x", "1", name});
    server_->Command({"SET", "hpu:q:" + name, "old"});
  }
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  ASSERT_TRUE(store_->Quarantine(KeyOf(1), "bad").ok());
  EXPECT_EQ(server_->Keys("hpu:q:*").size(), RedisRecipeStore::kMaxQuarantined);
  EXPECT_EQ(server_->Text({"ZCARD", "hpu:x"}), "1000");
  EXPECT_EQ(server_->Text({"EXISTS", Key("q", KeyOf(1))}), "1");
}

TEST_F(RedisStore, ATimeToLiveIsPutBackByUse) {
  options_.entry_ttl = milliseconds(1'000'000);
  store_ = StoreAt(options_);
  const Entry entry = EntryOf(1);
  ASSERT_TRUE(store_->Put(entry).ok());
  ASSERT_TRUE(store_->PutAlias(AliasOf(1, 1)).ok());
  const std::vector<std::string> keys = {Key("m", KeyOf(1)), Key("b", BlobOf(entry, 0)),
                                         Key("b", BlobOf(entry, 1)), Key("a", AliasIdOf(1))};
  const auto ttl = [&](const std::string& key) { return std::stoll(server_->Text({"PTTL", key})); };
  const auto of_manifest = ttl(keys[0]);
  EXPECT_GT(of_manifest, 900'000);
  EXPECT_LE(of_manifest, 1'000'000);
  EXPECT_GT(ttl(keys[1]), of_manifest) << "blobs outlive their manifest";
  for (const std::string& key : keys) server_->Command({"PEXPIRE", key, "100000"});
  ASSERT_TRUE(store_->Get(KeyOf(1)).ok());
  ASSERT_TRUE(store_->GetAlias(AliasIdOf(1)).ok());
  for (const std::string& key : keys) EXPECT_GT(ttl(key), 900'000) << key;
  for (const std::string& key : keys) server_->Command({"PEXPIRE", key, "100000"});
  ASSERT_TRUE(store_->Put(entry).ok());
  for (size_t i = 0; i < 3; ++i) EXPECT_GT(ttl(keys[i]), 900'000) << keys[i];
  server_->Command({"PEXPIRE", keys[0], "1"});
  EXPECT_TRUE(Eventually([&] { return server_->Text({"EXISTS", keys[0]}) == "0"; }));
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(1)).status()));
}

TEST_F(RedisStore, AFullEngineIsUnavailableForWritesAndReadsGoOn) {
  ASSERT_TRUE(store_->Put(EntryOf(1)).ok());
  server_->Command({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
  server_->Command({"CONFIG", "SET", "maxmemory", "1"});
  const absl::Status full = store_->Put(EntryOf(2));
  EXPECT_TRUE(absl::IsUnavailable(full)) << full;
  EXPECT_THAT(std::string(full.message()), HasSubstr("raise its maxmemory"));
  EXPECT_TRUE(absl::IsUnavailable(store_->PutAlias(AliasOf(1, 1))));
  EXPECT_TRUE(SameEntry(store_->Get(KeyOf(1)).value(), EntryOf(1)));
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(2)).status())) << "no half entry";
  EXPECT_EQ(CounterOf(*store_, "redis.open_circuit"), 0u);
  server_->Command({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_TRUE(store_->Put(EntryOf(2)).ok()) << "healed without a pause";
}

TEST_F(RedisStore, AnEntryAboveTheLimitIsNeitherWrittenNorRead) {
  ASSERT_TRUE(store_->Put(EntryOf(1, 1, 5000)).ok());
  options_.max_entry_bytes = 4000;
  store_ = StoreAt(options_);
  EXPECT_TRUE(absl::IsResourceExhausted(store_->Put(EntryOf(2, 1, 5000))));
  EXPECT_TRUE(absl::IsNotFound(store_->Get(KeyOf(1)).status())) << "of a server that takes more";
}

TEST(RedisPassword, IsAskedForCheckedAndNeverShown) {
  if (!WhyNoRedis().empty()) GTEST_SKIP() << WhyNoRedis();
  RedisServer server({"--requirepass", "richtig"});
  server.Command({"ACL", "SETUSER", "compiler", "on", ">geheim", "~hpu:*", "+@all"}, "richtig");
  const auto put = [&](const std::string& user, const std::string& password) {
    RedisOptions options = TestOptions(server.address());
    options.user = user;
    options.password = password;
    return StoreAt(options)->Put(EntryOf(1));
  };
  EXPECT_TRUE(put("", "richtig").ok());
  EXPECT_TRUE(put("compiler", "geheim").ok());
  const absl::Status none = put("", "");
  EXPECT_TRUE(absl::IsUnavailable(none)) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr("it wants a password"));
  const absl::Status wrong = put("compiler", "verkehrt");
  EXPECT_TRUE(absl::IsUnavailable(wrong)) << wrong;
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("user or password are wrong"));
  EXPECT_THAT(std::string(wrong.message()), testing::Not(HasSubstr("verkehrt")));
  server.Command({"ACL",        "SETUSER",
                  "strict",     "on",
                  ">geheim",    "~hpu:*",
                  "~{hpu:l}:*", "+get",
                  "+set",       "+psetex",
                  "+getrange",  "+strlen",
                  "+exists",    "+del",
                  "+pexpire",   "+persist",
                  "+pttl",      "+zadd",
                  "+zrem",      "+zrange",
                  "+eval",      "+zremrangebyrank",
                  "+asking",    "+cluster|slots"},
                 "richtig");
  server.Command({"ACL", "LOG", "RESET"}, "richtig");
  RedisOptions strict = TestOptions(server.address());
  strict.user = "strict";
  strict.password = "geheim";
  strict.entry_ttl = milliseconds(600'000);
  const auto store = StoreAt(strict);
  EXPECT_TRUE(store->Put(EntryOf(1)).ok());
  EXPECT_TRUE(store->PutAlias(AliasOf(1, 1)).ok());
  EXPECT_TRUE(store->Get(KeyOf(1)).ok());
  EXPECT_TRUE(store->GetAlias(AliasIdOf(1)).ok());
  EXPECT_TRUE(store->Quarantine(KeyOf(1), "x").ok());
  RedisLeaseKeeper leases(RedisClient::Make(strict).value());
  Lease lease = leases.TryTake(KeyOf(1), "a", milliseconds(600'000)).value();
  EXPECT_TRUE(leases.Renew(lease, milliseconds(600'000)).ok());
  EXPECT_TRUE(leases.Look(KeyOf(1)).ok());
  EXPECT_TRUE(leases.Release(lease).ok());
  EXPECT_EQ(CounterOf(*store, "redis.errors"), 0u);
  EXPECT_EQ(server.Command({"ACL", "LOG"}, "richtig").elements.size(), 0u) << "nothing was denied";
  server.Command({"ACL", "SETUSER", "compiler", "resetkeys", "~hpu:m:*", "~hpu:i"}, "richtig");
  server.Command({"FLUSHALL"}, "richtig");
  const absl::Status forbidden = put("compiler", "geheim");
  EXPECT_TRUE(absl::IsUnavailable(forbidden)) << forbidden;
  EXPECT_THAT(std::string(forbidden.message()), HasSubstr("extend its ACL"));
  EXPECT_EQ(server.Command({"DBSIZE"}, "richtig").integer, 0) << "no manifest without its blobs";
}

}  // namespace
}  // namespace hpu::store
