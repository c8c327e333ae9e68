// The operators example::soft_clip and example::soft_clip_backward, which call the kernels of
// soft_clip_kernels.c. The same file serves a card.
#include <torch/library.h>

#include "hpu_custom_op_pt2.h"
#include "soft_clip.h"

namespace {

using habana::custom_op::UserCustomOpDescriptor;

// The result is like the first tensor. The last argument is the limit.
habana::PartialOutputMetaDataVector OutputMeta(const at::Stack& arguments) {
  const at::Tensor& x = arguments[0].toTensor();
  return {{x.scalar_type(), x.sizes().vec()}};
}

std::shared_ptr<void> FillParams(const at::Stack& arguments, size_t& size) {
  HPU_PARAMS_STUB(SoftClipParams);
  params->limit = static_cast<float>(arguments.back().toDouble());
  return params;
}

at::Tensor Call(const char* op, const std::vector<c10::IValue>& arguments) {
  UserCustomOpDescriptor descriptor = UserCustomOpDescriptor::getUserCustomOpDescriptor(op);
  return descriptor.execute(arguments)[0];
}

at::Tensor SoftClip(const at::Tensor& x, double limit) {
  return Call("example::soft_clip", {x, limit});
}

at::Tensor SoftClipBackward(const at::Tensor& gradient, const at::Tensor& x, double limit) {
  return Call("example::soft_clip_backward", {gradient, x, limit});
}

// torch.compile asks these for the results' sizes.
at::Tensor SoftClipMeta(const at::Tensor& x, double /*limit*/) {
  return at::empty(x.sizes(), x.options());
}

at::Tensor SoftClipBackwardMeta(const at::Tensor& gradient, const at::Tensor& /*x*/,
                                double /*limit*/) {
  return at::empty(gradient.sizes(), gradient.options());
}

}  // namespace

TORCH_LIBRARY(example, m) {
  m.def("soft_clip(Tensor x, float limit) -> Tensor");
  m.def("soft_clip_backward(Tensor gradient, Tensor x, float limit) -> Tensor");
  habana::custom_op::registerUserCustomOp("example::soft_clip", "soft_clip_fwd_f32", OutputMeta,
                                          FillParams);
  habana::custom_op::registerUserCustomOp("example::soft_clip_backward", "soft_clip_bwd_f32",
                                          OutputMeta, FillParams);
}

TORCH_LIBRARY_IMPL(example, HPU, m) {
  m.impl("soft_clip", &SoftClip);
  m.impl("soft_clip_backward", &SoftClipBackward);
}

TORCH_LIBRARY_IMPL(example, Meta, m) {
  m.impl("soft_clip", &SoftClipMeta);
  m.impl("soft_clip_backward", &SoftClipBackwardMeta);
}
