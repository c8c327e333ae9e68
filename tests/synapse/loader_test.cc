#include "synapse/loader.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "synapse/device_kind.h"

namespace hpu {
namespace {

TEST(LoaderTest, NamesTheFileThatCannotBeOpened) {
  const auto functions = OpenSynapse("/nonexistent/libSynapse.so");
  ASSERT_FALSE(functions.ok());
  EXPECT_EQ(functions.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(functions.status().message().find("/nonexistent/libSynapse.so"), std::string::npos);
}

TEST(LoaderTest, NamesEveryMissingFunction) {
  const auto functions = OpenSynapse("libm.so.6");
  ASSERT_FALSE(functions.ok());
  EXPECT_EQ(functions.status().code(), absl::StatusCode::kFailedPrecondition);
  const std::string text(functions.status().message());
  EXPECT_NE(text.find(" synInitialize"), std::string::npos);
  EXPECT_NE(text.find(" hcclGroupEnd"), std::string::npos);
  // Missing optional functions are not reported.
  EXPECT_EQ(text.find("synGetErrorString"), std::string::npos);
}

TEST(LoaderTest, EveryRowOfTheTableIsExportedByTheEmulator) {
  const char* path = std::getenv(kSynapseLibraryVariable);
  if (path == nullptr) GTEST_SKIP() << kSynapseLibraryVariable << " is not set";
  const auto functions = OpenSynapse(path);
  ASSERT_TRUE(functions.ok()) << functions.status();
  if (!functions->is_emulator()) GTEST_SKIP() << "not the emulator";
  int rows = 0;
#define SYN_FUNCTION(name, required, since)     \
  EXPECT_NE(functions->name, nullptr) << #name; \
  ++rows;
#define SYN_EMULATOR_FUNCTION(name, strict) SYN_FUNCTION(name, 0, "")
#include "synapse/functions.inc"
#undef SYN_FUNCTION
#undef SYN_EMULATOR_FUNCTION
  EXPECT_EQ(rows, 155 + 22 + 18);
  EXPECT_TRUE(functions->host_addressable());
}

TEST(LoaderTest, ProcessTableIsOpenedOnce) {
  if (std::getenv(kSynapseLibraryVariable) == nullptr) {
    GTEST_SKIP() << kSynapseLibraryVariable << " is not set";
  }
  std::vector<const SynapseFunctions*> seen(4, nullptr);
  std::vector<std::thread> threads;
  for (auto& slot : seen) {
    threads.emplace_back(
        [&slot] { slot = LoadSynapse("/ignored/once/loaded.so").value_or(nullptr); });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_NE(seen[0], nullptr);
  for (const auto* table : seen) EXPECT_EQ(table, seen[0]);
}

TEST(LoaderTest, StatusCarriesCallNumberTextAndDetail) {
  const char* path = std::getenv(kSynapseLibraryVariable);
  if (path == nullptr) GTEST_SKIP() << kSynapseLibraryVariable << " is not set";
  const auto functions = OpenSynapse(path);
  ASSERT_TRUE(functions.ok()) << functions.status();
  synGraphHandle graph = nullptr;
  const synStatus status = functions->synGraphCreate(&graph, synDeviceGaudi2);
  ASSERT_EQ(status, synUninitialized);
  EXPECT_EQ(ToText(ToStatus(*functions, status, "synGraphCreate")),
            "FAILED_PRECONDITION: synGraphCreate: status 28 (library is not initialised): "
            "synInitialize has not been called");
  EXPECT_TRUE(ToStatus(*functions, synSuccess, "x").ok());
}

// A library may have a device that has no name here.
TEST(LoaderTest, DeviceKindsNameEveryType) {
  EXPECT_EQ(DeviceKind(synDeviceGaudi2), "gaudi2");
  EXPECT_EQ(DeviceKind(synDeviceEmulator), "device6");
  for (int number = 0; number < synDeviceTypeInvalid; ++number) {
    const auto type = static_cast<synDeviceType>(number);
    EXPECT_EQ(DeviceTypeOf(DeviceKind(type)), type);
  }
  EXPECT_EQ(DeviceTypeOf("gaudi9"), std::nullopt);
  EXPECT_EQ(DeviceTypeOf("device7"), std::nullopt);
}

TEST(LoaderTest, FolderOfAnAddress) {
  EXPECT_FALSE(FolderOf(reinterpret_cast<const void*>(&OpenSynapse)).empty());
  EXPECT_EQ(FolderOf(nullptr), "");
}

}  // namespace
}  // namespace hpu
