// Checks the constraints of docs/ir.md and docs/ops.md by their labels.
#include "compiler_server/ir/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler_server/ir/text.h"

namespace hpu::ir {
namespace {

using testing::HasSubstr;

struct Broken {
  const char* label;
  const char* inputs;
  const char* node;  // "op operands {attrs} : type"
};

void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.label; }

class BrokenNode : public testing::TestWithParam<Broken> {};

TEST_P(BrokenNode, IsRefusedByItsConstraint) {
  const Broken& broken = GetParam();
  const std::string text =
      std::string("graph @g(") + broken.inputs + ") { %r = " + broken.node + " return %r }";
  const auto graph = Parse(text);
  ASSERT_FALSE(graph.ok()) << text;
  EXPECT_THAT(std::string(graph.status().message()),
              HasSubstr("[" + std::string(broken.label) + "]"));
}

// A node with three results.
TEST(AttentionsGradient, FitsTheForward) {
  const auto message = [](const std::string& inputs, const std::string& operands) {
    const std::string q = "f32[1,2,3,4]";
    const auto graph =
        Parse("graph @g(%q: " + q + ", " + inputs + ") { %a, %b, %c = sdpa_backward " + operands +
              " {scale = 1.0} : " + q + ", " + q + ", " + q + " return %a }");
    return std::string(graph.status().message());
  };
  EXPECT_EQ(message("%l: f32[1,2,3,1]", "%q, %q, %q, %q, %q, %l"), "");
  EXPECT_THAT(message("%l: f32[1,2,3,1]", "%l, %q, %q, %q, %q, %l"),
              HasSubstr("[sdpa_backward_c1]"));
  EXPECT_THAT(message("%l: f32[1,2,3]", "%q, %q, %q, %q, %q, %l"), HasSubstr("[sdpa_backward_c2]"));
}

// These are nodes with three results, too.
TEST(AttentionInTraining, DrawsWhereItDrops) {
  const auto message = [](const std::string& operands, const std::string& keep) {
    const auto graph =
        Parse("graph @g(%q: f32[1,2,3,4], %s: i64[2]) { %a, %b, %c = sdpa_train %q, %q, %q" +
              operands + " {base = 0, keep = " + keep +
              ", scale = 1.0} : f32[1,2,3,4], f32[1,2,3,1], f32[1,2,3,1] return %a }");
    return std::string(graph.status().message());
  };
  EXPECT_EQ(message("", "1.0"), "");
  EXPECT_THAT(message("", "1.5"), HasSubstr("[sdpa_train_c1]"));
  EXPECT_THAT(message("", "0.5"), HasSubstr("[sdpa_train_c2]"));
  EXPECT_THAT(message(", none, %s, %s", "0.5"), HasSubstr("[sdpa_train_c3]"));
}

constexpr const char* kX = "%x: f32[2,3]";
constexpr const char* kXI = "%x: f32[2,3], %i: i64[2]";

INSTANTIATE_TEST_SUITE_P(
    All, BrokenNode,
    testing::Values(
        Broken{"form_c1", kX, "relu %x, %x : f32[2,3]"},
        Broken{"form_c2", kX, "add %x, none : f32[2,3]"},
        Broken{"form_c3", kX, "softmax %x : f32[2,3]"},
        Broken{"dtype_c1", "%x: i32[2]", "exp %x : i32[2]"},
        Broken{"result_c1", kX, "relu %x : f32[2,4]"},
        Broken{"result_c1", kX, "relu %x : bf16[2,3]"},
        Broken{"result_c2", kX, "relu %x : f32[2,3]{1,2}"},
        Broken{"elementwise_c1", "%x: f32[2], %y: bf16[2]", "add %x, %y : f32[2]"},
        Broken{"elementwise_c2", "%x: f32[2], %y: f32[3]", "add %x, %y : f32[2]"},
        Broken{"where_c1", "%x: f32[2]", "where %x, %x, %x : f32[2]"},
        Broken{"dim_c1", kX, "softmax %x {dim = 2} : f32[2,3]"},
        Broken{"reduce_c1", kX, "reduce_sum %x {dims = [1,0]} : f32[]"},
        Broken{"reduce_c1", kX, "reduce_sum %x {dims = [2]} : f32[2]"},
        Broken{"reduce_c2", kX, "argmax %x {dims = [0,1]} : i64[]"},
        Broken{"norm_c1", kX, "layer_norm %x {axes = 3, eps = 0.1} : f32[2,3]"},
        Broken{"norm_c2", kX, "layer_norm %x, %x {axes = 1, eps = 0.1} : f32[2,3]"},
        Broken{"matmul_c1", "%x: f32[3]", "matmul %x, %x : f32[]"},
        Broken{"matmul_c2", kX, "matmul %x, %x : f32[2,3]"},
        Broken{"matmul_c3", "%x: f32[2,2], %y: bf16[2,2]", "matmul %x, %y : f32[2,2]"},
        Broken{"matmul_c4", "%x: f32[2,3,3], %y: f32[4,3,3]", "matmul %x, %y : f32[2,3,3]"},
        Broken{"matmul_quantized_c1", "%x: f32[3], %w: i8[2,3]",
               "matmul_quantized %x, %w : f32[2]"},
        Broken{"matmul_quantized_c2", "%x: f32[2,3], %w: u8[2,3]",
               "matmul_quantized %x, %w : f32[2,2]"},
        Broken{"matmul_quantized_c3", "%x: f32[2,3], %w: i8[2,4]",
               "matmul_quantized %x, %w : f32[2,2]"},
        Broken{"matmul_quantized_c4", "%x: f32[2,3], %w: i8[2,3], %s: f32[2,2]",
               "matmul_quantized %x, %w, %s : f32[2,2]"},
        Broken{"window_c1", "%x: f32[1,2]",
               "conv %x, %x {dilation = [], groups = 1, pads = [], stride = []} : f32[1,2]"},
        Broken{"window_c2", "%x: f32[1,4,4,2]",
               "avg_pool %x {ceil = false, count_padding = false, divisor = 0, kernel = [2,2], "
               "pads = [0,0,0,0], stride = [0,1]} : f32[1,3,3,2]"},
        Broken{"window_c3", "%x: f32[1,4,4,2]",
               "avg_pool %x {divisor = 0, kernel = [2,2], pads = [0,0], stride = [1,1]} : "
               "f32[1,3,3,2]"},
        Broken{"window_c4", "%x: f32[1,4,4,2]",
               "max_pool %x {dilation = [0,1], kernel = [2,2], pads = [0,0,0,0], stride = [1,1]} : "
               "f32[1,3,3,2]"},
        Broken{"window_c5", "%x: f32[1,4,4,2]",
               "avg_pool %x {divisor = 0, kernel = [2], pads = [0,0,0,0], stride = [1,1]} : "
               "f32[1,3,3,2]"},
        Broken{"pool_c1", "%x: f32[1,4,4,2]",
               "avg_pool %x {divisor = 0, kernel = [5,5], pads = [0,0,0,0], stride = [1,1]} : "
               "f32[1,1,1,2]"},
        Broken{"max_pool_gradient_c1", "%g: f32[1,3,2,2], %i: i64[1,2,2,2], %x: f32[1,4,4,2]",
               "max_pool_gradient %g, %i, %x {ceil = false, dilation = [1,1], kernel = [2,2], "
               "pads = [0,0,0,0], stride = [2,2]} : f32[1,4,4,2]"},
        Broken{"max_pool_gradient_c2", "%g: f32[1,2,2,2], %x: f32[1,4,4,2]",
               "max_pool_gradient %g, %g, %x {ceil = false, dilation = [1,1], kernel = [2,2], "
               "pads = [0,0,0,0], stride = [2,2]} : f32[1,4,4,2]"},
        Broken{"conv_c1", "%x: f32[1,4,4,2], %w: bf16[1,1,2,2]",
               "conv %x, %w {dilation = [1,1], groups = 1, pads = [0,0,0,0], stride = [1,1]} : "
               "f32[1,4,4,2]"},
        Broken{"conv_c2", "%x: f32[1,4,4,2], %w: f32[1,2,2]",
               "conv %x, %w {dilation = [1,1], groups = 1, pads = [0,0,0,0], stride = [1,1]} : "
               "f32[1,4,4,2]"},
        Broken{"conv_c3", "%x: f32[1,4,4,2], %w: f32[1,1,3,2]",
               "conv %x, %w {dilation = [1,1], groups = 1, pads = [0,0,0,0], stride = [1,1]} : "
               "f32[1,4,4,2]"},
        Broken{"conv_c4", "%x: f32[1,2,2,2], %w: f32[3,3,2,2]",
               "conv %x, %w {dilation = [1,1], groups = 1, pads = [0,0,0,0], stride = [1,1]} : "
               "f32[1,1,1,2]"},
        Broken{"conv_transpose_c3", "%x: f32[1,2,2,2], %w: f32[3,3,2,2]",
               "conv_transpose %x, %w {dilation = [1,1], groups = 1, pads = [0,0,0,0], "
               "stride = [1,1]} : f32[1,5,5,2]"},
        Broken{"conv_weight_gradient_c1", "%dy: f32[1,2,2,2], %x: f32[1,2,2,2]",
               "conv_weight_gradient %dy, %x {dilation = [1,1], groups = 1, pads = [0,0,0,0], "
               "stride = [1,1]} : f32[1,2,2]"},
        Broken{"conv_weight_gradient_c2", "%dy: f32[1,2,2,2], %x: f32[1,2,2,2]",
               "conv_weight_gradient %dy, %x {dilation = [1,1], groups = 2, pads = [0,0,0,0], "
               "stride = [1,1]} : f32[1,1,2,2]"},
        Broken{"conv_weight_gradient_c3", "%dy: f32[1,2,2,2], %x: f32[1,2,2,2]",
               "conv_weight_gradient %dy, %x {dilation = [1,1], groups = 1, pads = [0,0,0,0], "
               "stride = [1,1]} : f32[3,3,2,2]"},
        Broken{"sdpa_c1", kX, "sdpa %x, %x, %x {scale = 1.0} : f32[2,3]"},
        Broken{"sdpa_c3", "%q: f32[1,2,3,4], %k: f32[1,2,3,5]",
               "sdpa %q, %k, %k {scale = 1.0} : f32[1,2,3,5]"},
        Broken{"sdpa_c4", "%q: f32[1,3,3,4], %k: f32[1,2,3,4]",
               "sdpa %q, %k, %k {scale = 1.0} : f32[1,3,3,4]"},
        Broken{"sdpa_c5", "%q: f32[1,2,3,4], %m: f32[4]",
               "sdpa %q, %q, %q, %m {scale = 1.0} : f32[1,2,3,4]"},
        Broken{"reshape_c1", kX, "reshape %x : f32[5]"},
        Broken{"permute_c1", kX, "permute %x {perm = [0,0]} : f32[2,2]"},
        Broken{"expand_c1", kX, "expand %x : f32[3,3]"},
        Broken{"slice_c1", kX, "slice %x {limits = [2], starts = [0], steps = [1]} : f32[2,3]"},
        Broken{"slice_c2", kX,
               "slice %x {limits = [3,3], starts = [0,0], steps = [1,1]} : f32[3,3]"},
        Broken{"concat_c2", "%x: f32[2,3], %y: f32[3,2]", "concat %x, %y {dim = 0} : f32[5,3]"},
        Broken{"pad_c1", kX, "pad %x {high = [0], low = [0], value = 0.0} : f32[2,3]"},
        Broken{"pad_c2", kX, "pad %x {high = [0,0], low = [-1,0], value = 0.0} : f32[1,3]"},
        Broken{"strided_c1", kX, "as_strided %x {offset = 0, strides = [1]} : f32[2,3]"},
        Broken{"strided_c2", kX, "as_strided %x {offset = 0, strides = [-1]} : f32[2]"},
        Broken{"strided_c3", kX, "as_strided %x {offset = 1, strides = [1]} : f32[6]"},
        Broken{"index_c1", kX, "gather %x, %x {dim = 0} : f32[2,3,3]"},
        Broken{"gather_elements_c1", kXI, "gather_elements %x, %i {dim = 0} : f32[2]"},
        Broken{"scatter_c1", kXI, "scatter_add %x, %i, %x {dim = 0} : f32[2,3]"},
        Broken{"scatter_c1", kXI, "scatter %x, %i, %x {dim = 0} : f32[2,3]"},
        Broken{"iota_c1", kX, "iota {start = 0.0, step = 1.0} : i32[2,2]"},
        Broken{"random_c1", kXI, "random_uniform %i, %i {base = 0} : f32[4]"},
        Broken{"random_c2", "%s: i64[] seed, %o: i64[] offset draws 1",
               "random_uniform %s, %o {base = -1} : f32[4]"},
        Broken{"random_c3", "%s: i64[] seed, %o: i64[] offset draws 1",
               "random_uniform %s, %o {base = 0} : i64[4]"},
        Broken{"random_state_c1", "%s: i64[] seed, %x: f32[4]", "relu %x : f32[4]"},
        Broken{"random_state_c1", "%x: f32[4], %s: i64[] seed", "relu %x : f32[4]"},
        Broken{"random_state_c2", "%s: i64[] seed, %o: i64[1] offset draws 1", "neg %s : i64[]"},
        Broken{"resize_c1", kX, "adaptive_avg_pool %x : f32[2,3]"},
        Broken{"aten_c1", kX, "aten \"\"(a = %x) : f32[2,3]"},
        Broken{"aten_c4", kX, "aten \"a.b\"(a = %x{1}) : f32[2,3]"},
        Broken{"elementwise_c1", "%x: bf16[2], %y: f32[1]", "mul %x, %y : bf16[2]"},
        Broken{"elementwise_c1", "%x: bf16[2], %y: f16[]", "mul %x, %y : bf16[2]"},
        Broken{"elementwise_c1", "%x: i32[2], %y: f32[]", "mul %x, %y : i32[2]"},
        Broken{"result_c1", "%x: bf16[2], %y: f32[]", "mul %x, %y : f32[2]"}));

struct BrokenGraph {
  const char* label;
  const char* text;
};
void PrintTo(const BrokenGraph& broken, std::ostream* out) { *out << broken.label; }

class BrokenBorder : public testing::TestWithParam<BrokenGraph> {};

TEST_P(BrokenBorder, IsRefusedByItsConstraint) {
  const auto graph = Parse(GetParam().text);
  ASSERT_FALSE(graph.ok());
  EXPECT_THAT(std::string(graph.status().message()),
              HasSubstr("[" + std::string(GetParam().label) + "]"));
}

INSTANTIATE_TEST_SUITE_P(
    All, BrokenBorder,
    testing::Values(
        BrokenGraph{"topk_c1",
                    "graph @g(%x: f32[3]) { %0, %1 = topk %x {dim = 0, k = 4} : f32[4], i64[4] "
                    "return %0 }"},
        BrokenGraph{"form_c5",
                    "graph @g(%x: f32[3]) { %0 = topk %x {dim = 0, k = 4} : f32[4] "
                    "return %0 }"},
        BrokenGraph{"dim_c1",
                    "graph @g(%x: f32[3]) { %0, %1 = cummax %x {dim = 1} : f32[3], i64[3] "
                    "return %0 }"},
        BrokenGraph{"result_c1",
                    "graph @g(%x: f32[3]) { %0, %1 = cummin %x {dim = 0} : f32[3], f32[3] "
                    "return %0 }"},
        BrokenGraph{"type_c4", "graph @g(%x: f32[2]{-1}) { return %x }"},
        BrokenGraph{"type_c5", "graph @g(%x: f32[1099511627776,2]) { return none }"},
        // The number of elements is 2^64.
        BrokenGraph{"type_c5", "graph @g(%x: f32[1099511627776,16777216]{0,0}) { return none }"},
        BrokenGraph{"type_c5", "graph @g(%x: f32[1048577]{1099511627776}) { return none }"},
        BrokenGraph{"constant_c2", "graph @g() { const %c : f32[2] = 0x00000000 return %c }"},
        BrokenGraph{"mutation_c2",
                    "graph @g(%x: f32[4], %y: f32[3]) { mutate %x as f32[2] = %y return none }"},
        BrokenGraph{
            "view_c1",
            "graph @g(%x: f32[4], %y: f32[3]) { mutate %x as f32[3] + 2 = %y return none }"},
        BrokenGraph{"view_c1", "graph @g(%x: f32[4]) { return alias %x as f32[5] }"},
        BrokenGraph{"output_c3", "graph @g(%x: f32[4]) { return alias %x as f32[3] form same }"},
        BrokenGraph{"storage_c1", "graph @g(%x: f32[4]) { return %x in f32[5] }"},
        BrokenGraph{"storage_c2", "graph @g(%x: f32[2,2]) { return %x in f32[2,2]{4,1} }"},
        BrokenGraph{"output_c2", "graph @g(%x: f32[4]) { return %x as i32[4] }"}));

TEST(Verify, UseBeforeDefinition) {
  Graph graph("g");
  Value* x = graph.AddInput("x", Contiguous(DType::kF32, {2}));
  Node* first = graph.AddNode(OpKind::kRelu, {x}, {}, {x->type});
  Node* second = graph.AddNode(OpKind::kExp, {first->result()}, {}, {x->type});
  graph.ReturnValue(second->result());
  EXPECT_TRUE(Verify(graph).ok());
  graph.SetOrder({second, first});
  EXPECT_THAT(std::string(Verify(graph).message()), HasSubstr("[order_c1]"));
}

TEST(Verify, MessagesNameNodeAndSource) {
  Graph graph("g");
  Value* x = graph.AddInput("x", Contiguous(DType::kF32, {2}));
  Node* node = graph.AddNode(OpKind::kRelu, {x}, {}, {Contiguous(DType::kF32, {3})});
  node->source = graph.AddSource("model.py:12 in forward");
  EXPECT_THAT(std::string(Verify(graph).message()),
              HasSubstr("node 0 relu (model.py:12 in forward): [result_c1]"));
}

}  // namespace
}  // namespace hpu::ir
