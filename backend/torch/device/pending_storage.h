// Storages on hpu whose memory is left out until something needs it. Lazy mode and captures make
// the results of calls in this form (record/recorder.h): a result that nobody holds any more when
// its program is made never gets memory of its own.
//
// A pending storage has its size and no data: the address of its elements is null, and PyTorch
// raises an error where it knows their type. Whoever reads or writes device memory calls
// BeforeAccess first.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backend/runtime/stream_uses.h"
#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

// The context of a pending storage's DataPtr.
struct PendingMemory {
  // The recording in which a call makes, writes or reads the storage; null if there is none.
  const void* recording = nullptr;
  uint32_t value = 0;  // the storage's place there
  // The capture in which the storage was made; null outside of captures.
  const void* capture = nullptr;
  // Whether the storage stands for one that a captured call is given later.
  bool stand_in = false;
  // Says why the value will never exist; null as long as it may.
  std::shared_ptr<const std::string> lost;
};

// Work on storages that has been recorded and not yet queued on a stream.
class PendingWork {
 public:
  virtual ~PendingWork() = default;
  // Returns whether a tensor that this thread makes now may have a pending storage.
  virtual bool LeavesOutMemory() const = 0;
  // Returns the capture on the current stream of this thread, or null.
  virtual const void* Capture() const = 0;
  // Queues all recorded calls that touch the storage, because `who` is going to touch it.
  virtual void Queue(const c10::StorageImpl& storage, const char* who) = 0;
  // Throws if this thread's current stream has a capture, because `who` cannot be part of it.
  virtual void RefuseInCapture(const std::string& who) = 0;
};

// Call it once, before any pending storage is made. `work` lives as long as the process.
void SetPendingWork(PendingWork* work);
// Says whether anything may be pending in this process. It never becomes false again.
void StartLeavingOutMemory();

// Returns whether an empty tensor that this thread makes now gets a pending storage.
bool LeavesOutMemory();
// Throws if this thread's current stream has a capture, because `who` cannot be part of it.
void RefuseInCapture(const char* who);
// Makes pending storages for empty tensors.
c10::Allocator& GetPendingAllocator();
// Returns a pending storage for a result of a recorded call.
c10::Storage NewPendingStorage(size_t bytes);
// Returns a storage that stands for one that a captured call is given later. It never has elements.
c10::Storage NewStandIn(size_t bytes);
// Makes the storage such a one. It loses its elements.
void MakeStandIn(const c10::Storage& storage);

// Returns null for a storage with memory.
PendingMemory* PendingOf(const c10::StorageImpl& storage);

// Call this before work that reads or writes device memory is queued on the current stream, other
// than by a recorded call; `who` does that. Queues the recorded calls that touch the storage, gives
// it memory if it has none, and makes the current stream wait for the work of other streams that it
// must come after (backend/runtime/stream_uses.h). Returns whether the stream has been made to
// wait: a host that has waited for the stream before must wait again. Throws what those calls
// throw.
bool BeforeAccess(c10::StorageImpl* storage, const char* who,
                  runtime::Access access = runtime::Access::kWrite);
inline bool BeforeAccess(const c10::Storage& storage, const char* who,
                         runtime::Access access = runtime::Access::kWrite) {
  return BeforeAccess(storage.unsafeGetStorageImpl(), who, access);
}

}  // namespace hpu::torch_backend
