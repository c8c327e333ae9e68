#include "backend/torch/eager/kernels.h"

#include <torch/library.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "backend/runtime/copy.h"
#include "backend/runtime/stream.h"
#include "backend/torch/device/allocator.h"
#include "backend/torch/device/errors.h"
#include "backend/torch/device/pending_storage.h"
#include "backend/torch/device/run_now.h"
#include "backend/torch/eager/cpu_call.h"
#include "backend/torch/eager/fallback.h"
#include "backend/torch/eager/host_access.h"
#include "backend/torch/eager/own_kernel.h"
#include "backend/torch/pytorch/unstable_torch.h"
#include "base/parallel.h"

namespace hpu::torch_backend {
namespace {

using at::IntArrayRef;
using at::Tensor;

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::HPU);

void CheckFactory(std::optional<at::Layout> layout, std::optional<at::Device> device,
                  std::optional<bool> pin_memory) {
  TORCH_CHECK(c10::layout_or_default(layout) == c10::Layout::Strided,
              "hpu tensors are strided; layout ", c10::layout_or_default(layout),
              " is not supported");
  TORCH_CHECK(!c10::pinned_memory_or_default(pin_memory),
              "Cannot pin a hpu tensor; only dense CPU tensors can be pinned");
  if (device.has_value()) CheckDeviceIndex(device->index());
}

c10::Allocator* AllocatorOfEmpty() {
  if (!LeavesOutMemory()) return &GetDeviceAllocator();
  CurrentStream();  // throws where there is no device, as an allocation would
  return &GetPendingAllocator();
}

Tensor Empty(IntArrayRef size, std::optional<at::ScalarType> dtype,
             std::optional<at::Layout> layout, std::optional<at::Device> device,
             std::optional<bool> pin_memory, std::optional<at::MemoryFormat> format) {
  CheckFactory(layout, device, pin_memory);
  return at::detail::empty_generic(size, AllocatorOfEmpty(), kKeys, c10::dtype_or_default(dtype),
                                   format);
}

Tensor EmptyStrided(IntArrayRef size, IntArrayRef stride, std::optional<at::ScalarType> dtype,
                    std::optional<at::Layout> layout, std::optional<at::Device> device,
                    std::optional<bool> pin_memory) {
  CheckFactory(layout, device, pin_memory);
  return at::detail::empty_strided_generic(size, stride, AllocatorOfEmpty(), kKeys,
                                           c10::dtype_or_default(dtype));
}

// A tensor without memory whose elements are 0, as forward-mode differentiation makes for a
// tensor without a tangent. PyTorch replaces it by real zeros where its elements are read.
Tensor EfficientZeros(IntArrayRef size, std::optional<at::ScalarType> dtype,
                      std::optional<at::Layout> layout, std::optional<at::Device> device,
                      std::optional<bool> pin_memory) {
  CheckFactory(layout, device, pin_memory);
  at::native::ZeroTensorAllocator allocator(kHpuDevice);
  return at::detail::empty_generic(size, &allocator,
                                   kKeys | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor),
                                   c10::dtype_or_default(dtype), std::nullopt);
}

const Tensor& Resize(const Tensor& self, IntArrayRef size, std::optional<at::MemoryFormat> format) {
  if (self.sizes() != size) ResizeTensor(self.unsafeGetTensorImpl(), size, std::nullopt);
  if (format.has_value()) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve,
                "resize_: memory_format preserve_format is not supported");
    self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }
  return self;
}

Tensor& SetStorage(Tensor& self, at::Storage source, int64_t offset, IntArrayRef size,
                   IntArrayRef stride) {
  at::native::checkSetStorage(self, std::move(source), offset, size, stride);
  self.unsafeGetTensorImpl()->set_storage_offset(offset);
  const at::OptionalIntArrayRef strides =
      stride.data() != nullptr ? at::OptionalIntArrayRef(stride) : std::nullopt;
  ResizeTensor(self.unsafeGetTensorImpl(), size, strides);
  return self;
}

Tensor& SetEmpty(Tensor& self) {
  return SetStorage(self, NewStorage(0), 0, IntArrayRef{0}, IntArrayRef{});
}

void RecordStream(Tensor& self, c10::Stream stream) {
  BeforeAccess(self.storage(), "record_stream");
  GetDeviceAllocator().recordStream(self.storage().data_ptr(), stream);
}

// Returns true if the elements of both lie in memory in the same order without gaps, so that
// bytes can be copied.
bool SameLayout(const Tensor& a, const Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.is_conj() == b.is_conj() &&
         a.is_neg() == b.is_neg() && a.is_non_overlapping_and_dense() &&
         (a.strides() == b.strides() || (a.is_contiguous() && b.is_contiguous()));
}

