#include "backend/torch/distributed/hccl_call.h"

#include "backend/torch/device/allocator.h"
#include "backend/torch/device/pending_storage.h"
#include "backend/torch/device/run_now.h"

namespace hpu::torch_backend {
namespace {

using c10d::ReduceOp;

// Returns hcclUint8 with no elements for a type that HCCL does not know.
HcclElements ElementsOf(const at::Tensor& tensor) {
  const auto count = static_cast<size_t>(tensor.numel());
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return {hcclFloat32, count};
    case at::kBFloat16:
      return {hcclBfloat16, count};
    case at::kHalf:
      return {hcclFloat16, count};
    case at::kDouble:
      return {hcclFloat64, count};
    case at::kComplexFloat:
      return {hcclFloat32, 2 * count};
    case at::kComplexDouble:
      return {hcclFloat64, 2 * count};
    case at::kComplexHalf:
      return {hcclFloat16, 2 * count};
    case at::kInt:
      return {hcclInt32, count};
    case at::kUInt32:
      return {hcclUint32, count};
    case at::kLong:
      return {hcclInt64, count};
    case at::kUInt64:
      return {hcclUint64, count};
    case at::kChar:
      return {hcclInt8, count};
    case at::kByte:
    case at::kBool:
      return {hcclUint8, count};
    default:
      return {hcclUint8, 0};
  }
}

}  // namespace

void CheckHccl(hcclResult_t result, const std::string& call) {
  if (result == hcclSuccess) return;
  const SynapseFunctions& api = AcquiredDevice().api();
  const char* message =
      api.synGetLastErrorMessage != nullptr ? api.synGetLastErrorMessage() : nullptr;
  const bool has_message = message != nullptr && *message != '\0';
  TORCH_CHECK_WITH(DistBackendError, false, call, ": ",
                   has_message ? message : api.hcclGetErrorString(result));
}

HcclElements ElementsToMove(const at::Tensor& tensor) {
  const HcclElements elements = ElementsOf(tensor);
  if (elements.count != 0 || tensor.numel() == 0) return elements;
  return {hcclUint8, tensor.nbytes()};
}

HcclElements ElementsToReduce(const at::Tensor& tensor, const ReduceOp& reduction) {
  const HcclElements elements = ElementsOf(tensor);
  TORCH_CHECK_TYPE(elements.count != 0 || tensor.numel() == 0, "hccl cannot reduce tensors of ",
                   tensor.scalar_type());
  TORCH_CHECK_TYPE(!tensor.is_complex() || c10d::isComplexViewAsRealAllowed(reduction),
                   "hccl reduces complex tensors by sum and average only");
  return elements;
}

hcclRedOp_t ReductionOf(const ReduceOp& reduction, at::ScalarType type) {
  const bool is_bool = type == at::kBool;
  switch (reduction.op_) {
    case ReduceOp::PREMUL_SUM:
      TORCH_CHECK_TYPE(at::isFloatingType(type) || at::isComplexType(type),
                       "hccl cannot multiply tensors of ", type,
                       " by the factor of PREMUL_SUM; it takes floating-point tensors");
      return hcclSum;
    case ReduceOp::SUM:
      return is_bool ? hcclMax : hcclSum;
    case ReduceOp::PRODUCT:
      return is_bool ? hcclMin : hcclProd;
    case ReduceOp::MIN:
      return hcclMin;
    case ReduceOp::MAX:
      return hcclMax;
    case ReduceOp::AVG:
      TORCH_CHECK_TYPE(!is_bool, "hccl cannot average booleans");
      return hcclAvg;
    default:
      TORCH_CHECK_VALUE(false,
                        "hccl has no such reduction: it has SUM, PREMUL_SUM, AVG, PRODUCT, MIN and "
                        "MAX");
  }
}

std::vector<at::Tensor> Premultiplied(const std::vector<at::Tensor>& tensors,
                                      const ReduceOp& reduction) {
  if (reduction.op_ != ReduceOp::PREMUL_SUM) return tensors;
  const auto* supplement =
      static_cast<const c10d::PreMulSumSupplement*>(reduction.supplement_.get());
  std::vector<at::Tensor> products;
  products.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    products.push_back(supplement->tensor_factor.defined()
                           ? tensor.mul(supplement->tensor_factor).to(tensor.scalar_type())
                           : tensor.mul(supplement->double_factor));
  }
  return products;
}

void CheckForCollective(const at::Tensor& tensor, const char* call, bool is_written) {
  TORCH_CHECK_VALUE(tensor.device().type() == c10::DeviceType::HPU, call,
                    ": backend hccl takes tensors on hpu, and one is on ", tensor.device());
  TORCH_CHECK_VALUE(tensor.layout() == c10::Layout::Strided, call,
                    ": backend hccl takes dense tensors, and one has the layout ", tensor.layout());
  TORCH_CHECK_VALUE(!is_written || at::has_internal_overlap(tensor) != at::MemOverlap::Yes, call,
                    ": it writes a tensor with sizes ", tensor.sizes(), " and strides ",
                    tensor.strides(), ", whose elements share memory; pass a clone of it");
}

std::vector<WrittenCopy> MakeRowMajor(const char* call, std::vector<at::Tensor>* inputs,
                                      std::vector<at::Tensor>* outputs) {
  for (const at::Tensor& input : *inputs) BeforeAccess(input.storage(), call);
  for (const at::Tensor& output : *outputs) BeforeAccess(output.storage(), call);
  const CallsRunNow run_now;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (at::Tensor& input : *inputs) input = input.contiguous();
  std::vector<WrittenCopy> written;
  for (at::Tensor& output : *outputs) {
    if (output.is_contiguous()) continue;
    // Some collectives read what they write, and some ranks write nothing.
    written.push_back({output, output.contiguous()});
    output = written.back().copy;
  }
  return written;
}

void CopyBack(const std::vector<WrittenCopy>& written) {
  const CallsRunNow run_now;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  for (const auto& [tensor, copy] : written) at::Tensor(tensor).copy_(copy);
}

}  // namespace hpu::torch_backend
