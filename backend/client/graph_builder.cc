#include "backend/client/graph_builder.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <vector>

#include "base/dtype.h"

namespace hpu::client {
namespace {

namespace py = pybind11;

constexpr uint32_t kGraphVersion = 1;
// A list of lists is the deepest that ATen has.
constexpr int kMaxArgumentDepth = 4;

// One new reference, dropped at the end.
py::object FastSequence(py::handle value, const char* what) {
  PyObject* sequence = PySequence_Fast(value.ptr(), "");
  if (sequence == nullptr) {
    PyErr_Clear();
    throw py::type_error(std::string(what) + " must be a sequence, not " +
                         Py_TYPE(value.ptr())->tp_name);
  }
  return py::reinterpret_steal<py::object>(sequence);
}

int64_t ToInt64(py::handle value, const char* what) {
  if (!PyLong_Check(value.ptr())) {
    throw py::type_error(std::string(what) + " must be an int, not " +
                         Py_TYPE(value.ptr())->tp_name);
  }
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow != 0) throw py::value_error(std::string(what) + " does not fit into 64 bits");
  return number;
}

template <typename Repeated>
void FillInts(py::handle values, const char* what, Repeated* out) {
  const py::object sequence = FastSequence(values, what);
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(sequence.ptr());
  PyObject** items = PySequence_Fast_ITEMS(sequence.ptr());
  out->Reserve(static_cast<int>(count));
  for (Py_ssize_t i = 0; i < count; ++i) out->Add(ToInt64(items[i], what));
}

void CheckDType(uint32_t dtype) {
  if (dtype == 0 || dtype >= static_cast<uint32_t>(kNumDTypes)) {
    throw py::value_error("element type number " + std::to_string(dtype) + " is unknown");
  }
}

std::string ToText(PyObject* text) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text, &size);
  if (data == nullptr) throw py::error_already_set();
  return std::string(data, static_cast<size_t>(size));
}

// Type object of a bound class, looked up once; the classes live as long as the module.
template <typename T>
PyTypeObject* TypeOf() {
  static PyTypeObject* const type = reinterpret_cast<PyTypeObject*>(py::type::of<T>().ptr());
  return type;
}

void FillMarker(py::handle value, wire::Argument* argument) {
  PyTypeObject* const type = Py_TYPE(value.ptr());
  if (type == TypeOf<DTypeMarker>()) {
    argument->set_dtype(value.cast<const DTypeMarker&>().number);
  } else if (type == TypeOf<MemoryFormatMarker>()) {
    argument->set_memory_format(value.cast<const MemoryFormatMarker&>().name);
  } else if (type == TypeOf<LayoutMarker>()) {
    argument->set_layout(value.cast<const LayoutMarker&>().name);
  } else if (type == TypeOf<DeviceMarker>()) {
    argument->set_device(value.cast<const DeviceMarker&>().name);
  } else {
    throw py::type_error(std::string("a value of type ") + type->tp_name + " has no wire form");
  }
}

// Runs `fill` and puts `where` before the text of its errors.
template <typename Fill>
void At(const std::string& where, const Fill& fill) {
  try {
    fill();
  } catch (const py::type_error& error) {
    throw py::type_error(where + ": " + error.what());
  } catch (const py::value_error& error) {
    throw py::value_error(where + ": " + error.what());
  }
}

}  // namespace

GraphBuilder::GraphBuilder(const std::string& name) {
  graph_.set_version(kGraphVersion);
  graph_.set_name(name);
}

void GraphBuilder::FillType(uint32_t dtype, py::handle sizes, py::handle strides,
                            wire::TensorType* type) const {
  CheckDType(dtype);
  type->set_dtype(dtype);
  FillInts(sizes, "sizes", type->mutable_sizes());
  FillInts(strides, "strides", type->mutable_strides());
  if (type->sizes_size() != type->strides_size()) {
    throw py::value_error(std::to_string(type->sizes_size()) + " sizes, but " +
                          std::to_string(type->strides_size()) + " strides");
  }
}

uint32_t GraphBuilder::AddTensorInput(uint32_t dtype, py::handle sizes, py::handle strides,
                                      bool on_cpu, const std::string& name) {
  wire::GraphInput input;
  At("input " + std::to_string(graph_.inputs_size()),
     [&] { FillType(dtype, sizes, strides, input.mutable_tensor()); });
  input.set_value(next_value_);
  input.set_on_cpu(on_cpu);
  input.set_name(name);
  *graph_.add_inputs() = std::move(input);
  return next_value_++;
}

