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

// Where calls of HCCL are queued.
struct HcclQueue {
  const SynapseFunctions& api;
  hcclComm_t comm;
  synStreamHandle stream;
};

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

// Throws unless a collective of that name can take the tensor: it is dense and on hpu. A tensor
// that is written must have memory of its own for each element.
void CheckForCollective(const at::Tensor& tensor, const char* call, bool is_written);

// A tensor that a collective writes, and the copy that it writes instead.
struct WrittenCopy {
  at::Tensor tensor;
  at::Tensor copy;
};
// Elements travel in row-major order, because ranks may lay the same tensor out differently.
// Replaces tensors that lie otherwise by row-major copies, which the current stream makes. Recorded
// calls that touch the tensors are queued.
std::vector<WrittenCopy> MakeRowMajor(const char* call, std::vector<at::Tensor>* inputs,
                                      std::vector<at::Tensor>* outputs);
// Copies back what was written; the current stream does it.
void CopyBack(const std::vector<WrittenCopy>& written);

inline void* Data(const at::Tensor& tensor) { return const_cast<void*>(tensor.const_data_ptr()); }

}  // namespace hpu::torch_backend
