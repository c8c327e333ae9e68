// Registers operators of the user's own whose kernel has a GUID, for eager and lazy mode and for
// torch.compile (docs/custom_kernels.md). An operator is registered once, before its first call:
//
//   habana::custom_op::registerUserCustomOp("custom_op::scale", "scale_fwd_f32", outputs, params);
//
// and its kernel for HPU calls
//
//   habana::custom_op::UserCustomOpDescriptor::getUserCustomOpDescriptor("custom_op::scale")
//       .execute(arguments);
#pragma once

#include "hpu_custom_op_common.h"

namespace habana {

// Type and sizes of a result, which is row-major.
struct PartialOutputMetaData {
  at::ScalarType dtype{at::ScalarType::Undefined};
  std::vector<int64_t> shape{};
};
using PartialOutputMetaDataVector = std::vector<PartialOutputMetaData>;

namespace custom_op {

// Both functions get the arguments of the call. They see sizes and types of tensors, but no
// elements: in a graph that is being captured the tensors have none. They must depend on nothing
// else, and may run on any thread.
//
// Returns what the kernel's outputs are like, in its order.
using OutputMetaFn = std::function<PartialOutputMetaDataVector(const at::Stack&)>;
// Returns the kernel's parameter struct, and sets its size in bytes. Padding counts as content:
// make the struct with HPU_PARAMS_STUB.
using FillParamsFn = std::function<std::shared_ptr<void>(const at::Stack&, size_t&)>;

class HPU_CUSTOM_OP_API UserCustomOpDescriptor {
 public:
  UserCustomOpDescriptor() = default;
  UserCustomOpDescriptor(const std::string& schema, const std::string& guid,
                         OutputMetaFn output_meta_fn, FillParamsFn fill_params_fn = nullptr);

  // Calls the kernel with the tensors among `inputs`, in their order; numbers reach it through the
  // parameters alone. Returns its outputs. Throws c10::Error for wrong arguments, for a GUID that
  // neither the device nor a library of GC_KERNEL_PATH has, and without a compile server.
  std::vector<at::Tensor> execute(const std::vector<c10::IValue>& inputs);

  // Throws c10::Error for an operator that is not registered. The reference stays valid.
  static const UserCustomOpDescriptor& getUserCustomOpDescriptor(const std::string& op);

  const std::string& getSchemaName() const { return schema_; }
  const std::string& getGuid() const { return guid_; }
  const OutputMetaFn& getOutputMetaFn() const { return output_meta_fn_; }
  const FillParamsFn& getFillParamsFn() const { return fill_params_fn_; }

 private:
  std::string schema_;
  std::string guid_;
  OutputMetaFn output_meta_fn_;
  FillParamsFn fill_params_fn_;
};

// `schema` is the operator's name in TORCH_LIBRARY ("custom_op::scale"). `fill_params_fn` may be
// null. Throws c10::Error for a name that is registered with another GUID. Thread-safe.
HPU_CUSTOM_OP_API void registerUserCustomOp(const std::string& schema, const std::string& guid,
                                            OutputMetaFn output_meta_fn,
                                            FillParamsFn fill_params_fn);

}  // namespace custom_op
}  // namespace habana
