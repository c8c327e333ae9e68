#include "backend/torch/programs/program.h"

#include <structmember.h>

#include <cstddef>
#include <memory>
#include <tuple>
#include <vector>

#include "backend/torch/device/errors.h"
#include "backend/torch/programs/compiled_program.h"
#include "backend/torch/pytorch/unstable_torch.h"

namespace hpu::torch_backend {
namespace {

// A plain CPython type with vectorcall: a call costs no argument tuple and no signature matching.
struct ProgramObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  CompiledProgram* program;  // holds a reference to it
};

// A read-only view of a Python buffer.
class BufferView {
 public:
  explicit BufferView(PyObject* object) {
    if (PyObject_GetBuffer(object, &view_, PyBUF_SIMPLE) != 0) throw python_error();
  }
  ~BufferView() { PyBuffer_Release(&view_); }
  BufferView(const BufferView&) = delete;
  BufferView& operator=(const BufferView&) = delete;

  std::span<const uint8_t> bytes() const {
    return {static_cast<const uint8_t*>(view_.buf), static_cast<size_t>(view_.len)};
  }

 private:
  Py_buffer view_;
};

CompiledProgram& Get(PyObject* self) { return *reinterpret_cast<ProgramObject*>(self)->program; }

PyObject* Call(PyObject* self, PyObject* const* arguments, size_t count, PyObject* names) {
  return Guarded([&] {
    const auto inputs = static_cast<size_t>(PyVectorcall_NARGS(count));
    PyObject* differentiate = nullptr;
    if (names != nullptr && PyTuple_GET_SIZE(names) > 0) {
      if (PyTuple_GET_SIZE(names) > 1 ||
          PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "differentiate") != 0) {
        throw torch::TypeError("a program takes positional inputs, and `differentiate`");
      }
      differentiate = arguments[inputs];
    }
    return Get(self).Call(arguments, inputs, differentiate);
  });
}

c10::intrusive_ptr<CompiledProgram> Load(PyObject* program, PyObject* recipes,
                                         const std::string& name) {
  const BufferView program_view(program);
  THPObjectPtr list(PySequence_Fast(recipes, "recipes must be a sequence of buffers"));
  if (!list) throw python_error();
  std::vector<std::unique_ptr<BufferView>> views;
  std::vector<std::span<const uint8_t>> spans;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i) {
    views.push_back(std::make_unique<BufferView>(PySequence_Fast_GET_ITEM(list.get(), i)));
    spans.push_back(views.back()->bytes());
  }
  std::vector<std::unique_ptr<runtime::ProgramExecutor>> executors;
  {
    const pybind11::gil_scoped_release no_gil;
    executors = Check(runtime::ProgramExecutor::Create(program_view.bytes(), spans, name));
  }
  return c10::make_intrusive<CompiledProgram>(std::move(executors));
}

PyObject* New(PyTypeObject* type, PyObject* arguments, PyObject* names) {
  static const char* kNames[] = {"program", "recipes", "name", nullptr};
  PyObject* program = nullptr;
  PyObject* recipes = nullptr;
  const char* name = "unnamed";
  if (!PyArg_ParseTupleAndKeywords(arguments, names, "OO|s:Program", const_cast<char**>(kNames),
                                   &program, &recipes, &name)) {
    return nullptr;
  }
  return Guarded([&]() -> PyObject* {
    c10::intrusive_ptr<CompiledProgram> loaded = Load(program, recipes, name);
    auto* self = reinterpret_cast<ProgramObject*>(type->tp_alloc(type, 0));
    if (self == nullptr) return nullptr;
    self->vectorcall = &Call;
    self->program = loaded.release();
    return reinterpret_cast<PyObject*>(self);
  });
}

void Dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  // Nodes of autograd's graph may still need the program.
  c10::intrusive_ptr<CompiledProgram>::reclaim(reinterpret_cast<ProgramObject*>(self)->program);
  type->tp_free(self);
  Py_DECREF(type);
}

// Text in a container need not be UTF-8.
PyObject* ToPython(const std::string& text) {
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
}
PyObject* ToPython(uint64_t value) { return PyLong_FromUnsignedLongLong(value); }
PyObject* ToPython(bool value) { return PyBool_FromLong(value ? 1 : 0); }

template <typename Value, Value (*Read)(const CompiledProgram&)>
PyObject* Property(PyObject* self, void* /*closure*/) {
  return ToPython(Read(Get(self)));
}

std::string Name(const CompiledProgram& p) { return p.forward().name(); }
uint64_t CallCount(const CompiledProgram& p) { return p.forward().call_count(); }
bool MutatesInputs(const CompiledProgram& p) { return p.forward().mutates_inputs(); }
bool HasBackward(const CompiledProgram& p) { return p.has_backward(); }
uint64_t NodeCount(const CompiledProgram& p) { return p.forward().function().node_count; }