// The bytes that one core copies where the host writes device memory itself. Most of the time of
// a model's first copy is the first touch of its pages, which cores can do in parallel.
// (at::parallel_for is serial in sources compiled without OpenMP, as these are.)
constexpr size_t kParallelCopyBytes = 1 << 20;

void CopyDirectly(runtime::Stream& stream, const Tensor& source, const Tensor& target) {
  const uint64_t device = AddressOf(target.data_ptr());
  const char* host = static_cast<const char*>(source.const_data_ptr());
  const size_t bytes = target.nbytes();
  const size_t pieces = std::max<size_t>(1, bytes / kParallelCopyBytes);
  ParallelFor(pieces, static_cast<size_t>(at::get_num_threads()), [&](size_t piece) {
    const size_t begin = bytes / pieces * piece;
    const size_t end = piece + 1 == pieces ? bytes : bytes / pieces * (piece + 1);
    Check(runtime::CopyToDevice(stream, device + begin, host + begin, end - begin));
  });
}

void CopyFromHost(const Tensor& source, const Tensor& target, bool non_blocking) {
  runtime::Stream& stream = CurrentStream();
  const bool direct_write = stream.device().properties().host_addressable;
  if (SameLayout(source, target) && direct_write && !non_blocking) {
    CopyDirectly(stream, source, target);
  } else if (SameLayout(source, target)) {
    Check(runtime::CopyToDevice(stream, AddressOf(target.data_ptr()), source.const_data_ptr(),
                                target.nbytes(), non_blocking));
  } else if (!direct_write && target.is_non_overlapping_and_dense()) {
    const Tensor staged =
        at::empty_strided(target.sizes(), target.strides(), target.options().device(at::kCPU));
    staged.copy_(source);
    Check(runtime::CopyToDevice(stream, AddressOf(target.data_ptr()), staged.const_data_ptr(),
                                target.nbytes()));
  } else {
    HostAccess host;
    host.ToHost(target, /*written=*/true).copy_(source);
    host.Finish();
  }
}

void CopyToHost(const Tensor& source, const Tensor& target, bool non_blocking) {
  runtime::Stream& stream = CurrentStream();
  const bool direct_read = stream.device().properties().host_addressable;
  if (SameLayout(source, target)) {
    Check(runtime::CopyToHost(stream, target.mutable_data_ptr(), AddressOf(source.data_ptr()),
                              source.nbytes(), non_blocking));
  } else if (!direct_read && source.is_non_overlapping_and_dense()) {
    Tensor staged =
        at::empty_strided(source.sizes(), source.strides(), source.options().device(at::kCPU));
    Check(runtime::CopyToHost(stream, staged.mutable_data_ptr(), AddressOf(source.data_ptr()),
                              source.nbytes()));
    staged.unsafeGetTensorImpl()->_set_conj(source.is_conj());
    staged.unsafeGetTensorImpl()->_set_neg(source.is_neg());
    target.copy_(staged);
  } else {
    HostAccess host;
    target.copy_(host.ToHost(source, /*written=*/false));
  }
}

void CopyWithinDevice(const Tensor& source, const Tensor& target) {
  if (source.data_ptr() == target.data_ptr() && SameLayout(source, target)) return;
  if (SameLayout(source, target)) {
    Check(runtime::CopyOnDevice(CurrentStream(), AddressOf(target.data_ptr()),
                                AddressOf(source.data_ptr()), target.nbytes()));
    return;
  }
  HostAccess host;
  const Tensor from = host.ToHost(source, /*written=*/false);
  host.ToHost(target, /*written=*/true).copy_(from);
  host.Finish();
}

Tensor CopyFrom(const Tensor& self, const Tensor& target, bool non_blocking) {
  TORCH_CHECK(self.defined() && target.defined(), "copy_ of an undefined tensor");
  if (target.numel() == 0) return target;
  // Kernels run below autograd, so the CPU copies inside must stay below it, too.
  const at::AutoDispatchBelowADInplaceOrView guard;
  const Tensor source = self.sizes() == target.sizes() ? self : self.expand(target.sizes());
  constexpr char kCopy[] = "a copy from or to the CPU";
  const runtime::QueueingCall queueing(CurrentStream());
  if (IsHpu(source)) BeforeAccess(source.storage(), kCopy, runtime::Access::kRead);
  if (IsHpu(target)) BeforeAccess(target.storage(), kCopy);
  if (source.device().type() == c10::DeviceType::HPU) {
    if (target.device().type() == c10::DeviceType::HPU) {
      CopyWithinDevice(source, target);
    } else {
      TORCH_CHECK(target.device().is_cpu(), "cannot copy from hpu to ", target.device());
      CopyToHost(source, target, non_blocking);
    }
  } else {
    TORCH_CHECK(source.device().is_cpu(), "cannot copy from ", source.device(), " to hpu");
    // The copy asks how far the stream is. Recorded calls that are left do not use this memory.
    const CallsRunNow run_now;
    CopyFromHost(source, target, non_blocking);
  }
  return target;
}

