#include "backend/torch/programs/graph_builder.h"

#include "backend/torch/device/dtypes.h"
#include "backend/torch/programs/group_names.h"
#include "backend/torch/programs/optional_type.h"
#include "backend/torch/programs/written_arguments.h"
#include "backend/torch/pytorch/unstable_torch.h"
#include "graph/graph_builder.h"

namespace hpu::torch_backend {
namespace {

namespace py = pybind11;
using c10::TypeKind;
using c10::TypePtr;

// A tensor of the graph under construction, for use in arguments.
struct GraphValue {
  uint32_t id = 0;
};

DTypeArgument ToDType(at::ScalarType type) {
  const DType dtype = FromScalarType(type);
  TORCH_CHECK_VALUE(dtype != DType::kInvalid, "element type ", type, " has no form in a graph");
  return {dtype};
}

EnumArgument ToEnum(at::MemoryFormat format) {
  switch (format) {
    case at::MemoryFormat::Contiguous:
      return {"contiguous_format"};
    case at::MemoryFormat::Preserve:
      return {"preserve_format"};
    case at::MemoryFormat::ChannelsLast:
      return {"channels_last"};
    case at::MemoryFormat::ChannelsLast3d:
      return {"channels_last_3d"};
    default:
      TORCH_CHECK_VALUE(false, "memory format ", format, " has no form in a graph");
  }
}

EnumArgument ToEnum(at::Layout layout) {
  TORCH_CHECK_VALUE(layout == at::kStrided, "layout ", layout, " has no form in a graph");
  return {"strided"};
}

// Where a list is declared, one number stands for all its items ("int[2] stride=1").
ArgumentList Repeat(Argument value, const std::optional<int32_t>& count) {
  return ArgumentList(static_cast<size_t>(count.value_or(1)), std::move(value));
}

template <typename List>
ArgumentList ToList(const List& values, const TypePtr& element) {
  ArgumentList list;
  for (const auto& value : values) list.push_back(ToArgument(c10::IValue(value), element));
  return list;
}

int64_t ToInt64(py::handle value) {
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  TORCH_CHECK_VALUE(overflow == 0, "an integer does not fit into 64 bits");
  return number;
}

// Converts Python values as a dispatch mode sees them, with GraphValues in place of tensors.
class PythonArguments {
 public:
  explicit PythonArguments(uint32_t value_count) : value_count_(value_count) {}

  Argument Convert(py::handle value, const TypePtr& declared,
                   const std::optional<int32_t>& count) const {
    const TypePtr type = WithoutOptional(declared);
    PyObject* const object = value.ptr();
    if (object == Py_None) return {NoneArgument{}};
    if (py::isinstance<GraphValue>(value)) {
      const uint32_t id = value.cast<const GraphValue&>().id;
      TORCH_CHECK_VALUE(id < value_count_, "value ", id, " does not exist yet");
      return {TensorArgument{id}};
    }
    const auto list = type->cast<c10::ListType>();
    if (PyList_Check(object) || PyTuple_Check(object)) {
      TORCH_CHECK_TYPE(list != nullptr, "a list where ", type->str(), " is declared");
      ArgumentList items;
      for (const py::handle item : py::reinterpret_borrow<py::sequence>(value)) {
        items.push_back(Convert(item, list->getElementType(), std::nullopt));
      }
      return {std::move(items)};
    }
    if (list != nullptr) return {Repeat(Convert(value, list->getElementType(), {}), count)};
    return Single(value, *type);
  }

