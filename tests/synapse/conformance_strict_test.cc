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

// Has a second stream and an event.
class StrictStreamTest : public StrictTest {
 protected:
  void SetUp() override {
    StrictTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    EXPECT_SUCCESS(api_->synStreamCreateGeneric(&other_, device_, 0));
    EXPECT_SUCCESS(api_->synEventCreate(&event_, device_, 0));
    a_ = Allocate(4 * kCount);
    b_ = Allocate(4 * kCount);
    out_ = Allocate(4 * kCount);
    EXPECT_SUCCESS(api_->synMemsetD32Async(a_, 1, kCount, stream_));
    EXPECT_SUCCESS(api_->synMemsetD32Async(b_, 2, kCount, stream_));
    EXPECT_SUCCESS(api_->synStreamSynchronize(stream_));
  }
  // Reads `out_` on the other stream.
  void CopyOnOther() {
    EXPECT_SUCCESS(api_->synMemCopyAsync(other_, out_, 4 * kCount, a_, DRAM_TO_DRAM));
  }
  void LaunchAdd() {
    EXPECT_SUCCESS(Launch(LoadRecipe(emulator::AddRecipe(kCount)), {a_, b_, out_}));
  }
  void LaunchGated(synRecipeHandle recipe, uint64_t gate) {
    EXPECT_SUCCESS(api_->synMemsetD32Async(gate, 0, 1, stream_));
    EXPECT_SUCCESS(api_->synStreamSynchronize(stream_));
    EXPECT_SUCCESS(Launch(recipe, {gate, a_, b_, out_}));
  }
  // Lets a launch of GatedAddRecipe run. Nothing orders it with that launch, which is an error.
  void OpenGate(uint64_t gate) {
    EXPECT_SUCCESS(api_->synMemsetD32Async(gate, 1, 1, other_));
    EXPECT_STATUS(synFail, api_->synStreamSynchronize(other_));
  }

  synStreamHandle other_ = nullptr;
  synEventHandle event_ = nullptr;
  uint64_t a_ = 0, b_ = 0, out_ = 0;
};

TEST_F(StrictStreamTest, StreamsThatNothingOrdersFail) {
  LaunchAdd();
  ::testing::internal::CaptureStderr();
  CopyOnOther();
  const std::string line = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(line.find("EMULATOR_STRICT: copy on device on stream 1 reads 4000 bytes at 0x"), 0u)
      << line;
  EXPECT_NE(line.find("that the launch of add on stream 0 writes"), std::string::npos) << line;
  EXPECT_STATUS(synFail, api_->synStreamSynchronize(other_));
  EXPECT_NE(std::string(api_->synGetLastErrorMessage()).find("the launch of add on stream 0"),
            std::string::npos)
      << api_->synGetLastErrorMessage();
  EXPECT_SUCCESS(api_->synStreamSynchronize(other_));  // it is reported once
  EXPECT_SUCCESS(api_->synStreamSynchronize(stream_));
}

TEST_F(StrictStreamTest, TheDeviceReportsThem) {
  EXPECT_SUCCESS(api_->synMemsetD8Async(out_, 1, 8, stream_));
  EXPECT_SUCCESS(api_->synMemsetD8Async(out_, 2, 8, other_));
  EXPECT_STATUS(synFail, api_->synDeviceSynchronize(device_));
  EXPECT_NE(std::string(api_->synGetLastErrorMessage()).find("fill on stream 1 writes 8 bytes"),
            std::string::npos)
      << api_->synGetLastErrorMessage();
}

TEST_F(StrictStreamTest, EverythingThatOrdersStreamsOrdersThem) {
  const auto expect_result = [&](const char* how) {
    EXPECT_SUCCESS(api_->synStreamSynchronize(other_));
    EXPECT_EQ(Download(a_, kCount), std::vector<int32_t>(kCount, 3)) << how;
    EXPECT_SUCCESS(api_->synMemsetD32Async(a_, 1, kCount, stream_));
    EXPECT_SUCCESS(api_->synStreamSynchronize(stream_));
  };
  LaunchAdd();
  EXPECT_SUCCESS(api_->synEventRecord(event_, stream_));
  EXPECT_SUCCESS(api_->synStreamWaitEvent(other_, event_, 0));
  CopyOnOther();
  expect_result("an event that the stream waits for");

  LaunchAdd();
  EXPECT_SUCCESS(api_->synEventRecord(event_, stream_));
  EXPECT_SUCCESS(api_->synEventSynchronize(event_));
  CopyOnOther();
  expect_result("an event that the host waits for");

  LaunchAdd();
  EXPECT_SUCCESS(api_->synEventRecord(event_, stream_));
  while (api_->synEventQuery(event_) == synBusy) {
  }
  CopyOnOther();
  expect_result("an event that the host asks");

  LaunchAdd();
  EXPECT_SUCCESS(api_->synStreamSynchronize(stream_));
  CopyOnOther();
  expect_result("synStreamSynchronize");

  LaunchAdd();
  while (api_->synStreamQuery(stream_) == synBusy) {
  }
  CopyOnOther();
  expect_result("synStreamQuery");

  LaunchAdd();
  EXPECT_SUCCESS(api_->synDeviceSynchronize(device_));
  CopyOnOther();
  expect_result("synDeviceSynchronize");
}

