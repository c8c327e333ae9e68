#include "backend/torch/eager/host_access.h"

#include "backend/runtime/copy.h"
#include "backend/torch/device/allocator.h"
#include "backend/torch/device/errors.h"
#include "backend/torch/device/pending_storage.h"
#include "backend/torch/eager/kernels.h"
#include "backend/torch/eager/result_memory.h"

namespace hpu::torch_backend {
namespace {

using runtime::Access;

constexpr char kWho[] = "an operator that runs on the CPU";

bool HostAddressable() { return AcquiredDevice().properties().host_addressable; }

void SetGeometry(c10::TensorImpl* impl, const at::Tensor& like) {
  impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  impl->_set_conj(like.is_conj());
  impl->_set_neg(like.is_neg());
}

// Returns a tensor over `storage` with the geometry of `like`.
at::Tensor Over(const c10::Storage& storage, c10::DispatchKey key, const at::Tensor& like) {
  at::Tensor result =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), key, like.dtype());
  SetGeometry(result.unsafeGetTensorImpl(), like);
  return result;
}

// Keeps CPU tensors over the memory of others, which calls of a thread use one after the other,
// because making one costs as much as a small kernel.
class Shells {
 public:
  // Returns a tensor over the memory, with a storage of its own, and with the geometry of `like`.
  at::Tensor Take(void* memory, size_t bytes, const at::Tensor& like) {
    if (free_.empty()) {
      // A tensor of inference mode could not be written outside of it.
      const c10::InferenceMode normal(/*enabled=*/false);
      const c10::Storage storage(c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), bytes, c10::DataPtr(memory, c10::kCPU),
          at::getCPUAllocator(), /*resizable=*/true));
      return Over(storage, c10::DispatchKey::CPU, like);
    }
    at::Tensor shell = std::move(free_.back());
    free_.pop_back();
    c10::TensorImpl* impl = shell.unsafeGetTensorImpl();
    c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
    storage->set_data_ptr_noswap(c10::DataPtr(memory, c10::kCPU));
    storage->set_nbytes(bytes);
    impl->set_storage_and_dtype(c10::Storage(impl->unsafe_storage()), like.dtype());
    SetGeometry(impl, like);
    return shell;
  }

  // Takes a tensor back, unless somebody else has it or its storage.
  void GiveBack(at::Tensor shell) {
    const c10::TensorImpl* impl = shell.unsafeGetTensorImpl();
    if (shell.use_count() != 1 || shell.weak_use_count() != 1 ||
        impl->unsafe_storage().use_count() != 1 || impl->pyobj_slot()->load_pyobj() != nullptr ||
        free_.size() == kMost) {
      return;
    }
    // A kernel may have given it memory of its own.
    impl->unsafe_storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
        c10::DataPtr(nullptr, c10::kCPU));
    free_.push_back(std::move(shell));
  }

 private:
  static constexpr size_t kMost = 16;

  std::vector<at::Tensor> free_;
};

Shells& GetShells() {
  static thread_local Shells shells;
  return shells;
}

}  // namespace

HostAccess::HostAccess() : queueing_(CurrentStream()) {}

HostAccess::~HostAccess() {
  for (Shared& entry : shared_) {
    entry.host = {};
    if (entry.shell.defined()) GetShells().GiveBack(std::move(entry.shell));
  }
}

HostAccess::Shared* HostAccess::FindDevice(const c10::StorageImpl* device) {
  for (Shared& entry : shared_) {
    if (entry.device.unsafeGetStorageImpl() == device) return &entry;
  }
  return nullptr;
}

const HostAccess::Shared* HostAccess::FindHost(const c10::StorageImpl* host) const {
  for (const Shared& entry : shared_) {
    if (entry.host.unsafeGetStorageImpl() == host) return &entry;
  }
  return nullptr;
}

void HostAccess::Wait(const c10::Storage& storage, bool written) {
  const bool waits = BeforeAccess(storage, kWho, written ? Access::kWrite : Access::kRead);
  if (waits || shared_.empty()) Check(CurrentStream().Synchronize());
}

HostAccess::Shared& HostAccess::Share(const at::Tensor& tensor, bool written) {
  const c10::Storage& storage = tensor.storage();
  Wait(storage, written);
  runtime::Stream& stream = CurrentStream();
  Shared entry;
  entry.device = storage;
  const size_t bytes = storage.nbytes();
  runtime::Device& device = stream.device();
  if (device.properties().host_addressable) {
    entry.data = storage.mutable_data();
    entry.access.emplace(device, AddressOf(entry.data), bytes);
    entry.shell = GetShells().Take(entry.data, bytes, tensor);
    entry.host = entry.shell.storage();
  } else {
    c10::DataPtr data = at::getCPUAllocator()->allocate(bytes);
    Check(runtime::CopyToHost(stream, data.get(), AddressOf(storage.data()), bytes));
    entry.data = data.get();
    entry.host = c10::Storage(c10::Storage::use_byte_size_t(), bytes, std::move(data),
                              at::getCPUAllocator(), /*resizable=*/true);
    entry.shell = Over(entry.host, c10::DispatchKey::CPU, tensor);
  }
  return shared_.emplace_back(std::move(entry));
}

at::Tensor HostAccess::ToHost(const at::Tensor& tensor, bool written) {
  if (Shared* entry = FindDevice(tensor.storage().unsafeGetStorageImpl())) {
    if (written && !entry->written) Wait(tensor.storage(), written);
    entry->written |= written;
    return Over(entry->host, c10::DispatchKey::CPU, tensor);
  }
  Shared& entry = Share(tensor, written);
  entry.written = written;
  return entry.shell;
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
  BeforeAccess(result.storage(), kWho);
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
    BeforeAccess(tensor.storage(), kWho);
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
