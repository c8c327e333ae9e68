#include "backend/torch/programs/copy_to_host.h"

#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {
namespace {

at::Tensor CopyToHost(const at::Tensor& x, at::IntArrayRef strides) {
  return at::empty_strided(x.sizes(), strides, x.options().device(at::kCPU)).copy_(x);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(hpu, library) {
  library.def("copy_to_host(Tensor x, int[] strides) -> Tensor");
}
TORCH_LIBRARY_IMPL(hpu, HPU, library) { library.impl("copy_to_host", TORCH_FN(CopyToHost)); }

}  // namespace hpu::torch_backend
