// A function of a program that is bound to PyTorch: it checks inputs, makes outputs, and runs
// launches and eager steps. It knows nothing of autograd.
#pragma once

#include <ATen/ATen.h>
#include <Python.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/runtime/program_executor.h"
#include "backend/torch/device/generator.h"
#include "backend/torch/programs/collective_step.h"
#include "backend/torch/programs/eager_step.h"
#include "backend/torch/programs/input_form.h"

namespace hpu::torch_backend {

class CompiledFunction {
 public:
  explicit CompiledFunction(std::unique_ptr<runtime::ProgramExecutor> executor);

  // Takes one argument per input of the caller and returns a new tuple. Needs the GIL. Throws the
  // exceptions of errors.h, and TypeError and ValueError for inputs that do not fit.
  PyObject* Call(PyObject* const* arguments, size_t count);
  // Does the same for C++, with or without the GIL. `inputs` has one entry per input, null for a
  // number; the result has one entry per output, undefined for an output that is not a tensor. An
  // output that is an input is that tensor. If the random state is null, it is taken from the
  // device's generator; otherwise it is the state of an earlier call. `donated` says that the
  // inputs named by Donate are given back. `drawn` receives where the call's random numbers begin,
  // if it takes some.
  std::vector<at::Tensor> Run(c10::ArrayRef<const at::Tensor*> inputs, bool donated = false,
                              std::optional<RandomPlace>* drawn = nullptr);
  // Names inputs whose storage belongs to the call alone when the call says so: an input then loses
  // its memory after the last step that touches it. Call it before the first call.
  void Donate(const std::vector<uint32_t>& inputs);

  // Leaves the version counters of written inputs to the caller. Call it before the first call.
  void LeaveVersions() { bumps_versions_ = false; }

  // Returns the tensor that argument `index` is, or null where the function takes a number. Throws
  // TypeError.
  const at::Tensor* TensorArgument(PyObject* argument, size_t index) const;
  // Throws InputsWithTangents for a tensor that forward-mode differentiation follows, because a
  // program computes no tangents.
  void RefuseTangents(PyObject* const* arguments, size_t count) const;
  // Throws TypeError unless there are `count` inputs.
  void CheckCount(size_t count) const;
  // These return new references. `argument` is the value given for the input that the output is, or
  // is a view of.
  PyObject* ConstantOutput(size_t index) const { return Py_NewRef(constant_outputs_[index]); }
  // Returns the view of an input, or the detached tensor, that a kInputView output is.
  static at::Tensor ViewOfInput(const ProgramOutput& output, const at::Tensor& input);

  const std::string& name() const { return executor_->name(); }
  const Program& program() const { return executor_->program(); }
  const ProgramFunction& function() const { return executor_->function(); }
  const runtime::ProgramExecutor& executor() const { return *executor_; }
  const std::vector<InputForm>& inputs() const { return inputs_; }
  uint64_t call_count() const { return call_count_.load(std::memory_order_relaxed); }
  bool mutates_inputs() const { return !mutated_.empty(); }

 private:
  struct Frame;  // the state of one call

  PyObject* PrepareOutput(const ProgramOutput& output) const;
  void BindInput(Frame& frame, size_t index, const at::Tensor* tensor) const;
  void BindRandomState(Frame& frame) const;
  void CheckOverlap(const Frame& frame) const;
  bool AreInterleaved(uint32_t first, uint32_t second, int64_t bytes) const;
  void AllocateBuffers(Frame& frame, size_t step) const;
  void GiveBackInputs(const Frame& frame, size_t step) const;
  // Runs everything from bound inputs to the tensors that outputs are made of.
  void Execute(Frame& frame);
  // `recorded` says that some profiler records the steps.
  void RunSteps(Frame& frame, bool recorded);
  void RunStep(Frame& frame, size_t step);
  void RunEager(Frame& frame, size_t step) const;
  void StartCollective(Frame& frame, size_t step) const;
  void AwaitCollective(Frame& frame, size_t step) const;
  at::Tensor TensorOf(Frame& frame, uint32_t tensor) const;
  PyObject* MakeOutput(Frame& frame, size_t index, PyObject* const* arguments) const;

  const std::unique_ptr<runtime::ProgramExecutor> executor_;
  const std::string label_;               // the name in torch.profiler
  std::vector<std::string> step_labels_;  // per step
  std::vector<InputForm> inputs_;
  std::vector<uint32_t> state_inputs_;          // inputs that hold the generator's state
  uint64_t draws_ = 0;                          // counters that a call takes from the generator
  std::vector<uint32_t> mutated_;               // inputs that some step writes
  std::vector<std::vector<uint32_t>> donated_;  // inputs, by the last step that touches them
  // By output: the Python object of a kNone, kInt, kFloat or kBool output, else null. The objects
  // live as long as the process, because programs may be destroyed after the interpreter.
  std::vector<PyObject*> constant_outputs_;
  bool bumps_versions_ = true;
  std::vector<std::unique_ptr<PreparedEagerStep>> eager_;             // per step; null for others
  std::vector<std::unique_ptr<PreparedCollectiveStep>> collectives_;  // per step; null for others
  std::atomic<uint64_t> call_count_{0};
};

}  // namespace hpu::torch_backend
