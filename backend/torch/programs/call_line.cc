#include "backend/torch/programs/call_line.h"

#include <Python.h>
#include <frameobject.h>

#include <array>

#include "backend/runtime/launch_history.h"
#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {
namespace {

namespace py = pybind11;

thread_local uint32_t known_line = 0;

std::string FolderOf(const char* module) {
  const auto file = py::module_::import(module).attr("__file__").cast<std::string>();
  return file.substr(0, file.rfind('/') + 1);
}

// Code in these folders is not the user's.
bool IsUsers(std::string_view file) {
  static const auto* folders =
      new std::array{FolderOf("torch"), FolderOf("habana_frameworks.torch")};
  for (const std::string& folder : *folders) {
    if (file.starts_with(folder)) return false;
  }
  return !file.starts_with('<');
}

}  // namespace

uint32_t LineOfCaller() { return runtime::WantsSourceLines() ? FindLineOfCaller() : 0; }

uint32_t FindLineOfCaller() {
  if (known_line != 0) return known_line;
  const py::gil_scoped_acquire gil;
  auto frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame) {
    auto* present = reinterpret_cast<PyFrameObject*>(frame.ptr());
    const auto code =
        py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(present)));
    const auto file = code.attr("co_filename").cast<std::string>();
    if (IsUsers(file)) {
      return runtime::NumberOfText(file + ":" + std::to_string(PyFrame_GetLineNumber(present)));
    }
    frame =
        py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(present)));
  }
  return 0;
}

KnownLine::KnownLine(uint32_t line) : before_(known_line) { known_line = line; }
KnownLine::~KnownLine() { known_line = before_; }

std::string WithLine(std::string_view name, uint32_t line) {
  std::string text(name);
  if (line != 0) text += " at " + runtime::TextOfNumber(line);
  return text;
}

}  // namespace hpu::torch_backend