// Returns whether two tensors are the same elements, as those of `x[:, 0] += 1` are, which Python
// copies back to `x[:, 0]`.
bool IsSameView(const Tensor& x, const Tensor& y) {
  if (x.is_same(y)) return true;
  if (!x.has_storage() || !y.has_storage()) return false;
  return x.storage().is_alias_of(y.storage()) && x.storage_offset() == y.storage_offset() &&
         x.sizes() == y.sizes() && x.strides() == y.strides() &&
         x.scalar_type() == y.scalar_type() && x.is_conj() == y.is_conj() &&
         x.is_neg() == y.is_neg();
}

// Registered beside _copy_from: tensors with the conjugate or negative bit reach this kernel
// unchanged, while _copy_from would resolve the bit first; resolving copies, and the copy would
// call _copy_from again.
Tensor& Copy(Tensor& self, const Tensor& source, bool non_blocking) {
  if (IsSameView(self, source)) return self;
  at::assert_no_partial_overlap(self, source);
  CopyFrom(source, self, non_blocking);
  return self;
}

Tensor CopyFromAndResize(const Tensor& self, const Tensor& target) {
  target.resize_(self.sizes());
  return CopyFrom(self, target, /*non_blocking=*/false);
}

at::Scalar LocalScalar(const Tensor& self) {
  TORCH_CHECK(self.numel() == 1, "a Tensor with ", self.numel(),
              " elements cannot be converted to Scalar");
  const at::AutoDispatchBelowADInplaceOrView guard;
  const runtime::QueueingCall queueing(CurrentStream());
  BeforeAccess(self.storage(), "aten::_local_scalar_dense (item())", runtime::Access::kRead);
  if (AcquiredDevice().properties().host_addressable) {
    HostAccess access;
    return at::native::_local_scalar_dense_cpu(access.ToHost(self, /*written=*/false));
  }
  Tensor host = at::empty(self.sizes(), self.options().device(at::kCPU));
  Check(runtime::CopyToHost(CurrentStream(), host.mutable_data_ptr(), AddressOf(self.data_ptr()),
                            host.nbytes()));
  host.unsafeGetTensorImpl()->_set_conj(self.is_conj());
  host.unsafeGetTensorImpl()->_set_neg(self.is_neg());
  return host.item();
}

// The device fills with patterns of 1, 2 or 4 bytes; an 8-byte element fits if its halves are
// equal.
bool FillDense(const Tensor& self, const void* element) {
  if (!self.is_non_overlapping_and_dense()) return false;
  const auto* bytes = static_cast<const uint8_t*>(element);
  size_t width = self.element_size();
  while (width > 4 && std::memcmp(bytes, bytes + width / 2, width / 2) == 0) width /= 2;
  if (width > 4) return false;
  uint32_t pattern = 0;
  std::memcpy(&pattern, bytes, width);
  Check(runtime::FillOnDevice(CurrentStream(), AddressOf(self.data_ptr()), pattern,
                              static_cast<uint32_t>(width), self.nbytes() / width));
  return true;
}

Tensor& Fill(Tensor& self, const at::Scalar& value) {
  if (self.numel() == 0) return self;
  const runtime::QueueingCall queueing(CurrentStream());
  BeforeAccess(self.storage(), "aten::fill_");
  const at::AutoDispatchBelowADInplaceOrView guard;
  // This is PyTorch's own conversion, which refuses values that the type cannot hold, unless
  // there is only one element.
  const Tensor element =
      at::full({std::min<int64_t>(self.numel(), 2)}, value, self.options().device(at::kCPU));
  if (FillDense(self, element.const_data_ptr())) return self;
  if (AcquiredDevice().properties().host_addressable) {
    HostAccess access;
    access.ToHost(self, /*written=*/true).fill_(value);
    access.Finish();
    return self;
  }
  return at::native::call_fallback_fn<&RunOnCpu, ATEN_OP2(fill_, Scalar)>::call(self, value);
}

Tensor& Zero(Tensor& self) { return Fill(self, 0); }

// A copy within the device that is more than a copy of bytes.
bool CopyComputes(c10::ArrayRef<c10::IValue> arguments) {
  const Tensor& target = arguments[0].toTensor();
  const Tensor& source = arguments[1].toTensor();
  return IsHpu(target) && IsHpu(source) && target.numel() > 0 && !IsSameView(target, source) &&
         !(target.sizes() == source.sizes() && SameLayout(source, target));
}

