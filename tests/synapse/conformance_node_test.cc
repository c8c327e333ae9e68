// Tests what nodes take beside their operands, on the device: layout strings (3.4) and control
// edges (4.5).
#include <cstring>

#include "synapse/include/synapse_node_params.h"
#include "tests/synapse/fixture.h"

namespace hpu {
namespace {

using Sizes = std::vector<uint64_t>;

uint64_t Count(const Sizes& sizes) {
  uint64_t count = 1;
  for (const uint64_t size : sizes) count *= size;
  return count;
}

// The numbers are small and whole, so that sums are exact in any order.
std::vector<float> Numbers(uint64_t count, int seed) {
  std::vector<float> values;
  for (uint64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>((i * 7 + seed) % 11) - 5);
  return values;
}

// Returns values over `sizes`, whose dimensions `from` names, in the order of `to`.
std::vector<float> Reordered(const std::vector<float>& values, const Sizes& sizes,
                             const std::string& from, const std::string& to) {
  std::vector<float> result;
  std::vector<uint64_t> at(sizes.size(), 0);  // in the order of `to`
  for (uint64_t n = 0; n < values.size(); ++n) {
    uint64_t offset = 0;
    for (size_t d = sizes.size(); d-- > 0;) offset = offset * sizes[d] + at[to.find(from[d])];
    result.push_back(values[offset]);
    for (size_t i = 0; i < at.size(); ++i) {
      if (++at[i] < sizes[from.find(to[i])]) break;
      at[i] = 0;
    }
  }
  return result;
}

Sizes Reordered(const Sizes& sizes, const std::string& from, const std::string& to) {
  Sizes result;
  for (const char letter : to) result.push_back(sizes[from.find(letter)]);
  return result;
}

class NodeTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    if (!HasCompiler()) GTEST_SKIP() << "no graph compiler";
    NewGraph();
  }
  void NewGraph() {
    addresses_.clear();
    ASSERT_EQ(api_->synGraphCreate(&graph_, synDeviceGaudi2), synSuccess);
  }
  // Makes a persistent tensor in memory of its own or in the memory of an earlier tensor.
  synTensor MakeTensor(const Sizes& sizes, const std::vector<float>& values,
                       synSectionHandle section = nullptr, uint64_t address = 0) {
    const std::string name = "t" + std::to_string(addresses_.size());
    synTensor tensor = nullptr;
    EXPECT_SUCCESS(api_->synTensorHandleCreate(&tensor, graph_, DATA_TENSOR, name.c_str()));
    synTensorGeometry geometry{};
    geometry.dims = static_cast<uint32_t>(sizes.size());
    std::copy(sizes.begin(), sizes.end(), geometry.sizes);
    EXPECT_SUCCESS(api_->synTensorSetGeometry(tensor, &geometry, synGeometryMaxSizes));
    EXPECT_SUCCESS(api_->synTensorSetDeviceDataType(tensor, syn_type_float));
    if (section == nullptr) EXPECT_SUCCESS(api_->synSectionCreate(&section, 0, graph_));
    EXPECT_SUCCESS(api_->synTensorAssignToSection(tensor, section, 0));
    if (address == 0) address = Allocate(Count(sizes) * 4);
    addresses_.push_back(address);
    if (values.empty()) return tensor;
    std::vector<int32_t> bits(values.size());
    std::memcpy(bits.data(), values.data(), 4 * values.size());
    Upload(bits, address);
    return tensor;
  }
  synStatus MakeNode(const char* guid, std::vector<synTensor> in, synTensor out,
                     std::vector<const char*> in_layouts = {}, const char* out_layout = nullptr,
                     const void* params = nullptr, unsigned size = 0, synNodeId* id = nullptr) {
    synNodeId unused = 0;
    return api_->synNodeCreateWithId(graph_, in.data(), &out, static_cast<uint32_t>(in.size()), 1,
                                     params, size, guid, "node", id == nullptr ? &unused : id,
                                     in_layouts.empty() ? nullptr : in_layouts.data(), &out_layout);
  }
  std::vector<float> RunAndRead(size_t tensor, uint64_t count) {
    synRecipeHandle recipe = nullptr;
    EXPECT_SUCCESS(api_->synGraphCompile(&recipe, graph_, "nodes", nullptr));
    if (recipe == nullptr) return {};
    EXPECT_SUCCESS(Launch(recipe, addresses_));
    const std::vector<int32_t> bits = Download(addresses_[tensor], count);
    std::vector<float> values(count);
    std::memcpy(values.data(), bits.data(), 4 * count);
    return values;
  }

