#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/sample_graphs.h"

namespace hpu {
namespace {

using testing::HasSubstr;

struct Damage {
  const char* name;
  void (*damage)(CapturedGraph& graph);
  const char* message;
};
void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }

class Invalid : public testing::TestWithParam<Damage> {};

TEST_P(Invalid, SaysWhatAndWhere) {
  CapturedGraph graph = sample_graphs::Everything();
  ASSERT_TRUE(ValidateGraph(graph).ok());
  GetParam().damage(graph);
  const absl::Status status = ValidateGraph(graph);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, Invalid,
    testing::Values(
        Damage{"long name", [](CapturedGraph& g) { g.name.assign(513, 'x'); },
               "graph name of 513 bytes"},
        Damage{"long source", [](CapturedGraph& g) { g.calls[1].source.assign(9999, 'x'); },
               "call 1 (aten.t.default): source of 9999 bytes"},
        Damage{"input offset", [](CapturedGraph& g) { g.inputs[0].spec.storage_offset = 1; },
               "input 0: storage offset"},
        Damage{"input rank", [](CapturedGraph& g) { g.inputs[0].spec.sizes.push_back(1); },
               "input 0: type: 3 sizes but 2 strides"},
        Damage{"negative size", [](CapturedGraph& g) { g.inputs[0].spec.sizes[0] = -1; },
               "negative size"},
        Damage{"absurd size",
               [](CapturedGraph& g) { g.inputs[0].spec.sizes[0] = int64_t{1} << 62; },
               "out of range"},
        Damage{"constant strides", [](CapturedGraph& g) { g.constants[0].spec.strides[0] = 2; },
               "constant 0: is not row-major"},
        Damage{"constant bytes", [](CapturedGraph& g) { g.constants[0].data.push_back(0); },
               "constant 0: 3 bytes where its type has 2"},
        Damage{"unused constant",
               [](CapturedGraph& g) { std::get<ArgumentList>(g.calls[3].args[7].value).clear(); },
               "constant 0 is not used"},
        Damage{"unused schema",
               [](CapturedGraph& g) { g.schemas.push_back({"aten.x.default", {}}); },
               "schema 4 is not used"},
        Damage{"schema twice", [](CapturedGraph& g) { g.schemas[1].target = g.schemas[0].target; },
               "schema 1: aten.relu.default again"},
        Damage{"schema order",
               [](CapturedGraph& g) { std::swap(g.calls[0].schema, g.calls[1].schema); },
               "not in the order of first use"},
        Damage{"bad target", [](CapturedGraph& g) { g.schemas[0].target = "relu"; },
               "\"relu\" is not of the form namespace.op.overload"},
        Damage{"strange target", [](CapturedGraph& g) { g.schemas[0].target = "a.b\n.c"; },
               "schema 0: a target with other than letters"},
        Damage{"strange argument", [](CapturedGraph& g) { g.schemas[0].arguments[0] = "1 a"; },
               "schema 0 (aten.relu.default): the name of an argument is not valid"},
        Damage{"nameless argument", [](CapturedGraph& g) { g.schemas[2].arguments[1] = ""; },
               "schema 2 (aten.copy_.default): the name of an argument is not valid"},
        Damage{"argument count", [](CapturedGraph& g) { g.calls[2].args.pop_back(); },
               "call 2 (aten.copy_.default): 2 arguments, the schema has 3"},
        Damage{"value of the future",
               [](CapturedGraph& g) { g.calls[0].args[0].value = TensorArgument{3}; },
               "call 0 (aten.relu.default): argument a: value 3 is not defined yet"},
        Damage{"number as tensor",
               [](CapturedGraph& g) { g.calls[0].args[0].value = TensorArgument{1}; },
               "input 1 is a number"},
        Damage{"memory of a view", [](CapturedGraph& g) { g.calls[2].results[0].memory_of = 4; },
               "result 0 lies in value 4, which is not defined or has no memory of its own"},
        Damage{"memory of the future",
               [](CapturedGraph& g) { g.calls[0].results[0].memory_of = 6; }, "lies in value 6"},
        Damage{"writes another", [](CapturedGraph& g) { g.calls[2].writes = {2}; },
               "writes value 2, which is not one of its arguments"},
        Damage{"writes twice", [](CapturedGraph& g) { g.calls[2].writes = {0, 0}; },
               "not in ascending order"},
        Damage{"output list", [](CapturedGraph& g) { g.outputs[1].value = ArgumentList{}; },
               "output 1: neither a tensor"},
        Damage{"output of the future",
               [](CapturedGraph& g) { g.outputs[0].value = TensorArgument{99}; },
               "output 0: value 99"},
        Damage{"form list", [](CapturedGraph& g) { g.alias_forms.pop_back(); },
               "4 alias forms for 5 outputs"},
        Damage{"form of what owns its memory",
               [](CapturedGraph& g) { g.alias_forms[0] = AliasForm::kDetached; },
               "output 0: has an alias form, but is not a tensor in an input's memory"},
        Damage{"form of a number", [](CapturedGraph& g) { g.alias_forms[2] = AliasForm::kView; },
               "output 2: has an alias form"},
        Damage{"input without a form",
               [](CapturedGraph& g) { g.outputs[0].value = TensorArgument{0}; },
               "output 0: lies in an input's memory without an alias form"},
        Damage{"another value as the input",
               [](CapturedGraph& g) {
                 g.outputs[0].value = TensorArgument{5};
                 g.alias_forms[0] = AliasForm::kSame;
               },
               "output 0: has the alias form of an input, but is another value"}));

}  // namespace
}  // namespace hpu
