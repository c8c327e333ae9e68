// The graph compiler refuses unsupported graphs without generating code, and names node and reason.
#include "synapse/include/synapse_emulator.h"
#include "tests/graph_compiler/graph_runner.h"

namespace hpu::graph_compiler {
namespace {

std::string Refusal(const GraphDesc& graph) {
  const absl::Status checked = CheckGraph(graph);
  EXPECT_EQ(CompileGraph(graph, {}).status(), checked);
  return checked.ToString();
}

GraphDesc OneNode(const std::string& guid, const std::vector<std::pair<Dims, synDataType>>& inputs,
                  const Dims& output, synDataType type = syn_type_float) {
  GraphBuilder b;
  std::vector<uint32_t> tensors;
  for (const auto& [sizes, dtype] : inputs) tensors.push_back(b.Persistent(sizes, dtype));
  b.Node(guid, tensors, {b.Persistent(output, type)});
  return b.graph;
}

template <typename T>
GraphDesc With(GraphDesc graph, const T& params) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&params);
  graph.nodes[0].params.assign(bytes, bytes + sizeof(T));
  return graph;
}

TEST(CheckTest, AGraphThatCompilesPasses) {
  EXPECT_EQ(Refusal(OneNode("gemm", {{{3, 2}, syn_type_float}, {{4, 3}, syn_type_float}}, {4, 2})),
            "OK");
}

TEST(CheckTest, AnUnknownGuidIsNamed) {
  EXPECT_EQ(Refusal(OneNode("spatial_convolution3d", {{{3}, syn_type_float}}, {3})),
            "UNIMPLEMENTED: node 'spatial_convolution3d0' (spatial_convolution3d): unknown guid");
}

TEST(CheckTest, ProductsNeedTypesOfTheMatrixEngine) {
  const std::string reason = " elements: the matrix engine multiplies f32, bf16 and f16";
  EXPECT_EQ(
      Refusal(OneNode("gemm", {{{3, 2}, syn_type_float}, {{4, 3}, syn_type_fp8_143}}, {4, 2})),
      "UNIMPLEMENTED: node 'gemm0' (gemm): second operand of f8e4m3" + reason);
  EXPECT_EQ(Refusal(OneNode("linear_fwd_f32", {{{3, 2}, syn_type_float}, {{3, 4}, syn_type_int32}},
                            {4, 2})),
            "UNIMPLEMENTED: node 'linear_fwd_f320' (linear_fwd_f32): weight of i32" + reason);
}

TEST(CheckTest, ProductsOfGroupsNeedOneMatrixEach) {
  const std::pair<Dims, synDataType> a{{3, 2}, syn_type_float}, ends{{2}, syn_type_int32};
  const std::pair<Dims, synDataType> matrix{{4, 3}, syn_type_float};
  const auto refusal = [](const GraphDesc& graph, bool inner) {
    return Refusal(With(graph, synEmulatorGroupedMatmulParams{inner}));
  };
  const std::string guid = "matmul_grouped_fwd";
  const std::string node = "node 'matmul_grouped_fwd0' (matmul_grouped_fwd): ";
  EXPECT_EQ(Refusal(OneNode(guid, {a, ends, matrix, matrix}, {4, 2})),
            "INVALID_ARGUMENT: " + node + "parameters are missing");
  EXPECT_EQ(refusal(OneNode(guid, {a, ends, matrix, matrix}, {4, 2}), false), "OK");
  EXPECT_EQ(refusal(OneNode(guid, {a, ends, matrix}, {4, 2}), false),
            "INVALID_ARGUMENT: " + node + "ends of 2 groups for 1 x [4,3]");
  EXPECT_EQ(refusal(OneNode(guid, {a, ends, matrix, matrix}, {4, 2, 2}), true),
            "INVALID_ARGUMENT: " + node + "ends of 2 groups for 2 x [4,3]");
  EXPECT_EQ(refusal(OneNode(guid, {a, {{2}, syn_type_int64}, matrix, matrix}, {4, 2}), false),
            "UNIMPLEMENTED: " + node + "ends of i64 elements where i32 is wanted");
}

TEST(CheckTest, AttentionNeedsKeys) {
  const std::pair<Dims, synDataType> query{{8, 4, 2, 1}, syn_type_float};
  const std::pair<Dims, synDataType> none{{8, 0, 2, 1}, syn_type_float};
  EXPECT_EQ(
      Refusal(With(OneNode("sdpa_fwd_f32", {query, none, none}, query.first), ns_Sdpa_Params{})),
      "UNIMPLEMENTED: node 'sdpa_fwd_f320' (sdpa_fwd_f32): attention over no keys or no features");
}

TEST(CheckTest, ATransposedConvolutionOfTooManyKernelsIsRefused) {
  // A stride of 9 x 9 needs 81 kernels; groups are not kernels of their own.
  synConvolutionParams params{};
  params.kW = params.kH = 9;
  params.dW = params.dH = 9;
  params.dilW = params.dilH = 1;
  params.nGroups = 8;
  const GraphDesc graph =
      With(OneNode("dedx", {{{8, 2, 2, 1}, syn_type_float}, {{8, 1, 9, 9}, syn_type_float}},
                   {8, 18, 18, 1}),
           params);
  EXPECT_EQ(Refusal(graph),
            "UNIMPLEMENTED: node 'dedx0' (dedx): transposed "
            "convolution of 81 phases, at most 64");
  params.kW = params.kH = 4;
  params.dW = params.dH = 4;
  EXPECT_EQ(
      Refusal(With(OneNode("dedx", {{{8, 2, 2, 1}, syn_type_float}, {{8, 1, 4, 4}, syn_type_float}},
                           {8, 8, 8, 1}),
                   params)),
      "OK");
}

}  // namespace
}  // namespace hpu::graph_compiler
