#include <algorithm>

#include "backend/custom_op/include/hpu_custom_op.h"
#include "backend/custom_op/kernel_call.h"
#include "backend/custom_op/registry.h"

namespace habana::custom_op {
namespace {

using DescribedRegistry = hpu::custom_op::Registry<HabanaCustomOpDescriptor>;

std::vector<at::Tensor> TensorsAmong(const HabanaCustomOpDescriptor& op,
                                     const std::vector<c10::IValue>& arguments) {
  std::vector<bool> described(arguments.size(), false);
  std::vector<at::Tensor> tensors;
  for (const InputDesc& input : op.getInputs()) {
    TORCH_CHECK_VALUE(input.index < arguments.size() && !described[input.index], op.getSchemaName(),
                      ": input index ", input.index, " is used twice, or is not below ",
                      arguments.size(), ", the number of arguments");
    described[input.index] = true;
    if (input.type != input_type::TENSOR) continue;
    TORCH_CHECK_VALUE(arguments[input.index].isTensor(), op.getSchemaName(), ": argument ",
                      input.index, " is described as a tensor and is none");
    tensors.push_back(arguments[input.index].toTensor());
  }
  return tensors;
}

// Returns the kernel's outputs in its own order.
PartialOutputMetaDataVector OutputsOf(const HabanaCustomOpDescriptor& op,
                                      const std::vector<c10::IValue>& arguments) {
  PartialOutputMetaDataVector outputs(op.getOutputsSize());
  for (const OutputDesc& output : op.getOutputs()) {
    TORCH_CHECK_VALUE(
        output.index < outputs.size() && outputs[output.index].dtype == at::ScalarType::Undefined,
        op.getSchemaName(), ": output index ", output.index,
        " is used twice, or is not below the number of outputs");
    PartialOutputMetaData& meta = outputs[output.index];
    meta.dtype = output.dtype;
    if (output.compute_output_shape_func != nullptr) {
      meta.shape = output.compute_output_shape_func(arguments);
    } else {
      TORCH_CHECK_VALUE(!arguments.empty() && arguments[0].isTensor(), op.getSchemaName(),
                        ": argument 0 is no tensor, so output ", output.index,
                        " needs a function for its sizes");
      meta.shape = arguments[0].toTensor().sizes().vec();
    }
  }
  return outputs;
}

}  // namespace

HabanaCustomOpDescriptor::HabanaCustomOpDescriptor(NodeDesc node_desc,
                                                   const std::vector<InputDesc>& inputs,
                                                   const std::vector<OutputDesc>& outputs)
    : node_desc_(std::move(node_desc)), inputs_(inputs), outputs_(outputs) {}

std::vector<at::Tensor> HabanaCustomOpDescriptor::execute(const std::vector<c10::IValue>& inputs) {
  TORCH_CHECK_VALUE(inputs.size() == inputs_.size(), getSchemaName(), ": ", inputs_.size(),
                    " inputs are described, and the call has ", inputs.size());
  const std::vector<at::Tensor> tensors = TensorsAmong(*this, inputs);
  hpu::custom_op::FilledParams params;
  if (hasUserParamsFunc()) params.data = node_desc_.user_param_func(inputs, params.size);
  const std::vector<at::Tensor> made = hpu::custom_op::CallKernel(
      getSchemaName(), getGuid(), tensors, OutputsOf(*this, inputs), params);
  std::vector<at::Tensor> results;
  for (const OutputDesc& output : outputs_) results.push_back(made[output.index]);
  return results;
}

const HabanaCustomOpDescriptor HabanaCustomOpDescriptor::getCustomOpDescriptor(std::string op) {
  return DescribedRegistry::Get().Find(op);
}

void registerKernel(HabanaCustomOpDescriptor& new_desc) { DescribedRegistry::Get().Add(new_desc); }

}  // namespace habana::custom_op
