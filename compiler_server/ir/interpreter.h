// The reference interpreter is the oracle of the tests. Users never run it.
#pragma once

#include <vector>

#include "base/status.h"
#include "compiler_server/ir/evaluate.h"
#include "compiler_server/ir/graph.h"

namespace hpu::ir {

struct RunResult {
  std::vector<HostTensor> outputs;  // what the graph returns; numbers as 0-d f64, None as empty
  std::vector<HostTensor> inputs;   // after mutations
};

// `inputs` has one entry per tensor input, in order, with the logical elements, whatever the
// strides.
absl::StatusOr<RunResult> Interpret(const Graph& graph, const std::vector<HostTensor>& inputs);

// Makes deterministic values that suit the type: small floats of both signs, small integers, both
// booleans.
std::vector<HostTensor> RandomInputs(const Graph& graph, uint64_t seed);

// The largest difference relative to the largest magnitude in `a` (at least 1). It is infinity if
// sizes or types differ, or if only one of two elements is NaN.
double Difference(const HostTensor& a, const HostTensor& b);

}  // namespace hpu::ir