 private:
  static Argument Single(py::handle value, const c10::Type& type) {
    PyObject* const object = value.ptr();
    const TypeKind kind = type.kind();
    if (PyBool_Check(object)) {
      const bool flag = object == Py_True;
      if (kind == TypeKind::IntType || kind == TypeKind::SymIntType) return {int64_t{flag}};
      if (kind == TypeKind::FloatType) return {flag ? 1.0 : 0.0};
      return {flag};
    }
    if (PyLong_Check(object)) {
      const int64_t number = ToInt64(value);
      if (kind == TypeKind::FloatType) return {static_cast<double>(number)};
      if (kind == TypeKind::BoolType) return {number != 0};
      return {number};
    }
    if (PyFloat_Check(object)) return {PyFloat_AS_DOUBLE(object)};
    if (THPDtype_Check(object)) {
      return {ToDType(reinterpret_cast<THPDtype*>(object)->scalar_type)};
    }
    if (THPMemoryFormat_Check(object)) {
      return {ToEnum(reinterpret_cast<THPMemoryFormat*>(object)->memory_format)};
    }
    if (THPLayout_Check(object)) return {ToEnum(reinterpret_cast<THPLayout*>(object)->layout)};
    if (THPDevice_Check(object)) {
      return {DeviceArgument{c10::DeviceTypeName(
          reinterpret_cast<THPDevice*>(object)->device.type(), /*lower_case=*/true)}};
    }
    if (PyUnicode_Check(object)) {
      std::string text = py::cast<std::string>(value);
      if (kind == TypeKind::DeviceObjType) return {DeviceArgument{std::move(text)}};
      return {std::move(text)};
    }
    TORCH_CHECK_TYPE(false, "a value of type ", Py_TYPE(object)->tp_name,
                     " has no form in a graph");
  }

  const uint32_t value_count_;
};

std::vector<int64_t> ToInts(py::handle values) {
  std::vector<int64_t> ints;
  for (const py::handle value : py::reinterpret_borrow<py::sequence>(values)) {
    TORCH_CHECK_TYPE(PyLong_Check(value.ptr()), "sizes and strides are integers, not ",
                     Py_TYPE(value.ptr())->tp_name);
    ints.push_back(ToInt64(value));
  }
  return ints;
}

TensorSpec ToSpec(at::ScalarType dtype, py::handle sizes, py::handle strides, int64_t offset) {
  return {ToDType(dtype).dtype, ToInts(sizes), ToInts(strides), offset};
}

// Returns the tensors to which a call in a graph writes.
std::vector<uint32_t> WritesOf(const c10::FunctionSchema& schema,
                               const std::vector<Argument>& args) {
  std::vector<uint32_t> writes;
  if (ResultsHoldWrites(schema)) return writes;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!IsWritten(schema.arguments()[i])) continue;
    ForEachTensor(args[i], [&](uint32_t value) { writes.push_back(value); });
  }
  return writes;
}

class PyGraphBuilder {
 public:
  explicit PyGraphBuilder(const std::string& name) : builder_(name) {}

  uint32_t AddTensorInput(at::ScalarType dtype, py::handle sizes, py::handle strides,
                          int64_t storage_offset, bool on_cpu, const std::string& name,
                          bool is_weight, bool is_trained) {
    return builder_.AddInput({.spec = ToSpec(dtype, sizes, strides, storage_offset),
                              .on_cpu = on_cpu,
                              .is_weight = is_weight,
                              .is_trained = is_trained,
                              .name = name});
  }

  uint32_t AddScalarInput(const std::string& name) {
    return builder_.AddInput({.kind = CapturedInput::Kind::kScalar, .spec = {}, .name = name});
  }

  uint32_t AddConstant(const at::Tensor& tensor) {
    const at::Tensor dense = tensor.detach().cpu().contiguous();
    CapturedConstant constant;
    constant.spec = {ToDType(dense.scalar_type()).dtype, dense.sizes().vec(),
                     std::vector<int64_t>(static_cast<size_t>(dense.dim())), 0};
    int64_t stride = 1;
    for (size_t d = constant.spec.sizes.size(); d-- > 0;) {
      constant.spec.strides[d] = stride;
      stride *= std::max<int64_t>(constant.spec.sizes[d], 1);
    }
    const auto* data = static_cast<const uint8_t*>(dense.const_data_ptr());
    constant.data.assign(data, data + dense.nbytes());
    return builder_.AddConstant(std::move(constant));
  }

  uint32_t AddCall(const std::string& target, const py::tuple& args, const py::dict& kwargs,
                   const py::sequence& results, bool draws_random, const std::string& source) {
    const absl::StatusOr<OperatorName> name = ParseTarget(target);
    TORCH_CHECK_VALUE(name.ok(), name.status().message());
    const auto op = c10::Dispatcher::singleton().findSchema({name->name, name->overload});
    TORCH_CHECK_VALUE(op.has_value(), "this PyTorch has no operator ", target);
    const c10::FunctionSchema& schema = op->schema();
    OpSchema captured = ToOpSchema(schema);
    captured.target = target;
    CapturedCall call;
    call.args = Arguments(schema, target, args, kwargs);
    call.writes = WritesOf(schema, call.args);
    call.draws_random = draws_random;
    call.source = source;
    for (const py::handle result : results) {
      const auto fields = py::reinterpret_borrow<py::tuple>(result);
      TORCH_CHECK_VALUE(fields.size() == 5,
                        "a result is (dtype, sizes, strides, storage offset, memory of)");
      call.results.push_back({ToSpec(fields[0].cast<at::ScalarType>(), fields[1], fields[2],
                                     fields[3].cast<int64_t>()),
                              fields[4].is_none() ? kOwnMemory : fields[4].cast<uint32_t>()});
    }
    return builder_.AddCall(captured, std::move(call));
  }

