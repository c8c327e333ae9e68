#include <gtest/gtest.h>

#include "emulator/config/configuration.h"
#include "emulator/faults/fault_injector.h"

namespace hpu::emulator {
namespace {

TEST(FaultInjectorTest, FailsTheConfiguredOccurrences) {
  FaultInjector faults;
  EXPECT_EQ(faults.Check(FaultPoint::kLaunch), synSuccess);
  ASSERT_TRUE(faults.Configure("launch:2=26,malloc:*=4").ok());
  EXPECT_EQ(faults.Check(FaultPoint::kLaunch), synSuccess);
  EXPECT_EQ(faults.Check(FaultPoint::kLaunch), synFail);
  EXPECT_EQ(faults.Check(FaultPoint::kLaunch), synSuccess);
  EXPECT_EQ(faults.Check(FaultPoint::kMalloc), synOutOfDeviceMemory);
  EXPECT_EQ(faults.Check(FaultPoint::kMalloc), synOutOfDeviceMemory);
  ASSERT_TRUE(faults.Configure("").ok());
  EXPECT_EQ(faults.Check(FaultPoint::kMalloc), synSuccess);
}

TEST(FaultInjectorTest, WrongTextNamesThePart) {
  FaultInjector faults;
  for (const char* text : {"launch", "launch:0=1", "launch:1=0", "launch:1=99", "moon:1=2",
                           "launch:x=1", "launch=1:2"}) {
    const absl::Status status = faults.Configure(text);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(std::string(status.message()).find(text), std::string::npos) << status;
  }
}

TEST(ConfigurationTest, KeysAndValues) {
  Configuration configuration;
  EXPECT_EQ(configuration.Set("NO_SUCH_KEY", "1").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(configuration.Set("DETERMINISTIC_MODE", "1").code(),
            absl::StatusCode::kPermissionDenied);
  ASSERT_TRUE(configuration.Set("ENABLE_EXPERIMENTAL_FLAGS", "true").ok());
  EXPECT_TRUE(configuration.Set("DETERMINISTIC_MODE", "1").ok());
  EXPECT_TRUE(configuration.Flag("DETERMINISTIC_MODE"));
  EXPECT_TRUE(configuration.Set("HCCL_ANYTHING", "x").ok());
  EXPECT_EQ(configuration.Get("HCCL_ANYTHING").value(), "x");
  const absl::Status level = configuration.Set("EMULATOR_ISA_LEVEL", "v3");
  EXPECT_EQ(level.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(level.message()).find("x86-64-v4-amx"), std::string::npos);
  EXPECT_TRUE(configuration.Set("EMULATOR_ISA_LEVEL", "x86-64-v2").ok());
  EXPECT_EQ(configuration.Set("GRAPH_VISUALIZATION", "maybe").code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hpu::emulator
