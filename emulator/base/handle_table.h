// Maps the opaque handles of the C API to objects. A handle is not an address but slot and
// generation, so a stale, foreign or invented handle is recognised and never followed.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

namespace hpu::emulator {

// Thread-safe. Objects are shared: a call in progress keeps its object alive after Remove.
template <typename T, typename Handle>
class HandleTable {
 public:
  explicit HandleTable(uint64_t capacity = std::numeric_limits<uint32_t>::max() - 1)
      : capacity_(capacity) {}

  // Returns null when `capacity` objects exist.
  Handle Insert(std::shared_ptr<T> object) {
    std::unique_lock lock(mutex_);
    uint32_t index = 0;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else {
      if (slots_.size() >= capacity_) return nullptr;
      index = static_cast<uint32_t>(slots_.size());
      slots_.emplace_back();
    }
    slots_[index].object = std::move(object);
    return MakeHandle(index, slots_[index].generation);
  }

  // Returns null for a handle that is not in the table.
  std::shared_ptr<T> Find(Handle handle) const {
    std::shared_lock lock(mutex_);
    const Slot* slot = FindSlot(handle);
    return slot == nullptr ? nullptr : slot->object;
  }

  std::shared_ptr<T> Remove(Handle handle) {
    std::unique_lock lock(mutex_);
    auto* slot = const_cast<Slot*>(FindSlot(handle));
    if (slot == nullptr) return nullptr;
    ++slot->generation;
    free_.push_back(static_cast<uint32_t>(slot - slots_.data()));
    return std::exchange(slot->object, nullptr);
  }

  // Returns the slot of a handle, counted from 0.
  static uint32_t IndexOf(Handle handle) {
    return static_cast<uint32_t>(reinterpret_cast<uint64_t>(handle)) - 1;
  }

  std::vector<std::shared_ptr<T>> All() const {
    std::shared_lock lock(mutex_);
    std::vector<std::shared_ptr<T>> objects;
    for (const Slot& slot : slots_) {
      if (slot.object != nullptr) objects.push_back(slot.object);
    }
    return objects;
  }

  // Drops every object; their handles become stale.
  void Clear() {
    const std::vector<std::shared_ptr<T>> keep_until_unlocked = All();
    std::unique_lock lock(mutex_);
    for (uint32_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].object == nullptr) continue;
      slots_[i].object.reset();
      ++slots_[i].generation;
      free_.push_back(i);
    }
  }

 private:
  struct Slot {
    uint32_t generation = 1;
    std::shared_ptr<T> object;
  };

  static Handle MakeHandle(uint32_t index, uint32_t generation) {
    return reinterpret_cast<Handle>((uint64_t{generation} << 32) | (index + 1));
  }
  const Slot* FindSlot(Handle handle) const {
    const auto bits = reinterpret_cast<uint64_t>(handle);
    const uint32_t index = IndexOf(handle);
    if (index >= slots_.size()) return nullptr;
    const Slot& slot = slots_[index];
    return slot.object != nullptr && slot.generation == bits >> 32 ? &slot : nullptr;
  }

  const uint64_t capacity_;
  mutable std::shared_mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

}  // namespace hpu::emulator
