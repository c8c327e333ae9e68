// Reference interpreter: the oracle of the tests. Never the path that users run.
#pragma once

#include <vector>

#include "base/status.h"
#include "compiler_server/ir/evaluate.h"
#include "compiler_server/ir/graph.h"

namespace hpu::ir {

struct RunResult {
  std::vector<HostTensor> outputs;  // as the graph returns them; numbers as 0-d f64, None as empty
  std::vector<HostTensor> inputs;   // after mutations
};

// `inputs`: one per tensor input, in order; logical elements, whatever the strides.
absl::StatusOr<RunResult> Interpret(const Graph& graph, const std::vector<HostTensor>& inputs);

// Deterministic values that suit the type: small floats of both signs, small integers, both
// booleans.
std::vector<HostTensor> RandomInputs(const Graph& graph, uint64_t seed);

// Largest difference relative to the largest magnitude in `a` (at least 1); infinity if sizes or
// types differ or one is NaN where the other is not.
double Difference(const HostTensor& a, const HostTensor& b);

}  // namespace hpu::ir
