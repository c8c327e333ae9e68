#include "graph_compiler/emit/custom_kernels.h"

namespace hpu::graph_compiler {
namespace {

// The device's order of dimensions is the reverse of a view's.
CustomOperand DescribeOperand(const CustomCall::Operand& operand) {
  const View& view = operand.view;
  return {operand.dtype, std::vector<uint64_t>(view.shape.rbegin(), view.shape.rend()),
          std::vector<int64_t>(view.strides.rbegin(), view.strides.rend())};
}

}  // namespace

CustomKernel MakeCustomKernel(const Node& node) {
  const auto& call = std::get<CustomCall>(node.kind);
  CustomKernel kernel;
  kernel.guid = call.guid;
  kernel.version = call.version;
  kernel.params.assign(call.params.begin(), call.params.end());
  for (const auto& input : call.inputs) kernel.inputs.push_back(DescribeOperand(input));
  for (const auto& output : call.outputs) kernel.outputs.push_back(DescribeOperand(output));
  return kernel;
}

KernelLaunch MakeCustomLaunch(const Node& node, const std::function<OperandRef(ValueId)>& place) {
  const auto& call = std::get<CustomCall>(node.kind);
  KernelLaunch launch;
  launch.name = node.name;
  for (const auto* list : {&call.inputs, &call.outputs}) {
    for (const CustomCall::Operand& operand : *list) {
      const View& view = operand.view;
      OperandRef ref = place(view.value);
      const auto element = static_cast<uint64_t>(MemoryTypeSize(view.type));
      ref.offset += static_cast<uint64_t>(view.offset) * element;
      launch.operands.push_back(ref);
      launch.bytes += static_cast<uint64_t>(NumElements(view.shape)) * element;
    }
  }
  return launch;
}

}  // namespace hpu::graph_compiler
