// If key and value heads were repeated, one copy for each query head, attention reads them
// unrepeated:
//   %1 = reshape %k : [2,2,1,n,d] ; %2 = expand %1 : [2,2,4,n,d] ; %3 = reshape %2 : [2,8,n,d]
//   %r = sdpa %q, %3, ...         ==>      %r = sdpa %q, %k, ...
// A gradient of the copies that is only summed over them is replaced by that sum. A mask that was
// expanded is read unexpanded, too.
#pragma once

#include "base/status.h"
#include "compiler_server/ir/graph.h"

namespace hpu::compiler {

absl::Status ReadRepeatedHeads(ir::Graph& graph);

}  // namespace hpu::compiler
