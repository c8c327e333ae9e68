#include "recipe_store/keyring.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/store/store_testing.h"

namespace hpu::store {
namespace {

namespace fs = std::filesystem;

// A folder of trusted keys as Kubernetes mounts it: NAME is a link to ..data/NAME, ..data one to
// the folder of this version.
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
  // Nor into a folder whose name begins alike.
  MakeKey("../keys-of-others");
  Link("../keys-of-others/other.pub", "other.pub");
  EXPECT_FALSE(trusted_.Reload().ok());
}

}  // namespace
}  // namespace hpu::store
