// The steps of a compiled function's call, and the memory that they need.
#include "backend/runtime/copy.h"
#include "backend/torch/device/allocator.h"
#include "backend/torch/device/dtypes.h"
#include "backend/torch/device/errors.h"
#include "backend/torch/device/run_now.h"
#include "backend/torch/programs/compiled_function_frame.h"
#include "backend/torch/programs/gil_release.h"
#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

at::Tensor Over(c10::Storage storage, const TensorSpec& spec) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::HPU),
      c10::scalarTypeToTypeMeta(*ToScalarType(spec.dtype)));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(spec.sizes, spec.strides,
                                                      spec.storage_offset);
  return tensor;
}

// Allocates the buffers that outputs are made of or that PyTorch touches, before the first step
// that touches them.
void CompiledFunction::AllocateBuffers(Frame& frame, size_t step) const {
  for (const uint32_t buffer : executor_->VisibleFrom(static_cast<uint32_t>(step))) {
    c10::Storage storage = NewStorage(function().buffer_bytes[buffer]);
    frame.slots[executor_->BufferSlot(buffer)] = AddressOf(storage.data());
    frame.storages[buffer] = std::move(storage);
  }
}

// Stream order keeps the memory until the step is done. The tensor stays, but without memory for
// its elements.
void CompiledFunction::GiveBackInputs(const Frame& frame, size_t step) const {
  for (const uint32_t input : donated_[step]) {
    const c10::Storage& storage = frame.Input(input).storage();
    storage.set_nbytes(0);
    storage.set_data_ptr_noswap(GetDeviceAllocator().allocate(0));
  }
}

void CompiledFunction::RunSteps(Frame& frame, bool recorded) {
  for (size_t step = 0; step < eager_.size(); ++step) {
    if (recorded) [[unlikely]] {
      RECORD_FUNCTION(step_labels_[step], {});
      RunStep(frame, step);
    } else {
      RunStep(frame, step);
    }
  }
  AllocateBuffers(frame, eager_.size());
}

void CompiledFunction::RunStep(Frame& frame, size_t step) {
  AllocateBuffers(frame, step);
  if (eager_[step] != nullptr) {
    RunEager(frame, step);
  } else if (collectives_[step] != nullptr) {
    StartCollective(frame, step);
  } else if (std::holds_alternative<WaitStep>(function().steps[step])) {
    AwaitCollective(frame, step);
  } else {
    Check(executor_->RunStep(static_cast<uint32_t>(step), frame.stream, frame.slots, &frame.call));
  }
  for (const uint32_t buffer : executor_->VisibleUntil(static_cast<uint32_t>(step))) {
    frame.storages[buffer] = c10::Storage();
  }
  if (frame.donated) GiveBackInputs(frame, step);
}

void CompiledFunction::StartCollective(Frame& frame, size_t step) const {
  const auto& collective = std::get<CollectiveStep>(function().steps[step]);
  const GilRelease no_gil;
  const auto tensors_of = [&](const std::vector<uint32_t>& numbers) {
    std::vector<at::Tensor> tensors;
    for (const uint32_t number : numbers) tensors.push_back(TensorOf(frame, number));
    return tensors;
  };
  frame.collectives[step] = collectives_[step]->Start(frame.stream, tensors_of(collective.inputs),
                                                      tensors_of(collective.outputs));
}

void CompiledFunction::AwaitCollective(Frame& frame, size_t step) const {
  const GilRelease no_gil;
  const auto found = frame.collectives.find(std::get<WaitStep>(function().steps[step]).step);
  found->second->wait();
  frame.collectives.erase(found);
}

void CompiledFunction::RunEager(Frame& frame, size_t step) const {
  const GilRelease no_gil;
  frame.tensors.resize(function().tensors.size());
  const PreparedEagerStep& eager = *eager_[step];
  for (const uint32_t tensor : eager.inputs()) {
    if (!frame.tensors[tensor].defined()) frame.tensors[tensor] = TensorOf(frame, tensor);
  }
  {
    const CallsRunNow run_now;  // the next step needs the memory of the results
    eager.Run(frame.tensors);
  }
  for (const uint32_t tensor : std::get<EagerStep>(function().steps[step]).outputs) {
    if (!frame.tensors[tensor].defined()) continue;
    frame.slots[executor_->EagerSlot(tensor)] = AddressOf(frame.tensors[tensor].data_ptr());
  }
}

// Returns a tensor over the memory of a program tensor, for eager steps and outputs.
at::Tensor CompiledFunction::TensorOf(Frame& frame, uint32_t tensor) const {
  const ProgramTensor& entry = function().tensors[tensor];
  switch (entry.placement) {
    case Placement::kInput: {
      const at::Tensor& input = frame.Input(entry.index);
      const ProgramInput& declared = function().inputs[entry.index];
      if (declared.on_cpu) return input.to(kHpuDevice);
      return input.as_strided(entry.spec.sizes, entry.spec.strides,
                              input.storage_offset() + entry.spec.storage_offset);
    }
    case Placement::kBuffer:
      return Over(frame.storages[entry.index], entry.spec);
    case Placement::kConstant: {
      // This is a copy, because the constant must survive whatever is done with the tensor.
      c10::Storage storage = NewStorage(program().constants[entry.index].data.size());
      Check(runtime::CopyOnDevice(frame.stream, AddressOf(storage.data()),
                                  executor_->ConstantAddress(entry.index), storage.nbytes()));
      return Over(std::move(storage), entry.spec);
    }
    case Placement::kEager:
      break;
  }
  if (tensor >= frame.tensors.size() || !frame.tensors[tensor].defined()) {
    Throw(Internal("program ", name(), ": tensor ", tensor, " is used before it is made"));
  }
  return frame.tensors[tensor];
}

}  // namespace hpu::torch_backend
