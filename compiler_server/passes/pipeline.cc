#include "compiler_server/passes/pipeline.h"

#include <algorithm>

#include "compiler_server/passes/attention.h"
#include "compiler_server/passes/canonicalize.h"
#include "compiler_server/passes/decompose.h"
#include "compiler_server/passes/fold.h"
#include "compiler_server/passes/layout.h"
#include "compiler_server/passes/memory.h"
#include "compiler_server/passes/merge_products.h"
#include "compiler_server/passes/products.h"
#include "compiler_server/passes/quantized_weights.h"
#include "compiler_server/passes/rematerialize.h"
#include "compiler_server/passes/simplify.h"

namespace hpu::compiler {
namespace {

constexpr Pass kPipeline[] = {
    {"canonicalize", Canonicalize},  // an unused reader must not keep a call from becoming ops
    {"decompose", Decompose},        // early, because the other passes see IR ops
    {"canonicalize", Canonicalize},  // equal scalars and views become one, so that rules see them
    {"simplify", Simplify},          // before folding: expanded constants are not worth storing
    {"attention", RecogniseAttention},  // after simplify: keys are transposed by the product
    {"canonicalize", Canonicalize},     // the unused nodes of attention must not be saved
    // kToLowerable begins here.
    {"quantized-weights", RecogniseQuantizedWeights},
    {"merge-products", MergeProducts},
    {"products", JoinProducts},  // after partition: what it joins is saved and used piece by piece
    {"fold", FoldConstants},
    {"memory", MakeMemoryExplicit},  // before layout, which moves its permutes as well
    {"layout", MovePermutes},
    {"simplify", Simplify},          // for permutes that met, and transposes before matrix products
    {"canonicalize", Canonicalize},  // drops what the other passes left unused
    {"rematerialize", Rematerialize},         // after canonicalize, which would undo its copies
    {"eager-operands", LayOutEagerOperands},  // last, because the other passes drop copies
};

constexpr size_t kPassesToCanonical = 6;

std::span<const Pass> PassesOf(PipelinePart part) {
  const std::span<const Pass> all = kPipeline;
  switch (part) {
    case PipelinePart::kToCanonical:
      return all.first(kPassesToCanonical);
    case PipelinePart::kToLowerable:
      return all.subspan(kPassesToCanonical);
    case PipelinePart::kWhole:
      break;
  }
  return all;
}

}  // namespace

std::span<const Pass> Pipeline() { return kPipeline; }

const Pass* FindPass(std::string_view name) {
  for (const Pass& pass : kPipeline) {
    if (pass.name == name) return &pass;
  }
  return nullptr;
}

absl::Status RunPipeline(ir::Graph& graph, const PassContext& context, const PassOptions& options,
                         PipelinePart part) {
  RETURN_IF_ERROR(CheckPassNames(kPipeline, options.disabled));
  PassOptions of_part = options;
  std::erase_if(of_part.disabled, [&](const std::string& name) {
    const auto named = [&](const Pass& pass) { return pass.name == name; };
    return std::ranges::none_of(PassesOf(part), named);
  });
  return RunPasses(graph, PassesOf(part), context, of_part);
}

}  // namespace hpu::compiler
