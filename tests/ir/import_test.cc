#include "compiler_server/ir/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler_server/ir/text.h"
#include "tests/ir/wire_graphs.h"

namespace hpu::ir {
namespace {

using testing::HasSubstr;
using namespace testing_graphs;  // NOLINT: helpers of this folder only

std::string Printed(const wire::Graph& wire) {
  auto graph = Import(wire);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? Print(*graph) : "";
}

TEST(Import, CallsBecomeAtenNodesWithAllArguments) {
  wire::Graph wire = ReluGraph();
  wire::Node* node = wire.mutable_nodes(0);
  wire::ArgumentList* list = node->add_args()->mutable_list();
  list->add_items()->set_int_value(-1);
  list->add_items()->mutable_none();
  list->add_items()->set_value(0);
  node->add_args()->set_dtype(static_cast<uint32_t>(DType::kBF16));
  wire::NamedArgument* named = node->add_kwargs();
  named->set_name("device");
  named->mutable_argument()->set_device("cpu");
  EXPECT_THAT(Printed(wire), HasSubstr("aten \"aten.relu.default\"(%x, [-1, none, %x], dtype bf16, "
                                       "device = device \"cpu\") : f32[2,3]\n  return %0\n"));
}

TEST(Import, NamesAreMadeUniqueAndPrintable) {
  wire::Graph wire = EmptyGraph();
  AddInput(wire, 0, "L['x'].w", {1});
  AddInput(wire, 1, "L['x']_w", {1});
  AddInput(wire, 2, "", {1});
  AddInput(wire, 3, "const0", {1});
  wire.add_inputs()->set_scalar(true);
  EXPECT_THAT(Printed(wire), HasSubstr("%L__x___w: f32[1],\n    %L__x___w_: f32[1],\n    %in2_: "
                                       "f32[1],\n    %in3_const0: f32[1],\n    %in4_: scalar"));
}

TEST(Import, OutputsOverOneMemoryShareAStorage) {
  wire::Graph wire = ReluGraph();
  AddResult(AddNode(wire, "aten.t.default", {1}), 2, {3, 2}, {1, 3});
  AddResult(AddNode(wire, "aten.clone.default", {1}), 3, {2, 3});
  wire.add_outputs()->set_value(2);
  wire.add_outputs()->set_value(3);
  EXPECT_THAT(Printed(wire), HasSubstr("return %0, %0 as f32[3,2]{1,3}, %2\n"));
}

TEST(Import, OutputsThatAreInputsOrViewsOfThem) {
  wire::Graph wire = EmptyGraph();
  AddInput(wire, 0, "x", {4, 4}, {}, 100);
  wire::Node* node = AddNode(wire, "aten.slice.Tensor", {0});
  AddResult(node, 1, {4, 2}, {4, 1}, 102);
  // reshape of the slice cannot be a view, flatten of the whole can.
  AddResult(AddNode(wire, "aten.reshape.default", {1}), 2, {8});
  AddResult(AddNode(wire, "aten.flatten.using_ints", {0}), 3, {16}, {}, 100);
  for (uint32_t id : {0, 1, 2, 3}) wire.add_outputs()->set_value(id);
  EXPECT_THAT(Printed(wire), HasSubstr("return alias %x, alias %x as f32[4,2]{4,1} + 2, %1, "
                                       "alias %x as f32[16]\n"));
}

TEST(Import, CopyOntoAnInputIsAMutation) {
  wire::Graph wire = ReluGraph();
  AddResult(AddNode(wire, "aten.select.int", {0}), 2, {3}, {1}, 3);
  AddResult(AddNode(wire, "aten.sum.dim_IntList", {1}), 3, {1});
  AddResult(AddNode(wire, "aten.copy_.default", {2, 3}), 4, {3}, {1}, 3);
  AddResult(AddNode(wire, "aten.neg.default", {4}), 5, {3});
  wire.add_outputs()->set_value(5);
  wire.add_outputs()->set_value(0);
  const std::string text = Printed(wire);
  // The source is broadcast; later reads of what was written see the source.
  EXPECT_THAT(text, HasSubstr("%3 = expand %2 : f32[3]\n  %4 = aten \"aten.neg.default\"(%3)"));
  EXPECT_THAT(text, HasSubstr("mutate %x as f32[3] + 3 = %3\n  return %0, %4, alias %x\n"));
}

TEST(Import, AsStridedIsTakenOfTheMemory) {
  wire::Graph wire = EmptyGraph();
  AddInput(wire, 0, "x", {4, 4}, {}, 10);
  AddResult(AddNode(wire, "aten.select.int", {0}), 1, {4}, {1}, 14);
  wire::Node* node = AddNode(wire, "aten.as_strided.default", {1});
  node->add_args()->mutable_list()->add_items()->set_int_value(3);
  node->add_args()->mutable_list()->add_items()->set_int_value(5);
  AddResult(node, 2, {3}, {5}, 11);
  AddResult(AddNode(wire, "aten.neg.default", {2}), 3, {3});
  wire.add_outputs()->set_value(3);
  EXPECT_THAT(Printed(wire), HasSubstr("as_strided %x {offset = 1, strides = [5]} : f32[3]"));
}

TEST(Import, NumbersAndNoneAreReturned) {
  wire::Graph wire = EmptyGraph();
  wire.add_outputs()->mutable_none();
  wire.add_outputs()->set_int_value(-3);
  wire.add_outputs()->set_float_value(1.5);
  wire.add_outputs()->set_bool_value(true);
  EXPECT_THAT(Printed(wire), HasSubstr("return none, int -3, float 1.5, bool true\n"));
}

// Refusals: what is wrong, where, and with which code.
struct Refusal {
  const char* name;
  void (*damage)(wire::Graph& wire);
  absl::StatusCode code;
  const char* message;
};
void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }

class Refused : public testing::TestWithParam<Refusal> {};

TEST_P(Refused, WithAMessage) {
  wire::Graph wire = ReluGraph();
  GetParam().damage(wire);
  const auto graph = Import(wire);
  ASSERT_FALSE(graph.ok());
  EXPECT_EQ(graph.status().code(), GetParam().code) << graph.status();
  EXPECT_THAT(std::string(graph.status().message()), HasSubstr(GetParam().message));
}

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnable = absl::StatusCode::kUnimplemented;

INSTANTIATE_TEST_SUITE_P(
    All, Refused,
    testing::Values(
        Refusal{"version", [](wire::Graph& g) { g.set_version(2); }, kInvalid, "version 2"},
        Refusal{"unknown value",
                [](wire::Graph& g) { g.mutable_nodes(0)->mutable_args(0)->set_value(7); }, kInvalid,
                "node 0 aten.relu.default (model.py:12 in forward): value 7 is not defined"},
        Refusal{"cycle", [](wire::Graph& g) { g.mutable_nodes(0)->mutable_args(0)->set_value(1); },
                kInvalid, "value 1 is not defined before its use"},
        Refusal{"defined twice",
                [](wire::Graph& g) { g.mutable_nodes(0)->mutable_results(0)->set_value(0); },
                kInvalid, "value 0 is defined twice"},
        Refusal{"sparse ids",
                [](wire::Graph& g) {
                  g.mutable_nodes(0)->mutable_results(0)->set_value(4'000'000'000u);
                },
                kInvalid, "is not dense"},
        Refusal{"element type",
                [](wire::Graph& g) { g.mutable_inputs(0)->mutable_tensor()->set_dtype(99); },
                kInvalid, "input 0: element type 99"},
        Refusal{"rank",
                [](wire::Graph& g) {
                  for (int i = 0; i < 40; ++i) g.mutable_inputs(0)->mutable_tensor()->add_sizes(1);
                },
                kInvalid, "[type_c2]"},
        Refusal{"strides missing",
                [](wire::Graph& g) { g.mutable_inputs(0)->mutable_tensor()->clear_strides(); },
                kInvalid, "[type_c3]"},
        Refusal{"negative size",
                [](wire::Graph& g) { g.mutable_inputs(0)->mutable_tensor()->set_sizes(0, -1); },
                kInvalid, "[type_c4]"},
        Refusal{"absurd size",
                [](wire::Graph& g) {
                  g.mutable_inputs(0)->mutable_tensor()->set_sizes(0, int64_t{1} << 62);
                },
                kInvalid, "[type_c5]"},
        Refusal{
            "negative offset",
            [](wire::Graph& g) { g.mutable_inputs(0)->mutable_tensor()->set_storage_offset(-1); },
            kInvalid, "storage offset"},
        Refusal{"input without kind", [](wire::Graph& g) { g.add_inputs(); }, kInvalid,
                "neither tensor nor scalar"},
        Refusal{"constant of wrong size",
                [](wire::Graph& g) {
                  wire::GraphConstant* constant = g.add_constants();
                  constant->set_value(2);
                  SetType(constant->mutable_tensor(), {2});
                  constant->set_data("abc");
                },
                kInvalid, "[constant_c2]"},
        Refusal{"no target", [](wire::Graph& g) { g.mutable_nodes(0)->clear_target(); }, kInvalid,
                "no target"},
        Refusal{"list as output", [](wire::Graph& g) { g.add_outputs()->mutable_list(); }, kInvalid,
                "output 1: neither a tensor"},
        Refusal{"nested arguments",
                [](wire::Graph& g) {
                  wire::Argument* argument = g.mutable_nodes(0)->add_args();
                  for (int i = 0; i < 20; ++i) argument = argument->mutable_list()->add_items();
                  argument->set_int_value(1);
                },
                kInvalid, "nested too deep"},
        Refusal{"copy to an intermediate",
                [](wire::Graph& g) { AddNode(g, "aten.copy_.default", {1, 0}); }, kInvalid,
                "which is no input's memory"},
        Refusal{"read of stale memory",
                [](wire::Graph& g) {
                  AddResult(AddNode(g, "aten.t.default", {0}), 2, {3, 2}, {1, 3});
                  AddResult(AddNode(g, "aten.copy_.default", {0, 1}), 3, {2, 3});
                  AddResult(AddNode(g, "aten.neg.default", {2}), 4, {3, 2});
                },
                kUnable, "read after memory it lies in was written"},
        Refusal{"view outside its tensor",
                [](wire::Graph& g) {
                  AddResult(AddNode(g, "aten.slice.Tensor", {0}), 2, {6}, {2});
                  g.add_outputs()->set_value(2);
                },
                kUnable, "reaches outside"},
        Refusal{"output with gaps",
                [](wire::Graph& g) {
                  AddResult(AddNode(g, "aten.neg.default", {0}), 2, {2, 3}, {6, 2});
                  g.add_outputs()->set_value(2);
                },
                kUnable, "not dense"}));

TEST(Import, LimitsAreNamed) {
  const auto graph = Import(ReluGraph(), {.max_nodes = 0});
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(graph.status().message()), HasSubstr("1 nodes, more than 0"));
}

}  // namespace
}  // namespace hpu::ir
