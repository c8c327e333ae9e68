// Tests graphs, tensors, sections and nodes (4.5). Nothing here needs a device.
#include <cstring>

#include "synapse/include/synapse_node_params.h"
#include "tests/synapse/fixture.h"

namespace hpu {
namespace {

class GraphTest : public SynapseTest {
 protected:
  void SetUp() override {
    SynapseTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_EQ(api_->synGraphCreate(&graph_, synDeviceGaudi2), synSuccess);
  }
  synTensor MakeTensor(const char* name, std::vector<uint64_t> sizes, bool persistent = false) {
    synTensor tensor = nullptr;
    EXPECT_SUCCESS(api_->synTensorHandleCreate(&tensor, graph_, DATA_TENSOR, name));
    synTensorGeometry geometry{};
    geometry.dims = static_cast<uint32_t>(sizes.size());
    std::copy(sizes.begin(), sizes.end(), geometry.sizes);
    EXPECT_SUCCESS(api_->synTensorSetGeometry(tensor, &geometry, synGeometryMaxSizes));
    EXPECT_SUCCESS(api_->synTensorSetDeviceDataType(tensor, syn_type_float));
    if (persistent) {
      EXPECT_SUCCESS(api_->synTensorAssignToSection(tensor, MakeSection(), 0));
    }
    return tensor;
  }
  synSectionHandle MakeSection() {
    synSectionHandle section = nullptr;
    EXPECT_SUCCESS(api_->synSectionCreate(&section, 0, graph_));
    return section;
  }
  synStatus MakeNode(const char* guid, std::vector<synTensor> in, std::vector<synTensor> out,
                     const void* params = nullptr, unsigned size = 0, synNodeId* id = nullptr) {
    synNodeId unused = 0;
    return api_->synNodeCreateWithId(graph_, in.data(), out.data(),
                                     static_cast<uint32_t>(in.size()),
                                     static_cast<uint32_t>(out.size()), params, size, guid, "node",
                                     id == nullptr ? &unused : id, nullptr, nullptr);
  }
  synGraphHandle graph_ = nullptr;
};

TEST_F(GraphTest, HandlesAreChecked) {
  synDeviceType type = synDeviceTypeInvalid;
  EXPECT_SUCCESS(api_->synGraphGetDeviceType(graph_, &type));
  EXPECT_EQ(type, synDeviceGaudi2);
  EXPECT_STATUS(synInvalidArgument, api_->synGraphCreate(nullptr, synDeviceGaudi2));
  EXPECT_STATUS(synInvalidArgument, api_->synGraphDestroy(nullptr));
  const synGraphHandle destroyed = graph_;
  const synTensor tensor = MakeTensor("t", {4});
  EXPECT_SUCCESS(api_->synGraphDestroy(graph_));
  EXPECT_STATUS(synFail, api_->synGraphDestroy(destroyed));
  synSectionHandle section = nullptr;
  EXPECT_STATUS(synFail, api_->synSectionCreate(&section, 0, nullptr));
  EXPECT_STATUS(synInvalidArgument, api_->synTensorSetExternal(tensor, true));
  synGraphHandle eager = nullptr;
  EXPECT_STATUS(synInvalidArgument, api_->synGraphCreateEager(&eager, synDeviceGaudi));
  EXPECT_SUCCESS(api_->synGraphCreateEager(&eager, synDeviceGaudi3));
}

TEST_F(GraphTest, Attributes) {
  synGraphAttribute attribute = GRAPH_ATTRIBUTE_BACKOFF_FACTOR;
  synGraphAttributeVal value{};
  EXPECT_SUCCESS(api_->synGraphGetAttributes(graph_, &attribute, &value, 1));
  EXPECT_EQ(value.dAttrVal, 1.0);
  value.dAttrVal = 0.0;
  EXPECT_STATUS(synFail, api_->synGraphSetAttributes(graph_, &attribute, &value, 1));
  value.dAttrVal = 0.5;
  EXPECT_SUCCESS(api_->synGraphSetAttributes(graph_, &attribute, &value, 1));
  EXPECT_SUCCESS(api_->synGraphGetAttributes(graph_, &attribute, &value, 1));
  EXPECT_EQ(value.dAttrVal, 0.5);
  uint64_t plain = 7;
  attribute = GRAPH_ATTRIBUTE_INFERENCE;
  EXPECT_SUCCESS(api_->synGraphGetAttribute(graph_, &attribute, &plain, 1));
  EXPECT_EQ(plain, 0u);
  EXPECT_STATUS(synFail, api_->synGraphSetAttribute(graph_, &attribute, &plain, 0));
  EXPECT_STATUS(synFail, api_->synGraphSetAttribute(graph_, &attribute, &plain, 99));
}

TEST_F(GraphTest, TensorNamesAreUnique) {
  const synTensor first = MakeTensor("same", {4});
  synTensor second = nullptr;
  EXPECT_STATUS(synNameIsAlreadyUsed,
                api_->synTensorHandleCreate(&second, graph_, DATA_TENSOR, "same"));
  EXPECT_EQ(second, first);
  synTensor unnamed = nullptr;
  EXPECT_SUCCESS(api_->synTensorHandleCreate(&unnamed, graph_, DATA_TENSOR, nullptr));
  char name[64];
  EXPECT_SUCCESS(api_->synTensorGetName(unnamed, sizeof(name), name));
  EXPECT_GT(std::strlen(name), 0u);
  EXPECT_STATUS(synInvalidArgument, api_->synTensorGetName(first, 4, name));
  EXPECT_SUCCESS(api_->synTensorGetName(first, 5, name));
}

TEST_F(GraphTest, GettersOfWhatWasNeverSet) {
  synTensor tensor = nullptr;
  EXPECT_SUCCESS(api_->synTensorHandleCreate(&tensor, graph_, DATA_TENSOR, "t"));
  synTensorGeometry geometry{};
  synDataType type = syn_type_na;
  synTensorPermutation permutation{};
  void* data = nullptr;
  uint64_t size = 0;
  EXPECT_STATUS(synObjectNotInitialized,
                api_->synTensorGetGeometry(tensor, &geometry, synGeometryMaxSizes));
  EXPECT_STATUS(synObjectNotInitialized, api_->synTensorGetDeviceDataType(tensor, &type));
  EXPECT_STATUS(synObjectNotInitialized, api_->synTensorGetPermutation(tensor, &permutation));
  EXPECT_STATUS(synObjectNotInitialized, api_->synTensorGetHostPtr(tensor, &data, &size, &type));
  synSectionHandle section = MakeSection();
  uint64_t offset = 9;
  EXPECT_SUCCESS(api_->synTensorGetSection(tensor, &section, &offset));
  EXPECT_EQ(section, nullptr);
  EXPECT_EQ(offset, 0u);
}

TEST_F(GraphTest, GeometryImpliesTheOtherKind) {
  const synTensor tensor = MakeTensor("t", {4, 5});
  synTensorGeometry geometry{};
  EXPECT_SUCCESS(api_->synTensorGetGeometry(tensor, &geometry, synGeometryMinSizes));
  EXPECT_EQ(geometry.dims, 2u);
  EXPECT_EQ(geometry.sizes[1], 5u);
}

TEST_F(GraphTest, HostDataIsCopied) {
  const synTensor tensor = MakeTensor("c", {2});
  float values[] = {1, 2};
  EXPECT_SUCCESS(api_->synTensorSetHostPtr(tensor, values, sizeof(values), syn_type_float, true));
  values[0] = 9;
  void* data = nullptr;
  uint64_t size = 0;
  synDataType type = syn_type_na;
  EXPECT_SUCCESS(api_->synTensorGetHostPtr(tensor, &data, &size, &type));
  EXPECT_EQ(size, 8u);
  EXPECT_EQ(static_cast<float*>(data)[0], 1.0f);
}

TEST_F(GraphTest, PermutationMustBeOne) {
  const synTensor tensor = MakeTensor("p", {2, 3}, true);
  synTensorPermutation permutation{};
  permutation.dims = 2;
  permutation.permutation[0] = 1;
  permutation.permutation[1] = 1;
  EXPECT_STATUS(synInvalidArgument, api_->synTensorSetPermutation(tensor, &permutation));
  permutation.permutation[1] = 0;
  EXPECT_SUCCESS(api_->synTensorSetPermutation(tensor, &permutation));
  synTensorPermutation read{};
  EXPECT_SUCCESS(api_->synTensorGetPermutation(tensor, &read));
  EXPECT_EQ(read.permutation[0], 1);
}

TEST_F(GraphTest, Quantisation) {
  const synTensor tensor = MakeTensor("q", {2});
  synQuantDynamicRange range{1.0, -1.0};
  EXPECT_STATUS(synInvalidArgument, api_->synTensorSetQuantizationData(
                                        tensor, SYN_QUANT_DYNAMIC_RANGE, &range, sizeof(range)));
  EXPECT_STATUS(synFail,
                api_->synTensorSetQuantizationData(tensor, SYN_QUANT_DYNAMIC_RANGE, &range, 3));
  synQuantZPScale scales[] = {{0, 1}, {0, 2}};
  synQuantMetadata metadata{syn_type_int8, scales, 2};
  EXPECT_SUCCESS(
      api_->synTensorSetQuantizationData(tensor, SYN_QUANT_METADATA, &metadata, sizeof(metadata)));
  synQuantMetadata read{};
  EXPECT_SUCCESS(
      api_->synTensorGetQuantizationData(tensor, SYN_QUANT_METADATA, &read, sizeof(read)));
  EXPECT_EQ(read.numZPScales, 2u);
  synQuantZPScale out[2] = {};
  read.zpScales = out;
  EXPECT_SUCCESS(
      api_->synTensorGetQuantizationData(tensor, SYN_QUANT_METADATA, &read, sizeof(read)));
  EXPECT_EQ(out[1].scale, 2.0);
}

TEST_F(GraphTest, Sections) {
  const synSectionHandle section = MakeSection();
  bool flag = false;
  uint64_t group = 7;
  EXPECT_SUCCESS(api_->synSectionGetPersistent(section, &flag));
  EXPECT_TRUE(flag);
  EXPECT_SUCCESS(api_->synSectionGetConst(section, &flag));
  EXPECT_FALSE(flag);
  EXPECT_SUCCESS(api_->synSectionGetGroup(section, &group));
  EXPECT_EQ(group, 0u);
  EXPECT_STATUS(synUnsupported, api_->synSectionSetGroup(section, 256));
  EXPECT_STATUS(synFail, api_->synSectionSetGroup(nullptr, 1));
  EXPECT_SUCCESS(api_->synSectionSetRMW(section, true));
  const synTensor tensor = MakeTensor("t", {4});
  EXPECT_STATUS(synUnsupported, api_->synTensorAssignToSection(tensor, section, 0));
  EXPECT_SUCCESS(api_->synSectionSetRMW(section, false));
  EXPECT_SUCCESS(api_->synTensorAssignToSection(tensor, section, 0));
  EXPECT_STATUS(synFail, api_->synSectionSetPersistent(section, false));
  EXPECT_SUCCESS(api_->synGraphDestroy(graph_));
  EXPECT_SUCCESS(api_->synSectionDestroy(section));
}

TEST_F(GraphTest, SectionOfAnotherGraph) {
  const synTensor tensor = MakeTensor("t", {4});
  EXPECT_SUCCESS(api_->synGraphCreate(&graph_, synDeviceGaudi2));
  EXPECT_STATUS(synInvalidArgument, api_->synTensorAssignToSection(tensor, MakeSection(), 0));
}

TEST_F(GraphTest, NodeChecksInOrder) {
  const synTensor x = MakeTensor("x", {8}, true);
  const synTensor y = MakeTensor("y", {8}, true);
  synTensor bare = nullptr;
  EXPECT_SUCCESS(api_->synTensorHandleCreate(&bare, graph_, DATA_TENSOR, "bare"));
  EXPECT_STATUS(synInvalidArgument, api_->synNodeCreate(graph_, nullptr, &y, 1, 1, nullptr, 0, "g",
                                                        "n", nullptr, nullptr));
  EXPECT_STATUS(synInvalidArgument, MakeNode("relu_fwd_f32", {bare}, {y}));
  EXPECT_SUCCESS(api_->synTensorSetExternal(x, false));
  if (api_->is_emulator()) EXPECT_SUCCESS(api_->synEmulatorTensorSetWeight(x, true));
  // Tensors are locked from here on, though the calls fail.
  EXPECT_STATUS(synFail, MakeNode("memcpy_dma", {x}, {y}));
  EXPECT_STATUS(synObjectAlreadyInitialized, api_->synTensorSetExternal(x, false));
  if (api_->is_emulator()) {
    EXPECT_STATUS(synObjectAlreadyInitialized, api_->synEmulatorTensorSetWeight(x, false));
  }
  const char params[3] = {};
  EXPECT_STATUS(synInvalidArgument, MakeNode("gemm", {x, x}, {y}, params, 3));
  const synTensor high = MakeTensor("high", {1, 1, 1, 1, 1, 2}, true);
  EXPECT_STATUS(synInvalidTensorDimensions, MakeNode("relu_fwd_f32", {high}, {high}));
  // Clearing a permutation is legal even now.
  const synTensorPermutation clear{};
  EXPECT_SUCCESS(api_->synTensorSetPermutation(x, &clear));
}

TEST_F(GraphTest, ConstantsMustFit) {
  const synTensor big = MakeTensor("big", {1 << 19});
  std::vector<float> data(1 << 19);
  EXPECT_SUCCESS(
      api_->synTensorSetHostPtr(big, data.data(), data.size() * 4, syn_type_float, true));
  EXPECT_STATUS(synInvalidArgument,
                MakeNode("relu_fwd_f32", {big}, {MakeTensor("out", {1 << 19}, true)}));
}

class CompiledGraphTest : public GraphTest {
 protected:
  void SetUp() override {
    GraphTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!HasCompiler()) GTEST_SKIP() << "no graph compiler beside the library";
    x_ = MakeTensor("x", {8}, true);
    y_ = MakeTensor("y", {8}, true);
  }
  synTensor x_ = nullptr, y_ = nullptr;
};

TEST_F(CompiledGraphTest, UnknownGuid) {
  EXPECT_STATUS(synFail, MakeNode("no_such_kernel_f32", {x_}, {y_}));
}

TEST_F(CompiledGraphTest, NodeProperties) {
  synNodeId id = 99;
  EXPECT_SUCCESS(MakeNode("relu_fwd_f32", {x_}, {y_}, nullptr, 0, &id));
  bool deterministic = true;
  EXPECT_SUCCESS(api_->synNodeGetDeterministic(graph_, id, &deterministic));
  EXPECT_FALSE(deterministic);
  EXPECT_SUCCESS(api_->synNodeSetDeterministic(graph_, id, true));
  EXPECT_STATUS(synFail, api_->synNodeSetRoundingMode(graph_, id, synRoundUp));
  unsigned size = 7;
  EXPECT_SUCCESS(api_->synNodeGetUserParams(graph_, id, nullptr, &size));
  EXPECT_EQ(size, 0u);
  EXPECT_STATUS(synFail, api_->synNodeSetUserParams(graph_, id, &size, 4));
  EXPECT_STATUS(synInvalidArgument, api_->synNodeDependencySet(graph_, &id, &id, 1, 1));
  const synGraphAttribute attribute = GRAPH_ATTRIBUTE_INFERENCE;
  const uint64_t value = 1;
  EXPECT_STATUS(synFail, api_->synGraphSetAttribute(graph_, &attribute, &value, 1));
}

TEST_F(CompiledGraphTest, CompileOnceAndKeepTheRecipe) {
  EXPECT_SUCCESS(MakeNode("relu_fwd_f32", {x_}, {y_}));
  synRecipeHandle recipe = nullptr;
  EXPECT_STATUS(synInvalidArgument, api_->synGraphCompile(nullptr, graph_, "r", nullptr));
  EXPECT_SUCCESS(api_->synGraphCompile(&recipe, graph_, "r", nullptr));
  synRecipeHandle again = nullptr;
  EXPECT_STATUS(synFail, api_->synGraphCompile(&again, graph_, "r", nullptr));
  EXPECT_SUCCESS(api_->synGraphDestroy(graph_));
  uint32_t count = 0;
  EXPECT_SUCCESS(api_->synTensorRetrieveLaunchAmount(recipe, &count));
  EXPECT_EQ(count, 2u);
}

// The emulator's query returns what synGraphCompile would return, and nodes may still be added to
// the graph.
TEST_F(CompiledGraphTest, CheckNamesTheNodeThatTheDeviceLacks) {
  if (api_->synEmulatorGraphCheck == nullptr) GTEST_SKIP() << "the library cannot be asked";
  EXPECT_STATUS(synInvalidArgument, api_->synEmulatorGraphCheck(nullptr));
  EXPECT_SUCCESS(MakeNode("relu_fwd_f32", {x_}, {y_}));
  EXPECT_SUCCESS(api_->synEmulatorGraphCheck(graph_));
  const synTensor a = MakeTensor("a", {2, 2}, true), b = MakeTensor("b", {2, 2}, true);
  for (const synTensor tensor : {a, b}) {
    EXPECT_SUCCESS(api_->synTensorSetDeviceDataType(tensor, syn_type_int32));
  }
  EXPECT_SUCCESS(MakeNode("gemm", {a, a}, {b}));
  ASSERT_EQ(api_->synEmulatorGraphCheck(graph_), synUnsupported);
  const std::string message = api_->synGetLastErrorMessage();
  EXPECT_NE(message.find("node 'node' (gemm): first operand of i32 elements"), std::string::npos)
      << message;
  EXPECT_SUCCESS(MakeNode("relu_fwd_f32", {y_}, {MakeTensor("z", {8}, true)}));
}

TEST_F(CompiledGraphTest, DuplicateInfersShapes) {
  EXPECT_SUCCESS(MakeNode("relu_fwd_f32", {x_}, {y_}));
  EXPECT_STATUS(synFail, api_->synGraphInferShapes(graph_));
  uint32_t tensors = 0, nodes = 0;
  synGraphHandle twin = nullptr;
  EXPECT_SUCCESS(api_->synGraphDuplicate(graph_, &twin, nullptr, &tensors, nullptr, &nodes));
  EXPECT_EQ(tensors, 2u);
  EXPECT_EQ(nodes, 1u);
  std::vector<synTensorHandleMap> tensor_map(tensors);
  std::vector<synNodeHandleMap> node_map(nodes);
  EXPECT_SUCCESS(
      api_->synGraphDuplicate(graph_, &twin, tensor_map.data(), &tensors, node_map.data(), &nodes));
  EXPECT_EQ(tensor_map[0].origHandle, x_);
  synTensorGeometry geometry{};
  geometry.dims = 1;
  geometry.sizes[0] = 24;
  EXPECT_SUCCESS(
      api_->synTensorSetGeometry(tensor_map[0].newHandle, &geometry, synGeometryMaxSizes));
  EXPECT_SUCCESS(api_->synGraphInferShapes(twin));
  EXPECT_SUCCESS(
      api_->synTensorGetGeometry(tensor_map[1].newHandle, &geometry, synGeometryMaxSizes));
  EXPECT_EQ(geometry.sizes[0], 24u);
  EXPECT_SUCCESS(api_->synTensorGetGeometry(y_, &geometry, synGeometryMaxSizes));
  EXPECT_EQ(geometry.sizes[0], 8u);
}

TEST_F(CompiledGraphTest, ErrorObjectExplains) {
  const synTensor wrong = MakeTensor("wrong", {9}, true);
  const synStatus made = MakeNode("add_fwd_f32", {x_, wrong}, {y_});
  if (made != synSuccess) GTEST_SKIP() << "the misfit was found at node creation";
  synRecipeHandle recipe = nullptr;
  synErrorHandle error = nullptr;
  EXPECT_STATUS(synFail, api_->synGraphCompileV2(&recipe, graph_, "r", &error));
  ASSERT_NE(error, nullptr);
  size_t length = 0;
  EXPECT_SUCCESS(api_->synErrorGetMessageLength(error, &length));
  std::string message(length, '\0');
  EXPECT_SUCCESS(api_->synErrorGetMessage(error, message.data(), length));
  EXPECT_NE(message.find("add_fwd_f32"), std::string::npos) << message;
  EXPECT_SUCCESS(api_->synErrorDestroy(error));
}

}  // namespace
}  // namespace hpu
