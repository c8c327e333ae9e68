// Strict mode (EMULATOR_STRICT=1): the device behaves as a card does. CTest runs this program a
// second time with the variable set; without it these tests are skipped.
#include "tests/synapse/fixture.h"
#include "tests/synapse/test_recipes.h"

namespace hpu {
namespace {

class StrictTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!api_->is_emulator() || api_->host_addressable()) {
      GTEST_SKIP() << "EMULATOR_STRICT is not set";
    }
  }
  static constexpr uint64_t kCount = 1000;
};

TEST_F(StrictTest, ExtensionsThatNoCardHasAreAbsent) {
  uint64_t capabilities = 0;
  EXPECT_SUCCESS(api_->synEmulatorGetCapabilities(&capabilities));
  EXPECT_EQ(capabilities, uint64_t{SYN_EMULATOR_STRICT | SYN_EMULATOR_NATIVE_CODE});
  EXPECT_EQ(api_->synEmulatorHostAccessBegin, nullptr);
  EXPECT_EQ(api_->synEmulatorHostAccessEnd, nullptr);
  EXPECT_EQ(api_->synEmulatorHostWrite, nullptr);
  EXPECT_EQ(api_->synEmulatorSetComputeThreads, nullptr);
  EXPECT_EQ(api_->synEmulatorRecipeDeserialize, nullptr);
  EXPECT_NE(api_->synEmulatorGraphCheck, nullptr) << "the compiler can still be asked";
  EXPECT_NE(api_->synEmulatorTensorSetWeight, nullptr);
}

// A client that opened the library before the key was set has the pointers.
TEST_F(StrictTest, ExtensionsRefuseThoseWhoHaveThem) {
  EXPECT_STATUS(synInvalidArgument, api_->synConfigurationSet("EMULATOR_STRICT", "false"));
  EXPECT_SUCCESS(api_->synDeviceRelease(device_));
  EXPECT_SUCCESS(api_->synConfigurationSet("EMULATOR_STRICT", "false"));
  const auto opened = OpenSynapse(api_->path);
  ASSERT_TRUE(opened.ok()) << opened.status();
  ASSERT_TRUE(opened->host_addressable());
  EXPECT_SUCCESS(api_->synConfigurationSet("EMULATOR_STRICT", "true"));
  EXPECT_FALSE(opened->host_addressable());
  EXPECT_SUCCESS(api_->synDeviceAcquireByDeviceType(&device_, synDeviceTypeInvalid));
  EXPECT_STATUS(synUnsupported, opened->synEmulatorHostAccessBegin(0, 1));
  EXPECT_STATUS(synUnsupported, opened->synEmulatorHostWrite(0, 1));
  EXPECT_STATUS(synUnsupported, opened->synEmulatorSetComputeThreads(1));
  synRecipeHandle recipe = nullptr;
  EXPECT_STATUS(synUnsupported, opened->synEmulatorRecipeDeserialize(&recipe, "", 1));
}

TEST_F(StrictTest, MemoryIsPoisonedWhenFreshAndWhenItComesAgain) {
  const uint64_t block = Allocate(4 * kCount);
  EXPECT_EQ(Download(block, kCount), std::vector<int32_t>(kCount, -1));
  Upload(std::vector<int32_t>(kCount, 7), block);
  EXPECT_EQ(Download(block, kCount), std::vector<int32_t>(kCount, 7));
  EXPECT_SUCCESS(api_->synDeviceFree(device_, block, 0));
  uint64_t again = 0;
  EXPECT_SUCCESS(api_->synDeviceMalloc(device_, 4 * kCount, block, 0, &again));
  ASSERT_EQ(again, block);
  EXPECT_EQ(Download(again, kCount), std::vector<int32_t>(kCount, -1));
}

// 4.6: its contents are undefined between launches.
TEST_F(StrictTest, EveryLaunchFindsPoisonInItsWorkspace) {
  const synRecipeHandle recipe = LoadRecipe(emulator::WorkspaceRecipe(kCount));
  uint64_t bytes = 0;
  EXPECT_SUCCESS(api_->synWorkspaceGetSize(&bytes, recipe));
  const uint64_t workspace = Allocate(bytes);
  Upload(std::vector<int32_t>(kCount, 7), workspace);
  const uint64_t out = Allocate(4 * kCount);
  const auto table = Table({out});
  EXPECT_SUCCESS(api_->synLaunch(stream_, table.data(), 1, workspace, recipe, 0));
  EXPECT_EQ(Download(out, kCount), std::vector<int32_t>(kCount, -1));
}

// 4.6: "at least synWorkspaceGetSize bytes".
TEST_F(StrictTest, WorkspaceMustBeLargeEnough) {
  const synRecipeHandle recipe = LoadRecipe(emulator::WorkspaceRecipe(kCount));
  uint64_t bytes = 0;
  EXPECT_SUCCESS(api_->synWorkspaceGetSize(&bytes, recipe));
  const auto table = Table({Allocate(4 * kCount)});
  EXPECT_STATUS(synFailedSectionValidation,
                api_->synLaunch(stream_, table.data(), 1, Allocate(bytes - 128), recipe, 0));
  EXPECT_SUCCESS(api_->synLaunch(stream_, table.data(), 1, Allocate(bytes), recipe, 0));
}

TEST_F(StrictTest, CopiesEndWithTheirAllocation) {
  const uint64_t block = Allocate(256);
  const uint64_t freed = Allocate(256);
  EXPECT_SUCCESS(api_->synDeviceFree(device_, freed, 0));
  EXPECT_SUCCESS(api_->synMemsetD8Async(block, 1, 256, stream_));
  EXPECT_STATUS(synInvalidArgument, api_->synMemsetD8Async(block, 1, 257, stream_));
  EXPECT_STATUS(synInvalidArgument, api_->synMemsetD8Async(freed, 1, 1, stream_));
  EXPECT_STATUS(synInvalidArgument,
                api_->synMemCopyAsync(stream_, block, 128, freed, DRAM_TO_DRAM));
}

}  // namespace
}  // namespace hpu
