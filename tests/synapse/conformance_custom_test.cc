// Kernels of the caller's own: nodes with declared guids, and libraries of GC_KERNEL_PATH.
#include <cstdlib>
#include <cstring>

#include "synapse/include/synapse_emulator.h"
#include "tests/synapse/fixture.h"

namespace hpu {
namespace {

constexpr uint64_t kRows = 3, kColumns = 4;

class CustomTest : public DeviceTest {
 protected:
  void SetUp() override {
    unsetenv("GC_KERNEL_PATH");
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!HasCompiler() || !api_->is_emulator()) GTEST_SKIP() << "needs the emulator's compiler";
    ASSERT_EQ(api_->synGraphCreate(&graph_, synDeviceGaudi2), synSuccess);
  }
  void TearDown() override {
    unsetenv("GC_KERNEL_PATH");
    DeviceTest::TearDown();
  }
  void StartGraph() {
    ASSERT_EQ(api_->synGraphCreate(&graph_, synDeviceGaudi2), synSuccess);
    addresses_.clear();
  }
  void ExpectLaterLaunchesRun() {
    StartGraph();
    OneNode("test_axpy", 2);
    EXPECT_SUCCESS(LaunchAll(Compile()));
    EXPECT_EQ(Result(1, 2), (std::vector<float>{3, 3}));
  }
  static void UseTestLibrary() { setenv("GC_KERNEL_PATH", CUSTOM_TEST_KERNELS, 1); }

  synTensor Tensor(std::vector<uint64_t> sizes, const std::vector<float>& values = {}) {
    const std::string name = "t" + std::to_string(addresses_.size());
    synTensor tensor = nullptr;
    EXPECT_SUCCESS(api_->synTensorHandleCreate(&tensor, graph_, DATA_TENSOR, name.c_str()));
    synTensorGeometry geometry{};
    geometry.dims = static_cast<uint32_t>(sizes.size());
    std::copy(sizes.begin(), sizes.end(), geometry.sizes);
    EXPECT_SUCCESS(api_->synTensorSetGeometry(tensor, &geometry, synGeometryMaxSizes));
    EXPECT_SUCCESS(api_->synTensorSetDeviceDataType(tensor, syn_type_float));
    synSectionHandle section = nullptr;
    EXPECT_SUCCESS(api_->synSectionCreate(&section, 0, graph_));
    EXPECT_SUCCESS(api_->synTensorAssignToSection(tensor, section, 0));
    addresses_.push_back(Allocate(4 * kRows * kColumns));
    if (values.empty()) return tensor;
    std::vector<int32_t> bits(values.size());
    std::memcpy(bits.data(), values.data(), 4 * values.size());
    Upload(bits, addresses_.back());
    return tensor;
  }
  synTensor Intermediate(const char* name) {
    synTensor tensor = nullptr;
    EXPECT_SUCCESS(api_->synTensorHandleCreate(&tensor, graph_, DATA_TENSOR, name));
    synTensorGeometry geometry{};
    geometry.dims = 2;
    geometry.sizes[0] = kColumns;
    geometry.sizes[1] = kRows;
    EXPECT_SUCCESS(api_->synTensorSetGeometry(tensor, &geometry, synGeometryMaxSizes));
    EXPECT_SUCCESS(api_->synTensorSetDeviceDataType(tensor, syn_type_float));
    return tensor;
  }
  void Node(const char* guid, std::vector<synTensor> in, std::vector<synTensor> out,
            const void* params = nullptr, unsigned size = 0) {
    EXPECT_SUCCESS(api_->synNodeCreate(
        graph_, in.data(), out.data(), static_cast<uint32_t>(in.size()),
        static_cast<uint32_t>(out.size()), params, size, guid, "custom_node", nullptr, nullptr));
  }
  // Makes a graph of one node of `guid`, which is declared with `version`.
  void OneNode(const char* guid, uint32_t version) {
    EXPECT_SUCCESS(api_->synEmulatorGraphDeclareKernel(graph_, guid, version));
    const synTensor x = Tensor({kColumns, kRows}, std::vector<float>(kRows * kColumns, 1));
    const float a = 2;
    Node(guid, {x, x}, {Tensor({kColumns, kRows}), Tensor({kColumns, kRows})}, &a, sizeof(a));
  }
  synRecipeHandle Compile() {
    synRecipeHandle recipe = nullptr;
    EXPECT_SUCCESS(api_->synGraphCompile(&recipe, graph_, "custom", nullptr));
    return recipe;
  }
  synStatus LaunchAll(synRecipeHandle recipe) {
    uint64_t workspace = 0;
    EXPECT_SUCCESS(api_->synWorkspaceGetSize(&workspace, recipe));
    std::vector<synLaunchTensorInfo> table = Table(addresses_);
    std::vector<std::string> names;
    for (size_t i = 0; i < table.size(); ++i) names.push_back("t" + std::to_string(i));
    std::vector<const char*> pointers;
    for (const std::string& name : names) pointers.push_back(name.c_str());
    std::vector<uint64_t> ids(table.size());
    EXPECT_SUCCESS(api_->synTensorRetrieveIds(recipe, pointers.data(), ids.data(),
                                              static_cast<uint32_t>(ids.size())));
    for (size_t i = 0; i < table.size(); ++i) table[i].tensorId = ids[i];
    return api_->synLaunch(stream_, table.data(), static_cast<uint32_t>(table.size()),
                           Allocate(workspace + 128), recipe, 0);
  }
  std::vector<float> Result(size_t tensor, uint64_t count) {
    const std::vector<int32_t> bits = Download(addresses_[tensor], count);
    std::vector<float> values(count);
    std::memcpy(values.data(), bits.data(), 4 * count);
    return values;
  }
  std::string Message() { return api_->synGetLastErrorMessage(); }

