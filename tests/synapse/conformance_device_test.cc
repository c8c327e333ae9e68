// Life cycle, devices, memory (4.1 to 4.3).
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/synapse/fixture.h"

namespace hpu {
namespace {

class LifeCycleTest : public SynapseTest {};

// 4.1: before initialisation every call except synDriverGetVersion returns 28, and so does a second
// destroy.
TEST_F(LifeCycleTest, CallsOutsideTheLifeAreRefused) {
  EXPECT_SUCCESS(api_->synDestroy());
  EXPECT_STATUS(synUninitialized, api_->synDestroy());
  uint32_t count = 0;
  EXPECT_STATUS(synUninitialized, api_->synDeviceGetCount(&count));
  char version[64] = "";
  EXPECT_SUCCESS(api_->synDriverGetVersion(version, sizeof(version)));
  EXPECT_NE(std::strchr(version, '.'), nullptr);
  EXPECT_SUCCESS(api_->synInitialize());
  EXPECT_SUCCESS(api_->synDeviceGetCount(&count));
  EXPECT_GE(count, 1u);
}

TEST_F(LifeCycleTest, SecondInitialiseSucceeds) {
  EXPECT_SUCCESS(api_->synInitialize());
  EXPECT_SUCCESS(api_->synConfigurationSet("HABANA_DISABLE_DOUBLE_SYN_INITIALIZE", "true"));
  EXPECT_STATUS(synAlreadyInitialized, api_->synInitialize());
}

TEST_F(LifeCycleTest, StatusTexts) {
  char text[STATUS_DESCRIPTION_MAX_SIZE];
  for (int status = synSuccess; status <= synFailTpcKernels; ++status) {
    EXPECT_SUCCESS(
        api_->synStatusGetBriefDescription(static_cast<synStatus>(status), text, sizeof(text)));
    EXPECT_GT(std::strlen(text), 0u) << status;
    EXPECT_LT(std::strlen(text), sizeof(text) - 1) << "truncated: " << text;
  }
  EXPECT_STATUS(
      synFail, api_->synStatusGetBriefDescription(static_cast<synStatus>(999), text, sizeof(text)));
  EXPECT_SUCCESS(api_->synStatusGetBriefDescription(synFail, text, 4));
  EXPECT_EQ(std::strlen(text), 3u);
}

TEST_F(LifeCycleTest, LastErrorBelongsToTheThread) {
  EXPECT_STATUS(synInvalidArgument, api_->synDeviceGetCount(nullptr));
  std::thread([&] { EXPECT_EQ(api_->synGetLastError(), synSuccess); }).join();
  EXPECT_EQ(api_->synGetLastError(), synInvalidArgument);
}

// 1.3, 5.2: unknown and private keys return 1.
TEST_F(LifeCycleTest, ConfigurationKeys) {
  char value[32];
  EXPECT_STATUS(synInvalidArgument, api_->synConfigurationSet("NO_SUCH_KEY", "1"));
  EXPECT_STATUS(synInvalidArgument, api_->synConfigurationGet("NO_SUCH_KEY", value, 32));
  EXPECT_STATUS(synInvalidArgument, api_->synConfigurationSet("DETERMINISTIC_MODE", "true"));
  EXPECT_SUCCESS(api_->synConfigurationSet("ENABLE_EXPERIMENTAL_FLAGS", "true"));
  EXPECT_SUCCESS(api_->synConfigurationSet("DETERMINISTIC_MODE", "true"));
  EXPECT_SUCCESS(api_->synConfigurationGet("DETERMINISTIC_MODE", value, 32));
  EXPECT_STREQ(value, "true");
}

class AcquireTest : public SynapseTest {};

// 4.2: one device per process, id 0; other failures write the invalid id.
TEST_F(AcquireTest, OneDevicePerProcess) {
  synDeviceId id = 7;
  EXPECT_SUCCESS(api_->synDeviceAcquire(&id, nullptr));
  EXPECT_EQ(id, 0u);
  EXPECT_STATUS(synDeviceAlreadyAcquired, api_->synDeviceAcquire(&id, ""));
  EXPECT_SUCCESS(api_->synDeviceRelease(0));
  EXPECT_STATUS(synNoDeviceFound, api_->synDeviceRelease(0));
  EXPECT_STATUS(synNoDeviceFound, api_->synDeviceAcquireByDeviceType(&id, synDeviceGreco));
  EXPECT_EQ(id, SYN_INVALID_DEVICE_ID);
  EXPECT_STATUS(synNoDeviceFound, api_->synDeviceAcquireByModuleId(&id, 99999));
  std::vector<uint32_t> modules(2048);
  auto count = static_cast<uint32_t>(modules.size());
  EXPECT_SUCCESS(api_->synDeviceGetModuleIDs(modules.data(), &count));
  // Other processes may hold some of them.
  synStatus status = synDeviceAlreadyAcquired;
  while (count > 0 && status == synDeviceAlreadyAcquired) {
    status = api_->synDeviceAcquireByModuleId(&id, modules[--count]);
  }
  EXPECT_STATUS(synSuccess, status);
  EXPECT_SUCCESS(api_->synDeviceRelease(0));
}

// 4.2: without a device, device calls return 26.
TEST_F(AcquireTest, DeviceCallsWithoutDevice) {
  uint64_t address = 0;
  synStreamHandle stream = nullptr;
  synEventHandle event = nullptr;
  EXPECT_STATUS(synFail, api_->synDeviceMalloc(0, 128, 0, 0, &address));
  EXPECT_STATUS(synFail, api_->synStreamCreateGeneric(&stream, 0, 0));
  EXPECT_STATUS(synFail, api_->synEventCreate(&event, 0, 0));
  EXPECT_STATUS(synFail, api_->synDeviceSynchronize(0));
}

// 4.2: the answers are fixed; attributes that only a device knows return 18.
TEST_F(AcquireTest, TypeAttributes) {
  struct Expected {
    synDeviceType type;
    uint64_t alignment, tpc_mask;
  };
  for (const Expected& e :
       {Expected{synDeviceGaudi, 128, 0xff}, Expected{synDeviceGaudi2, 128, 0xffffff},
        Expected{synDeviceGaudi3, 256, 0xffffffffffffffff}}) {
    const synDeviceAttribute wanted[] = {
        DEVICE_ATTRIBUTE_ADDRESS_ALIGNMENT_SIZE, DEVICE_ATTRIBUTE_TPC_ENABLED_MASK,
        DEVICE_ATTRIBUTE_MAX_DIMS, DEVICE_ATTRIBUTE_MAX_RMW_SIZE, DEVICE_ATTRIBUTE_DEVICE_TYPE};
    uint64_t values[5] = {};
    EXPECT_SUCCESS(api_->synDeviceTypeGetAttribute(values, wanted, 5, e.type));
    EXPECT_EQ(values[0], e.alignment);
    EXPECT_EQ(values[1], e.tpc_mask);
    EXPECT_EQ(values[2], 8u);
    EXPECT_EQ(values[3], uint64_t{16} << 20);
    EXPECT_EQ(values[4], e.type);
  }
  for (const synDeviceAttribute attribute :
       {DEVICE_ATTRIBUTE_SRAM_BASE_ADDRESS, DEVICE_ATTRIBUTE_SRAM_SIZE, DEVICE_ATTRIBUTE_DRAM_SIZE,
        DEVICE_ATTRIBUTE_CLK_RATE, DEVICE_ATTRIBUTE_DRAM_FREE_SIZE,
        DEVICE_ATTRIBUTE_STREAMS_TOTAL_MEM_SIZE}) {
    uint64_t value = 0;
    EXPECT_STATUS(synUnsupported,
                  api_->synDeviceTypeGetAttribute(&value, &attribute, 1, synDeviceGaudi2));
  }
}

class MemoryTest : public DeviceTest {};

TEST_F(MemoryTest, InfoAgreesWithAttributesAndMemoryInfo) {
  synDeviceInfo info{};
  synDeviceInfoV2 info2{};
  EXPECT_SUCCESS(api_->synDeviceGetInfo(device_, &info));
  EXPECT_SUCCESS(api_->synDeviceGetInfoV2(device_, &info2));
  EXPECT_EQ(std::memcmp(&info, &info2, 56), 0);
  EXPECT_LT(info2.deviceIndex, 8);
  uint64_t free = 0, total = 0;
  EXPECT_SUCCESS(api_->synDeviceGetMemoryInfo(device_, &free, &total));
  EXPECT_EQ(total, info.dramSize);
  char name[16];
  EXPECT_SUCCESS(api_->synDeviceGetName(name, sizeof(name), device_));
  EXPECT_EQ(std::string(name).rfind("GAUDI", 0), 0u);
}

// 4.3: 128-byte alignment, size 0 gives 0, exact accounting, unknown address 1.
TEST_F(MemoryTest, AllocationContract) {
  uint64_t free_before = 0, free_after = 0, total = 0, address = 1;
  EXPECT_SUCCESS(api_->synDeviceGetMemoryInfo(device_, &free_before, &total));
  EXPECT_SUCCESS(api_->synDeviceMalloc(device_, 0, 0, 0, &address));
  EXPECT_EQ(address, 0u);
  const uint64_t a = Allocate(1000);
  const uint64_t b = Allocate(64 << 20);
  EXPECT_EQ(a % 128, 0u);
  EXPECT_EQ(b % 128, 0u);
  EXPECT_SUCCESS(api_->synDeviceMalloc(device_, 128, a, 0, &address));  // the hint is taken
  EXPECT_NE(address, a);
  EXPECT_SUCCESS(api_->synDeviceFree(device_, address, 0));
  EXPECT_SUCCESS(api_->synDeviceFree(device_, a, 0));
  EXPECT_SUCCESS(api_->synDeviceFree(device_, b, 0));
  EXPECT_SUCCESS(api_->synDeviceGetMemoryInfo(device_, &free_after, &total));
  EXPECT_EQ(free_after, free_before);
  EXPECT_STATUS(synInvalidArgument, api_->synDeviceFree(device_, a, 0));
}

TEST_F(MemoryTest, ExhaustionIsReported) {
  uint64_t free = 0, total = 0, address = 1;
  EXPECT_SUCCESS(api_->synDeviceGetMemoryInfo(device_, &free, &total));
  EXPECT_STATUS(synFail, api_->synDeviceMalloc(device_, total + 1, 0, 0, &address));
  EXPECT_EQ(address, 0u);
  EXPECT_STATUS(synFail, api_->synDeviceMalloc(device_, total + 1, 0, 0, &address));
  const std::string text = api_->synGetLastErrorMessage();
  EXPECT_NE(text.find(std::to_string(total + 1)), std::string::npos) << text;
}

// 4.3: the host side of a copy must be mapped, mappings are counted, unknown unmap succeeds.
TEST_F(MemoryTest, HostMappings) {
  const uint64_t address = Allocate(4096);
  std::vector<char> host(4096);
  const auto copy = [&](uint64_t bytes) {
    return api_->synMemCopyAsync(stream_, reinterpret_cast<uint64_t>(host.data()), bytes, address,
                                 HOST_TO_DRAM);
  };
  EXPECT_STATUS(synMappingNotFound, copy(4096));
  EXPECT_SUCCESS(copy(0));
  EXPECT_SUCCESS(api_->synHostMap(device_, 2048, host.data()));
  EXPECT_SUCCESS(api_->synHostMap(device_, 2048, host.data()));
  EXPECT_STATUS(synMappingNotFound, copy(4096));
  EXPECT_SUCCESS(copy(2048));
  EXPECT_SUCCESS(api_->synHostUnmap(device_, host.data()));
  EXPECT_SUCCESS(copy(2048));
  EXPECT_SUCCESS(api_->synStreamSynchronize(stream_));
  EXPECT_SUCCESS(api_->synHostUnmap(device_, host.data()));
  EXPECT_STATUS(synMappingNotFound, copy(2048));
  EXPECT_SUCCESS(api_->synHostUnmap(device_, host.data()));
}

TEST_F(MemoryTest, CopiesAndFills) {
  const uint64_t a = Allocate(4000);
  const uint64_t b = Allocate(4000);
  std::vector<int32_t> values(1000);
  for (int i = 0; i < 1000; ++i) values[static_cast<size_t>(i)] = i * 3;
  Upload(values, a);
  const uint64_t sources[] = {a, a + 2000}, sizes[] = {2000, 2000}, destinations[] = {b + 2000, b};
  EXPECT_SUCCESS(
      api_->synMemCopyAsyncMultiple(stream_, sources, sizes, destinations, DRAM_TO_DRAM, 2));
  const auto swapped = Download(b, 1000);
  EXPECT_EQ(swapped[0], 1500);
  EXPECT_EQ(swapped[500], 0);
  EXPECT_SUCCESS(api_->synMemsetD32Async(a, 0x01020304, 10, stream_));
  EXPECT_SUCCESS(api_->synMemsetD16Async(a + 40, 0x0506, 2, stream_));
  EXPECT_SUCCESS(api_->synMemsetD8Async(a + 44, 7, 4, stream_));
  const auto filled = Download(a, 13);
  EXPECT_EQ(filled[9], 0x01020304);
  EXPECT_EQ(filled[10], 0x05060506);
  EXPECT_EQ(filled[11], 0x07070707);
  EXPECT_EQ(filled[12], 36);
  EXPECT_STATUS(synInvalidArgument, api_->synMemsetD8Async(64, 0, 1, stream_));
}

TEST_F(MemoryTest, InjectedFaultsSurface) {
  if (!api_->is_emulator()) GTEST_SKIP() << "fault injection is the emulator's";
  EXPECT_SUCCESS(api_->synConfigurationSet("HPU_EMULATOR_FAULTS", "malloc:2=4,copy:1=17"));
  uint64_t address = 0;
  EXPECT_SUCCESS(api_->synDeviceMalloc(device_, 128, 0, 0, &address));
  EXPECT_STATUS(synOutOfDeviceMemory, api_->synDeviceMalloc(device_, 128, 0, 0, &address));
  const uint64_t place = Allocate(128);
  EXPECT_STATUS(synDeviceReset, api_->synMemsetD8Async(place, 0, 1, stream_));
  EXPECT_STATUS(synInvalidArgument, api_->synConfigurationSet("HPU_EMULATOR_FAULTS", "bad"));
  EXPECT_SUCCESS(api_->synConfigurationSet("HPU_EMULATOR_FAULTS", ""));
}

}  // namespace
}  // namespace hpu
