// The order of all passes, which turn a captured graph into a lowerable graph (docs/ir.md, "After
// the pipeline").
#pragma once

#include <span>

#include "compiler_server/passes/pass.h"

namespace hpu::compiler {

std::span<const Pass> Pipeline();
// Returns a pass by its name; nullptr if there is none.
const Pass* FindPass(std::string_view name);

// The pipeline has two halves, between which a training graph is partitioned
// (compiler_server/partition): up to canonical ops, and from there to what can be lowered.
enum class PipelinePart : uint8_t { kWhole, kToCanonical, kToLowerable };

absl::Status RunPipeline(ir::Graph& graph, const PassContext& context = {},
                         const PassOptions& options = {}, PipelinePart part = PipelinePart::kWhole);

}  // namespace hpu::compiler