uint32_t GraphBuilder::AddScalarInput(const std::string& name) {
  wire::GraphInput* input = graph_.add_inputs();
  input->set_value(next_value_);
  input->set_scalar(true);
  input->set_name(name);
  return next_value_++;
}

uint32_t GraphBuilder::AddConstant(uint32_t dtype, py::handle sizes, const py::buffer& data) {
  CheckDType(dtype);
  wire::GraphConstant constant;
  wire::TensorType* type = constant.mutable_tensor();
  type->set_dtype(dtype);
  FillInts(sizes, "sizes", type->mutable_sizes());
  // Contiguous strides; a dimension of size 0 counts as 1, as in PyTorch.
  std::vector<int64_t> strides(static_cast<size_t>(type->sizes_size()));
  int64_t stride = 1;
  int64_t elements = 1;
  for (int i = type->sizes_size() - 1; i >= 0; --i) {
    const int64_t size = type->sizes(i);
    strides[static_cast<size_t>(i)] = stride;
    if (size < 0 || __builtin_mul_overflow(stride, std::max<int64_t>(size, 1), &stride)) {
      throw py::value_error("the sizes of a constant are negative or too large");
    }
    elements *= size;
  }
  type->mutable_strides()->Assign(strides.begin(), strides.end());
  const py::buffer_info info = data.request();
  const int64_t bytes = info.size * info.itemsize;
  const int64_t expected = elements * DTypeSize(static_cast<DType>(dtype));
  if (bytes != expected) {
    throw py::value_error("a constant of " + std::to_string(elements) + " elements takes " +
                          std::to_string(expected) + " bytes; the buffer has " +
                          std::to_string(bytes));
  }
  constant.set_value(next_value_);
  constant.set_data(info.ptr, static_cast<size_t>(bytes));
  *graph_.add_constants() = std::move(constant);
  return next_value_++;
}

