// The persistent engine alone can get these wrong: restarts, damage on disk, and disks that refuse
// writes.
#include "recipe_store/rocksdb/rocksdb_recipe_store.h"

#include <gtest/gtest.h>
#include <rocksdb/write_batch.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "compile_service.pb.h"
#include "recipe_store/layers/verifying_recipe_store.h"
#include "tests/store/store_testing.h"

namespace hpu::store {
namespace {

constexpr uint64_t kMaxBytes = 10'000'000;

std::unique_ptr<RocksDbRecipeStore> OpenAt(const std::string& folder,
                                           uint64_t max_bytes = kMaxBytes) {
  return RocksDbRecipeStore::Open(folder, max_bytes).value();
}

uint64_t Counter(const RecipeStore& store, const std::string& name) {
  std::map<std::string, uint64_t> counters;
  store.AddCounters(counters);
  return counters.at(name);
}

rocksdb::Slice ToSlice(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

// Changes the database behind the store's back.
void Tamper(const std::string& folder, const std::function<void(Database&)>& change) {
  Database database = OpenDatabase(folder).value();
  change(database);
}

TEST(RocksDbRecipeStore, PinsSurviveRestarts) {
  const TemporaryFolder folder;
  {
    auto store = OpenAt(folder.path("db"));
    for (uint64_t n = 0; n < 4; ++n) ASSERT_TRUE(store->Put(EntryOf(n, 1, 10'000)).ok());
    ASSERT_TRUE(store->Pin(KeyOf(0), true).ok());
    ASSERT_TRUE(store->Pin(KeyOf(1), true).ok());
    ASSERT_TRUE(store->Pin(KeyOf(1), false).ok());
    // Uses and writes that follow do not unpin it.
    ASSERT_TRUE(store->Get(KeyOf(0)).ok());
    ASSERT_TRUE(store->Put(EntryOf(0, 1, 10'000)).ok());
    for (uint64_t n = 1; n < 4; ++n) ASSERT_TRUE(store->Get(KeyOf(n)).ok());
  }
  auto store = OpenAt(folder.path("db"), 25'000);
  EXPECT_EQ(store->Pinned().value(), std::vector<Digest>{KeyOf(0)});
  EXPECT_TRUE(SameEntry(store->Get(KeyOf(0)).value(), EntryOf(0, 1, 10'000)));
  EXPECT_TRUE(SameEntry(store->Get(KeyOf(3)).value(), EntryOf(3, 1, 10'000)));
  EXPECT_EQ(store->List(0, {}).value().size(), 2u);
}

TEST(RocksDbRecipeStore, EntriesAndOrderOfUseSurviveRestarts) {
  const TemporaryFolder folder;
  uint64_t bytes = 0;
  {
    auto store = OpenAt(folder.path("db"));
    for (uint64_t n = 0; n < 4; ++n) {
      ASSERT_TRUE(store->Put(EntryOf(n, 1, 10'000)).ok());
      bytes += EntryOf(n, 1, 10'000).size_bytes();
    }
    ASSERT_TRUE(store->Get(KeyOf(0)).ok());
  }
  EXPECT_EQ(Counter(*OpenAt(folder.path("db")), "rocksdb.bytes"), bytes);
  // There is room for two entries: 0 was read last, and 3 was written last.
  auto store = OpenAt(folder.path("db"), 25'000);
  EXPECT_TRUE(SameEntry(store->Get(KeyOf(0)).value(), EntryOf(0, 1, 10'000)));
  EXPECT_TRUE(SameEntry(store->Get(KeyOf(3)).value(), EntryOf(3, 1, 10'000)));
  EXPECT_EQ(Counter(*store, "rocksdb.hits"), 2u);
  EXPECT_GT(Counter(*store, "rocksdb.disk_bytes"), 20'000u);
  EXPECT_EQ(store->List(0, {}).value().size(), 2u);
  EXPECT_EQ(Counter(*store, "rocksdb.evictions"), 2u);
}

TEST(RocksDbRecipeStore, OneProcessOnly) {
  const TemporaryFolder folder;
  const auto first = OpenAt(folder.path("db"));
  EXPECT_TRUE(absl::IsUnavailable(RocksDbRecipeStore::Open(folder.path("db"), kMaxBytes).status()));
}

TEST(RocksDbRecipeStore, ManifestsOfAnotherVersionAreMissesAndKeepTheirBlobs) {
  const TemporaryFolder folder;
  ASSERT_TRUE(OpenAt(folder.path("db"))->Put(EntryOf(1)).ok());
  Tamper(folder.path("db"), [](Database& database) {
    wire::Manifest manifest;
    manifest.set_version(99);
    SignedRecord signed_manifest = EntryOf(1).signed_manifest;
    const std::string bytes = manifest.SerializeAsString();
    signed_manifest.record.assign(bytes.begin(), bytes.end());
    const Bytes record = EncodeSignedRecord(signed_manifest);
    ASSERT_TRUE(
        database.db
            ->Put({}, database.manifests, ToSlice(KeyOf(1)),
                  rocksdb::Slice(reinterpret_cast<const char*>(record.data()), record.size()))
            .ok());
  });
  auto store = OpenAt(folder.path("db"));
  EXPECT_TRUE(absl::IsNotFound(store->Get(KeyOf(1)).status()));
  EXPECT_TRUE(store->List(0, {}).value().empty());
  store.reset();
  std::string blob;
  const Database database = OpenDatabase(folder.path("db")).value();
  EXPECT_TRUE(database.db->Get({}, database.blobs, ToSlice(Sha256(BytesOf(1, 100))), &blob).ok())
      << "a newer build needs it";
}

TEST(RocksDbRecipeStore, DamagedEntriesAreQuarantinedAndHealedByAnewPut) {
  const TemporaryFolder folder;
  ASSERT_TRUE(OpenAt(folder.path("db"))->Put(EntryOf(1)).ok());
  const Digest blob = Sha256(BytesOf(1001, 1000));
  const std::function<void(Database&)> damages[] = {
      [&](Database& db) {  // a flipped bit in a blob
        std::string bytes;
        ASSERT_TRUE(db.db->Get({}, db.blobs, ToSlice(blob), &bytes).ok());
        bytes[500] ^= 4;
        ASSERT_TRUE(db.db->Put({}, db.blobs, ToSlice(blob), bytes).ok());
      },
      [&](Database& db) {  // a shortened blob
        ASSERT_TRUE(db.db->Put({}, db.blobs, ToSlice(blob), "short").ok());
      },
      [&](Database& db) { ASSERT_TRUE(db.db->Delete({}, db.blobs, ToSlice(blob)).ok()); },
      [&](Database& db) {  // a flipped bit in the manifest
        std::string bytes;
        ASSERT_TRUE(db.db->Get({}, db.manifests, ToSlice(KeyOf(1)), &bytes).ok());
        bytes[60] ^= 1;
        ASSERT_TRUE(db.db->Put({}, db.manifests, ToSlice(KeyOf(1)), bytes).ok());
      },
      [&](Database& db) {  // another key's manifest
        const Bytes record = EncodeSignedRecord(EntryOf(2).signed_manifest);
        ASSERT_TRUE(db.db
                        ->Put({}, db.manifests, ToSlice(KeyOf(1)),
                              std::string(record.begin(), record.end()))
                        .ok());
      },
      [&](Database& db) {  // no manifest at all
        ASSERT_TRUE(db.db->Put({}, db.manifests, ToSlice(KeyOf(1)), "garbage").ok());
      }};
  for (const auto& damage : damages) {
    Tamper(folder.path("db"), damage);
    VerifyingRecipeStore store(OpenAt(folder.path("db")), &TestKeys());
    EXPECT_TRUE(absl::IsDataLoss(store.Get(KeyOf(1)).status())) << store.Get(KeyOf(1)).status();
    EXPECT_TRUE(absl::IsNotFound(store.Get(KeyOf(1)).status()));
    EXPECT_EQ(Counter(store, "verifying.damaged"), 1u);
    EXPECT_EQ(Counter(store, "rocksdb.quarantined"), 1u);
    ASSERT_TRUE(store.Put(EntryOf(1)).ok());
    EXPECT_TRUE(SameEntry(store.Get(KeyOf(1)).value(), EntryOf(1)));
  }
}

// Changes alias 1 of program 1. Alias 2 belongs to program 2.
TEST(VerifyingRecipeStore, BadAliasesAreMissesAndDropped) {
  const auto write = [](Database& db, const Digest& id, const AliasRecord& alias) {
    const Bytes record = EncodeSignedRecord(alias.signed_record);
    ASSERT_TRUE(
        db.db->Put({}, db.aliases, ToSlice(id), std::string(record.begin(), record.end())).ok());
  };
  AliasRecord edited = AliasOf(1, 1);
  edited.signed_record.record = AliasOf(1, 2).signed_record.record;
  struct Case {
    const char* what;
    std::function<void(Database&)> change;
    uint64_t untrusted;
    uint64_t bad;
  };
  const Case cases[] = {
      {"another key's alias", [&](Database& db) { write(db, AliasIdOf(1), AliasOf(2, 2)); }, 0, 1},
      {"another tenant's", [&](Database& db) { write(db, AliasIdOf(1), AliasOf(1, 2, "b")); }, 0,
       1},
      {"a stranger's",
       [&](Database& db) {
         write(db, AliasIdOf(1), AliasOf(1, 2, "local", SigningKey::Generate()));
       },
       1, 0},
      {"another record under a good signature",
       [&](Database& db) { write(db, AliasIdOf(1), edited); }, 0, 1},
      {"a manifest",
       [&](Database& db) {
         write(db, AliasIdOf(1), {EntryOf(1).signed_manifest, AliasOf(1, 1).alias});
       },
       0, 0}};
  for (const Case& row : cases) {
    const TemporaryFolder folder;
    {
      VerifyingRecipeStore store(OpenAt(folder.path("db")), &TestKeys());
      for (const uint64_t n : {1, 2}) {
        ASSERT_TRUE(store.Put(EntryOf(n)).ok());
        ASSERT_TRUE(store.PutAlias(AliasOf(n, n)).ok());
      }
    }
    Tamper(folder.path("db"), row.change);
    VerifyingRecipeStore store(OpenAt(folder.path("db")), &TestKeys());
    EXPECT_TRUE(absl::IsNotFound(store.GetAlias(AliasIdOf(1)).status())) << row.what;
    EXPECT_EQ(Counter(store, "verifying.untrusted"), row.untrusted) << row.what;
    EXPECT_EQ(Counter(store, "verifying.bad_aliases"), row.bad) << row.what;
    EXPECT_EQ(store.GetAlias(AliasIdOf(2)).value(), AliasOf(2, 2)) << row.what;
    EXPECT_TRUE(SameEntry(store.Get(KeyOf(1)).value(), EntryOf(1))) << row.what;
    ASSERT_TRUE(store.PutAlias(AliasOf(1, 1)).ok()) << row.what;
    EXPECT_EQ(store.GetAlias(AliasIdOf(1)).value(), AliasOf(1, 1)) << row.what;
  }
}

TEST(RocksDbRecipeStore, AliasesSurviveRestartsAndGoWithTheirProgram) {
  const TemporaryFolder folder;
  {
    auto store = OpenAt(folder.path("db"));
    ASSERT_TRUE(store->Put(EntryOf(1)).ok());
    ASSERT_TRUE(store->Put(EntryOf(2)).ok());
    for (const uint64_t n : {1, 2, 3})
      ASSERT_TRUE(store->PutAlias(AliasOf(n, n == 3 ? 1 : n)).ok());
  }
  // An alias has no program, as only a fault could leave it.
  Tamper(folder.path("db"), [](Database& db) {
    ASSERT_TRUE(db.db->Delete({}, db.manifests, ToSlice(KeyOf(2))).ok());
  });
  auto store = OpenAt(folder.path("db"));
  EXPECT_EQ(store->GetAlias(AliasIdOf(1)).value(), AliasOf(1, 1));
  EXPECT_EQ(store->GetAlias(AliasIdOf(3)).value(), AliasOf(3, 1));
  EXPECT_TRUE(absl::IsNotFound(store->GetAlias(AliasIdOf(2)).status()));
  EXPECT_EQ(Counter(*store, "rocksdb.aliases"), 2u);
  EXPECT_EQ(store->AliasesOf(KeyOf(1)).value().size(), 2u);
  ASSERT_TRUE(store->Quarantine(KeyOf(1), "test").ok());
  EXPECT_EQ(Counter(*store, "rocksdb.aliases"), 0u);
  EXPECT_TRUE(store->AliasesOf(KeyOf(1)).value().empty());
  EXPECT_EQ(Counter(*store, "rocksdb.bytes"), 0u);
}

TEST(VerifyingRecipeStore, EntriesOfAnotherSignerAreMissesAndNotDestroyed) {
  const TemporaryFolder folder;
  ASSERT_TRUE(OpenAt(folder.path("db"))->Put(EntryOf(1)).ok());
  {
    const TrustedKeys others(SigningKey::Generate().public_key(), "");
    VerifyingRecipeStore store(OpenAt(folder.path("db")), &others);
    EXPECT_TRUE(absl::IsNotFound(store.Get(KeyOf(1)).status()));
    EXPECT_TRUE(absl::IsPermissionDenied(store.Put(EntryOf(2))));
    EXPECT_EQ(Counter(store, "verifying.untrusted"), 1u);
  }
  VerifyingRecipeStore store(OpenAt(folder.path("db")), &TestKeys());
  EXPECT_TRUE(store.Get(KeyOf(1)).ok());
}

TEST(RocksDbRecipeStore, ADamagedDatabaseIsMovedAside) {
  const TemporaryFolder folder;
  ASSERT_TRUE(OpenAt(folder.path("db"))->Put(EntryOf(1)).ok());
  std::ofstream(folder.path("db/CURRENT"), std::ios::trunc) << "MANIFEST-nonsense\n";
  auto store = OpenAt(folder.path("db"));
  EXPECT_TRUE(absl::IsNotFound(store->Get(KeyOf(1)).status()));
  EXPECT_TRUE(store->Put(EntryOf(1)).ok());
  EXPECT_TRUE(std::filesystem::exists(folder.path("db.damaged/CURRENT")));
}

TEST(RocksDbRecipeStore, DamageThatShowsWhenManifestsAreReadDoesNotStay) {
  const TemporaryFolder folder;
  ASSERT_TRUE(OpenAt(folder.path("db"))->Put(EntryOf(1)).ok());
  // Opening the store again moves the contents of the log into tables.
  OpenAt(folder.path("db")).reset();
  int tables = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.path("db"))) {
    if (file.path().extension() != ".sst") continue;
    std::fstream table(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    table.seekp(4);
    table << "damage in the first block";
    ++tables;
  }
  ASSERT_GT(tables, 0);
  auto store = OpenAt(folder.path("db"));
  EXPECT_TRUE(absl::IsNotFound(store->Get(KeyOf(1)).status()));
  ASSERT_TRUE(store->Put(EntryOf(1)).ok());
  EXPECT_TRUE(std::filesystem::exists(folder.path("db.damaged/CURRENT")));
  store.reset();
  EXPECT_TRUE(SameEntry(OpenAt(folder.path("db"))->Get(KeyOf(1)).value(), EntryOf(1)));
}

// RLIMIT_FSIZE makes writes fail as a full disk does, in this process only.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST(RocksDbRecipeStore, AFullDiskStopsWritesButNotReads) {
  const TemporaryFolder folder;
  auto store = OpenAt(folder.path("db"));
  ASSERT_TRUE(store->Put(EntryOf(1)).ok());
  {
    const FileSizeLimit full(8192);
    EXPECT_TRUE(absl::IsUnavailable(store->Put(EntryOf(2, 1, 100'000))));
    EXPECT_TRUE(absl::IsUnavailable(store->Put(EntryOf(3))));
    EXPECT_TRUE(SameEntry(store->Get(KeyOf(1)).value(), EntryOf(1)));
    EXPECT_TRUE(absl::IsNotFound(store->Get(KeyOf(2)).status()));
    EXPECT_EQ(Counter(*store, "rocksdb.write_failures"), 1u) << "then it waits before trying";
  }
  store.reset();
  store = OpenAt(folder.path("db"));
  EXPECT_TRUE(SameEntry(store->Get(KeyOf(1)).value(), EntryOf(1)));
  EXPECT_TRUE(absl::IsNotFound(store->Get(KeyOf(2)).status()));
  EXPECT_TRUE(store->Put(EntryOf(2)).ok());
}

}  // namespace
}  // namespace hpu::store
