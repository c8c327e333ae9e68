#include "compiler_server/passes/decompose/call.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace hpu::compiler {

const Argument* Call::Find(Arg arg) const {
  const ir::AtenCall& aten = *node_.aten;
  if (arg.position < aten.args.size()) return &aten.args[arg.position];
  for (const auto& [name, argument] : aten.kwargs) {
    if (name == arg.name) return &argument;
  }
  return nullptr;
}

bool Call::Has(Arg arg) const {
  const Argument* argument = Find(arg);
  return argument != nullptr && !std::holds_alternative<NoneArgument>(argument->value);
}

bool Call::IsTensor(Arg arg) const {
  const Argument* argument = Find(arg);
  return argument != nullptr && std::holds_alternative<TensorArgument>(argument->value);
}

bool Call::IsNumber(Arg arg) const {
  const Argument* argument = Find(arg);
  return argument != nullptr && (std::holds_alternative<int64_t>(argument->value) ||
                                 std::holds_alternative<double>(argument->value) ||
                                 std::holds_alternative<bool>(argument->value));
}

DType Call::NumberType(Arg arg) const {
  const Argument* argument = Find(arg);
  if (argument != nullptr && std::holds_alternative<bool>(argument->value)) return DType::kBool;
  if (argument != nullptr && std::holds_alternative<int64_t>(argument->value)) return DType::kI64;
  return DType::kF32;
}

Value* Call::OptionalTensor(Arg arg) {
  const Argument* argument = Find(arg);
  if (argument == nullptr || std::holds_alternative<NoneArgument>(argument->value)) return nullptr;
  if (const auto* tensor = std::get_if<TensorArgument>(&argument->value)) {
    return node_.operands[tensor->tensor];
  }
  Refuse("argument ", arg.name, " is no tensor");
  return nullptr;
}

Value* Call::Tensor(Arg arg) {
  Value* value = OptionalTensor(arg);
  if (value != nullptr) return value;
  Refuse("argument ", arg.name, " is missing");
  return b.Scalar(0, DType::kF32);
}

std::vector<Value*> Call::OptionalTensors(Arg arg) {
  std::vector<Value*> values;
  const Argument* argument = Find(arg);
  const auto* list = argument == nullptr ? nullptr : std::get_if<ArgumentList>(&argument->value);
  if (list == nullptr) {
    Refuse("argument ", arg.name, " is no list");
    return values;
  }
  for (const Argument& item : *list) {
    const auto* tensor = std::get_if<TensorArgument>(&item.value);
    if (tensor == nullptr && !std::holds_alternative<NoneArgument>(item.value)) {
      Refuse("argument ", arg.name, " holds other than tensors");
      return {};
    }
    values.push_back(tensor == nullptr ? nullptr : node_.operands[tensor->tensor]);
  }
  return values;
}

std::vector<Value*> Call::Tensors(Arg arg) {
  std::vector<Value*> values = OptionalTensors(arg);
  for (const Value* value : values) {
    if (value != nullptr) continue;
    Refuse("argument ", arg.name, " holds None");
    return {};
  }
  return values;
}

std::vector<double> Call::Floats(Arg arg) {
  std::vector<double> values;
  const Argument* argument = Find(arg);
  const auto* list = argument == nullptr ? nullptr : std::get_if<ArgumentList>(&argument->value);
  if (list == nullptr) return values;
  for (const Argument& item : *list) {
    if (const auto* real = std::get_if<double>(&item.value)) {
      values.push_back(*real);
    } else if (const auto* whole = std::get_if<int64_t>(&item.value)) {
      values.push_back(static_cast<double>(*whole));
    } else {
      Refuse("argument ", arg.name, " holds other than numbers");
    }
  }
  return values;
}

Value* Call::Operand(Arg arg, DType dtype) {
  if (IsTensor(arg)) return b.Cast(Tensor(arg), dtype);
  return b.Scalar(Float(arg, 0), dtype);
}

int64_t Call::Int(Arg arg, int64_t otherwise) {
  const Argument* argument = Find(arg);
  if (argument == nullptr || std::holds_alternative<NoneArgument>(argument->value)) {
    return otherwise;
  }
  if (const auto* value = std::get_if<int64_t>(&argument->value)) return *value;
  if (const auto* value = std::get_if<bool>(&argument->value)) return *value ? 1 : 0;
  Refuse("argument ", arg.name, " is no integer");
  return otherwise;
}

int64_t Call::Int(Arg arg) {
  if (!Has(arg)) Refuse("argument ", arg.name, " is missing");
  return Int(arg, 0);
}

double Call::Float(Arg arg, double otherwise) {
  const Argument* argument = Find(arg);
  if (argument == nullptr || std::holds_alternative<NoneArgument>(argument->value)) {
    return otherwise;
  }
  if (const auto* value = std::get_if<double>(&argument->value)) return *value;
  if (const auto* value = std::get_if<bool>(&argument->value)) return *value ? 1 : 0;
  if (const auto* value = std::get_if<int64_t>(&argument->value)) {
    const auto real = static_cast<double>(*value);
    constexpr int64_t kExact = int64_t{1} << 53;
    if (*value > kExact || (*value < -kExact && *value != INT64_MIN)) {
      Refuse("argument ", arg.name, " = ", *value, " is too large for a constant");
    }
    return real;
  }
  Refuse("argument ", arg.name, " is no number");
  return otherwise;
}

bool Call::Bool(Arg arg, bool otherwise) { return Int(arg, otherwise ? 1 : 0) != 0; }

std::string Call::Text(Arg arg, std::string_view otherwise) {
  const Argument* argument = Find(arg);
  if (argument == nullptr || std::holds_alternative<NoneArgument>(argument->value)) {
    return std::string(otherwise);
  }
  if (const auto* value = std::get_if<std::string>(&argument->value)) return *value;
  Refuse("argument ", arg.name, " is no text");
  return std::string(otherwise);
}

Dims Call::Ints(Arg arg, Dims otherwise) {
  const Argument* argument = Find(arg);
  if (argument == nullptr || std::holds_alternative<NoneArgument>(argument->value)) {
    return otherwise;
  }
  const auto* list = std::get_if<ArgumentList>(&argument->value);
  if (list == nullptr) return {Int(arg)};
  Dims values;
  for (const Argument& item : *list) {
    const auto* value = std::get_if<int64_t>(&item.value);
    if (value == nullptr) {
      Refuse("argument ", arg.name, " holds other than integers");
      return otherwise;
    }
    values.push_back(*value);
  }
  return values;
}

bool Call::DeviceIs(Arg arg, std::string_view device) const {
  const Argument* argument = Find(arg);
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

int64_t Call::Dim(Arg arg, int64_t rank) { return WrapDim(Int(arg), rank); }

int64_t Call::Dim(Arg arg, int64_t rank, int64_t otherwise) {
  return WrapDim(Int(arg, otherwise), rank);
}

Dims Call::ReducedDims(Arg arg, int64_t rank) {
  Dims dims = Ints(arg);
  // PyTorch lets the dimension of a 0-d tensor be named 0 or -1.
  if (rank == 0) return {};
  if (dims.empty()) {
    dims.resize(rank);
    std::iota(dims.begin(), dims.end(), 0);
    return dims;
  }
  for (int64_t& dim : dims) dim = WrapDim(dim, rank);
  std::sort(dims.begin(), dims.end());
  return dims;
}

}  // namespace hpu::compiler
