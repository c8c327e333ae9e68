#include "backend/torch/record/call_program.h"

#include <optional>
#include <thread>

#include "backend/torch/device/allocator.h"
#include "backend/torch/eager/kernels.h"
#include "backend/torch/programs/optional_type.h"
#include "backend/torch/programs/program.h"
#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {
namespace {

namespace py = pybind11;
using c10::IValue;
using c10::TypeKind;

// It lives as long as the process, because ops may be called after the interpreter has ended.
py::object* compiler = nullptr;

thread_local bool in_compile_call = false;

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

CallProgram::Made ToMade(const py::handle& made) {
  using Kind = CallProgram::Made::Kind;
  const auto kind = made.attr("kind").cast<std::string>();
  return {kind == "output"  ? Kind::kOutput
          : kind == "empty" ? Kind::kEmpty
                            : Kind::kUndefined,
          made.attr("dtype").cast<at::ScalarType>(),
          made.attr("sizes").cast<std::vector<int64_t>>()};
}

// `answer` is an Answer of habana_frameworks/torch/eager/calls.py.
std::shared_ptr<const CallProgram> ToCallProgram(const py::object& answer) {
  auto result = std::make_shared<CallProgram>();
  const py::object program = answer.attr("program");
  if (!program.is_none()) {
    result->program = ProgramOf(program.ptr());
    // PyTorch counts the writes of an operator above its kernel.
    result->program->forward().LeaveVersions();
  }
  result->refusal = answer.attr("refusal").cast<std::string>();
  result->lasting = answer.attr("lasting").cast<bool>();
  result->counts = answer.attr("counts").cast<std::vector<int64_t>>();
  for (const py::handle made : answer.attr("made")) result->made.push_back(ToMade(made));
  for (const py::handle resize : answer.attr("resizes")) {
    result->resizes.push_back({resize.attr("tensor").cast<size_t>(),
                               resize.attr("sizes").cast<std::vector<int64_t>>(),
                               resize.attr("strides").cast<std::vector<int64_t>>()});
  }
  return result;
}

}  // namespace

std::vector<IValue> CallProgram::Run(const CallSignature& call) const {
  for (const Resize& resize : resizes) {
    ResizeTensor(call.tensors()[resize.tensor]->unsafeGetTensorImpl(), resize.sizes,
                 at::IntArrayRef(resize.strides));
  }
  c10::SmallVector<const at::Tensor*, 16> inputs(call.tensors().begin(), call.tensors().end());
  CompiledFunction& function = program->forward();
  inputs.resize(function.function().inputs.size(), nullptr);  // the generator's state
  std::vector<at::Tensor> outputs = function.Run(inputs);
  size_t next_output = 0;
  size_t next_made = 0;
  const auto next = [&]() -> at::Tensor {
    const Made& tensor = made[next_made++];
    if (tensor.kind == Made::Kind::kOutput) return std::move(outputs[next_output++]);
    if (tensor.kind == Made::Kind::kUndefined) return {};
    return at::empty(tensor.sizes, at::TensorOptions(kHpuDevice).dtype(tensor.dtype));
  };
  std::vector<IValue> values;
  for (const int64_t count : counts) {
    if (count < 0) {
      values.emplace_back(next());
      continue;
    }
    c10::List<at::Tensor> list;
    for (int64_t i = 0; i < count; ++i) list.push_back(next());
    values.emplace_back(std::move(list));
  }
  return values;
}

std::shared_ptr<const CallProgram> CompileCall(const c10::OperatorHandle& op,
                                               c10::ArrayRef<IValue> arguments) {
  const py::gil_scoped_acquire gil;
  in_compile_call = true;
  const auto leave = c10::make_scope_exit([] { in_compile_call = false; });
  const at::ThreadLocalStateGuard fresh(FreshState());
  TORCH_CHECK(compiler != nullptr, "no front end has been set that compiles calls");
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
  try {
    return ToCallProgram(
        (*compiler)(op.schema().name(), op.schema().overload_name(), py::tuple(positional), named));
  } catch (py::error_already_set& error) {
    error.restore();
    python_error raised;
    raised.persist();
    throw raised;  // it may cross threads without the GIL
  }
}

bool InCompileCall() { return in_compile_call; }

void BindCallCompiler(py::module_& module) {
  module.def("set_call_compiler", [](py::object callable) {
    delete compiler;
    compiler = new py::object(std::move(callable));
  });
}

}  // namespace hpu::torch_backend
