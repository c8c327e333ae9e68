#include "backend/torch/record/front_end.h"

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backend/torch/programs/optional_type.h"

namespace hpu::torch_backend {
namespace {

namespace py = pybind11;
using c10::IValue;
using c10::TypeKind;

// It lives as long as the process, because ops may be called after the interpreter has ended.
py::object* front_end = nullptr;

thread_local bool in_front_end = false;

// The state of a thread in which nobody has set anything: no mode, transform or autocast of the
// caller may reach the capture.
const at::ThreadLocalState& FreshState() {
  static const auto* state = [] {
    std::optional<at::ThreadLocalState> fresh;
    std::thread([&] { fresh.emplace(); }).join();
    return new at::ThreadLocalState(*fresh);
  }();
  return *state;
}

// Sets the function that Dynamo lets Python call for each frame, and returns the one before. This
// must happen outside of Python, because Dynamo would trace the function that does it.
py::object SetDynamo(const py::object& callback) {
  return py::module_::import("torch._C._dynamo.eval_frame").attr("set_eval_frame")(callback);
}

py::object NumberOf(const at::Tensor& wrapped) {
  if (wrapped.scalar_type() == at::kBool) return py::bool_(*wrapped.const_data_ptr<bool>());
  if (wrapped.scalar_type() == at::kLong) return py::int_(*wrapped.const_data_ptr<int64_t>());
  return py::float_(*wrapped.const_data_ptr<double>());
}

// Returns the argument as Python code would give it.
py::object ToPython(const IValue& value, const c10::TypePtr& declared) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) return py::none();
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) return NumberOf(tensor);
    return py::cast(tensor);
  }
  if (value.isList()) {
    const auto list = WithoutOptional(declared)->cast<c10::ListType>();
    const c10::TypePtr element = list ? list->getElementType() : c10::AnyType::get();
    py::list items;
    for (const IValue& item : value.toListRef()) items.append(ToPython(item, element));
    return items;
  }
  if (value.isInt()) {
    const auto steal = [](PyObject* object) { return py::reinterpret_steal<py::object>(object); };
    switch (WithoutOptional(declared)->kind()) {
      case TypeKind::ScalarTypeType: {
        auto* type = torch::getTHPDtype(static_cast<at::ScalarType>(value.toInt()));
        return steal(Py_NewRef(reinterpret_cast<PyObject*>(type)));
      }
      case TypeKind::LayoutType: {
        auto* layout = torch::getTHPLayout(static_cast<at::Layout>(value.toInt()));
        return steal(Py_NewRef(reinterpret_cast<PyObject*>(layout)));
      }
      case TypeKind::MemoryFormatType: {
        const auto format = static_cast<at::MemoryFormat>(value.toInt());
        return steal(Py_NewRef(torch::utils::getTHPMemoryFormat(format)));
      }
      default:
        break;
    }
  }
  if (value.isGenerator()) return py::none();  // the device's own (CallSignature refuses others)
  return torch::jit::toPyObject(value);
}

}  // namespace

DynamoOff::DynamoOff() : before_(SetDynamo(py::none())) {}
DynamoOff::~DynamoOff() { SetDynamo(before_); }

FrontEnd::FrontEnd() : state_(FreshState()) { in_front_end = true; }
FrontEnd::~FrontEnd() { in_front_end = false; }

const py::object& FrontEnd::functions() {
  TORCH_CHECK(front_end != nullptr, "no front end has been set that captures calls");
  return *front_end;
}

bool InFrontEnd() { return in_front_end; }

std::pair<py::tuple, py::dict> ToPythonCall(const c10::OperatorHandle& op,
                                            c10::ArrayRef<IValue> arguments) {
  py::list positional;
  py::dict named;
  const std::vector<c10::Argument>& declared = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    py::object value = ToPython(arguments[i], declared[i].real_type());
    if (declared[i].kwarg_only()) {
      named[declared[i].name().c_str()] = std::move(value);
    } else {
      positional.append(std::move(value));
    }
  }
  return {py::tuple(positional), named};
}

std::optional<std::vector<IValue>> CallLayers(const c10::OperatorHandle& op,
                                              c10::ArrayRef<IValue> arguments) {
  const py::gil_scoped_acquire gil;
  const DynamoOff dynamo_off;
  return FrontEnd::Ask([&]() -> std::optional<std::vector<IValue>> {
    const auto [positional, named] = ToPythonCall(op, arguments);
    const std::string kind = op.schema().name().substr(std::string("aten::").size());
    const py::object found =
        front_end == nullptr ? py::none() : front_end->attr("call_layers")(kind, *positional);
    if (found.is_none()) return std::nullopt;
    std::vector<IValue> results;
    for (const py::handle& tensor : found) results.emplace_back(tensor.cast<at::Tensor>());
    return results;
  });
}

void BindFrontEnd(py::module_& module) {
  module.def("set_front_end", [](py::object functions) {
    delete front_end;
    front_end = new py::object(std::move(functions));
  });
}

bool MayGoOnAfter(const python_error& error) {
  const pybind11::gil_scoped_acquire gil;
  const auto is = [&](PyObject* type) {
    return PyErr_GivenExceptionMatches(error.type, type) != 0;
  };
  if (!is(PyExc_Exception)) return false;
  const auto errors = py::module_::import("habana_frameworks.torch.internal.asked_errors");
  return !is(errors.attr("AskedForError").ptr());
}

}  // namespace hpu::torch_backend
