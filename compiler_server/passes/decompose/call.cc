#include "compiler_server/passes/decompose/call.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "base/strides.h"
#include "compiler_server/ir/host_tensor.h"

namespace hpu::compiler {

const Argument* Call::Find(std::string_view name) const {
  for (const auto& [argument_name, argument] : node_.aten->args) {
    if (argument_name == name) return &argument;
  }
  return nullptr;
}

const Argument* Call::Given(std::string_view name) {
  const Argument* argument = Find(name);
  if (argument == nullptr) {
    Refuse("has no argument ", name);
    return nullptr;
  }
  return std::holds_alternative<NoneArgument>(argument->value) ? nullptr : argument;
}

bool Call::Has(std::string_view name) const {
  const Argument* argument = Find(name);
  return argument != nullptr && !std::holds_alternative<NoneArgument>(argument->value);
}

bool Call::IsTensor(std::string_view name) const {
  const Argument* argument = Find(name);
  return argument != nullptr && std::holds_alternative<TensorArgument>(argument->value);
}

bool Call::IsNumber(std::string_view name) const {
  const Argument* argument = Find(name);
  return argument != nullptr && (std::holds_alternative<int64_t>(argument->value) ||
                                 std::holds_alternative<double>(argument->value) ||
                                 std::holds_alternative<bool>(argument->value));
}

bool Call::IsListOfTensors(std::string_view name) const {
  const Argument* argument = Find(name);
  const auto* list = argument == nullptr ? nullptr : std::get_if<ArgumentList>(&argument->value);
  return list != nullptr && !list->empty() &&
         std::holds_alternative<TensorArgument>(list->front().value);
}

bool Call::IsRowMajor(std::string_view name) const {
  const Argument* argument = Find(name);
  const auto* tensor =
      argument == nullptr ? nullptr : std::get_if<TensorArgument>(&argument->value);
  return tensor != nullptr && hpu::IsRowMajor(node_.operands[tensor->tensor]->type.sizes,
                                              node_.aten->strides[tensor->tensor]);
}

DType Call::NumberType(std::string_view name) const {
  const Argument* argument = Find(name);
  if (argument != nullptr && std::holds_alternative<bool>(argument->value)) return DType::kBool;
  if (argument != nullptr && std::holds_alternative<int64_t>(argument->value)) return DType::kI64;
  return DType::kF32;
}

Value* Call::OptionalTensor(std::string_view name) {
  const Argument* argument = Given(name);
  if (argument == nullptr) return nullptr;
  if (const auto* tensor = std::get_if<TensorArgument>(&argument->value)) {
    return node_.operands[tensor->tensor];
  }
  Refuse("argument ", name, " is no tensor");
  return nullptr;
}

Value* Call::Tensor(std::string_view name) {
  Value* value = OptionalTensor(name);
  if (value != nullptr) return value;
  Refuse("argument ", name, " is None");
  return b.Scalar(0, DType::kF32);
}

Value* Call::Line(std::string_view name) {
  Value* value = Tensor(name);
  if (value->type.rank() != 0) return value;
  has_line_of_scalar_ = true;
  return b.Reshape(value, {1});
}

void Call::Return(std::vector<Value*> values) {
  results_ = std::move(values);
  if (!has_line_of_scalar_ || refused()) return;
  for (size_t i = 0; i < results_.size(); ++i) {
    if (results_[i] != nullptr) results_[i] = b.Reshape(results_[i], type(i).sizes);
  }
}

const ArgumentList& Call::List(std::string_view name) {
  static const ArgumentList kEmpty;
  const Argument* argument = Given(name);
  const auto* list = argument == nullptr ? nullptr : std::get_if<ArgumentList>(&argument->value);
  if (list != nullptr) return *list;
  Refuse("argument ", name, " is no list");
  return kEmpty;
}

std::vector<Value*> Call::OptionalTensors(std::string_view name) {
  std::vector<Value*> values;
  for (const Argument& item : List(name)) {
    const auto* tensor = std::get_if<TensorArgument>(&item.value);
    if (tensor == nullptr && !std::holds_alternative<NoneArgument>(item.value)) {
      Refuse("argument ", name, " holds other than tensors");
      return {};
    }
    values.push_back(tensor == nullptr ? nullptr : node_.operands[tensor->tensor]);
  }
  return values;
}

std::vector<Value*> Call::Tensors(std::string_view name) {
  std::vector<Value*> values = OptionalTensors(name);
  for (const Value* value : values) {
    if (value != nullptr) continue;
    Refuse("argument ", name, " holds None");
    return {};
  }
  return values;
}

std::vector<double> Call::Floats(std::string_view name) {
  std::vector<double> values;
  const Argument* argument = Given(name);
  if (argument == nullptr) return values;
  const auto* list = std::get_if<ArgumentList>(&argument->value);
  if (list == nullptr) {
    Refuse("argument ", name, " is no list");
    return values;
  }
  for (const Argument& item : *list) {
    if (const auto* real = std::get_if<double>(&item.value)) {
      values.push_back(*real);
    } else if (const auto* whole = std::get_if<int64_t>(&item.value)) {
      values.push_back(static_cast<double>(*whole));
    } else {
      Refuse("argument ", name, " holds other than numbers");
    }
  }
  return values;
}

Value* Call::Operand(std::string_view name, DType dtype) {
  if (IsTensor(name)) return b.Cast(Tensor(name), dtype);
  return b.Scalar(Float(name), dtype);
}

Value* Call::Factor(std::string_view name, DType dtype) {
  if (!ir::IsNarrowFloat(dtype) && !ir::IsFloat8(dtype)) return Operand(name, dtype);
  if (!IsTensor(name)) return b.Number(Float(name), dtype, OpKind::kMul);
  Value* tensor = Tensor(name);
  const bool number = tensor->type.rank() == 0 && !ir::IsNarrowFloat(tensor->type.dtype);
  return b.Cast(tensor, number ? DType::kF32 : dtype);
}

Value* Call::Chosen(std::string_view name, DType dtype) {
  if (IsNumber(name)) Stored(name, dtype);
  return Operand(name, dtype);
}

double Call::Stored(std::string_view name, DType dtype, std::optional<double> if_none) {
  const double value = Float(name, if_none);
  if (!ir::HoldsNumber(dtype, value)) {
    Refuse("argument ", name, " = ", value, " is outside ", DTypeName(dtype));
  }
  return value;
}

int64_t Call::Int(std::string_view name, std::optional<int64_t> if_none) {
  const Argument* argument = Given(name);
  if (argument == nullptr) return IfNone(name, if_none, int64_t{0});
  if (const auto* value = std::get_if<int64_t>(&argument->value)) return *value;
  if (const auto* value = std::get_if<bool>(&argument->value)) return *value ? 1 : 0;
  Refuse("argument ", name, " is no integer");
  return 0;
}

double Call::Float(std::string_view name, std::optional<double> if_none) {
  const Argument* argument = Given(name);
  if (argument == nullptr) return IfNone(name, if_none, 0.0);
  if (const auto* value = std::get_if<double>(&argument->value)) return *value;
  if (const auto* value = std::get_if<bool>(&argument->value)) return *value ? 1 : 0;
  if (const auto* value = std::get_if<int64_t>(&argument->value)) {
    const auto real = static_cast<double>(*value);
    constexpr int64_t kExact = int64_t{1} << 53;
    if (*value > kExact || (*value < -kExact && *value != INT64_MIN)) {
      Refuse("argument ", name, " = ", *value, " is too large for a constant");
    }
    return real;
  }
  Refuse("argument ", name, " is no number");
  return 0;
}

bool Call::Bool(std::string_view name, std::optional<bool> if_none) {
  return Int(name, if_none) != 0;
}

std::vector<bool> Call::Bools(std::string_view name) {
  std::vector<bool> values;
  for (const Argument& item : List(name)) {
    const auto* value = std::get_if<bool>(&item.value);
    if (value == nullptr) Refuse("argument ", name, " holds other than booleans");
    values.push_back(value != nullptr && *value);
  }
  return values;
}

std::string Call::Text(std::string_view name, std::optional<std::string> if_none) {
  const Argument* argument = Given(name);
  if (argument == nullptr) return IfNone(name, if_none, std::string());
  if (const auto* value = std::get_if<std::string>(&argument->value)) return *value;
  Refuse("argument ", name, " is no text");
  return "";
}

Dims Call::Ints(std::string_view name) {
  const Argument* argument = Given(name);
  if (argument == nullptr) return {};
  const auto* list = std::get_if<ArgumentList>(&argument->value);
  if (list == nullptr) return {Int(name)};
  Dims values;
  for (const Argument& item : *list) {
    const auto* value = std::get_if<int64_t>(&item.value);
    if (value == nullptr) {
      Refuse("argument ", name, " holds other than integers");
      return {};
    }
    values.push_back(*value);
  }
  return values;
}

bool Call::DeviceIs(std::string_view name, std::string_view device) const {
  const Argument* argument = Find(name);
  const auto* named = argument == nullptr ? nullptr : std::get_if<DeviceArgument>(&argument->value);
  return named != nullptr && named->name == device;
}

int64_t Call::WrapDim(int64_t dim, int64_t rank) {
  if (dim < -rank || dim >= rank) {
    Refuse("dimension ", dim, " is outside rank ", rank);
    return 0;
  }
  return dim < 0 ? dim + rank : dim;
}

int64_t Call::Dim(std::string_view name, int64_t rank) { return WrapDim(Int(name), rank); }

Dims Call::AllDims(int64_t rank) {
  Dims dims(rank);
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

Dims Call::ReducedDims(std::string_view name, int64_t rank) {
  Dims dims = Ints(name);
  // PyTorch allows a 0-d tensor's dimension to be named 0 or -1.
  if (rank == 0) return {};
  if (dims.empty()) return AllDims(rank);
  for (int64_t& dim : dims) dim = WrapDim(dim, rank);
  std::sort(dims.begin(), dims.end());
  return dims;
}

}  // namespace hpu::compiler
