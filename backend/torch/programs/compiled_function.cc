#include "backend/torch/programs/compiled_function.h"

#include "backend/runtime/copy.h"
#include "backend/runtime/profiling.h"
#include "backend/torch/device/allocator.h"
#include "backend/torch/device/dtypes.h"
#include "backend/torch/device/errors.h"
#include "backend/torch/device/pending_storage.h"
#include "backend/torch/eager/kernels.h"
#include "backend/torch/programs/compiled_function_frame.h"
#include "backend/torch/programs/gil_release.h"
#include "backend/torch/pytorch/unstable_torch.h"
#include "base/dtype.h"
#include "base/strides.h"

namespace hpu::torch_backend {
namespace {

using runtime::DeviceBlock;

// Returns the name of a step in torch.profiler.
std::string LabelOf(const Step& step, const Program& program) {
  if (const auto* launch = std::get_if<LaunchStep>(&step)) {
    return "hpu::launch " + ToHex(program.recipes[launch->recipe].digest).substr(0, 8);
  }
  return "hpu::" + std::string(StepName(step)) + "_step";
}

bool WaitsFor(const Step& step, size_t collective) {
  const auto* wait = std::get_if<WaitStep>(&step);
  return wait != nullptr && wait->step == collective;
}

runtime::Stream& StreamOfCall() {
  runtime::Device& device = runtime::Device::Get();
  if (!device.acquired()) {
    const GilRelease no_gil;
    Check(device.EnsureAcquired());
  }
  runtime::Stream& stream = *Check(device.CurrentStream());
  runtime::QueueRecorded(&stream);
  return stream;
}

}  // namespace

CompiledFunction::CompiledFunction(std::unique_ptr<runtime::ProgramExecutor> executor)
    : executor_(std::move(executor)), label_("hpu::program " + executor_->name()) {
  const ProgramFunction& function = executor_->function();
  for (uint32_t i = 0; i < function.inputs.size(); ++i) {
    inputs_.emplace_back(function.inputs[i], name());
    if (inputs_.back().mutated) mutated_.push_back(i);
    if (inputs_.back().is_state) {
      state_inputs_.push_back(i);
      draws_ += function.inputs[i].draws;
    }
  }
  for (const ProgramTensor& tensor : function.tensors) ScalarTypeOf(tensor.spec.dtype, name());
  for (const ProgramOutput& output : function.outputs) {
    constant_outputs_.push_back(PrepareOutput(output));
  }
  const std::vector<bool> in_use = TensorsInUse(function);
  const size_t count = function.steps.size();
  eager_.resize(count);
  collectives_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const Step& step = function.steps[i];
    if (const auto* eager = std::get_if<EagerStep>(&step)) {
      eager_[i] = std::make_unique<PreparedEagerStep>(name(), function, *eager, in_use);
    } else if (const auto* collective = std::get_if<CollectiveStep>(&step)) {
      const bool ends_at_once = i + 1 < count && WaitsFor(function.steps[i + 1], i);
      collectives_[i] = std::make_unique<PreparedCollectiveStep>(name(), *collective, ends_at_once);
    }
    step_labels_.push_back(LabelOf(step, program()));
  }
  donated_.resize(function.steps.size());
}

PyObject* CompiledFunction::PrepareOutput(const ProgramOutput& output) const {
  switch (output.kind) {
    case ProgramOutput::Kind::kNone:
      return Py_NewRef(Py_None);
    case ProgramOutput::Kind::kInt:
      return PyLong_FromLongLong(output.int_value);
    case ProgramOutput::Kind::kFloat:
      return PyFloat_FromDouble(output.float_value);
    case ProgramOutput::Kind::kBool:
      return PyBool_FromLong(output.int_value != 0);
    case ProgramOutput::Kind::kInputView:
      if (output.view.dtype != function().inputs[output.index].spec.dtype) {
        Throw(Unimplemented("program ", name(),
                            ": an output is a view of an input in another dtype"));
      }
      return nullptr;
    default:
      return nullptr;
  }
}

const at::Tensor* CompiledFunction::TensorArgument(PyObject* argument, size_t index) const {
  if (!inputs_[index].is_tensor) return nullptr;
  if (!THPVariable_Check(argument)) {
    throw torch::TypeError(c10::str("program ", name(), ": input ", index,
                                    " must be a tensor, not ", Py_TYPE(argument)->tp_name));
  }
  return &THPVariable_Unpack(argument);
}

