// Tests that a Synapse library conforms to the contracts of the reference (section numbers in the
// test comments are those of its chapter 4). The library is reached only through the loader.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "recipe/recipe.h"
#include "synapse/loader.h"

namespace hpu {

// A test that a library cannot pass, with the reason. Tests of `unsupported` are not run; tests of
// `expected_failure` are run by hand to look into the reason.
struct KnownException {
  std::string test;  // "Suite.Name"
  std::string reason;
};
const std::vector<KnownException>& Unsupported(bool emulator);
const std::vector<KnownException>& ExpectedFailures(bool emulator);
// Those that the emulator cannot pass in strict mode, where the device is as a card.
const std::vector<KnownException>& UnsupportedInStrictMode();

// The library is initialised and has no device.
class SynapseTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Returns whether the library has a graph compiler (the emulator's is in a second file).
  bool HasCompiler();

  const SynapseFunctions* api_ = nullptr;
};

// This has the device and one stream.
class DeviceTest : public SynapseTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  uint64_t Allocate(uint64_t bytes);
  // Returns mapped host memory of the library.
  int32_t* HostInts(uint64_t count);
  void Upload(const std::vector<int32_t>& values, uint64_t address);
  std::vector<int32_t> Download(uint64_t address, uint64_t count);

  // Hand-built recipes exist only for the emulator; the test is skipped elsewhere.
  synRecipeHandle LoadRecipe(const Recipe& recipe);
  // Returns table entries by id for the addresses, in the order of the recipe's tensors.
  static std::vector<synLaunchTensorInfo> Table(const std::vector<uint64_t>& addresses);
  synStatus Launch(synRecipeHandle recipe, const std::vector<uint64_t>& addresses,
                   synStreamHandle stream = nullptr);
  uint64_t Counter(const std::string& name);

  synDeviceId device_ = SYN_INVALID_DEVICE_ID;
  synStreamHandle stream_ = nullptr;
};

#define EXPECT_STATUS(expected, call)                                                       \
  do {                                                                                      \
    const synStatus status_ = (call);                                                       \
    const char* detail_ =                                                                   \
        api_->synGetLastErrorMessage != nullptr ? api_->synGetLastErrorMessage() : nullptr; \
    EXPECT_EQ(status_, expected) << #call << ": " << (detail_ ? detail_ : "");              \
  } while (false)
#define EXPECT_SUCCESS(call) EXPECT_STATUS(synSuccess, call)

}  // namespace hpu