  synGraphHandle graph_ = nullptr;
  std::vector<uint64_t> addresses_;  // of tensors, in the order of their creation
};

class LayoutTest : public NodeTest {
 protected:
  // Returns y of a 3 x 3 convolution whose operands have the given orders, in the order CWHN.
  std::vector<float> Convolve(const std::string& x_order, const std::string& w_order,
                              const std::string& y_order) {
    NewGraph();
    const Sizes x = {3, 5, 4, 2}, w = {6, 3, 3, 3}, y = {6, 3, 2, 2};
    const synTensor input = MakeTensor(Reordered(x, "CWHN", x_order),
                                       Reordered(Numbers(Count(x), 1), x, "CWHN", x_order));
    const synTensor weight = MakeTensor(Reordered(w, "KCSR", w_order),
                                        Reordered(Numbers(Count(w), 2), w, "KCSR", w_order));
    const synTensor output = MakeTensor(Reordered(y, "CWHN", y_order), {});
    synConvolutionParams params{};
    params.kW = params.kH = 3;
    params.dW = params.dH = params.dilW = params.dilH = params.nGroups = 1;
    EXPECT_SUCCESS(MakeNode("spatial_convolution", {input, weight}, output,
                            {x_order.c_str(), w_order.c_str()}, y_order.c_str(), &params,
                            sizeof(params)));
    return Reordered(RunAndRead(2, Count(y)), Reordered(y, "CWHN", y_order), y_order, "CWHN");
  }
};

TEST_F(LayoutTest, ConvolutionsComputeInTheOrderThatIsGiven) {
  const std::vector<float> native = Convolve("CWHN", "KCSR", "CWHN");
  // Row 0, column 0, image 0, filter 0: the sum over the window's corner.
  const auto x = Numbers(3 * 5 * 4 * 2, 1), w = Numbers(6 * 3 * 3 * 3, 2);
  float sum = 0;
  for (size_t r = 0; r < 3; ++r) {
    for (size_t s = 0; s < 3; ++s) {
      for (size_t c = 0; c < 3; ++c) sum += x[(r * 5 + s) * 3 + c] * w[((r * 3 + s) * 3 + c) * 6];
    }
  }
  EXPECT_EQ(native.at(0), sum);
  EXPECT_EQ(Convolve("WHCN", "SRCK", "WHCN"), native);
  EXPECT_EQ(Convolve("NHWC", "KCSR", "CWHN"), native);
  EXPECT_EQ(Convolve("CWHN", "CKRS", "HWNC"), native);
}

TEST_F(LayoutTest, PoolingComputesInTheOrderThatIsGiven) {
  const Sizes x = {4, 2, 3, 1};
  const auto pool = [&](const std::string& order) {
    NewGraph();
    const synTensor in =
        MakeTensor(Reordered(x, "WHCN", order), Reordered(Numbers(24, 3), x, "WHCN", order));
    const synTensor out = MakeTensor(Reordered(Sizes{2, 1, 3, 1}, "WHCN", order), {});
    ns_AveragePoolingWithDivisorOverride_Params params{};
    params.kernel_w = params.kernel_h = 2;
    params.stride_w = params.stride_h = 2;
    params.dilation_w = params.dilation_h = 1;
    EXPECT_SUCCESS(MakeNode("avg_pool_2d_fwd_f32", {in}, out, {order.c_str()}, order.c_str(),
                            &params, sizeof(params)));
    return Reordered(RunAndRead(1, 6), Reordered(Sizes{2, 1, 3, 1}, "WHCN", order), order, "WHCN");
  };
  const auto native = pool("WHCN");
  const auto v = Numbers(24, 3);
  EXPECT_EQ(native.at(0), (v[0] + v[1] + v[4] + v[5]) / 4);
  EXPECT_EQ(pool("CWHN"), native);
}

