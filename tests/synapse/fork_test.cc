// A process forks after using the device: no call of the child may hang, and each is refused.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/synapse/fixture.h"
#include "tests/synapse/test_recipes.h"

namespace hpu {
namespace {

class ForkTest : public DeviceTest {};

TEST_F(ForkTest, ChildIsRefusedAndParentGoesOn) {
  if (!api_->is_emulator()) GTEST_SKIP() << "needs recipes built by hand";
  const synRecipeHandle recipe = LoadRecipe(emulator::VisitRecipe(1000, 1, 3));
  const uint64_t visits = Allocate(4000);
  EXPECT_SUCCESS(api_->synMemsetD32Async(visits, 0, 1000, stream_));
  EXPECT_SUCCESS(Launch(recipe, {visits}));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // a hang ends with a signal
    uint64_t address = 0;
    int failures = 0;
    failures += api_->synDeviceMalloc(0, 128, 0, 0, &address) != synUninitialized;
    failures += api_->synStreamSynchronize(stream_) != synUninitialized;
    failures += api_->synInitialize() != synUninitialized;
    failures += api_->synDestroy() != synUninitialized;
    failures += std::string(api_->synGetLastErrorMessage()).find("forked") == std::string::npos;
    _exit(failures);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(Download(visits, 1000), std::vector<int32_t>(1000, 3));
}

}  // namespace
}  // namespace hpu
