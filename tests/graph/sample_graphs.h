// Captured graphs for tests, made by the builder.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph_builder.h"

namespace hpu::sample_graphs {

inline TensorSpec Spec(const std::vector<int64_t>& sizes, std::vector<int64_t> strides = {},
                       int64_t offset = 0, DType dtype = DType::kF32) {
  if (strides.empty()) {
    strides.resize(sizes.size());
    int64_t stride = 1;
    for (size_t i = sizes.size(); i-- > 0;) {
      strides[i] = stride;
      stride *= sizes[i];
    }
  }
  return {dtype, sizes, std::move(strides), offset};
}

inline uint32_t AddInput(GraphBuilder& builder, const std::string& name, TensorSpec spec,
                         bool on_cpu = false) {
  return builder.AddInput({.spec = std::move(spec), .on_cpu = on_cpu, .name = name});
}

// Adds a call whose arguments are tensors "a", "b", ...
inline uint32_t AddCall(GraphBuilder& builder, const std::string& target,
                        std::initializer_list<uint32_t> values,
                        std::vector<CapturedResult> results) {
  OpSchema schema{target, {}};
  CapturedCall call;
  for (const uint32_t value : values) {
    schema.arguments.emplace_back(1, static_cast<char>('a' + schema.arguments.size()));
    call.args.emplace_back().value = TensorArgument{value};
  }
  call.results = std::move(results);
  call.source = "model.py:12 in forward";
  return builder.AddCall(schema, std::move(call));
}

inline Argument Tensor(uint32_t value) { return {TensorArgument{value}}; }

// The graph has relu(x) of [2, 3], its transpose, x.copy_(relu), and a constant of two bytes.
inline CapturedGraph Everything() {
  GraphBuilder builder("everything");
  const uint32_t x = AddInput(builder, "x", Spec({2, 3}));
  builder.AddInput({.kind = CapturedInput::Kind::kScalar, .spec = {}, .name = "n"});
  const uint32_t c = builder.AddConstant({Spec({2}, {}, 0, DType::kU8), Bytes{0xAB, 0xCD}});
  const uint32_t y = AddCall(builder, "aten.relu.default", {x}, {{Spec({2, 3}), kOwnMemory}});
  AddCall(builder, "aten.t.default", {y}, {{Spec({3, 2}, {1, 3}), y}});
  CapturedCall copy;
  copy.args = {Tensor(x), Tensor(y), {false}};
  copy.results = {{Spec({2, 3}), x}};
  copy.writes = {x};
  builder.AddCall({"aten.copy_.default", {"self", "src", "non_blocking"}}, copy);
  CapturedCall mixed;
  mixed.args = {{NoneArgument{}},
                {int64_t{-3}},
                {1.5},
                {std::string("text")},
                {DTypeArgument{DType::kBF16}},
                {EnumArgument{"channels_last"}},
                {DeviceArgument{"hpu"}},
                {ArgumentList{Tensor(c), {int64_t{1}}, {ArgumentList{{true}}}}}};
  mixed.results = {{Spec({}), kOwnMemory}};
  mixed.draws_random = true;
  const uint32_t z =
      builder.AddCall({"custom.op.out", {"n", "i", "f", "s", "d", "m", "v", "l"}}, mixed);
  builder.SetOutputs({Tensor(z), {NoneArgument{}}, {int64_t{7}}, {2.5}, {true}});
  return builder.Finish().value();
}

}  // namespace hpu::sample_graphs