TEST_F(LayoutTest, StringsThatCannotBeMeantAreRefused) {
  const synTensor x = MakeTensor({3, 5, 4, 2}, {}), w = MakeTensor({6, 3, 3, 3}, {});
  const synTensor y = MakeTensor({6, 3, 2, 2}, {}), z = MakeTensor({3, 5, 4, 2}, {});
  synConvolutionParams params{};
  params.kW = params.kH = 3;
  params.dW = params.dH = params.dilW = params.dilH = params.nGroups = 1;
  const auto convolve = [&](const char* x_order, const char* w_order, const char* y_order) {
    return MakeNode("spatial_convolution", {x, w}, y, {x_order, w_order}, y_order, &params,
                    sizeof(params));
  };
  EXPECT_STATUS(synInvalidArgument, convolve("CWH", "KCSR", "CWHN"));
  EXPECT_STATUS(synInvalidArgument, convolve("CWHH", "KCSR", "CWHN"));
  EXPECT_STATUS(synFail, convolve("CWHN", "CWHN", "CWHN"));
  EXPECT_STATUS(synFail, convolve("CWHN", "KCSR", "KCSR"));
  EXPECT_STATUS(synUnsupported, MakeNode("relu_fwd_f32", {x}, z, {"CWHN"}, "WHCN"));
  ASSERT_NE(api_->synGetLastErrorMessage(), nullptr);
  const std::string message = api_->synGetLastErrorMessage();
  EXPECT_NE(message.find("\"CWHN\" and \"WHCN\" name the same dimensions in different orders"),
            std::string::npos)
      << message;
  EXPECT_SUCCESS(MakeNode("relu_fwd_f32", {x}, z, {"CWHN"}, "CWHN"));
  EXPECT_SUCCESS(MakeNode("relu_fwd_f32", {x}, z, {""}, nullptr));
  EXPECT_SUCCESS(convolve(nullptr, "", nullptr));
}

TEST_F(LayoutTest, SizesThatContradictTheStringsFailToCompile) {
  const synTensor x = MakeTensor({3, 5, 4, 2}, {}), w = MakeTensor({6, 3, 3, 3}, {});
  const synTensor y = MakeTensor({6, 3, 2, 2}, {});  // declared in CWHN
  synConvolutionParams params{};
  params.kW = params.kH = 3;
  params.dW = params.dH = params.dilW = params.dilH = params.nGroups = 1;
  EXPECT_SUCCESS(MakeNode("spatial_convolution", {x, w}, y, {"CWHN", "KCSR"}, "WHCN", &params,
                          sizeof(params)));
  synRecipeHandle recipe = nullptr;
  EXPECT_STATUS(synFail, api_->synGraphCompile(&recipe, graph_, "r", nullptr));
  const std::string message = api_->synGetLastErrorMessage();
  EXPECT_NE(message.find("is declared with sizes"), std::string::npos) << message;
}

// Only a control edge puts the reader's node after the writer's: it sees what was written.
TEST_F(NodeTest, ControlEdgesOrderNodesThatShareMemory) {
  for (const bool edge : {false, true}) {
    NewGraph();
    synSectionHandle section = nullptr;
    EXPECT_SUCCESS(api_->synSectionCreate(&section, 0, graph_));
    const synTensor old = MakeTensor({4}, {1, 2, 3, 4}, section);
    const synTensor fresh = MakeTensor({4}, {5, 6, 7, 8});
    const synTensor updated = MakeTensor({4}, {}, section, addresses_[0]);
    const synTensor out = MakeTensor({4}, {});
    synNodeId write = 0, read = 0;
    EXPECT_SUCCESS(MakeNode("relu_fwd_f32", {fresh}, updated, {}, nullptr, nullptr, 0, &write));
    EXPECT_SUCCESS(MakeNode("neg_fwd_f32", {old}, out, {}, nullptr, nullptr, 0, &read));
    if (edge) EXPECT_SUCCESS(api_->synNodeDependencySet(graph_, &write, &read, 1, 1));
    const std::vector<float> before = {-1, -2, -3, -4}, after = {-5, -6, -7, -8};
    EXPECT_EQ(RunAndRead(3, 4), edge ? after : before);
  }
}

TEST_F(NodeTest, ControlEdgesInACycleFailToCompile) {
  const synTensor x = MakeTensor({4}, {}), y = MakeTensor({4}, {}), z = MakeTensor({4}, {});
  synNodeId first = 0, second = 0;
  EXPECT_SUCCESS(MakeNode("relu_fwd_f32", {x}, y, {}, nullptr, nullptr, 0, &first));
  EXPECT_SUCCESS(MakeNode("neg_fwd_f32", {x}, z, {}, nullptr, nullptr, 0, &second));
  EXPECT_SUCCESS(api_->synNodeDependencySet(graph_, &first, &second, 1, 1));
  EXPECT_SUCCESS(api_->synNodeDependencySet(graph_, &second, &first, 1, 1));
  synRecipeHandle recipe = nullptr;
  EXPECT_STATUS(synFail, api_->synGraphCompile(&recipe, graph_, "r", nullptr));
  const std::string message = api_->synGetLastErrorMessage();
  EXPECT_NE(message.find("control edges"), std::string::npos) << message;
}

}  // namespace
}  // namespace hpu