  synGraphHandle graph_ = nullptr;
  std::vector<uint64_t> addresses_;  // by tensor
};

TEST_F(CustomTest, ReadsViewsAndIsReadByOtherNodes) {
  const synTensor x = Tensor({kRows, kColumns}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const synTensor y = Tensor({kColumns, kRows}, std::vector<float>(kRows * kColumns, 100));
  const synTensor negative = Tensor({kColumns, kRows});
  const synTensor number = Tensor({kColumns, kRows});
  const synTensor turned = Intermediate("turned"), sum = Intermediate("sum");
  struct {
    uint32_t permutation[5];
    uint32_t rank;
  } transpose = {{1, 0, 2, 3, 4}, 2};
  Node("transpose", {x}, {turned}, &transpose, sizeof(transpose));
  EXPECT_SUCCESS(api_->synEmulatorGraphDeclareKernel(graph_, "test_axpy", 2));
  const float a = 10;
  Node("test_axpy", {turned, y}, {sum, number}, &a, sizeof(a));
  Node("neg_fwd_f32", {sum}, {negative});
  const synRecipeHandle compiled = Compile();  // no library is there yet

  const std::string path = ::testing::TempDir() + "/custom.recipe";
  synRecipeHandle recipe = nullptr;
  EXPECT_SUCCESS(api_->synRecipeSerialize(compiled, path.c_str()));
  EXPECT_SUCCESS(api_->synRecipeDeSerialize(&recipe, path.c_str()));
  UseTestLibrary();
  for (int launch = 0; launch < 2; ++launch) {
    EXPECT_SUCCESS(LaunchAll(recipe));
    EXPECT_EQ(Result(2, kRows * kColumns),
              (std::vector<float>{-110, -140, -170, -200, -120, -150, -180, -210, -130, -160, -190,
                                  -220}));
    EXPECT_EQ(Result(3, kRows * kColumns),
              (std::vector<float>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}));
  }
}

TEST_F(CustomTest, WithoutLibraryTheLaunchSaysWhatIsMissing) {
  OneNode("test_axpy", 2);
  const synRecipeHandle recipe = Compile();
  EXPECT_EQ(LaunchAll(recipe), synFail);
  EXPECT_EQ(
      Message(),
      "recipe custom: custom kernel test_axpy of version 2 is not there. GC_KERNEL_PATH names "
      "no library: set it to the library of the kernel (docs/custom_kernels.md)");
  setenv("GC_KERNEL_PATH", "/nowhere/libx.so:" CUSTOM_TEST_NO_KERNELS, 1);
  EXPECT_EQ(LaunchAll(recipe), synFail);
  EXPECT_NE(Message().find("/nowhere/libx.so cannot be opened: "), std::string::npos) << Message();
  EXPECT_NE(Message().find(CUSTOM_TEST_NO_KERNELS " has no function hpu_kernel_library"),
            std::string::npos)
      << Message();
  UseTestLibrary();
  EXPECT_SUCCESS(LaunchAll(recipe));
  EXPECT_EQ(Result(1, 4), (std::vector<float>{3, 3, 3, 3}));
}

TEST_F(CustomTest, AnotherVersionIsRefused) {
  UseTestLibrary();
  OneNode("test_axpy", 1);
  EXPECT_EQ(LaunchAll(Compile()), synUnsupported);
  EXPECT_EQ(Message(),
            "recipe custom: custom kernel test_axpy of version 1 is there in other versions only. "
            "GC_KERNEL_PATH is " CUSTOM_TEST_KERNELS ":\n  " CUSTOM_TEST_KERNELS
            " has test_axpy (version 2) test_fail (version 1) test_picky (version 1)");
}

TEST_F(CustomTest, AKernelRefusesOperands) {
  UseTestLibrary();
  OneNode("test_picky", 1);
  EXPECT_EQ(LaunchAll(Compile()), synInvalidArgument);
  EXPECT_EQ(Message(),
            "recipe custom: custom kernel test_picky of version 1: prepare() failed with code 3: "
            "takes no tensor of rank 2");
}

TEST_F(CustomTest, AFailureReachesTheStreamAndLaterLaunchesRun) {
  UseTestLibrary();
  OneNode("test_fail", 1);
  EXPECT_SUCCESS(LaunchAll(Compile()));
  EXPECT_EQ(api_->synStreamSynchronize(stream_), synFail);
  EXPECT_NE(Message().find("custom kernel test_fail of version 1: run() failed with code 7: task "),
            std::string::npos)
      << Message();
  ExpectLaterLaunchesRun();
}

TEST_F(CustomTest, ExceptionsAreFailures) {
  setenv("GC_KERNEL_PATH", CUSTOM_THROWING_KERNELS ":" CUSTOM_TEST_KERNELS, 1);
  OneNode("test_throw_early", 1);
  EXPECT_EQ(LaunchAll(Compile()), synInvalidArgument);
  EXPECT_EQ(
      Message(),
      "recipe custom: custom kernel test_throw_early of version 1: prepare() failed with code "
      "-1: it threw an exception");
  StartGraph();
  OneNode("test_throw", 1);
  EXPECT_SUCCESS(LaunchAll(Compile()));
  EXPECT_EQ(api_->synStreamSynchronize(stream_), synFail);
  EXPECT_NE(Message().find("custom kernel test_throw of version 1: run() failed with code -1: it "
                           "threw an exception: no such thing"),
            std::string::npos)
      << Message();
  ExpectLaterLaunchesRun();
}

TEST_F(CustomTest, WhatItMakesOfWeightsIsNotKept) {
  UseTestLibrary();
  const synGraphAttribute inference = GRAPH_ATTRIBUTE_INFERENCE;
  const uint64_t on = 1;
  EXPECT_SUCCESS(api_->synGraphSetAttribute(graph_, &inference, &on, 1));
  EXPECT_SUCCESS(api_->synEmulatorGraphDeclareKernel(graph_, "test_axpy", 2));
  const synTensor weight = Tensor({kColumns, kRows}, std::vector<float>(kRows * kColumns, 1));
  EXPECT_SUCCESS(api_->synEmulatorTensorSetWeight(weight, true));
  const synTensor y = Tensor({kColumns, kRows}, std::vector<float>(kRows * kColumns, 5));
  const synTensor sum = Intermediate("sum");
  const synTensor out = Tensor({kColumns, kRows});
  const float a = 2;
  Node("test_axpy", {weight, weight}, {sum, Intermediate("number")}, &a, sizeof(a));
  Node("add_fwd_f32", {sum, y}, {out});
  const synRecipeHandle recipe = Compile();
  for (int launch = 0; launch < 2; ++launch) {
    const uint64_t before = Counter("kernels");
    EXPECT_SUCCESS(LaunchAll(recipe));
    EXPECT_EQ(Result(2, 2), (std::vector<float>{8, 8}));
    EXPECT_EQ(Counter("kernels") - before, 2u) << "a failure would be kept with the result";
  }
}

TEST_F(CustomTest, GuidsMustBeDeclared) {
  UseTestLibrary();
  const synTensor x = Tensor({4}), y = Tensor({4});
  EXPECT_EQ(
      api_->synNodeCreate(graph_, &x, &y, 1, 1, nullptr, 0, "test_axpy", "n", nullptr, nullptr),
      synFail);
  EXPECT_EQ(Message(), "node n: guid test_axpy is not known");
  EXPECT_EQ(api_->synEmulatorGraphDeclareKernel(graph_, "test_axpy", 0), synInvalidArgument);
  EXPECT_EQ(api_->synEmulatorGraphDeclareKernel(graph_, "", 1), synInvalidArgument);
}

TEST_F(CustomTest, KernelsAreFoundAndListed) {
  uint32_t version = 9;
  EXPECT_SUCCESS(api_->synEmulatorFindKernel("test_axpy", &version));
  EXPECT_EQ(version, 0u);
  UseTestLibrary();
  EXPECT_SUCCESS(api_->synEmulatorFindKernel("test_axpy", &version));
  EXPECT_EQ(version, 2u);
  char list[256] = "";
  size_t size = 0;
  EXPECT_SUCCESS(api_->synEmulatorListKernels(list, sizeof(list), &size));
  EXPECT_STREQ(list, "test_axpy 2\ntest_fail 1\ntest_picky 1\n");
  EXPECT_EQ(size, std::strlen(list) + 1);
}

}  // namespace
}  // namespace hpu
