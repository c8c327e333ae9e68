// The order of all passes: captured graph in, lowerable graph out (docs/ir.md, "After the
// pipeline").
#pragma once

#include <span>

#include "compiler_server/passes/pass.h"

namespace hpu::compiler {

std::span<const Pass> Pipeline();
// A pass by its name; nullptr if there is none.
const Pass* FindPass(std::string_view name);

absl::Status RunPipeline(ir::Graph& graph, const PassContext& context = {},
                         const PassOptions& options = {});

}  // namespace hpu::compiler
