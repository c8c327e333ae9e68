#include "backend/torch/eager/result_memory.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/torch/device/allocator.h"
#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {
namespace {

thread_local bool in_device_memory = false;

// The blocks of device memory that CPU tensors have, by address. PyTorch's raw allocations require
// that the address is the context of the memory, so the block cannot be.
//
// Nearly always only the blocks of the running calls are here, and every CPU tensor of the process
// is freed through here. So the first blocks are in a short list, and freeing takes no lock while
// there are none.
class Blocks {
 public:
  void Add(void* address, c10::DataPtr block) {
    const std::lock_guard lock(mutex_);
    if (few_.size() < kFew) {
      few_.emplace_back(address, std::move(block));
    } else {
      many_.emplace(address, std::move(block));
    }
    count_.store(few_.size() + many_.size(), std::memory_order_release);
  }
  // Returns null for other memory.
  c10::DataPtr Take(void* address) {
    // Whoever frees a block has its address from a thread that had added it before.
    if (count_.load(std::memory_order_acquire) == 0) return {};
    const std::lock_guard lock(mutex_);
    c10::DataPtr block;
    const auto in_few = std::find_if(few_.begin(), few_.end(),
                                     [&](const auto& entry) { return entry.first == address; });
    if (in_few != few_.end()) {
      block = std::move(in_few->second);
      std::swap(*in_few, few_.back());
      few_.pop_back();
    } else if (const auto found = many_.find(address); found != many_.end()) {
      block = std::move(found->second);
      many_.erase(found);
    }
    count_.store(few_.size() + many_.size(), std::memory_order_release);
    return block;
  }

 private:
  static constexpr size_t kFew = 8;

  std::mutex mutex_;
  std::atomic<size_t> count_{0};
  std::vector<std::pair<void*, c10::DataPtr>> few_;
  std::unordered_map<void*, c10::DataPtr> many_;
};

Blocks& DeviceBlocks() {
  static auto* blocks = new Blocks;
  return *blocks;
}

c10::DeleterFnPtr usual_deleter = nullptr;

// Frees memory of either kind: raw allocations are freed by the allocator's one deleter.
void Free(void* address) {
  if (DeviceBlocks().Take(address).get() == nullptr && usual_deleter != nullptr) {
    usual_deleter(address);
  }
}

// PyTorch's allocator for CPU tensors, but where a ResultMemory lives.
class CpuAllocator final : public c10::Allocator {
 public:
  explicit CpuAllocator(c10::Allocator* usual) : usual_(usual) {
    usual_deleter = usual->raw_deleter();
  }

  c10::DataPtr allocate(size_t bytes) override {
    if (!in_device_memory || bytes == 0) [[likely]]
      return usual_->allocate(bytes);
    c10::DataPtr block = GetDeviceAllocator().allocate(bytes);
    void* address = block.get();
    DeviceBlocks().Add(address, std::move(block));
    return {address, address, &Free, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return usual_deleter == nullptr ? nullptr : &Free;
  }
  void copy_data(void* destination, const void* source, size_t bytes) const override {
    usual_->copy_data(destination, source, bytes);
  }

 private:
  c10::Allocator* const usual_;
};

// Programs may have set an allocator of their own before; it stays in use below ours.
void Install() {
  static const bool installed = [] {
    c10::SetCPUAllocator(new CpuAllocator(c10::GetCPUAllocator()), /*priority=*/255);
    return true;
  }();
  static_cast<void>(installed);
}

}  // namespace

ResultMemory::ResultMemory() : before_(in_device_memory) {
  Install();
  in_device_memory = true;
}

ResultMemory::~ResultMemory() { in_device_memory = before_; }

std::optional<c10::Storage> TakeResultMemory(const at::Tensor& host) {
  const c10::Storage& storage = host.storage();
  if (storage.use_count() != 1) return std::nullopt;
  if (storage.data_ptr().get_deleter() != &Free) return std::nullopt;
  c10::DataPtr data = DeviceBlocks().Take(storage.mutable_data());
  if (data.get() == nullptr) return std::nullopt;
  const size_t bytes = storage.nbytes();
  // Its memory belongs to the new storage now.
  static_cast<void>(storage.set_data_ptr(c10::DataPtr(nullptr, c10::kCPU)).release_context());
  AcquiredDevice().NotifyHostWrite(AddressOf(data.get()), bytes);
  return c10::Storage(c10::Storage::use_byte_size_t(), bytes, std::move(data),
                      &GetDeviceAllocator(), /*resizable=*/true);
}

}  // namespace hpu::torch_backend
