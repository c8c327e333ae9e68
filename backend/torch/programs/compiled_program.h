// A program bound to PyTorch: its forward function, and where it has one the backward, as a node of
// autograd's graph.
//
// With a backward a call is torch::autograd::Function's: what the program saves is saved there, so
// that version counters, hooks of saved tensors, retain_graph and freed buffers are PyTorch's own.
// It is one in any grad mode: a graph may switch gradients on itself.
// Outputs that are inputs, or views of inputs, are made from the caller's tensors behind the node.
#pragma once

#include <ATen/core/ivalue.h>
#include <Python.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/torch/programs/compiled_function.h"

namespace hpu::torch_backend {

class CompiledProgram : public torch::CustomClassHolder {
 public:
  // A function per executor, which are of one program.
  explicit CompiledProgram(std::vector<std::unique_ptr<runtime::ProgramExecutor>> executors);

  // One argument per input of the forward. Returns a new tuple of what the caller gets. Needs the
  // GIL; throws as CompiledFunction::Call. `differentiate`: how the graph is differentiated where
  // the backward does not do (recorded_call.h); may be null.
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
  // With a backward. By input of the forward: the output of the backward that is its gradient; -1:
  // none.
  std::vector<int64_t> gradient_of_input_;
  std::vector<uint32_t> tensor_inputs_;  // of the forward
  // The forward's outputs that are tensors of the node, in its order; by tangent of the program's
  // derivative the place among them.
  std::vector<uint32_t> node_outputs_;
  std::vector<uint32_t> place_of_tangent_;
  // By tensor of the node the place among what the caller gets, and how much that is.
  std::vector<uint32_t> returned_place_;
  uint32_t returned_count_ = 0;
};

}  // namespace hpu::torch_backend