void CompiledFunction::RefuseTangents(PyObject* const* arguments, size_t count) const {
  // PyTorch has only one level; no tensor has a tangent outside of it.
  if (torch::autograd::ForwardADLevel::try_get_by_idx(0) == nullptr) [[likely]]
    return;
  for (size_t i = 0; i < count; ++i) {
    const at::Tensor* tensor = TensorArgument(arguments[i], i);
    if (tensor == nullptr || !tensor->_fw_grad(0).defined()) continue;
    throw InputsWithTangents(c10::str("program ", name(), ": input ", i,
                                      " has a tangent of forward-mode differentiation"));
  }
}

void CompiledFunction::CheckCount(size_t count) const {
  const size_t wanted = inputs_.size() - state_inputs_.size();
  if (count == wanted) return;
  throw torch::TypeError(
      c10::str("program ", name(), " takes ", wanted, " inputs, ", count, " given"));
}

void CompiledFunction::BindInput(Frame& frame, size_t index, const at::Tensor* given) const {
  const InputForm& input = inputs_[index];
  frame.inputs[index] = given;
  if (!input.is_tensor) return;
  const at::Tensor& tensor = *given;
  if (!input.Fits(tensor)) {
    input.RaiseMisfit(tensor, c10::str("program ", name(), ": input ", index));
  }
  uint64_t& slot = frame.slots[executor_->InputSlot(static_cast<uint32_t>(index))];
  if (input.on_cpu && input.bytes > 0) {
    DeviceBlock* block =
        Check(frame.stream.device().allocator().Allocate(input.bytes, frame.stream));
    frame.uploads.push_back(block);
    Check(
        runtime::CopyToDevice(frame.stream, block->address, tensor.const_data_ptr(), input.bytes));
    slot = block->address;
    return;
  }
  if (!input.on_cpu) {
    BeforeAccess(tensor.storage(), "a compiled program",
                 input.mutated ? runtime::Access::kWrite : runtime::Access::kRead);
  }
  slot = AddressOf(tensor.const_data_ptr());
}

// Both inputs come from the same state of the generator, and this call takes its numbers; both are
// elements of one storage.
void CompiledFunction::BindRandomState(Frame& frame) const {
  for (const uint32_t i : state_inputs_) {
    if (frame.inputs[i] == nullptr) {
      if (!frame.state) {
        const RandomPlace place = TakeRandom(std::nullopt, draws_);
        frame.drawn = place;
        const uint64_t state[] = {place.seed, place.offset};
        frame.state = NewStorage(sizeof(state));
        Check(runtime::CopyToDevice(frame.stream, AddressOf(frame.state.data()), state,
                                    sizeof(state)));
      }
      TensorSpec spec = function().inputs[i].spec;
      const size_t element = function().inputs[i].kind == ProgramInput::Kind::kSeed ? 0 : 1;
      spec.storage_offset = static_cast<int64_t>(element);
      frame.state_tensors[element] = Over(frame.state, spec);
      frame.inputs[i] = &frame.state_tensors[element];
    }
    frame.slots[executor_->InputSlot(i)] = AddressOf(frame.Input(i).const_data_ptr());
  }
}

// Views of one tensor, such as the gates of a recurrent cell, may lie between each other's
// elements.
bool CompiledFunction::AreInterleaved(uint32_t first, uint32_t second, int64_t bytes) const {
  const TensorSpec& a = function().inputs[first].spec;
  const TensorSpec& b = function().inputs[second].spec;
  const auto element = static_cast<int64_t>(DTypeSize(a.dtype));
  return a.dtype == b.dtype && bytes % element == 0 &&
         AreDisjoint(a.sizes, a.strides, b.sizes, b.strides, bytes / element);
}

void CompiledFunction::CheckOverlap(const Frame& frame) const {
  for (const uint32_t written : mutated_) {
    const uint64_t begin = frame.slots[executor_->InputSlot(written)];
    const uint64_t end = begin + inputs_[written].bytes;
    for (uint32_t other = 0; other < inputs_.size(); ++other) {
      if (other == written || !inputs_[other].is_tensor) continue;
      const uint64_t other_begin = frame.slots[executor_->InputSlot(other)];
      if (other_begin < end && begin < other_begin + inputs_[other].bytes &&
          !AreInterleaved(written, other, static_cast<int64_t>(other_begin - begin))) {
        throw AliasedInputs(c10::str("program ", name(), ": input ", written,
                                     " is written and shares memory with input ", other));
      }
    }
  }
}

