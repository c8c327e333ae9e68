#include "backend/custom_op/include/hpu_custom_op_pt2.h"
#include "backend/custom_op/kernel_call.h"
#include "backend/custom_op/registry.h"

namespace habana::custom_op {
namespace {

using UserRegistry = hpu::custom_op::Registry<UserCustomOpDescriptor>;

}  // namespace

UserCustomOpDescriptor::UserCustomOpDescriptor(const std::string& schema, const std::string& guid,
                                               OutputMetaFn output_meta_fn,
                                               FillParamsFn fill_params_fn)
    : schema_(schema),
      guid_(guid),
      output_meta_fn_(std::move(output_meta_fn)),
      fill_params_fn_(std::move(fill_params_fn)) {}

std::vector<at::Tensor> UserCustomOpDescriptor::execute(const std::vector<c10::IValue>& inputs) {
  TORCH_CHECK_VALUE(output_meta_fn_ != nullptr, "custom operator ", schema_,
                    " has no output function");
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : inputs) {
    if (value.isTensor()) {
      tensors.push_back(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(tensor);
    }
  }
  hpu::custom_op::FilledParams params;
  if (fill_params_fn_ != nullptr) params.data = fill_params_fn_(inputs, params.size);
  return hpu::custom_op::CallKernel(schema_, guid_, tensors, output_meta_fn_(inputs), params);
}

const UserCustomOpDescriptor& UserCustomOpDescriptor::getUserCustomOpDescriptor(
    const std::string& op) {
  return UserRegistry::Get().Find(op);
}

void registerUserCustomOp(const std::string& schema, const std::string& guid,
                          OutputMetaFn output_meta_fn, FillParamsFn fill_params_fn) {
  UserRegistry::Get().Add({schema, guid, std::move(output_meta_fn), std::move(fill_params_fn)});
}

}  // namespace habana::custom_op
