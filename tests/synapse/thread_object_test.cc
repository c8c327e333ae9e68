// Objects of threads, which exit handlers use after the thread's own were destroyed.
#include "emulator/base/thread_object.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "emulator/base/status.h"

namespace hpu::emulator {
namespace {

struct Object {
  ~Object() { ++destroyed; }
  int value = 0;
  static int destroyed;
};
int Object::destroyed = 0;

Object* first = nullptr;

TEST(ThreadObjectTest, EveryThreadHasOne) {
  ThreadObject<Object>().value = 1;
  EXPECT_EQ(ThreadObject<Object>().value, 1);
  const int before = Object::destroyed;
  std::thread([] { EXPECT_EQ(ThreadObject<Object>().value, 0); }).join();
  EXPECT_EQ(Object::destroyed, before + 1);
}

TEST(ThreadObjectDeathTest, ExitHandlersGetAnother) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto leave = [] {
    first = &ThreadObject<Object>();
    first->value = 1;
    std::atexit([] {
      Object& late = ThreadObject<Object>();
      const bool is_new = Object::destroyed == 1 && &late != first && late.value == 0;
      late.value = 2;
      _exit(is_new && ThreadObject<Object>().value == 2 ? 42 : 1);
    });
    std::exit(0);
  };
  EXPECT_EXIT(leave(), ::testing::ExitedWithCode(42), "");
}

// A failure that nobody waited for is reported to the exit handler that waits for the device.
TEST(ThreadObjectDeathTest, ExitHandlersMayFail) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto leave = [] {
    FailWith(synFail, std::string(100, 'x'));
    std::atexit([] {
      FailWith(synBusy, std::string(200, 'y'));
      _exit(ThreadLastError().message == std::string(200, 'y') ? 42 : 1);
    });
    std::exit(0);
  };
  EXPECT_EXIT(leave(), ::testing::ExitedWithCode(42), "");
}

}  // namespace
}  // namespace hpu::emulator