// Adds up a count over all functions.
template <typename Count>
uint64_t Sum(const CompiledProgram& p, const Count& count) {
  uint64_t sum = 0;
  for (const auto& function : p.functions()) sum += count(*function);
  return sum;
}
uint64_t LaunchCount(const CompiledProgram& p) {
  return Sum(p, [](const CompiledFunction& f) { return f.executor().launch_count(); });
}
uint64_t EagerCount(const CompiledProgram& p) {
  return Sum(p, [](const CompiledFunction& f) { return f.executor().eager_count(); });
}
uint64_t EagerNodeCount(const CompiledProgram& p) {
  return Sum(p, [](const CompiledFunction& f) { return f.function().eager_node_count; });
}

PyObject* Text(PyObject* self, PyObject* /*unused*/) {
  return ToPython(PrintProgram(Get(self).program()));
}

// `arguments`: by input of the caller its dtype, sizes, strides and whether it is on the CPU; then
// the number of outputs.
PyObject* Takes(PyObject* self, PyObject* arguments) {
  using Form = std::tuple<at::ScalarType, std::vector<int64_t>, std::vector<int64_t>, bool>;
  return Guarded([&] {
    const auto [forms, outputs] =
        pybind11::handle(arguments).cast<std::tuple<std::vector<Form>, size_t>>();
    const CompiledFunction& function = Get(self).forward();
    std::vector<const InputForm*> inputs;
    for (const InputForm& input : function.inputs()) {
      if (!input.is_state) inputs.push_back(&input);
    }
    bool takes = inputs.size() == forms.size() && function.function().outputs.size() == outputs;
    for (size_t i = 0; takes && i < forms.size(); ++i) {
      const auto& [dtype, sizes, strides, on_cpu] = forms[i];
      takes = inputs[i]->IsOf(dtype, sizes, strides, on_cpu);
    }
    return ToPython(takes);
  });
}

PyObject* InputForms(PyObject* self, PyObject*) {
  return Guarded([&] {
    const auto tuple_of = [](const at::DimVector& items) {
      return pybind11::tuple(pybind11::cast(std::vector<int64_t>(items.begin(), items.end())));
    };
    pybind11::list forms;
    for (const InputForm& input : Get(self).forward().inputs()) {
      if (input.is_state) continue;
      forms.append(pybind11::make_tuple(input.dtype, tuple_of(input.sizes), tuple_of(input.strides),
                                        input.on_cpu));
    }
    return forms.release().ptr();
  });
}

PyGetSetDef kProperties[] = {
    {"name", Property<std::string, Name>, nullptr, "The name in messages.", nullptr},
    {"launch_count", Property<uint64_t, LaunchCount>, nullptr,
     "Recipe launches per call, including its backward.", nullptr},
    {"eager_count", Property<uint64_t, EagerCount>, nullptr,
     "Eager ops per call, including its backward.", nullptr},
    {"node_count", Property<uint64_t, NodeCount>, nullptr, "Nodes of the captured graph.", nullptr},
    {"eager_node_count", Property<uint64_t, EagerNodeCount>, nullptr,
     "Nodes of the captured graph that run eagerly.", nullptr},
    {"call_count", Property<uint64_t, CallCount>, nullptr, "Completed calls.", nullptr},
    {"mutates_inputs", Property<bool, MutatesInputs>, nullptr, "Whether a call writes an input.",
     nullptr},
    {"has_backward", Property<bool, HasBackward>, nullptr, "Whether a call is a node of autograd.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef kMethods[] = {
    {"text", &Text, METH_NOARGS, "Readable listing."},
    {"takes", &Takes, METH_VARARGS, "Whether inputs of these forms fit."},
    {"input_forms", &InputForms, METH_NOARGS, "The forms that the inputs have."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef kMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(ProgramObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot kSlots[] = {
    {Py_tp_new, reinterpret_cast<void*>(&New)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&Dealloc)},
    {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
    {Py_tp_getset, kProperties},
    {Py_tp_methods, kMethods},
    {Py_tp_members, kMembers},
    {Py_tp_doc,
     const_cast<char*>("Program(program, recipes, name): a compiled graph, ready to run.")},
    {0, nullptr},
};

PyType_Spec kSpec = {"habana_frameworks.torch._native._torch.Program", sizeof(ProgramObject), 0,
                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_IMMUTABLETYPE,
                     kSlots};

}  // namespace

c10::intrusive_ptr<CompiledProgram> ProgramOf(PyObject* object) {
  if (Py_TYPE(object)->tp_dealloc != &Dealloc) {
    throw torch::TypeError(c10::str("expected a Program, not ", Py_TYPE(object)->tp_name));
  }
  return c10::intrusive_ptr<CompiledProgram>::reclaim_copy(
      reinterpret_cast<ProgramObject*>(object)->program);
}

void AddProgramType(PyObject* module) {
  THPObjectPtr type(PyType_FromSpec(&kSpec));
  if (!type || PyModule_AddObjectRef(module, "Program", type.get()) < 0) throw python_error();
}

}  // namespace hpu::torch_backend
