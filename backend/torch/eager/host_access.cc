#include "backend/torch/eager/host_access.h"

#include "backend/runtime/copy.h"
#include "backend/torch/device/allocator.h"
#include "backend/torch/device/errors.h"
#include "backend/torch/device/pending_storage.h"
#include "backend/torch/eager/kernels.h"
#include "backend/torch/eager/result_memory.h"

namespace hpu::torch_backend {
namespace {

bool HostAddressable() { return AcquiredDevice().properties().host_addressable; }

// Returns a tensor over `storage` with the geometry of `like`.
at::Tensor Over(const c10::Storage& storage, c10::DispatchKey key, const at::Tensor& like) {
  at::Tensor result =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), key, like.dtype());
  c10::TensorImpl* impl = result.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  impl->_set_conj(like.is_conj());
  impl->_set_neg(like.is_neg());
  return result;
}

}  // namespace

HostAccess::Shared& HostAccess::Share(const c10::Storage& storage) {
  for (Shared& entry : shared_) {
    if (entry.device.unsafeGetStorageImpl() == storage.unsafeGetStorageImpl()) return entry;
  }
  runtime::Stream& stream = CurrentStream();
  BeforeAccess(storage, "an operator that runs on the CPU");
  if (shared_.empty()) Check(stream.Synchronize());
  Shared entry;
  entry.device = storage;
  const size_t bytes = storage.nbytes();
  c10::DataPtr data;
  if (HostAddressable()) {
    data = c10::DataPtr(storage.mutable_data(), c10::kCPU);
    entry.access.emplace(AcquiredDevice(), AddressOf(storage.data()), bytes);
  } else {
    data = at::getCPUAllocator()->allocate(bytes);
    Check(runtime::CopyToHost(stream, data.get(), AddressOf(storage.data()), bytes));
  }
  entry.data = data.get();
  entry.host = c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes, std::move(data), at::getCPUAllocator(),
      /*resizable=*/true));
  return shared_.emplace_back(std::move(entry));
}

const HostAccess::Shared* HostAccess::FindHost(const c10::StorageImpl* host) const {
  for (const Shared& entry : shared_) {
    if (entry.host.unsafeGetStorageImpl() == host) return &entry;
  }
  return nullptr;
}

at::Tensor HostAccess::ToHost(const at::Tensor& tensor, bool written) {
  Shared& entry = Share(tensor.storage());
  entry.written |= written;
  return Over(entry.host, c10::DispatchKey::CPU, tensor);
}

bool HostAccess::SharesMemory() const {
  if (!HostAddressable()) return false;
  if (shared_.empty()) Check(CurrentStream().Synchronize());
  return true;
}

at::Tensor HostAccess::ToDevice(const at::Tensor& host) {
  if (!host.defined()) return host;
  TORCH_CHECK(host.layout() == at::kStrided && !host.is_quantized(),
              "hpu tensors are strided and not quantized; the result of this operator is ",
              host.layout(), host.is_quantized() ? " and quantized" : "");
  if (const Shared* entry = FindHost(host.storage().unsafeGetStorageImpl())) {
    return Over(entry->device, c10::DispatchKey::HPU, host);
  }
  if (const auto taken = TakeResultMemory(host)) {
    return Over(*taken, c10::DispatchKey::HPU, host);
  }
  if (!host.is_non_overlapping_and_dense()) {
    at::Tensor result =
        at::empty_strided(host.sizes(), host.strides(), host.options().device(kHpuDevice));
    return result.copy_(host);
  }
  at::Tensor result =
      at::empty_strided(host.sizes(), host.strides(), host.options().device(kHpuDevice));
  BeforeAccess(result.storage(), "an operator that runs on the CPU");
  Check(runtime::CopyToDevice(CurrentStream(), AddressOf(result.data_ptr()), host.data_ptr(),
                              host.nbytes()));
  result.unsafeGetTensorImpl()->_set_conj(host.is_conj());
  result.unsafeGetTensorImpl()->_set_neg(host.is_neg());
  return result;
}

void HostAccess::TakeResize(const at::Tensor& host, const at::Tensor& tensor) {
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (host.sizes() != tensor.sizes() || host.strides() != tensor.strides()) {
    impl->set_sizes_and_strides(host.sizes(), host.strides(), host.storage_offset());
  }
  const size_t bytes = host.storage().nbytes();
  if (bytes > tensor.storage().nbytes()) {
    ResizeStorage(tensor.storage().unsafeGetStorageImpl(), bytes);
    BeforeAccess(tensor.storage(), "an operator that runs on the CPU");
  }
}

void HostAccess::Finish() {
  for (Shared& entry : shared_) {
    if (!entry.written) continue;
    const size_t bytes = std::min(entry.host.nbytes(), entry.device.nbytes());
    if (bytes == 0) continue;
    const uint64_t address = AddressOf(entry.device.data());
    // The kernel may have moved the host storage to grow it; the bytes are elsewhere in that case.
    if (entry.access.has_value() && entry.host.data() == entry.data) {
      entry.access->NotifyWrite(bytes);
    } else {
      Check(runtime::CopyToDevice(CurrentStream(), address, entry.host.data(), bytes));
    }
  }
}

}  // namespace hpu::torch_backend
