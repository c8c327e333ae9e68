// A program that is bound to PyTorch: its forward function and, if it has one, the backward as a
// node of autograd's graph.
//
// With a backward, a call is a call of a torch::autograd::Function: the values that the program
// saves are saved there, so that version counters, hooks of saved tensors, retain_graph and freed
// buffers are PyTorch's own. This is so in any grad mode, because a graph may switch gradients on
// itself. Outputs that are inputs, or views of inputs, are made from the caller's tensors after the
// node.
#pragma once

#include <ATen/ATen.h>
#include <Python.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/torch/programs/compiled_function.h"

namespace hpu::torch_backend {

class CompiledProgram : public torch::CustomClassHolder {
 public:
  // There is one function per executor; all executors belong to one program.
  explicit CompiledProgram(std::vector<std::unique_ptr<runtime::ProgramExecutor>> executors);

  // Takes one argument per input of the forward and returns a new tuple of the outputs that the
  // caller gets. Needs the GIL; throws as CompiledFunction::Call does. `differentiate` says how the
  // graph is differentiated where the backward cannot do it (recorded_call.h); it may be null.
  PyObject* Call(PyObject* const* arguments, size_t count, PyObject* differentiate);

  CompiledFunction& forward() { return *functions_[0]; }
  const CompiledFunction& forward() const { return *functions_[0]; }
  CompiledFunction& backward() { return *functions_[1]; }
  bool has_backward() const { return functions_.size() > 1; }
  const std::vector<std::unique_ptr<CompiledFunction>>& functions() const { return functions_; }
  const Program& program() const { return functions_[0]->program(); }

 private:
  struct Gradients;  // the autograd function
  PyObject* CallWithBackward(PyObject* const* arguments, size_t count, PyObject* differentiate);
  std::vector<at::Tensor> RunBackward(std::vector<at::Tensor> saved,
                                      const std::vector<at::Tensor>& tangents, bool donated);

  std::vector<std::unique_ptr<CompiledFunction>> functions_;
  // With a backward. By input of the forward: the output of the backward that is its gradient, or
  // -1 if it has none.
  std::vector<int64_t> gradient_of_input_;
  std::vector<uint32_t> tensor_inputs_;  // of the forward
  // node_outputs_ has the forward's outputs that are tensors of the node, in its order;
  // place_of_tangent_ has, by tangent of the program's derivative, the place among them.
  std::vector<uint32_t> node_outputs_;
  std::vector<uint32_t> place_of_tangent_;
  // By tensor of the node: its place among the outputs that the caller gets, and how many of those
  // there are.
  std::vector<uint32_t> returned_place_;
  uint32_t returned_count_ = 0;
};

}  // namespace hpu::torch_backend
