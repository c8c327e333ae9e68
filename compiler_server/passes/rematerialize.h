// A backward is cut into recipes (lowering/parts.h), and a value that one makes and a later one
// reads stays in memory between them. If it takes little arithmetic on values that exist anyway,
// the later reader calculates it again, in its own kernel:
//   %1 = sub %saved, %mean                          %1 = sub %saved, %mean
//   ... read by %2, many bytes later by %9    ==>   %2 = exp %1
//                                                   %8 = sub %saved, %mean
//                                                   %9 = mul %8, ...
// "Many bytes" means donated inputs that are read for the last time and storages that are made in
// between, with more bytes than a part's share of all.
#pragma once

#include "compiler_server/passes/pass.h"

namespace hpu::compiler {

absl::Status Rematerialize(ir::Graph& graph, const PassContext& context);

}  // namespace hpu::compiler