PyObject* CompiledFunction::Call(PyObject* const* arguments, size_t count) {
  CheckCount(count);
  RefuseTangents(arguments, count);
  Frame frame(StreamOfCall(), *executor_);
  for (size_t i = 0; i < count; ++i) BindInput(frame, i, TensorArgument(arguments[i], i));
  Execute(frame);
  THPObjectPtr result(PyTuple_New(static_cast<Py_ssize_t>(function().outputs.size())));
  if (!result) throw python_error();
  for (size_t i = 0; i < function().outputs.size(); ++i) {
    PyObject* output = MakeOutput(frame, i, arguments);
    if (output == nullptr) throw python_error();
    PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), output);
  }
  return result.release();
}

void CompiledFunction::Donate(const std::vector<uint32_t>& inputs) {
  for (const uint32_t input : inputs) {
    const std::optional<uint32_t> last = executor_->LastStepOf(input);
    if (last.has_value()) donated_[*last].push_back(input);
  }
}

std::vector<at::Tensor> CompiledFunction::Run(c10::ArrayRef<const at::Tensor*> inputs, bool donated,
                                              std::optional<RandomPlace>* drawn) {
  HPU_CHECK(inputs.size() == inputs_.size(), "inputs of another function");
  Frame frame(StreamOfCall(), *executor_);
  frame.donated = donated;
  for (size_t i = 0; i < inputs.size(); ++i) BindInput(frame, i, inputs[i]);
  Execute(frame);
  if (drawn != nullptr) *drawn = frame.drawn;
  std::vector<at::Tensor> outputs;
  for (const ProgramOutput& output : function().outputs) {
    switch (output.kind) {
      case ProgramOutput::Kind::kTensor:
        outputs.push_back(TensorOf(frame, output.index));
        break;
      case ProgramOutput::Kind::kInput:
        outputs.push_back(frame.inputs[output.index] == nullptr ? at::Tensor()
                                                                : frame.Input(output.index));
        break;
      case ProgramOutput::Kind::kInputView:
        outputs.push_back(ViewOfInput(output, frame.Input(output.index)));
        break;
      default:
        outputs.emplace_back();
    }
  }
  return outputs;
}

void CompiledFunction::Execute(Frame& frame) {
  if (!mutated_.empty()) CheckOverlap(frame);
  BindRandomState(frame);
  Check(executor_->BeginCall(frame.stream, frame.slots, &frame.call));
  // This is checked once for the whole call: a check per step would show in the time of a small
  // program.
  if (at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value() ||
      runtime::HostTracing()) [[unlikely]] {
    RECORD_FUNCTION(label_, {});
    const runtime::HostRange range("program", name());
    RunSteps(frame, /*recorded=*/true);
  } else {
    RunSteps(frame, /*recorded=*/false);
  }
  for (const uint32_t written : mutated_) {
    if (!bumps_versions_) break;
    const at::Tensor& tensor = frame.Input(written);
    if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  }
  call_count_.fetch_add(1, std::memory_order_relaxed);
}

at::Tensor CompiledFunction::ViewOfInput(const ProgramOutput& output, const at::Tensor& input) {
  const auto view = [&] {
    return input.as_strided(output.view.sizes, output.view.strides,
                            input.storage_offset() + output.view.storage_offset);
  };
  switch (output.form) {
    case AliasForm::kViewWithGradient: {
      const at::AutoGradMode on(true);
      return view();
    }
    case AliasForm::kViewWithoutGradient: {
      const at::NoGradGuard off;
      return view();
    }
    case AliasForm::kDetached: {
      const at::NoGradGuard off;
      return view().detach();
    }
    default:
      return view();
  }
}

PyObject* CompiledFunction::MakeOutput(Frame& frame, size_t index,
                                       PyObject* const* arguments) const {
  const ProgramOutput& output = function().outputs[index];
  switch (output.kind) {
    case ProgramOutput::Kind::kTensor:
      return THPVariable_Wrap(TensorOf(frame, output.index));
    case ProgramOutput::Kind::kInput:
      return Py_NewRef(arguments[output.index]);
    case ProgramOutput::Kind::kInputView:
      return THPVariable_Wrap(ViewOfInput(output, frame.Input(output.index)));
    default:
      return ConstantOutput(index);
  }
}

}  // namespace hpu::torch_backend
