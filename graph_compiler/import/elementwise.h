// Helpers that the tables of elementwise kinds share.
#pragma once

#include "graph_compiler/import/importer.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::graph_compiler {

inline std::vector<View> AllInputs(Importer& im, size_t count) {
  std::vector<View> inputs;
  for (size_t i = 0; i < count; ++i) inputs.push_back(im.Input(i));
  return inputs;
}

// Rounds an operand of a narrow float type as storing it does. A fused reader has the unrounded
// value, and one that is not fused has the stored one. Where values are compared with each other,
// both readers must see the same value.
inline E AsStored(E x, const View& view) {
  return x.type() == ScalarType::kF32 ? RoundTo(x, view.type) : x;
}

// Computes output 0 = function(input 0).
template <typename Function>
absl::Status MapOne(Importer& im, const Function& function) {
  if (!im.HasInput(0)) return InvalidArgument("input 0 is missing");
  im.MapToOutput(0, {im.Input(0)},
                 [&](BodyBuilder&, const Args& a) -> E { return function(a[0]); });
  return absl::OkStatus();
}

// Returns a parameter that is float or integer depending on the operand.
inline double FromFint(const ns_Fint& value, E like) {
  return like.type() == ScalarType::kF32 ? static_cast<double>(value.f)
                                         : static_cast<double>(value.i);
}

}  // namespace hpu::graph_compiler
