// dedx is the gradient of a convolution by its input, which is the transposed convolution.
#pragma once

#include "base/status.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::graph_compiler {

class Importer;

// The inputs of the node are dy [n, h, w, k] and the weight [k, c / groups, r, s] (as views,
// outermost first); output 0 is dx [n, h, w, c]. `params` are those of the forward convolution and
// have been checked.
absl::Status ImportTransposedConv(Importer& im, const synConvolutionParams& params);

}  // namespace hpu::graph_compiler
