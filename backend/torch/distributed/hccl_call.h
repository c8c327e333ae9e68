// Calls of HCCL with PyTorch's tensors and errors.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

#include "backend/torch/pytorch/unstable_torch.h"
#include "synapse/include/hccl.h"

namespace hpu::torch_backend {

// Throws torch.distributed.DistBackendError with the library's message unless `result` is success.
void CheckHccl(hcclResult_t result, const std::string& call);

// How elements travel: in `type`, of which a tensor has `count`.
struct HcclElements {
  hcclDataType_t type = hcclUint8;
  size_t count = 0;
};
// For moving elements any type will do, so types that HCCL lacks travel as bytes.
HcclElements ElementsToMove(const at::Tensor& tensor);
// Throws for types that HCCL cannot reduce. Complex numbers are pairs of real ones.
HcclElements ElementsToReduce(const at::Tensor& tensor, const c10d::ReduceOp& reduction);
// Throws for reductions that HCCL lacks. Booleans are bytes, of which the sum is their maximum;
// what Premultiplied returns is summed.
hcclRedOp_t ReductionOf(const c10d::ReduceOp& reduction, at::ScalarType type);

// Returns what is reduced: for PREMUL_SUM the tensors times its factor, for others the tensors.
std::vector<at::Tensor> Premultiplied(const std::vector<at::Tensor>& tensors,
                                      const c10d::ReduceOp& reduction);

// Prepares a tensor whose memory a collective of that name uses: it is on hpu, its elements lie
// without gaps, and recorded calls that touch it are queued. Throws otherwise.
void CheckForCollective(const at::Tensor& tensor, const char* call);

inline void* Data(const at::Tensor& tensor) { return const_cast<void*>(tensor.const_data_ptr()); }

}  // namespace hpu::torch_backend