  void SetOutputs(const py::sequence& values, const std::vector<std::string>& form_names) {
    std::vector<Argument> outputs;
    std::vector<AliasForm> forms;
    for (const std::string& name : form_names) forms.push_back(FormNamed(name));
    const PythonArguments arguments(builder_.value_count());
    for (const py::handle value : values) {
      outputs.push_back(arguments.Convert(value, c10::AnyType::get(), std::nullopt));
    }
    TORCH_CHECK_VALUE(forms.empty() || forms.size() == outputs.size(), forms.size(),
                      " alias forms for ", outputs.size(), " outputs");
    builder_.SetOutputs(std::move(outputs), std::move(forms));
  }

  static AliasForm FormNamed(const std::string& name) {
    for (int number = 0; number <= static_cast<int>(kLastAliasForm); ++number) {
      const auto form = static_cast<AliasForm>(number);
      if (name == AliasFormName(form)) return form;
    }
    TORCH_CHECK_VALUE(false, "there is no alias form \"", name, "\"");
  }

  // The pairs of numbers are those of captured_graph.h: (output, tangent) and (input, gradient).
  void SetDerivative(const std::vector<std::pair<uint32_t, uint32_t>>& tangents,
                     const std::vector<std::pair<uint32_t, uint32_t>>& gradients) {
    std::vector<CapturedTangent> first;
    std::vector<CapturedGradient> second;
    for (const auto& [output, tangent] : tangents) first.push_back({output, tangent});
    for (const auto& [input, gradient] : gradients) second.push_back({input, gradient});
    builder_.SetDerivative(std::move(first), std::move(second));
  }

  py::bytes Serialize() const {
    const Bytes bytes = EncodeGraph(Finish());
    return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  std::string Text() const { return PrintGraph(Finish()); }
  size_t call_count() const { return builder_.call_count(); }

 private:
  CapturedGraph Finish() const {
    absl::StatusOr<CapturedGraph> graph = builder_.Finish();
    TORCH_CHECK_VALUE(graph.ok(), graph.status().message());
    return *std::move(graph);
  }

  std::vector<Argument> Arguments(const c10::FunctionSchema& schema, const std::string& target,
                                  const py::tuple& args, const py::dict& kwargs) const {
    const PythonArguments python(builder_.value_count());
    std::vector<Argument> converted;
    size_t used = 0;
    for (size_t i = 0; i < schema.arguments().size(); ++i) {
      const c10::Argument& declared = schema.arguments()[i];
      try {
        if (i < args.size()) {
          ++used;
          converted.push_back(python.Convert(args[i], declared.real_type(), declared.N()));
        } else if (kwargs.contains(declared.name().c_str())) {
          ++used;
          converted.push_back(
              python.Convert(kwargs[declared.name().c_str()], declared.real_type(), declared.N()));
        } else {
          TORCH_CHECK_VALUE(declared.default_value().has_value(), "is missing");
          converted.push_back(ToArgument(*declared.default_value(), declared.real_type()));
        }
      } catch (c10::Error& error) {
        error.add_context(
            c10::str("call ", builder_.call_count(), " (", target, ") argument ", declared.name()));
        throw;
      }
    }
    CallGroupsByPlace(schema, &converted);
    TORCH_CHECK_VALUE(used == args.size() + kwargs.size(), target,
                      " is given an argument that it does not declare, or one twice");
    return converted;
  }

  GraphBuilder builder_;
};

}  // namespace

