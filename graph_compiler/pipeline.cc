#include "graph_compiler/pipeline.h"

#include <algorithm>
#include <chrono>
#include <sstream>

#include "graph_compiler/fusion/buffer_outputs.h"
#include "graph_compiler/fusion/build_loop_kernel.h"
#include "graph_compiler/fusion/early_copies.h"
#include "graph_compiler/fusion/epilogues.h"
#include "graph_compiler/fusion/inline_maps.h"
#include "graph_compiler/fusion/integer_products.h"
#include "graph_compiler/fusion/read_constants.h"
#include "graph_compiler/fusion/round_once.h"
#include "graph_compiler/fusion/rounded_weights.h"
#include "graph_compiler/fusion/split_reductions.h"
#include "graph_compiler/ir/verify.h"
#include "graph_compiler/plan/schedule.h"

namespace hpu::graph_compiler {
namespace {

// Runs a pass over the graph that keeps readers and writers current.
template <typename Function>
absl::Status Fuse(Compilation& compilation, const Function& function) {
  FusionState state(compilation.graph);
  function(state);
  state.Finish();
  return absl::OkStatus();
}

absl::Status RunEarlyCopies(Compilation& compilation) {
  AdvanceCopies(compilation.graph);
  return absl::OkStatus();
}

absl::Status RunBufferOutputs(Compilation& compilation) {
  BufferOutputs(compilation.graph);
  return absl::OkStatus();
}

absl::Status RunReadConstants(Compilation& compilation) {
  ReadConstants(compilation.graph);
  return absl::OkStatus();
}

absl::Status RunInlineConstants(Compilation& compilation) {
  return Fuse(compilation, [](FusionState& s) { InlineMaps(s, InlineScope::kConstants); });
}

absl::Status RunIntegerProducts(Compilation& compilation) {
  return Fuse(compilation, UseIntegerProducts);
}

absl::Status RunRoundedWeights(Compilation& compilation) {
  return Fuse(compilation, ReadRoundedWeights);
}

absl::Status RunInlineWidened(Compilation& compilation) {
  return Fuse(compilation, [](FusionState& s) { InlineMaps(s, InlineScope::kWidened); });
}

absl::Status RunEpilogues(Compilation& compilation) { return Fuse(compilation, FuseEpilogues); }

absl::Status RunInlineMaps(Compilation& compilation) {
  return Fuse(compilation, [](FusionState& s) { InlineMaps(s, InlineScope::kAll); });
}

absl::Status RunRoundOnce(Compilation& compilation) {
  RoundOnce(compilation.graph);
  return absl::OkStatus();
}

absl::Status RunSplitReductions(Compilation& compilation) {
  SplitReductions(compilation.graph);
  return absl::OkStatus();
}

absl::Status RunKernels(Compilation& compilation) {
  compilation.kernels = SingleKernels(compilation.graph);
  return absl::OkStatus();
}

absl::Status RunRowGroups(Compilation& compilation) {
  FusionState state(compilation.graph);
  GroupRows(state, compilation.kernels);
  return absl::OkStatus();
}

absl::Status RunLoops(Compilation& compilation) {
  FusionState state(compilation.graph);
  BuildLoopKernels(state, compilation.kernels);
  return absl::OkStatus();
}

absl::Status RunSchedule(Compilation& compilation) {
  return ScheduleKernels(compilation.graph, compilation.kernels);
}

absl::Status RunPrologue(Compilation& compilation) {
  compilation.prologue = MovePrologueFirst(compilation.graph, compilation.kernels);
  return absl::OkStatus();
}

constexpr Pass kPipeline[] = {
    // Runs before buffering: an early copy with a phase of its own saves a buffer.
    {"early-copies", RunEarlyCopies, true},
    {"buffer-outputs", RunBufferOutputs},  // no later pass changes which outputs must be buffered
    {"read-constants", RunReadConstants, true},
    {"inline-constants", RunInlineConstants, true},  // before epilogues, which load operands
    // Runs after constants, because scales are constants.
    {"integer-products", RunIntegerProducts, true},
    // Runs before epilogues, which would store the widened values.
    {"inline-widened", RunInlineWidened, true},
    {"rounded-weights", RunRoundedWeights, true},  // before maps, which would grow the copies
    {"epilogues", RunEpilogues, true},  // before maps, which would take a product's consumers
    {"inline-maps", RunInlineMaps, true},
    {"round-once", RunRoundOnce, true},              // after maps: products' epilogues are final
    {"split-reductions", RunSplitReductions, true},  // after maps: sizes and walks are final
    {"kernels", RunKernels},
    {"row-groups", RunRowGroups, true},
    {"loops", RunLoops},
    {"schedule", RunSchedule},
    {"prologue", RunPrologue, true},
};

absl::Status CheckDisabled(const CompileOptions& options) {
  for (const std::string& name : options.disabled_passes) {
    const auto pass = std::find_if(std::begin(kPipeline), std::end(kPipeline),
                                   [&](const Pass& p) { return p.name == name; });
    if (pass == std::end(kPipeline)) return InvalidArgument("no pass is named '", name, "'");
    if (!pass->optional) return InvalidArgument("pass '", name, "' cannot be switched off");
  }
  return absl::OkStatus();
}

absl::Status VerifyKernels(const Compilation& compilation) {
  std::vector<uint32_t> covered(compilation.graph.nodes.size(), 0);
  for (const FusedKernel& kernel : compilation.kernels) {
    for (const uint32_t node : kernel.nodes) {
      if (node >= covered.size())
        return Internal("a kernel covers node ", node, ", which does not exist");
      ++covered[node];
    }
  }
  for (size_t node = 0; node < covered.size(); ++node) {
    if (covered[node] == 1 || compilation.kernels.empty()) continue;
    return Internal("node '", compilation.graph.nodes[node].name, "' is in ", covered[node],
                    " kernels");
  }
  return absl::OkStatus();
}

std::string ToText(const Compilation& compilation) {
  std::ostringstream out;
  out << ToText(compilation.graph);
  for (const FusedKernel& kernel : compilation.kernels) {
    out << "kernel";
    for (const uint32_t node : kernel.nodes) out << ' ' << compilation.graph.nodes[node].name;
    out << '\n';
    if (!kernel.loop.passes.empty()) out << kernel.loop.Structure() << '\n';
  }
  return out.str();
}

}  // namespace

std::span<const Pass> Pipeline() { return kPipeline; }

absl::Status RunPipeline(Compilation& compilation, const CompileOptions& options,
                         const Dump& dump) {
  RETURN_IF_ERROR(CheckDisabled(options));
  std::ostringstream times;
  std::string last;
  int number = 0;
  const auto write = [&](std::string_view stage) {
    const std::string index = std::to_string(number++);
    if (!dump.enabled()) return;
    std::string text = ToText(compilation);
    if (text == last) return;
    last = std::move(text);
    dump.WriteText(index + '-' + std::string(stage), last);
  };
  write("import");
  if (options.verify) RETURN_IF_ERROR_AT(Verify(compilation.graph), "import left a bad graph");
  for (const Pass& pass : kPipeline) {
    if (options.disabled_passes.count(std::string(pass.name)) > 0) continue;
    const std::string where = "pass " + std::string(pass.name);
    const auto start = std::chrono::steady_clock::now();
    RETURN_IF_ERROR_AT(pass.run(compilation), where);
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    times << pass.name << ' ' << time.count() << " ms, " << compilation.graph.nodes.size()
          << " nodes, " << compilation.kernels.size() << " kernels\n";
    if (options.verify) {
      RETURN_IF_ERROR_AT(Verify(compilation.graph), where + " left a bad graph");
      RETURN_IF_ERROR_AT(VerifyKernels(compilation), where + " left bad kernels");
    }
    write(pass.name);
  }
  dump.WriteText("passes", times.str());
  return absl::OkStatus();
}

}  // namespace hpu::graph_compiler
