#include "backend/torch/eager/meta_call.h"

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "backend/torch/device/allocator.h"

namespace hpu::torch_backend {
namespace {

using c10::IValue;

class MetaCall {
 public:
  IValue Argument(const IValue& value) {
    if (value.isTensor()) return ToMeta(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& item : value.toTensorList()) list.push_back(ToMeta(item));
      return list;
    }
    if (value.isDevice()) return c10::Device(c10::kMeta);
    if (value.isGenerator()) return IValue();
    if (!value.isList()) return value;
    c10::impl::GenericList list(value.toList().elementType());
    for (const IValue& item : value.toListRef()) list.push_back(Argument(item));
    return list;
  }

  IValue Result(const IValue& value) const {
    if (value.isTensor()) return ToDevice(value.toTensor());
    if (!value.isTensorList()) return value;
    c10::List<at::Tensor> list;
    for (const at::Tensor& item : value.toTensorList()) list.push_back(ToDevice(item));
    return list;
  }

 private:
  at::Tensor ToMeta(const at::Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    at::Tensor meta = at::empty_strided(tensor.sizes(), tensor.strides(),
                                        tensor.options().device(c10::kMeta).pinned_memory(false));
    known_.emplace_back(meta, tensor);
    return meta;
  }

  // Returns the argument itself for in-place and out= results.
  at::Tensor ToDevice(const at::Tensor& meta) const {
    if (!meta.defined()) return meta;
    for (const auto& [given, tensor] : known_) {
      if (given.is_same(meta)) return tensor;
    }
    return at::empty_strided(meta.sizes(), meta.strides(), meta.options().device(kHpuDevice));
  }

  std::vector<std::pair<at::Tensor, at::Tensor>> known_;
};

}  // namespace

void CallOnMeta(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  MetaCall call;
  torch::jit::Stack inner;
  const size_t count = op.schema().arguments().size();
  for (const IValue& value : torch::jit::last(*stack, count)) {
    inner.push_back(call.Argument(value));
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::Meta), &inner);
  torch::jit::drop(*stack, count);
  for (const IValue& value : inner) stack->push_back(call.Result(value));
}

}  // namespace hpu::torch_backend
