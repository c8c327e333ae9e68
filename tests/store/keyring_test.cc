#include "recipe_store/signing/keyring.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/store/store_testing.h"

namespace hpu::store {
namespace {

namespace fs = std::filesystem;

// Makes a folder of trusted keys as Kubernetes mounts it: NAME is a link to ..data/NAME, and ..data
// is a link to the folder of this version.
class MountedKeys : public testing::Test {
 protected:
  void SetUp() override { fs::create_directory(folder_); }

  PublicKey MakeKey(const std::string& version) {
    const fs::path place = fs::path(folder_) / version;
    fs::create_directories(place);
    const SigningKey key = SigningKey::LoadOrCreate(place.string()).value();
    fs::remove(place / "signing.key");
    fs::rename(place / "signing.pub", place / "other.pub");
    return key.public_key();
  }
  void Link(const std::string& target, const std::string& name) {
    const fs::path link = fs::path(folder_) / name;
    fs::remove(link);
    fs::create_symlink(target, link);
  }

  const TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path("keys");
  TrustedKeys trusted_{SigningKey::Generate().public_key(), folder_};
};

TEST_F(MountedKeys, AreReadThroughTheirLinksAndReadAgain) {
  const PublicKey first = MakeKey("..version1");
  Link("..version1", "..data");
  Link("..data/other.pub", "other.pub");
  ASSERT_TRUE(trusted_.Reload().value());
  EXPECT_TRUE(trusted_.keyring()->Trusts(first));
  const PublicKey second = MakeKey("..version2");
  Link("..version2", "..data");
  ASSERT_TRUE(trusted_.Reload().value());
  EXPECT_FALSE(trusted_.keyring()->Trusts(first));
  EXPECT_TRUE(trusted_.keyring()->Trusts(second));
}

TEST_F(MountedKeys, ALinkOutOfTheFolderIsRefused) {
  const PublicKey outside = MakeKey("../outside");
  Link("../outside/other.pub", "other.pub");
  EXPECT_THAT(ToText(trusted_.Reload().status()), testing::HasSubstr("other.pub"));
  EXPECT_FALSE(trusted_.keyring()->Trusts(outside));
  // A link into a folder whose name begins alike is not followed either.
  MakeKey("../keys-of-others");
  Link("../keys-of-others/other.pub", "other.pub");
  EXPECT_FALSE(trusted_.Reload().ok());
}

// A FIFO or device in place of a key's file is neither waited for nor read without end.
TEST(KeyFiles, AreRegularFiles) {
  const TemporaryFolder folder;
  const std::string fifo = folder.path("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const auto is_fifo = testing::HasSubstr("it is a FIFO and not a regular file");
  EXPECT_THAT(ToText(ReadKeyring(fifo).status()), is_fifo);
  EXPECT_THAT(ToText(ReadPublicKey(fifo).status()), is_fifo);
  const std::string own = folder.path("own");
  fs::create_directory(own);
  fs::rename(fifo, own + "/signing.key");
  EXPECT_THAT(ToText(SigningKey::LoadOrCreate(own).status()), is_fifo);
  const std::string trusted = folder.path("trusted");
  fs::create_directory(trusted);
  TrustedKeys keys(SigningKey::Generate().public_key(), trusted);
  for (const char* name : {"/a.pub", "/a.revoked"}) {
    ASSERT_EQ(mkfifo((trusted + name).c_str(), 0600), 0);
    EXPECT_THAT(ToText(keys.Reload().status()), is_fifo) << name;
    fs::remove(trusted + name);
    fs::create_directory(trusted + name);
    EXPECT_THAT(ToText(keys.Reload().status()), testing::HasSubstr("it is a folder")) << name;
    fs::remove(trusted + name);
  }
  fs::create_symlink("/dev/zero", trusted + "/a.pub");
  EXPECT_THAT(ToText(keys.Reload().status()), testing::HasSubstr("it is a symbolic link"));
}

}  // namespace
}  // namespace hpu::store