Argument ToArgument(const c10::IValue& value, const TypePtr& declared) {
  const TypePtr type = WithoutOptional(declared);
  if (value.isNone()) return {NoneArgument{}};
  if (value.isBool()) return {value.toBool()};
  if (value.isInt()) {
    const int64_t number = value.toInt();
    switch (type->kind()) {
      case TypeKind::ScalarTypeType:
        return {ToDType(static_cast<at::ScalarType>(number))};
      case TypeKind::MemoryFormatType:
        return {ToEnum(static_cast<at::MemoryFormat>(number))};
      case TypeKind::LayoutType:
        return {ToEnum(static_cast<at::Layout>(number))};
      case TypeKind::FloatType:
        return {static_cast<double>(number)};
      default:
        return {number};
    }
  }
  if (value.isDouble()) return {value.toDouble()};
  if (value.isString()) return {value.toStringRef()};
  if (value.isDevice()) {
    return {DeviceArgument{c10::DeviceTypeName(value.toDevice().type(), /*lower_case=*/true)}};
  }
  if (value.isList()) {
    const auto list = type->cast<c10::ListType>();
    return {ToList(value.toListRef(), list ? list->getElementType() : c10::AnyType::get())};
  }
  TORCH_CHECK_VALUE(false, "a ", value.tagKind(), " has no form in a graph");
}

OpSchema ToOpSchema(const c10::FunctionSchema& schema) {
  std::string target = schema.name();
  const size_t colons = target.find("::");
  if (colons != std::string::npos) target.replace(colons, 2, ".");
  target += "." + (schema.overload_name().empty() ? "default" : schema.overload_name());
  OpSchema result{std::move(target), {}};
  for (const c10::Argument& argument : schema.arguments()) {
    result.arguments.push_back(argument.name());
  }
  return result;
}

// Returns "float32[2, 3]{3, 1}@hpu": element type, sizes, strides, type of device.
std::string Describe(const at::Tensor& tensor) {
  std::ostringstream out;
  const auto list = [&](char open, c10::SymIntArrayRef numbers, char close) {
    const char* separator = "";
    out << open;
    for (const c10::SymInt& number : numbers) {
      out << separator << number;
      separator = ", ";
    }
    out << close;
  };
  out << torch::getTHPDtype(tensor.scalar_type())->name;
  list('[', tensor.sym_sizes(), ']');
  list('{', tensor.sym_strides(), '}');
  out << '@' << c10::DeviceTypeName(tensor.device().type(), /*lower_case=*/true);
  return out.str();
}

void BindGraphBuilder(py::module_& module) {
  py::class_<PyGraphBuilder> builder(module, "GraphBuilder");
  py::class_<GraphValue>(builder, "Value")
      .def(py::init<uint32_t>(), py::arg("id"))
      .def_readonly("id", &GraphValue::id);
  builder.def(py::init<const std::string&>(), py::arg("name"))
      .def("add_tensor_input", &PyGraphBuilder::AddTensorInput, py::arg("dtype"), py::arg("sizes"),
           py::arg("strides"), py::arg("storage_offset") = 0, py::arg("on_cpu") = false,
           py::arg("name") = "", py::arg("is_weight") = false, py::arg("is_trained") = false)
      .def("add_scalar_input", &PyGraphBuilder::AddScalarInput, py::arg("name") = "")
      .def("add_constant", &PyGraphBuilder::AddConstant, py::arg("tensor"))
      .def("add_call", &PyGraphBuilder::AddCall, py::arg("target"), py::arg("args"),
           py::arg("kwargs"), py::arg("results"), py::arg("draws_random") = false,
           py::arg("source") = "")
      .def("set_outputs", &PyGraphBuilder::SetOutputs, py::arg("outputs"),
           py::arg("forms") = std::vector<std::string>())
      .def("set_derivative", &PyGraphBuilder::SetDerivative, py::arg("tangents"),
           py::arg("gradients"))
      .def("serialize", &PyGraphBuilder::Serialize)
      .def("text", &PyGraphBuilder::Text)
      .def_property_readonly("call_count", &PyGraphBuilder::call_count);
  module.def("element_types", [] {
    std::vector<at::ScalarType> types;
    for (int number = 1; number < kNumDTypes; ++number) {
      if (const auto type = ToScalarType(static_cast<DType>(number))) types.push_back(*type);
    }
    return types;
  });
  module.def("describe", &Describe, py::arg("tensor"));
  module.def("joined_groups", &NumberedGroups);
  module.def("group_in_programs", &GroupInPrograms, py::arg("name"));
}

}  // namespace hpu::torch_backend
