// These tests open the whole store as a server does: its folder, its key, and a folder that it may
// not write.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "recipe_store/stack/factory.h"
#include "tests/store/store_testing.h"

namespace hpu::store {
namespace {

TEST(OpenStore, AnUnusableFolderGivesAMemoryStore) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("file")) << "not a folder";
  OpenedStore opened = OpenStore({.folder = folder.path("file")}).value();
  EXPECT_FALSE(opened.persistent);
  const Entry entry = EntryOf(1);
  EXPECT_TRUE(opened.store->Put(entry).ok());
  EXPECT_TRUE(SameEntry(opened.store->Get(KeyOf(1)).value(), entry));
}

TEST(OpenStore, AFolderThatOthersCanWriteToHoldsNoKeyAndNoPrograms) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("store"));
  for (const mode_t mode : {0777, 0770, 0702}) {
    ASSERT_EQ(chmod(folder.path("store").c_str(), mode), 0);
    EXPECT_FALSE(OpenStore({.folder = folder.path("store")}).value().persistent);
    EXPECT_TRUE(std::filesystem::is_empty(folder.path("store")));
  }
  ASSERT_EQ(chmod(folder.path("store").c_str(), 0755), 0);
  EXPECT_TRUE(OpenStore({.folder = folder.path("store")}).value().persistent);
}

TEST(OpenStore, ALinkOfAnotherUserIsNotFollowed) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be another user";
  const TemporaryFolder folder;
  ASSERT_EQ(mkdir(folder.path("private").c_str(), 0700), 0);
  ASSERT_EQ(symlink(folder.path("private").c_str(), folder.path("store").c_str()), 0);
  ASSERT_EQ(lchown(folder.path("store").c_str(), AsOtherUser::kUser, AsOtherUser::kUser), 0);
  EXPECT_FALSE(OpenStore({.folder = folder.path("store")}).value().persistent);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("private")));
  ASSERT_EQ(lchown(folder.path("store").c_str(), 0, 0), 0);
  EXPECT_TRUE(OpenStore({.folder = folder.path("store")}).value().persistent) << "a link of ours";
}

// Makes a folder that is this user's, but may not be written any more.
TEST(OpenStore, AnUnwritableFolderIsReadAndLeftAlone) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be another user afterwards";
  const TemporaryFolder folder;
  const std::string path = folder.path("store");
  std::optional<Entry> entry;
  {
    OpenedStore opened = OpenStore({.folder = path}).value();
    entry =
        MakeEntry(opened.signing_key.Sign(RecordKind::kManifest, EntryOf(1).signed_manifest.record),
                  EntryOf(1).blobs)
            .value();
    ASSERT_TRUE(opened.store->Put(*entry).ok());
  }
  ASSERT_EQ(chmod(folder.path().c_str(), 0711), 0);
  std::map<std::string, std::filesystem::file_time_type> before;
  const auto give_away = [&](const std::filesystem::path& file) {
    const bool is_folder = std::filesystem::is_directory(file);
    ASSERT_EQ(chown(file.c_str(), AsOtherUser::kUser, AsOtherUser::kUser), 0);
    ASSERT_EQ(chmod(file.c_str(), is_folder ? 0500 : 0400), 0);
    before[file.string()] = std::filesystem::last_write_time(file);
  };
  for (const auto& file : std::filesystem::recursive_directory_iterator(path)) give_away(file);
  give_away(path);
  {
    const AsOtherUser other;
    OpenedStore opened = OpenStore({.folder = path}).value();
    EXPECT_TRUE(opened.persistent && !opened.writable);
    EXPECT_TRUE(SameEntry(opened.store->Get(KeyOf(1)).value(), *entry));
    EXPECT_TRUE(absl::IsNotFound(opened.store->Get(KeyOf(2)).status()));
    const absl::Status refused = opened.store->Put(
        MakeEntry(opened.signing_key.Sign(RecordKind::kManifest, EntryOf(2).signed_manifest.record),
                  EntryOf(2).blobs)
            .value());
    EXPECT_EQ(ToText(refused), "UNAVAILABLE: the store is open for reading only");
  }
  for (const auto& file : std::filesystem::recursive_directory_iterator(path)) {
    EXPECT_EQ(before.count(file.path().string()), 1u) << file.path() << " is new";
    EXPECT_EQ(before[file.path().string()], file.last_write_time()) << file.path();
  }
}

TEST(OpenStore, AnUnwritableEmptyFolderGivesAMemoryStore) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be another user afterwards";
  const TemporaryFolder folder;
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  ASSERT_EQ(mkdir(folder.path("store").c_str(), 0755), 0);
  const AsOtherUser other;
  OpenedStore opened = OpenStore({.folder = folder.path("store")}).value();
  EXPECT_FALSE(opened.persistent || opened.writable);
  EXPECT_TRUE(opened.store->Put(EntryOf(1)).ok());
  EXPECT_TRUE(SameEntry(opened.store->Get(KeyOf(1)).value(), EntryOf(1)));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("store")));
}

TEST(OpenStore, KeepsProgramsOfItsOwnKeyOverRestarts) {
  const TemporaryFolder folder;
  const auto entry_by = [](const SigningKey& key) {
    return MakeEntry(key.Sign(RecordKind::kManifest, EntryOf(1).signed_manifest.record),
                     EntryOf(1).blobs)
        .value();
  };
  {
    OpenedStore opened = OpenStore({.folder = folder.path("store")}).value();
    EXPECT_TRUE(opened.persistent && opened.writable);
    ASSERT_TRUE(opened.store->Put(entry_by(opened.signing_key)).ok());
  }
  OpenedStore again = OpenStore({.folder = folder.path("store")}).value();
  EXPECT_TRUE(SameEntry(again.store->Get(KeyOf(1)).value(), entry_by(again.signing_key)));
  EXPECT_TRUE(absl::IsInvalidArgument(OpenStore({.folder = "", .max_bytes = 0}).status()));
}

}  // namespace
}  // namespace hpu::store
