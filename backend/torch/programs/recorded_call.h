// A node of autograd keeps this of a call of a program, beside the tensors that the program saves:
// the arguments, and a Python function that computes the graph's gradients eagerly.
//
// The compiled backward has no backward of its own. Whoever asks for gradients that can be
// differentiated again (create_graph), or for a batch of them (vmap), gets those of the eager
// graph, which is run again for it. Where that would give others the compiled gradients are given
// and an error stands behind them, so that no second derivative is zero without a word.
#pragma once

#include <ATen/ATen.h>
#include <Python.h>
#include <c10/core/SafePyObject.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/torch/programs/compiled_program.h"

namespace hpu::torch_backend {

class RecordedCall : public torch::CustomClassHolder {
 public:
  // `differentiate`: see dynamo/programs/differentiation.py; null: the caller has none. Needs the
  // GIL.
  RecordedCall(c10::intrusive_ptr<CompiledProgram> program, PyObject* differentiate,
               PyObject* const* arguments, size_t count);

  CompiledProgram& program() const { return *program_; }

  // Behind the forward. `drawn`: where its random numbers began.
  void NoteForward(const std::optional<RandomPlace>& drawn);
  // Lets go of the arguments. `reason`: what is said to whoever would need them, after "because".
  void Release(std::string reason);

  // By argument, undefined for those without a gradient; nothing, and `reason` is set, where the
  // eager graph would not give the gradients of this call. `tangents`: by output that the caller
  // got; may be undefined. With or without the GIL.
  std::optional<std::vector<at::Tensor>> Differentiate(const std::vector<at::Tensor>& tangents,
                                                       bool create_graph, std::string* reason);

 private:
  const c10::intrusive_ptr<CompiledProgram> program_;
  std::optional<c10::SafePyObject> differentiate_;
  std::optional<c10::SafePyObject> arguments_;  // a tuple
  // Argument that is a tensor and its version behind the forward.
  std::vector<std::pair<size_t, uint32_t>> versions_;
  std::optional<RandomPlace> drawn_;
  std::string released_;
};

// `gradients`, behind which an error stands on every way to the inputs of the node that autograd
// runs now.
torch::autograd::variable_list RaiseIfDifferentiated(
    const torch::autograd::variable_list& gradients, const std::string& message);

}  // namespace hpu::torch_backend
