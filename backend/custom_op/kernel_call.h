// Calls a kernel by its GUID: the operator hpu::custom_kernel, which _torch defines
// (backend/torch/record/custom_kernel.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/custom_op/include/hpu_custom_op_pt2.h"

namespace hpu::custom_op {

// Returns the version of a kernel of GC_KERNEL_PATH, or 0 if none has the GUID.
using FindVersion = int64_t (*)(const std::string& guid);
// _torch calls this once, when it is loaded.
HPU_CUSTOM_OP_API void SetFindVersion(FindVersion find);

// The parameters that a function of the user's filled.
struct FilledParams {
  std::shared_ptr<void> data;  // may be null
  size_t size = 0;
};

// Throws c10::Error, with the operator's name, for arguments that are wrong.
std::vector<at::Tensor> CallKernel(const std::string& op, const std::string& guid,
                                   const std::vector<at::Tensor>& inputs,
                                   const habana::PartialOutputMetaDataVector& outputs,
                                   const FilledParams& params);

}  // namespace hpu::custom_op
