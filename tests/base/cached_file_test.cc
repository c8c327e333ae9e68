#include "base/cached_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "tests/eventually.h"

namespace hpu {
namespace {

class CachedFileTest : public testing::Test {
 protected:
  static std::filesystem::path MakeFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "hpu-file-XXXXXX").string();
    return mkdtemp(name.data());
  }
  ~CachedFileTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& text) { std::ofstream(path_) << text; }
  absl::StatusOr<std::string> Read() {
    ++reads_;
    std::ifstream in(path_);
    std::string text;
    if (!std::getline(in, text)) return NotFound("no token");
    return text;
  }

  const std::filesystem::path folder_ = MakeFolder();
  const std::filesystem::path path_ = folder_ / "token";
  int reads_ = 0;
  CachedFile<std::string> file_{path_, [this] { return Read(); }};
};

TEST_F(CachedFileTest, ShowsEveryChangeAtOnce) {
  EXPECT_TRUE(absl::IsNotFound(file_.Get().status()));
  for (const char* text : {"one", "two", "six"}) {
    // Both texts have one size, and may come within one tick of the file system's clock.
    Write(text);
    EXPECT_EQ(**file_.Get(), text);
  }
  std::filesystem::remove(path_);
  EXPECT_TRUE(absl::IsNotFound(file_.Get().status()));
}

TEST_F(CachedFileTest, IsNotReadAgainWhereNothingChanges) {
  Write("one");
  // The change must be old enough for its time to be conclusive.
  EXPECT_TRUE(Eventually([this] {
    const int before = reads_;
    EXPECT_TRUE(file_.Get().ok());
    return reads_ == before;
  }));
  const int reads = reads_;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(**file_.Get(), "one");
  EXPECT_EQ(reads_, reads);
  Write("two");
  EXPECT_EQ(**file_.Get(), "two");
  std::filesystem::rename(path_, folder_ / "aside");
  Write("six");
  EXPECT_EQ(**file_.Get(), "six");
}

}  // namespace
}  // namespace hpu
