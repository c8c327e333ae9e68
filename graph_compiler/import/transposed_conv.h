// dedx: the gradient of a convolution by its input, which is the transposed convolution.
#pragma once

#include "base/status.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::graph_compiler {

class Importer;

// Inputs of the node: dy [n, h, w, k] and weights [k, c / groups, r, s] (as views, outermost
// first); output 0: dx [n, h, w, c]. `params` are those of the forward convolution, checked.
absl::Status ImportTransposedConv(Importer& im, const synConvolutionParams& params);

}  // namespace hpu::graph_compiler
