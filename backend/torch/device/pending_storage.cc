#include "backend/torch/device/pending_storage.h"

#include <atomic>
#include <utility>

#include "backend/torch/device/allocator.h"

namespace hpu::torch_backend {
namespace {

PendingWork* pending_work = nullptr;
std::atomic<bool> may_be_pending{false};

void ForgetPending(void* context) { delete static_cast<PendingMemory*>(context); }

c10::DataPtr NewPending(const void* capture) {
  auto* pending = new PendingMemory;
  pending->capture = capture;
  return c10::DataPtr(nullptr, pending, &ForgetPending, kHpuDevice);
}

class PendingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return c10::DataPtr(nullptr, kHpuDevice);
    return NewPending(pending_work->Capture());
  }
  void copy_data(void* destination, const void* source, size_t bytes) const override {
    GetDeviceAllocator().copy_data(destination, source, bytes);
  }
};

}  // namespace

void SetPendingWork(PendingWork* work) { pending_work = work; }

void StartLeavingOutMemory() { may_be_pending.store(true, std::memory_order_relaxed); }

bool LeavesOutMemory() {
  return may_be_pending.load(std::memory_order_relaxed) && pending_work->LeavesOutMemory();
}

void RefuseInCapture(const char* who) {
  if (may_be_pending.load(std::memory_order_relaxed)) pending_work->RefuseInCapture(who);
}

c10::Allocator& GetPendingAllocator() {
  static auto* allocator = new PendingAllocator;
  return *allocator;
}

c10::Storage NewPendingStorage(size_t bytes) {
  c10::DataPtr data = bytes == 0 ? c10::DataPtr(nullptr, kHpuDevice) : NewPending(nullptr);
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes, std::move(data),
                      &GetPendingAllocator(), /*resizable=*/true);
}

c10::Storage NewStandIn(size_t bytes) {
  c10::Storage storage = NewPendingStorage(bytes);
  MakeStandIn(storage);
  return storage;
}

void MakeStandIn(const c10::Storage& storage) {
  static const auto* reason =
      new auto(std::make_shared<const std::string>("it stands for an argument of a captured call"));
  if (storage.nbytes() == 0) return;
  storage.set_data_ptr_noswap(NewPending(nullptr));
  PendingMemory* pending = PendingOf(*storage.unsafeGetStorageImpl());
  pending->stand_in = true;
  pending->lost = *reason;
}

PendingMemory* PendingOf(const c10::StorageImpl& storage) {
  const c10::DataPtr& data = storage.data_ptr();
  return data.get_deleter() == &ForgetPending ? static_cast<PendingMemory*>(data.get_context())
                                              : nullptr;
}

bool BeforeAccess(c10::StorageImpl* storage, const char* who, runtime::Access access) {
  if (may_be_pending.load(std::memory_order_relaxed)) [[unlikely]] {
    pending_work->Queue(*storage, who);
    if (const PendingMemory* pending = PendingOf(*storage)) {
      TORCH_CHECK(pending->lost == nullptr, "this tensor has no value: ", *pending->lost);
      storage->set_data_ptr_noswap(GetDeviceAllocator().allocate(storage->nbytes()));
    }
  }
  runtime::Device& device = runtime::Device::Get();
  if (!device.has_several_streams()) [[likely]]
    return false;
  runtime::DeviceBlock* block = BlockOf(storage->data_ptr());
  if (block == nullptr || !device.CheckUsable().ok()) return false;
  return Check(device.allocator().Use(block, CurrentStream(), access));
}

}  // namespace hpu::torch_backend
