// Nodes that are kernels of the caller's own. Nothing is known about them but their operands, so
// sizes are declared, and the kernel itself checks them before the recipe's first launch.
#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/import/importer.h"

namespace hpu::graph_compiler {
namespace {

absl::StatusOr<std::vector<Sizes>> InferCustom(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, context.node.inputs.size()));
  for (size_t i = 0; i < context.node.outputs.size(); ++i) {
    if (context.node.outputs[i] == kNoTensor) return InvalidArgument("output ", i, " is missing");
    if (!context.Output(i).sizes_known) {
      return InvalidArgument("output ", i, " of a custom kernel needs declared sizes");
    }
  }
  return InferDeclared(context);
}

absl::Status ImportCustom(Importer& im) {
  const NodeDesc& desc = im.node();
  CustomCall call{desc.guid, desc.custom_version, desc.params, {}, {}};
  for (size_t i = 0; i < im.num_inputs(); ++i) {
    if (NumElements(im.Input(i).shape) == 0) {
      return Unimplemented("input ", i, " of a custom kernel has no elements");
    }
    call.inputs.push_back({im.Input(i), im.InputDesc(i).dtype});
  }
  for (size_t i = 0; i < im.num_outputs(); ++i) {
    call.outputs.push_back({im.OutputValue(i), im.OutputDesc(i).dtype});
    if (NumElements(call.outputs.back().view.shape) == 0) {
      return Unimplemented("output ", i, " of a custom kernel has no elements");
    }
  }
  Node node;
  node.domain = call.outputs[0].view.shape;
  node.kind = std::move(call);
  im.AddNode(std::move(node));
  return absl::OkStatus();
}

}  // namespace

const GuidRow& CustomKernelRow() {
  static constexpr GuidRow kRow = {"custom kernel", InferCustom, ImportCustom};
  return kRow;
}

}  // namespace hpu::graph_compiler
