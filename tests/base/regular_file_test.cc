#include "base/regular_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/log.h"

namespace hpu {
namespace {

namespace fs = std::filesystem;
using Links = RegularFile::Links;
using Use = RegularFile::Use;

class RegularFileTest : public testing::Test {
 protected:
  static fs::path MakeFolder() {
    std::string name = (fs::temp_directory_path() / "hpu-regular-XXXXXX").string();
    return mkdtemp(name.data());
  }
  ~RegularFileTest() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::string Refusal(const std::string& name) const {
    return ToText(ReadRegularFile(Path(name), 100).status());
  }

  const fs::path folder_ = MakeFolder();
};

void BindSocket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  close(fd);
}

TEST_F(RegularFileTest, WhatIsNoFileIsRefusedByName) {
  ASSERT_EQ(mkfifo(Path("fifo").c_str(), 0600), 0);
  BindSocket(Path("socket"));
  fs::create_directory(Path("folder"));
  fs::create_symlink("/dev/zero", Path("device"));
  fs::create_symlink("fifo", Path("link"));
  fs::create_symlink("itself", Path("itself"));
  const auto kind = [&](const std::string& name, const std::string& what) {
    return "UNAVAILABLE: " + Path(name) + " cannot be read: it is " + what +
           " and not a regular file";
  };
  EXPECT_EQ(Refusal("fifo"), kind("fifo", "a FIFO"));
  EXPECT_EQ(Refusal("socket"), kind("socket", "a socket"));
  EXPECT_EQ(Refusal("folder"), kind("folder", "a folder"));
  EXPECT_EQ(Refusal("device"), kind("device", "a device"));
  EXPECT_EQ(Refusal("link"), kind("link", "a FIFO"));
  EXPECT_THAT(Refusal("itself"), testing::HasSubstr("Too many levels of symbolic links"));
  EXPECT_EQ(Refusal("nothing"), "NOT_FOUND: there is no file " + Path("nothing"));
  for (const char* name : {"fifo", "socket", "folder", "device", "link"}) {
    EXPECT_FALSE(IsRegularOrAbsent(Path(name))) << name;
    EXPECT_FALSE(RegularFile::OpenOrCreate(Path(name), 0600).ok()) << name;
  }
  EXPECT_TRUE(IsRegularOrAbsent(Path("nothing")));
}

TEST_F(RegularFileTest, LinksAreFollowedUnlessTheyAreRefused) {
  std::ofstream(Path("file")) << "content";
  fs::create_symlink("file", Path("link"));
  EXPECT_EQ(ReadRegularFile(Path("link"), 100).value(), "content");
  EXPECT_EQ(ToText(RegularFile::Open(Path("link"), Links::kRefuse).status()),
            "UNAVAILABLE: " + Path("link") +
                " cannot be read: it is a symbolic link and not a regular file");
}

TEST_F(RegularFileTest, IsReadWholeUpToItsBound) {
  const std::string text(200'000, 'x');
  std::ofstream(Path("file")) << text;
  EXPECT_EQ(ReadRegularFile(Path("file"), text.size()).value(), text);
  EXPECT_EQ(ToText(ReadRegularFile(Path("file"), text.size() - 1).status()),
            "INVALID_ARGUMENT: " + Path("file") + " has more than 199999 bytes");
  const RegularFile file = RegularFile::Open(Path("file")).value();
  EXPECT_EQ(file.Read(text.size()).value(), file.Read(text.size()).value()) << "from the beginning";
}

TEST_F(RegularFileTest, WhoMayReadAndWriteIsChecked) {
  std::ofstream(Path("file")) << "content";
  const auto check = [&](mode_t mode, Use use) {
    EXPECT_EQ(chmod(Path("file").c_str(), mode), 0);
    return std::string(RegularFile::Open(Path("file")).value().CheckOwner(use).message());
  };
  const std::string writable =
      Path("file") + " can be written by other users; chmod go-w " + Path("file");
  const std::string readable =
      Path("file") + " is a secret that every user can read; chmod 600 " + Path("file");
  for (const mode_t mode : {0400, 0600, 0440, 0640}) EXPECT_EQ(check(mode, Use::kSecret), "");
  for (const mode_t mode : {0604, 0644, 0444}) {
    EXPECT_EQ(check(mode, Use::kSecret), readable);
    EXPECT_EQ(check(mode, Use::kPublic), "");
  }
  for (const mode_t mode : {0666, 0660, 0602, 0622}) {
    EXPECT_EQ(check(mode, Use::kSecret), writable);
    EXPECT_EQ(check(mode, Use::kPublic), writable);
  }
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give a file away";
  ASSERT_EQ(chown(Path("file").c_str(), 65534, 65534), 0);
  EXPECT_EQ(check(0600, Use::kPublic), Path("file") +
                                           " belongs to user 65534, who can change it; it must be "
                                           "this user's or root's");
}

TEST_F(RegularFileTest, ALogThatIsAFifoStopsNobody) {
  ASSERT_EQ(mkfifo(Path("log").c_str(), 0600), 0);
  ConfigureLog("test", LogLevel::kOff, Path("log"));
  ConfigureLog("test", LogLevel::kOff, "");
}

}  // namespace
}  // namespace hpu
