#include "tests/synapse/fixture.h"

#include <algorithm>
#include <cstring>

#include "synapse/recipe_bytes.h"

namespace hpu {
namespace {

std::string CurrentTest() {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  return std::string(info->test_suite_name()) + "." + info->name();
}

const KnownException* Find(const std::vector<KnownException>& list) {
  const std::string test = CurrentTest();
  const auto found = std::find_if(list.begin(), list.end(),
                                  [&](const KnownException& known) { return known.test == test; });
  return found == list.end() ? nullptr : &*found;
}

}  // namespace

const std::vector<KnownException>& Unsupported(bool emulator) {
  static const std::vector<KnownException> kEmulator = {};
  static const std::vector<KnownException> kVendor = {
      {"ForkTest.ChildIsRefusedAndParentGoesOn", "the library does not survive a fork at all"},
  };
  return emulator ? kEmulator : kVendor;
}

const std::vector<KnownException>& ExpectedFailures(bool emulator) {
  static const std::vector<KnownException> kEmulator = {};
  static const std::vector<KnownException> kVendor = {
      {"LifeCycleTest.SecondInitialiseSucceeds", "1.24 answers 5 instead of 0"},
      {"MemoryTest.ExhaustionIsReported", "later releases answer 4 or 14 instead of 26"},
  };
  return emulator ? kEmulator : kVendor;
}

const std::vector<KnownException>& UnsupportedInStrictMode() {
  static constexpr char kGate[] = "the host opens a gate in device memory";
  static constexpr char kHostAccess[] = "the host reads or writes device memory";
  static constexpr char kThreads[] = "a card has no compute threads";
  static const std::vector<KnownException> kStrict = {
      {"ConformanceStreamTest.LaunchIsAsynchronous", kGate},
      {"ConformanceStreamTest.OtherStreamsGoOn", kGate},
      {"ConformanceStreamTest.EventStates", kGate},
      {"ConformanceStreamTest.WaitUsesTheCaptureOfItsTime", kGate},
      {"ConformanceStreamTest.ElapsedTime", kGate},
      {"ConformanceStreamTest.ExternalTensorSignals", kGate},
      {"ConformanceStreamTest.FailureOfRunningWorkSurfacesAtSynchronisation", kGate},
      {"ConformanceStreamTest.ThreadsShareStreams", kGate},
      {"KeptTest.EveryChangeOfAnyWeightIsSeen", kHostAccess},
      {"PackedTest.PackedCopiesAreNeverStale", kHostAccess},
      {"PackedTest.TheHostReachesAnEvictedSourceWithinAnAccess", kHostAccess},
      {"LaunchTest.SplitOverThreadsCoversEveryTaskOnce", kThreads},
      {"LaunchTest.ScratchIsOfTheThread", kThreads},
      {"TraceTest.MatrixProductCountsItsWork", kThreads},
      {"TraceTest.TaskTimesAreTakenPieceByPiece", "a card's tasks are not timed"},
  };
  return kStrict;
}

void SynapseTest::SetUp() {
  const auto loaded = LoadSynapse();
  if (!loaded.ok()) GTEST_SKIP() << loaded.status();
  api_ = *loaded;
  if (const KnownException* known = Find(Unsupported(api_->is_emulator()))) {
    GTEST_SKIP() << "unsupported: " << known->reason;
  }
  if (api_->is_emulator() && !api_->host_addressable()) {
    if (const KnownException* known = Find(UnsupportedInStrictMode())) {
      GTEST_SKIP() << "not in strict mode: " << known->reason;
    }
  }
  if (const KnownException* known = Find(ExpectedFailures(api_->is_emulator()))) {
    GTEST_SKIP() << "expected failure: " << known->reason;
  }
  ASSERT_EQ(api_->synInitialize(), synSuccess);
}

void SynapseTest::TearDown() {
  if (api_ != nullptr) api_->synDestroy();
}

bool SynapseTest::HasCompiler() {
  synGraphHandle graph = nullptr;
  synTensor tensor = nullptr;
  synTensorGeometry geometry{};
  geometry.dims = 1;
  geometry.sizes[0] = 8;
  EXPECT_SUCCESS(api_->synGraphCreate(&graph, synDeviceGaudi2));
  EXPECT_SUCCESS(api_->synTensorHandleCreate(&tensor, graph, DATA_TENSOR, "probe"));
  EXPECT_SUCCESS(api_->synTensorSetGeometry(tensor, &geometry, synGeometryMaxSizes));
  EXPECT_SUCCESS(api_->synTensorSetDeviceDataType(tensor, syn_type_float));
  const synStatus status = api_->synNodeCreate(graph, &tensor, &tensor, 1, 1, nullptr, 0,
                                               "relu_fwd_f32", "probe", nullptr, nullptr);
  api_->synGraphDestroy(graph);
  return status == synSuccess;
}

void DeviceTest::SetUp() {
  SynapseTest::SetUp();
  if (IsSkipped() || HasFatalFailure()) return;
  ASSERT_EQ(api_->synDeviceAcquireByDeviceType(&device_, synDeviceTypeInvalid), synSuccess)
      << api_->synGetLastErrorMessage();
  ASSERT_EQ(api_->synStreamCreateGeneric(&stream_, device_, 0), synSuccess);
}

void DeviceTest::TearDown() {
  if (device_ != SYN_INVALID_DEVICE_ID) api_->synDeviceRelease(device_);
  SynapseTest::TearDown();
}

uint64_t DeviceTest::Allocate(uint64_t bytes) {
  uint64_t address = 0;
  EXPECT_SUCCESS(api_->synDeviceMalloc(device_, bytes, 0, 0, &address));
  return address;
}

int32_t* DeviceTest::HostInts(uint64_t count) {
  void* buffer = nullptr;
  EXPECT_SUCCESS(api_->synHostMalloc(device_, count * sizeof(int32_t), 0, &buffer));
  return static_cast<int32_t*>(buffer);
}

void DeviceTest::Upload(const std::vector<int32_t>& values, uint64_t address) {
  int32_t* host = HostInts(values.size());
  std::copy(values.begin(), values.end(), host);
  EXPECT_SUCCESS(api_->synMemCopyAsync(stream_, reinterpret_cast<uint64_t>(host),
                                       values.size() * sizeof(int32_t), address, HOST_TO_DRAM));
  EXPECT_SUCCESS(api_->synStreamSynchronize(stream_));
  EXPECT_SUCCESS(api_->synHostFree(device_, host, 0));
}

std::vector<int32_t> DeviceTest::Download(uint64_t address, uint64_t count) {
  int32_t* host = HostInts(count);
  EXPECT_SUCCESS(api_->synMemCopyAsync(stream_, address, count * sizeof(int32_t),
                                       reinterpret_cast<uint64_t>(host), DRAM_TO_HOST));
  EXPECT_SUCCESS(api_->synStreamSynchronize(stream_));
  std::vector<int32_t> values(host, host + count);
  EXPECT_SUCCESS(api_->synHostFree(device_, host, 0));
  return values;
}

synRecipeHandle DeviceTest::LoadRecipe(const Recipe& recipe) {
  absl::StatusOr<RecipeHandle> handle = DeserializeRecipe(*api_, EncodeRecipe(recipe));
  EXPECT_TRUE(handle.ok()) << handle.status();
  return handle.ok() ? handle->Release() : nullptr;
}

std::vector<synLaunchTensorInfo> DeviceTest::Table(const std::vector<uint64_t>& addresses) {
  std::vector<synLaunchTensorInfo> table(addresses.size());
  for (size_t i = 0; i < addresses.size(); ++i) {
    table[i].tensorId = i;
    table[i].pTensorAddress = addresses[i];
    table[i].tensorType = DATA_TENSOR;
  }
  return table;
}

synStatus DeviceTest::Launch(synRecipeHandle recipe, const std::vector<uint64_t>& addresses,
                             synStreamHandle stream) {
  uint64_t workspace_bytes = 0;
  EXPECT_SUCCESS(api_->synWorkspaceGetSize(&workspace_bytes, recipe));
  const uint64_t workspace = workspace_bytes == 0 ? 0 : Allocate(workspace_bytes);
  const auto table = Table(addresses);
  return api_->synLaunch(stream == nullptr ? stream_ : stream, table.data(),
                         static_cast<uint32_t>(table.size()), workspace, recipe, 0);
}

uint64_t DeviceTest::Counter(const std::string& name) {
  size_t size = 0;
  EXPECT_SUCCESS(api_->synEmulatorGetCounters(nullptr, 0, &size));
  std::string text(size + 64, '\0');  // the numbers may grow between the calls
  EXPECT_SUCCESS(api_->synEmulatorGetCounters(text.data(), text.size(), &size));
  const size_t at = text.find("\"" + name + "\": ");
  EXPECT_NE(at, std::string::npos) << text;
  return std::stoull(text.substr(at + name.size() + 4));
}

}  // namespace hpu
