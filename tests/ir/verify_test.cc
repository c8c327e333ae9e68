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
  const char* text;  // "(inputs) %r = op operands {attrs} : type"
};

void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.label; }

class BrokenNode : public testing::TestWithParam<Broken> {};

TEST_P(BrokenNode, IsRefusedByItsConstraint) {
  const Broken& broken = GetParam();
  std::string text = std::string("graph @g") + broken.text + " return %r }";
  text.insert(text.find(')') + 1, " {");
  const auto graph = Parse(text);
  ASSERT_FALSE(graph.ok()) << text;
  EXPECT_THAT(std::string(graph.status().message()),
              HasSubstr("[" + std::string(broken.label) + "]"));
}

// Rows of proto/ops.yaml have a node for each constraint of their own.
constexpr Broken kOfOps[] = {
#include "compiler_server/ir/refused_nodes.inc"
};
INSTANTIATE_TEST_SUITE_P(Ops, BrokenNode, testing::ValuesIn(kOfOps));

INSTANTIATE_TEST_SUITE_P(
    Rules, BrokenNode,
    testing::Values(Broken{"form_c1", "(%x: f32[2,3]) %r = relu %x, %x : f32[2,3]"},
                    Broken{"form_c2", "(%x: f32[2,3]) %r = add %x, none : f32[2,3]"},
                    Broken{"form_c3", "(%x: f32[2,3]) %r = softmax %x : f32[2,3]"},
                    Broken{"dtype_c1", "(%x: i32[2]) %r = exp %x : i32[2]"},
                    Broken{"result_c1", "(%x: f32[2,3]) %r = relu %x : f32[2,4]"},
                    Broken{"result_c1", "(%x: f32[2,3]) %r = relu %x : bf16[2,3]"},
                    Broken{"result_c2", "(%x: f32[2,3]) %r = relu %x : f32[2,3]{1,2}"},
                    Broken{"elementwise_c1", "(%x: f32[2], %y: bf16[2]) %r = add %x, %y : f32[2]"},
                    Broken{"elementwise_c2", "(%x: f32[2], %y: f32[3]) %r = add %x, %y : f32[2]"},
                    Broken{"reduce_c1", "(%x: f32[2,3]) %r = reduce_sum %x {dims = [1,0]} : f32[]"},
                    Broken{"reduce_c1", "(%x: f32[2,3]) %r = reduce_sum %x {dims = [2]} : f32[2]"},
                    Broken{"random_state_c1", "(%s: i64[] seed, %x: f32[4]) %r = relu %x : f32[4]"},
                    Broken{"random_state_c1", "(%x: f32[4], %s: i64[] seed) %r = relu %x : f32[4]"},
                    Broken{"random_state_c2",
                           "(%s: i64[] seed, %o: i64[1] offset draws 1) %r = neg %s : i64[]"},
                    Broken{"aten_c1", "(%x: f32[2,3]) %r = aten \"\"(a = %x) : f32[2,3]"},
                    Broken{"aten_c4", "(%x: f32[2,3]) %r = aten \"a.b\"(a = %x{1}) : f32[2,3]"},
                    Broken{"elementwise_c1", "(%x: bf16[2], %y: f32[1]) %r = mul %x, %y : bf16[2]"},
                    Broken{"elementwise_c1", "(%x: bf16[2], %y: f16[]) %r = mul %x, %y : bf16[2]"},
                    Broken{"elementwise_c1", "(%x: i32[2], %y: f32[]) %r = mul %x, %y : i32[2]"},
                    Broken{"result_c1", "(%x: bf16[2], %y: f32[]) %r = mul %x, %y : f32[2]"}));

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
        BrokenGraph{"form_c5",
                    "graph @g(%x: f32[3]) { %0 = topk %x {dim = 0, k = 4} : f32[4] "
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
