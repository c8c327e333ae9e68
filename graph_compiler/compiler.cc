#include "graph_compiler/compiler.h"

#include "graph_compiler/emit/emit_recipe.h"
#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/import/importer.h"
#include "graph_compiler/import/phases.h"
#include "graph_compiler/pipeline.h"

namespace hpu::graph_compiler {
namespace {

absl::StatusOr<LoopGraph> Import(GraphDesc& graph) {
  RETURN_IF_ERROR(InferShapes(graph));
  ASSIGN_OR_RETURN(const Phases phases, PlanPhases(graph));
  return Importer(graph, phases).Run();
}

}  // namespace

absl::StatusOr<Recipe> CompileGraph(const GraphDesc& original, const CompileOptions& options) {
  GraphDesc graph = original;
  if (options.deterministic) {
    for (NodeDesc& node : graph.nodes) node.deterministic = true;
  }
  Compilation compilation;
  ASSIGN_OR_RETURN(compilation.graph, Import(graph));
  const Dump dump(options.dump_dir, graph.name);
  RETURN_IF_ERROR_AT(RunPipeline(compilation, options, dump), "graph '" + graph.name + "'");
  return EmitRecipe(graph, compilation.graph, compilation.kernels, compilation.prologue, options,
                    dump);
}

absl::Status CheckGraph(const GraphDesc& original) {
  GraphDesc graph = original;
  return Import(graph).status();
}

absl::Status InferShapes(GraphDesc& graph) {
  for (const NodeDesc& node : graph.nodes) {
    const std::string where = "node '" + node.name + "' (" + node.guid + ")";
    const GuidRow* row = FindRow(node, nullptr);
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
      // Sizes are checked for the main output only, because the statistics of norms have several
      // accepted forms.
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

}  // namespace hpu::graph_compiler
