// A backward is cut into recipes (lowering/parts.h), and what one makes and a later one reads is
// kept in memory between them. Where that is little arithmetic on values that are there anyway, the
// later reader calculates it again, in its own kernel:
//   %1 = sub %saved, %mean                          %1 = sub %saved, %mean
//   ... read by %2, many bytes later by %9    ==>   %2 = exp %1
//                                                   %8 = sub %saved, %mean
//                                                   %9 = mul %8, ...
// Many bytes: of donated inputs that are read for the last time and of storages that are made in
// between, more than a part's share of all.
#pragma once

#include "compiler_server/passes/pass.h"

namespace hpu::compiler {

absl::Status Rematerialize(ir::Graph& graph, const PassContext& context);

}  // namespace hpu::compiler
