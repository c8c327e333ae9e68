// The state of one call of a compiled function.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "backend/torch/programs/compiled_function.h"

namespace hpu::torch_backend {

// Returns a tensor of the spec over the storage.
at::Tensor Over(c10::Storage storage, const TensorSpec& spec);

struct CompiledFunction::Frame {
  Frame(runtime::Stream& stream_in, const runtime::ProgramExecutor& executor)
      : stream(stream_in),
        queueing(stream_in),
        slots(executor.slot_count()),
        inputs(executor.function().inputs.size()),
        storages(executor.function().buffer_bytes.size()) {}
  ~Frame() {
    // Stream order keeps the memory until the work queued so far is done.
    for (runtime::DeviceBlock* block : uploads) stream.device().allocator().Free(block);
  }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  runtime::Stream& stream;
  const runtime::QueueingCall queueing;
  c10::SmallVector<uint64_t, 512> slots;
  c10::SmallVector<const at::Tensor*, 256> inputs;  // the caller's inputs; null for numbers
  c10::SmallVector<c10::Storage, 16> storages;
  c10::Storage state;                // the generator's state, if this call takes it
  std::optional<RandomPlace> drawn;  // the value of that state
  at::Tensor state_tensors[2];       // the seed and the offset
  std::vector<at::Tensor> tensors;   // by program tensor; used only with eager steps
  // By step: the collectives in flight, each of which keeps its tensors.
  std::map<size_t, c10::intrusive_ptr<c10d::Work>> collectives;
  c10::SmallVector<runtime::DeviceBlock*, 4> uploads;  // copies of inputs that are on the CPU
  runtime::ProgramExecutor::Call call;
  bool donated = false;

  const at::Tensor& Input(size_t index) const { return *inputs[index]; }
};

}  // namespace hpu::torch_backend
