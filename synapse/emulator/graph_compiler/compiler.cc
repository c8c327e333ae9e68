#include "synapse/emulator/graph_compiler/compiler.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "synapse/emulator/graph_compiler/dump.h"
#include "synapse/emulator/graph_compiler/emit_recipe.h"
#include "synapse/emulator/graph_compiler/fusion/build_loop_kernel.h"
#include "synapse/emulator/graph_compiler/fusion/epilogues.h"
#include "synapse/emulator/graph_compiler/fusion/inline_maps.h"
#include "synapse/emulator/graph_compiler/fusion/row_groups.h"
#include "synapse/emulator/graph_compiler/fusion/split_reductions.h"
#include "synapse/emulator/graph_compiler/import/guid_table.h"
#include "synapse/emulator/graph_compiler/import/importer.h"
#include "synapse/emulator/graph_compiler/plan/phases.h"
#include "synapse/emulator/graph_compiler/plan/schedule.h"

namespace hpu::emulator {
namespace {

// A persistent output that cannot be written in place shows itself after fusion only; each round
// gives temporaries to those found.
constexpr int kMostRounds = 8;

absl::StatusOr<Schedule> FuseAndSchedule(LoopGraph& graph, const std::string& stage,
                                         const Dump& dump) {
  dump.Write("1-imported" + stage, graph);
  FusionState state(graph);
  InlineMaps(state, InlineScope::kConstants);
  FuseEpilogues(state);
  InlineMaps(state, InlineScope::kAll);
  state.Finish();
  SplitReductions(graph);
  dump.Write("2-fused" + stage, graph);
  FusionState fused(graph);
  std::vector<FusedKernel> kernels = GroupRows(fused);
  BuildLoopKernels(fused, kernels);
  return ScheduleKernels(graph, std::move(kernels));
}

// Temporaries that a phase makes for later ones.
std::vector<ValueId> ValuesBetweenPhases(const LoopGraph& graph) {
  std::vector<uint32_t> made(graph.values.size(), UINT32_MAX);
  for (const Node& node : graph.nodes) {
    for (const ValueId value : node.Writes()) made[value] = std::min(made[value], node.phase);
  }
  std::set<ValueId> between;
  for (const Node& node : graph.nodes) {
    for (const ValueId value : node.Reads()) {
      if (graph.values[value].home == Home::kWorkspace && made[value] < node.phase) {
        between.insert(value);
      }
    }
  }
  return {between.begin(), between.end()};
}

// Fuses and orders the nodes of each phase among themselves, one phase after the other.
absl::StatusOr<Schedule> SchedulePhases(LoopGraph& graph, uint32_t phases, const Dump& dump) {
  if (phases == 1) return FuseAndSchedule(graph, "", dump);
  const std::vector<ValueId> between = ValuesBetweenPhases(graph);
  const std::vector<Node> nodes = std::move(graph.nodes);
  std::vector<Node> scheduled;
  Schedule schedule;
  // While one phase is looked at, what it makes for others is no temporary of its own.
  for (const ValueId value : between) graph.values[value].home = Home::kPersistent;
  for (uint32_t phase = 0; phase < phases; ++phase) {
    graph.nodes.clear();
    std::copy_if(nodes.begin(), nodes.end(), std::back_inserter(graph.nodes),
                 [&](const Node& node) { return node.phase == phase; });
    ASSIGN_OR_RETURN(Schedule part,
                     FuseAndSchedule(graph, "-phase-" + std::to_string(phase), dump));
    schedule.must_buffer.insert(part.must_buffer.begin(), part.must_buffer.end());
    for (FusedKernel& kernel : part.kernels) {
      for (uint32_t& node : kernel.nodes) node += static_cast<uint32_t>(scheduled.size());
      schedule.kernels.push_back(std::move(kernel));
    }
    std::move(graph.nodes.begin(), graph.nodes.end(), std::back_inserter(scheduled));
  }
  for (const ValueId value : between) graph.values[value].home = Home::kWorkspace;
  graph.nodes = std::move(scheduled);
  return schedule;
}

}  // namespace

absl::StatusOr<Recipe> CompileGraph(const GraphDesc& original, const CompileOptions& options) {
  GraphDesc graph = original;
  RETURN_IF_ERROR(InferShapes(graph));
  ASSIGN_OR_RETURN(const Phases phases, PlanPhases(graph));
  const Dump dump(options.dump_dir, graph.name);
  std::set<uint32_t> buffered;
  for (int round = 0; round < kMostRounds; ++round) {
    ASSIGN_OR_RETURN(LoopGraph loops, Importer(graph, phases, buffered).Run());
    ASSIGN_OR_RETURN(Schedule schedule, SchedulePhases(loops, phases.count, dump));
    if (schedule.must_buffer.empty()) {
      return EmitRecipe(graph, loops, schedule.kernels, options, dump);
    }
    const size_t before = buffered.size();
    buffered.insert(schedule.must_buffer.begin(), schedule.must_buffer.end());
    if (buffered.size() == before) break;
  }
  return Internal("graph '", graph.name,
                  "': outputs that share memory with inputs cannot be ordered");
}

absl::Status InferShapes(GraphDesc& graph) {
  for (const NodeDesc& node : graph.nodes) {
    const std::string where = "node '" + node.name + "' (" + node.guid + ")";
    const GuidRow* row = FindGuid(node.guid, nullptr);
    if (row == nullptr) return Annotate(Unimplemented("unknown guid"), where);
    for (const uint32_t input : node.inputs) {
      if (input == kNoTensor || graph.tensors[input].sizes_known) continue;
      return Annotate(
          InvalidArgument("sizes of input '", graph.tensors[input].name, "' are not known"), where);
    }
    if (node.outputs.empty() || node.outputs[0] == kNoTensor) {
      return Annotate(InvalidArgument("output 0 is missing"), where);
    }
    auto sizes = row->infer(ShapeContext{graph, node});
    if (!sizes.ok()) return Annotate(sizes.status(), where);
    for (size_t i = 0; i < node.outputs.size() && i < sizes->size(); ++i) {
      if (node.outputs[i] == kNoTensor || (*sizes)[i].empty()) continue;
      TensorDesc& tensor = graph.tensors[node.outputs[i]];
      if (!tensor.sizes_known) {
        tensor.sizes = (*sizes)[i];
        tensor.sizes_known = true;
        continue;
      }
      uint64_t declared = 1;
      uint64_t inferred = 1;
      for (const uint64_t size : tensor.sizes) declared *= size;
      for (const uint64_t size : (*sizes)[i]) inferred *= size;
      // Only main outputs are checked: the statistics of norms have several accepted forms.
      if (i == 0 && row->exact_sizes && tensor.sizes != (*sizes)[i]) {
        return Annotate(
            InvalidArgument("output '", tensor.name, "' is declared with sizes ",
                            SizesText(tensor.sizes), ", the node makes ", SizesText((*sizes)[i])),
            where);
      }
      if (i == 0 && declared != inferred) {
        return Annotate(InvalidArgument("output '", tensor.name, "' is declared with ", declared,
                                        " elements, the node makes ", inferred),
                        where);
      }
    }
  }
  return absl::OkStatus();
}

bool IsKnownGuid(const std::string& guid) { return FindGuid(guid, nullptr) != nullptr; }

}  // namespace hpu::emulator