// The device fills dense memory by itself, with patterns of at most four bytes.
bool FillComputes(c10::ArrayRef<c10::IValue> arguments) {
  const Tensor& self = arguments[0].toTensor();
  if (self.numel() == 0) return false;
  if (!self.is_non_overlapping_and_dense()) return true;
  const at::Scalar value = arguments.size() > 1 ? arguments[1].toScalar() : at::Scalar(0);
  uint64_t bits = 0;
  if (self.scalar_type() == at::kLong && !value.isComplex()) {
    bits = static_cast<uint64_t>(value.toLong());
  } else if (self.scalar_type() == at::kDouble && !value.isComplex()) {
    bits = std::bit_cast<uint64_t>(value.toDouble());
  }
  return bits >> 32 != (bits & 0xffffffff);
}

}  // namespace

void ResizeTensor(c10::TensorImpl* tensor, IntArrayRef size, at::OptionalIntArrayRef stride) {
  size_t bytes = 0;
  if (stride.has_value()) {
    tensor->set_sizes_and_strides(size, *stride);
    bytes = at::detail::computeStorageNbytes(size, *stride, tensor->itemsize(),
                                             tensor->storage_offset());
  } else {
    tensor->set_sizes_contiguous(size);
    bytes = at::detail::computeStorageNbytesContiguous(size, tensor->itemsize(),
                                                       tensor->storage_offset());
  }
  if (tensor->numel() == 0) return;
  c10::StorageImpl* storage = tensor->unsafe_storage().unsafeGetStorageImpl();
  if (bytes > storage->nbytes()) ResizeStorage(storage, bytes);
}

std::vector<OwnKernel> CopyKernels() {
  using c10::KernelFunction;
  return {
      {"aten::copy_", KernelFunction::makeFromUnboxedRuntimeFunction(&Copy), OwnKernel::Kind::kHost,
       &CopyComputes},
      {"aten::fill_.Scalar", KernelFunction::makeFromUnboxedRuntimeFunction(&Fill),
       OwnKernel::Kind::kHost, &FillComputes},
      {"aten::zero_", KernelFunction::makeFromUnboxedRuntimeFunction(&Zero), OwnKernel::Kind::kHost,
       &FillComputes},
  };
}

c10::Storage NewStorage(size_t bytes) {
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes, &GetDeviceAllocator(),
                      /*resizable=*/true);
}

void ResizeStorage(c10::StorageImpl* storage, size_t bytes) {
  TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
  if (storage->nbytes() == 0 && LeavesOutMemory()) {
    storage->set_data_ptr_noswap(GetPendingAllocator().allocate(bytes));
    storage->set_nbytes(bytes);
    return;
  }
  const runtime::QueueingCall queueing(CurrentStream());
  BeforeAccess(storage, "a change of a storage's size");
  c10::DataPtr fresh = GetDeviceAllocator().allocate(bytes);
  const size_t kept = std::min(bytes, storage->nbytes());
  if (kept > 0) {
    Check(runtime::CopyOnDevice(CurrentStream(), AddressOf(fresh.get()), AddressOf(storage->data()),
                                kept));
  }
  storage->set_data_ptr_noswap(std::move(fresh));
  storage->set_nbytes(bytes);
}

TORCH_LIBRARY_IMPL(aten, HPU, m) {
  m.impl("empty.memory_format", &Empty);
  m.impl("empty_strided", &EmptyStrided);
  m.impl("_efficientzerotensor", &EfficientZeros);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("unfold", &at::native::unfold);
  m.impl("view_as_real", &at::native::view_as_real);
  m.impl("view_as_complex", &at::native::view_as_complex);
  m.impl("resize_", &Resize);
  m.impl("set_", &SetEmpty);
  m.impl("set_.source_Storage", [](Tensor& self, at::Storage source) -> Tensor& {
    return at::native::set_(self, std::move(source));
  });
  m.impl("set_.source_Storage_storage_offset", &SetStorage);
  m.impl("set_.source_Tensor", &at::native::set_tensor_);
  m.impl("record_stream", &RecordStream);
  m.impl("_copy_from", &CopyFrom);
  m.impl("_copy_from_and_resize", &CopyFromAndResize);
  m.impl("_local_scalar_dense", &LocalScalar);
  // This is also called for fake tensors while a graph is captured, so it must look at metadata
  // only.
  m.impl("_fused_sdp_choice", &at::native::_fused_sdp_choice_cpp);
}

}  // namespace hpu::torch_backend
