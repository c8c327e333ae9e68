#include "backend/torch/programs/recorded_call.h"

#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {

using torch::autograd::variable_list;

namespace {

// Autograd may rethrow this error on another thread than the one whose Python code raised it.
[[noreturn]] void ThrowPythonError() {
  python_error error;
  error.persist();
  throw std::move(error);
}

THPObjectPtr Checked(PyObject* object) {
  if (object == nullptr) ThrowPythonError();
  return THPObjectPtr(object);
}

THPObjectPtr ToTuple(const std::vector<at::Tensor>& tensors) {
  THPObjectPtr tuple = Checked(PyTuple_New(static_cast<Py_ssize_t>(tensors.size())));
  for (size_t i = 0; i < tensors.size(); ++i) {
    PyObject* item = tensors[i].defined() ? THPVariable_Wrap(tensors[i]) : Py_NewRef(Py_None);
    if (item == nullptr) ThrowPythonError();
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item);
  }
  return tuple;
}

}  // namespace

RecordedCall::RecordedCall(c10::intrusive_ptr<CompiledProgram> program, PyObject* differentiate,
                           PyObject* const* arguments, size_t count)
    : program_(std::move(program)) {
  if (differentiate == nullptr) {
    released_ = "the caller of the program gave no graph to run again";
    return;
  }
  THPObjectPtr tuple(PyTuple_New(static_cast<Py_ssize_t>(count)));
  if (!tuple) throw python_error();
  for (size_t i = 0; i < count; ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(arguments[i]));
  }
  differentiate_.emplace(Py_NewRef(differentiate), getPyInterpreter());
  arguments_.emplace(tuple.release(), getPyInterpreter());
}

void RecordedCall::NoteForward(const std::optional<RandomPlace>& drawn) {
  if (!arguments_.has_value()) return;
  drawn_ = drawn;
  PyObject* tuple = arguments_->ptr(getPyInterpreter());
  for (size_t i = 0; i < static_cast<size_t>(PyTuple_GET_SIZE(tuple)); ++i) {
    PyObject* argument = PyTuple_GET_ITEM(tuple, static_cast<Py_ssize_t>(i));
    if (!THPVariable_Check(argument)) continue;
    const at::Tensor& tensor = THPVariable_Unpack(argument);
    if (!tensor.is_inference()) versions_.emplace_back(i, tensor._version());
  }
}

void RecordedCall::Release(std::string reason) {
  arguments_.reset();
  released_ = std::move(reason);
}

std::optional<variable_list> RecordedCall::Differentiate(const std::vector<at::Tensor>& tangents,
                                                         bool create_graph, std::string* reason) {
  if (!arguments_.has_value()) {
    *reason = released_;
    return std::nullopt;
  }
  const pybind11::gil_scoped_acquire gil;
  PyObject* arguments = arguments_->ptr(getPyInterpreter());
  for (const auto& [i, version] : versions_) {
    const at::Tensor& tensor =
        THPVariable_Unpack(PyTuple_GET_ITEM(arguments, static_cast<Py_ssize_t>(i)));
    if (tensor._version() == version) continue;
    *reason = c10::str("input ", i, " of the graph has been written since (an inplace operation)");
    return std::nullopt;
  }
  THPObjectPtr given = ToTuple(tangents);
  THPObjectPtr place = drawn_.has_value()
                           ? Checked(Py_BuildValue("(KK)", drawn_->seed, drawn_->offset))
                           : THPObjectPtr(Py_NewRef(Py_None));
  THPObjectPtr result = Checked(
      PyObject_CallFunctionObjArgs(differentiate_->ptr(getPyInterpreter()), arguments, given.get(),
                                   create_graph ? Py_True : Py_False, place.get(), nullptr));
  if (PyUnicode_Check(result.get())) {
    const char* text = PyUnicode_AsUTF8(result.get());
    if (text == nullptr) ThrowPythonError();
    *reason = text;
    return std::nullopt;
  }
  THPObjectPtr list = Checked(PySequence_Fast(result.get(), "gradients must be a sequence"));
  variable_list gradients;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i) {
    PyObject* item = PySequence_Fast_GET_ITEM(list.get(), i);
    gradients.push_back(THPVariable_Check(item) ? THPVariable_Unpack(item) : at::Tensor());
  }
  TORCH_CHECK(gradients.size() == static_cast<size_t>(PyTuple_GET_SIZE(arguments)),
              gradients.size(), " gradients for ", PyTuple_GET_SIZE(arguments), " arguments");
  return gradients;
}

variable_list RaiseIfDifferentiated(const variable_list& gradients, const std::string& message) {
  torch::autograd::edge_list edges;
  for (const torch::autograd::Edge& edge : torch::autograd::get_current_node()->next_edges()) {
    if (edge.is_valid()) edges.push_back(edge);
  }
  const auto error = c10::make_intrusive<torch::autograd::Error>(message, std::move(edges));
  variable_list marked;
  for (const at::Tensor& gradient : gradients) {
    marked.push_back(gradient.defined() ? gradient.detach() : at::Tensor());
    if (!gradient.defined()) continue;
    torch::autograd::set_history(marked.back(), error);
  }
  return marked;
}

}  // namespace hpu::torch_backend
