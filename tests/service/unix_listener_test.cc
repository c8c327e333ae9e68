// The lock file beside a socket: what others read of the server that holds it.
#include "compiler_server/service/unix_listener.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/store/store_testing.h"

namespace hpu::server {
namespace {

std::string TextOf(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(UnixListener, LockFileSaysAStateAtEveryMoment) {
  store::TemporaryFolder folder;
  ASSERT_EQ(chmod(folder.path("").c_str(), 0700), 0);
  const std::string socket = folder.path("s");
  const std::string lock = socket + ".lock";
  const std::string pid = std::to_string(getpid());
  ASSERT_TRUE(UnixListener::Bind(socket).ok());  // the file is there from now on
  EXPECT_EQ(TextOf(lock), pid + " stopping\n");

  std::atomic<bool> done = false;
  std::atomic<int> read = 0;
  std::atomic<int> empty = 0;
  std::thread reader([&] {
    for (; !done; ++read) empty += TextOf(lock).empty() ? 1 : 0;
  });
  for (int times = 0; times < 2000 || read < 2000; ++times) {
    auto listener = UnixListener::Bind(socket);
    ASSERT_TRUE(listener.ok()) << listener.status();
    if (times == 0) {
      EXPECT_EQ(TextOf(lock), pid + " serving\n");
    }
  }
  done = true;
  reader.join();
  EXPECT_EQ(empty, 0) << "of " << read;
  EXPECT_EQ(TextOf(lock), pid + " stopping\n");
}

}  // namespace
}  // namespace hpu::server
