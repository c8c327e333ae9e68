#include "graph/argument.h"

#include <ostream>
#include <utility>

#include "graph/tensor_spec.h"

namespace hpu {
namespace {

template <typename T>
absl::Status GetInto(ByteReader& in, Argument* argument) {
  T value{};
  RETURN_IF_ERROR(in.Get(&value));
  argument->value = value;
  return absl::OkStatus();
}

template <typename T>
absl::Status GetNamed(ByteReader& in, Argument* argument) {
  T value;
  RETURN_IF_ERROR(in.GetString(&value.name));
  argument->value = std::move(value);
  return absl::OkStatus();
}

absl::Status GetAtDepth(ByteReader& in, int depth, Argument* argument) {
  uint8_t kind = 0;
  RETURN_IF_ERROR(in.Get(&kind));
  switch (kind) {
    case 0:
      argument->value = NoneArgument{};
      return absl::OkStatus();
    case 1: {
      TensorArgument value;
      RETURN_IF_ERROR(in.Get(&value.tensor));
      argument->value = value;
      return absl::OkStatus();
    }
    case 2:
      return GetInto<int64_t>(in, argument);
    case 3:
      return GetInto<double>(in, argument);
    case 4: {
      uint8_t value = 0;
      RETURN_IF_ERROR(in.Get(&value));
      if (value > 1) return DataLoss("boolean byte ", int{value});
      argument->value = value == 1;
      return absl::OkStatus();
    }
    case 5: {
      std::string value;
      RETURN_IF_ERROR(in.GetString(&value));
      argument->value = std::move(value);
      return absl::OkStatus();
    }
    case 6: {
      DTypeArgument value{};
      RETURN_IF_ERROR(GetDType(in, &value.dtype));
      argument->value = value;
      return absl::OkStatus();
    }
    case 7:
      return GetNamed<EnumArgument>(in, argument);
    case 8:
      return GetNamed<DeviceArgument>(in, argument);
    case 9: {
      if (depth >= kMaxArgumentDepth) return DataLoss("argument lists nest too deep");
      uint32_t count = 0;
      RETURN_IF_ERROR(in.GetCount(&count, 1));
      ArgumentList list(count);
      for (Argument& item : list) RETURN_IF_ERROR(GetAtDepth(in, depth + 1, &item));
      argument->value = std::move(list);
      return absl::OkStatus();
    }
    default:
      return DataLoss("unknown argument kind ", int{kind});
  }
}

}  // namespace

absl::Status CheckArgument(const Argument& argument, size_t tensors, std::string_view what) {
  absl::Status status;
  ForEachTensor(argument, [&](uint32_t tensor) {
    if (tensor >= tensors && status.ok()) {
      status = DataLoss(what, ": argument names tensor ", tensor, " of ", tensors);
    }
  });
  return status;
}

void PutArgument(ByteWriter& out, const Argument& argument) {
  out.Put(static_cast<uint8_t>(argument.value.index()));
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, NoneArgument>) {
        } else if constexpr (std::is_same_v<T, TensorArgument>) {
          out.Put(value.tensor);
        } else if constexpr (std::is_same_v<T, bool>) {
          out.Put<uint8_t>(value);
        } else if constexpr (std::is_arithmetic_v<T>) {
          out.Put(value);
        } else if constexpr (std::is_same_v<T, std::string>) {
          out.PutString(value);
        } else if constexpr (std::is_same_v<T, DTypeArgument>) {
          out.Put(value.dtype);
        } else if constexpr (std::is_same_v<T, ArgumentList>) {
          out.Put(static_cast<uint32_t>(value.size()));
          for (const Argument& item : value) PutArgument(out, item);
        } else {
          out.PutString(value.name);
        }
      },
      argument.value);
}

absl::Status GetArgument(ByteReader& in, Argument* argument) { return GetAtDepth(in, 0, argument); }

void PrintArgument(std::ostream& out, const Argument& argument) {
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, NoneArgument>) {
          out << "None";
        } else if constexpr (std::is_same_v<T, TensorArgument>) {
          out << "%" << value.tensor;
        } else if constexpr (std::is_same_v<T, bool>) {
          out << (value ? "True" : "False");
        } else if constexpr (std::is_same_v<T, std::string>) {
          out << '"' << value << '"';
        } else if constexpr (std::is_same_v<T, DTypeArgument>) {
          out << DTypeName(value.dtype);
        } else if constexpr (std::is_same_v<T, ArgumentList>) {
          out << "[";
          for (size_t i = 0; i < value.size(); ++i) {
            if (i) out << ", ";
            PrintArgument(out, value[i]);
          }
          out << "]";
        } else if constexpr (std::is_arithmetic_v<T>) {
          out << value;
        } else {
          out << value.name;
        }
      },
      argument.value);
}

}  // namespace hpu