TEST_F(StrictStreamTest, AnEventOrdersOnlyWhatCameBeforeIt) {
  EXPECT_SUCCESS(api_->synEventRecord(event_, stream_));
  LaunchAdd();
  EXPECT_SUCCESS(api_->synStreamWaitEvent(other_, event_, 0));
  CopyOnOther();
  EXPECT_STATUS(synFail, api_->synStreamSynchronize(other_));
}

TEST_F(StrictStreamTest, TheSignalOfATensorOrdersItsReader) {
  const synRecipeHandle recipe = LoadRecipe(emulator::GatedAddRecipe(kCount));
  const uint64_t gate = Allocate(128);
  EXPECT_SUCCESS(api_->synMemsetD32Async(gate, 1, 1, stream_));
  auto table = Table({gate, a_, b_, out_});
  EXPECT_SUCCESS(api_->synEventMapTensor(&event_, 1, &table[3], recipe));
  EXPECT_SUCCESS(
      api_->synLaunchWithExternalEvents(stream_, table.data(), 4, 0, recipe, &event_, 1, 0));
  EXPECT_SUCCESS(api_->synStreamWaitEvent(other_, event_, 0));
  CopyOnOther();
  EXPECT_SUCCESS(api_->synStreamSynchronize(other_));
}

// 4.6: two launches that may run at the same time need different workspaces.
TEST_F(StrictStreamTest, AWorkspaceBelongsToOneLaunchAtATime) {
  const synRecipeHandle recipe = LoadRecipe(emulator::WorkspaceRecipe(kCount));
  const uint64_t workspace = Allocate(4096);
  const auto first = Table({a_}), second = Table({b_});
  EXPECT_SUCCESS(api_->synLaunch(stream_, first.data(), 1, workspace, recipe, 0));
  EXPECT_SUCCESS(api_->synLaunch(stream_, second.data(), 1, workspace, recipe, 0));
  EXPECT_SUCCESS(api_->synStreamSynchronize(stream_));
  EXPECT_SUCCESS(api_->synLaunch(stream_, first.data(), 1, workspace, recipe, 0));
  EXPECT_SUCCESS(api_->synLaunch(other_, second.data(), 1, workspace, recipe, 0));
  EXPECT_STATUS(synFail, api_->synStreamSynchronize(other_));
}

// 4.6: "the recipe must outlive the execution".
TEST_F(StrictStreamTest, RecipesOutliveTheirLaunches) {
  const synRecipeHandle recipe = LoadRecipe(emulator::GatedAddRecipe(kCount));
  const uint64_t gate = Allocate(128);
  LaunchGated(recipe, gate);
  EXPECT_STATUS(synBusy, api_->synRecipeDestroy(recipe));
  OpenGate(gate);
  EXPECT_SUCCESS(api_->synStreamSynchronize(stream_));
  EXPECT_EQ(Download(out_, kCount), std::vector<int32_t>(kCount, 3));
  EXPECT_SUCCESS(api_->synRecipeDestroy(recipe));
}

// 4.3: data must stay valid until the stream passed it.
TEST_F(StrictStreamTest, HostMemoryOutlivesItsCopies) {
  const synRecipeHandle recipe = LoadRecipe(emulator::GatedAddRecipe(kCount));
  const uint64_t gate = Allocate(128);
  for (const bool to_device : {true, false}) {
    LaunchGated(recipe, gate);
    int32_t* host = HostInts(kCount);
    const auto address = reinterpret_cast<uint64_t>(host);
    EXPECT_SUCCESS(to_device
                       ? api_->synMemCopyAsync(stream_, address, 4 * kCount, a_, HOST_TO_DRAM)
                       : api_->synMemCopyAsync(stream_, out_, 4 * kCount, address, DRAM_TO_HOST));
    EXPECT_SUCCESS(api_->synHostFree(device_, host, 0));
    OpenGate(gate);
    EXPECT_STATUS(synMappingNotFound, api_->synStreamSynchronize(stream_));
    EXPECT_NE(std::string(api_->synGetLastErrorMessage()).find("freed before the copy ran"),
              std::string::npos)
        << api_->synGetLastErrorMessage();
  }
}

}  // namespace
}  // namespace hpu
