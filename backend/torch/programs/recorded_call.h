// A node of autograd keeps this record of a call of a program, beside the tensors that the program
// saves: the arguments, and a Python function that computes the graph's gradients eagerly.
//
// The compiled backward has no backward of its own. A caller that asks for gradients that can be
// differentiated again (create_graph), or for a batch of them (vmap), gets the gradients of the
// eager graph, which is run again for that. Where the eager graph would give other gradients, the
// caller gets the compiled ones, and differentiating them again raises an error, so that a second
// derivative is never silently zero.
#pragma once

#include <ATen/ATen.h>
#include <Python.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backend/torch/programs/compiled_program.h"
#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

class RecordedCall : public torch::CustomClassHolder {
 public:
  // `differentiate`: see dynamo/programs/differentiation.py. It is null if the caller has none.
  // Needs the GIL.
  RecordedCall(c10::intrusive_ptr<CompiledProgram> program, PyObject* differentiate,
               PyObject* const* arguments, size_t count);

  CompiledProgram& program() const { return *program_; }

  // Called after the forward. `drawn` is where its random numbers began.
  void NoteForward(const std::optional<RandomPlace>& drawn);
  // Releases the arguments. `reason` is the text that follows "because" in the error for a caller
  // that would need them.
  void Release(std::string reason);

  // Returns the gradients by argument, undefined for those without one. Returns nothing and sets
  // `reason` where the eager graph would not give the gradients of this call. `tangents` is by
  // output that the caller got; entries may be undefined. Works with or without the GIL.
  std::optional<std::vector<at::Tensor>> Differentiate(const std::vector<at::Tensor>& tangents,
                                                       bool create_graph, std::string* reason);

 private:
  const c10::intrusive_ptr<CompiledProgram> program_;
  std::optional<c10::SafePyObject> differentiate_;
  std::optional<c10::SafePyObject> arguments_;  // a tuple
  // The arguments that are tensors, and their versions after the forward.
  std::vector<std::pair<size_t, uint32_t>> versions_;
  std::optional<RandomPlace> drawn_;
  std::string released_;
};

// Returns `gradients` such that differentiating them raises an error on every path to the inputs of
// the node that autograd runs now.
torch::autograd::variable_list RaiseIfDifferentiated(
    const torch::autograd::variable_list& gradients, const std::string& message);

}  // namespace hpu::torch_backend