void GraphBuilder::FillArgument(py::handle value, int depth, wire::Argument* argument) const {
  PyObject* const object = value.ptr();
  if (Py_TYPE(object) == TypeOf<Value>()) {
    const uint32_t id = value.cast<const Value&>().id;
    if (id >= next_value_) {
      throw py::value_error("value " + std::to_string(id) + " does not exist yet");
    }
    argument->set_value(id);
  } else if (object == Py_None) {
    argument->mutable_none();
  } else if (PyBool_Check(object)) {
    argument->set_bool_value(object == Py_True);
  } else if (PyLong_Check(object)) {
    argument->set_int_value(ToInt64(value, "a number"));
  } else if (PyFloat_Check(object)) {
    argument->set_float_value(PyFloat_AS_DOUBLE(object));
  } else if (PyUnicode_Check(object)) {
    argument->set_string_value(ToText(object));
  } else if (PyList_Check(object) || PyTuple_Check(object)) {
    if (depth == kMaxArgumentDepth) throw py::value_error("lists are nested too deeply");
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(object);
    wire::ArgumentList* list = argument->mutable_list();
    list->mutable_items()->Reserve(static_cast<int>(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
      FillArgument(PySequence_Fast_GET_ITEM(object, i), depth + 1, list->add_items());
    }
  } else {
    FillMarker(value, argument);
  }
}

uint32_t GraphBuilder::AddNode(const std::string& target, const py::tuple& args,
                               const py::dict& kwargs, py::handle results,
                               const std::string& source) {
  wire::Node node;
  node.set_target(target);
  node.set_source(source);
  const auto where = [&](const std::string& what) {
    return "node " + std::to_string(graph_.nodes_size()) + " (" + target + ") " + what;
  };
  node.mutable_args()->Reserve(static_cast<int>(args.size()));
  const py::ssize_t count = PyTuple_GET_SIZE(args.ptr());
  for (py::ssize_t i = 0; i < count; ++i) {
    wire::Argument* argument = node.add_args();
    At(where("argument " + std::to_string(i)),
       [&] { FillArgument(PyTuple_GET_ITEM(args.ptr(), i), 0, argument); });
  }
  for (const auto& [name, value] : kwargs) {
    wire::NamedArgument* named = node.add_kwargs();
    named->set_name(py::cast<std::string>(name));
    At(where("argument " + named->name()),
       [&, handle = value] { FillArgument(handle, 0, named->mutable_argument()); });
  }
  const uint32_t first = next_value_;
  uint32_t id = first;
  At(where("results"), [&] {
    for (const py::handle meta : FastSequence(results, "results")) {
      const py::object fields = FastSequence(meta, "a result");
      if (PySequence_Fast_GET_SIZE(fields.ptr()) != 4) {
        throw py::value_error("a result is (dtype, sizes, strides, storage_offset)");
      }
      PyObject** items = PySequence_Fast_ITEMS(fields.ptr());
      wire::Result* result = node.add_results();
      result->set_value(id++);
      FillType(static_cast<uint32_t>(ToInt64(items[0], "dtype")), items[1], items[2],
               result->mutable_tensor());
      result->mutable_tensor()->set_storage_offset(ToInt64(items[3], "storage_offset"));
    }
  });
  // Nothing of a refused node stays behind.
  *graph_.add_nodes() = std::move(node);
  next_value_ = id;
  return first;
}

void GraphBuilder::SetOutputs(py::handle outputs) {
  google::protobuf::RepeatedPtrField<wire::Argument> arguments;
  const py::object sequence = FastSequence(outputs, "outputs");
  int index = 0;
  for (const py::handle output : sequence) {
    wire::Argument* argument = arguments.Add();
    At("output " + std::to_string(index++), [&] {
      FillArgument(output, 0, argument);
      if (argument->kind_case() > wire::Argument::kBoolValue) {
        throw py::type_error("an output is a value, None, an int, a float or a bool");
      }
    });
  }
  *graph_.mutable_outputs() = std::move(arguments);
}

py::bytes GraphBuilder::Serialize() const {
  const size_t size = graph_.ByteSizeLong();
  py::bytes bytes(nullptr, size);
  google::protobuf::io::ArrayOutputStream array(PyBytes_AS_STRING(bytes.ptr()),
                                                static_cast<int>(size));
  google::protobuf::io::CodedOutputStream out(&array);
  out.SetSerializationDeterministic(true);
  graph_.SerializeWithCachedSizes(&out);
  return bytes;
}

void BindGraphBuilder(py::module_& module) {
  py::class_<Value>(module, "Value", "A tensor of the graph under construction, by its id.")
      .def(py::init([](uint32_t id) { return Value{id}; }), py::arg("id"))
      .def_readonly("id", &Value::id)
      .def("__repr__",
           [](const Value& value) { return "Value(" + std::to_string(value.id) + ")"; });
  py::class_<DTypeMarker>(module, "DType", "An element type by its number (base/dtype.h).")
      .def(py::init([](uint32_t number) {
             CheckDType(number);
             return DTypeMarker{number};
           }),
           py::arg("number"))
      .def_readonly("number", &DTypeMarker::number);
  py::class_<MemoryFormatMarker>(module, "MemoryFormat", "\"contiguous_format\", ...")
      .def(py::init([](std::string name) { return MemoryFormatMarker{std::move(name)}; }),
           py::arg("name"))
      .def_readonly("name", &MemoryFormatMarker::name);
  py::class_<LayoutMarker>(module, "Layout", "\"strided\"")
      .def(py::init([](std::string name) { return LayoutMarker{std::move(name)}; }),
           py::arg("name"))
      .def_readonly("name", &LayoutMarker::name);
  py::class_<DeviceMarker>(module, "Device", "\"hpu\" or \"cpu\"")
      .def(py::init([](std::string name) { return DeviceMarker{std::move(name)}; }),
           py::arg("name"))
      .def_readonly("name", &DeviceMarker::name);

  py::class_<GraphBuilder>(module, "GraphBuilder",
                           "Builds the wire form of a captured graph (proto/graph.proto).")
      .def(py::init<const std::string&>(), py::arg("name"))
      .def("add_tensor_input", &GraphBuilder::AddTensorInput, py::arg("dtype"), py::arg("sizes"),
           py::arg("strides"), py::arg("on_cpu") = false, py::arg("name") = "")
      .def("add_scalar_input", &GraphBuilder::AddScalarInput, py::arg("name") = "")
      .def("add_constant", &GraphBuilder::AddConstant, py::arg("dtype"), py::arg("sizes"),
           py::arg("buffer"))
      .def("add_node", &GraphBuilder::AddNode, py::arg("target"), py::arg("args"),
           py::arg("kwargs"), py::arg("results"), py::arg("source") = "")
      .def("set_outputs", &GraphBuilder::SetOutputs, py::arg("outputs"))
      .def("serialize", &GraphBuilder::Serialize)
      .def_property_readonly("node_count", &GraphBuilder::node_count);
}

}  // namespace hpu::client
