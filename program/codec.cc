#include <cstring>

#include "program/program.h"

namespace hpu {
namespace {

constexpr char kMagic[8] = {'H', 'P', 'U', 'P', 'R', 'O', 'G', '\0'};
// A list nests inside a list at most this deep; keeps hostile bytes from exhausting the stack.
constexpr int kMaxArgumentDepth = 4;

void PutSpec(ByteWriter& out, const TensorSpec& spec) {
  out.Put(spec.dtype);
  out.PutVector(spec.sizes);
  out.PutVector(spec.strides);
  out.Put(spec.storage_offset);
}

absl::Status GetDType(ByteReader& in, DType* dtype) {
  uint8_t raw = 0;
  RETURN_IF_ERROR(in.Get(&raw));
  if (raw == 0 || raw >= kNumDTypes) return DataLoss("unknown dtype number ", int{raw});
  *dtype = static_cast<DType>(raw);
  return absl::OkStatus();
}

absl::Status GetSpec(ByteReader& in, TensorSpec* spec) {
  RETURN_IF_ERROR(GetDType(in, &spec->dtype));
  RETURN_IF_ERROR(in.GetVector(&spec->sizes));
  RETURN_IF_ERROR(in.GetVector(&spec->strides));
  return in.Get(&spec->storage_offset);
}

template <typename Enum>
absl::Status GetEnum(ByteReader& in, Enum last, Enum* value) {
  uint8_t raw = 0;
  RETURN_IF_ERROR(in.Get(&raw));
  if (raw > static_cast<uint8_t>(last)) return DataLoss("enum value ", int{raw}, " out of range");
  *value = static_cast<Enum>(raw);
  return absl::OkStatus();
}

absl::Status GetBool(ByteReader& in, bool* value) {
  uint8_t raw = 0;
  RETURN_IF_ERROR(in.Get(&raw));
  if (raw > 1) return DataLoss("boolean byte ", int{raw});
  *value = raw == 1;
  return absl::OkStatus();
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

absl::Status GetArgument(ByteReader& in, int depth, Argument* argument) {
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
    case 2: {
      int64_t value = 0;
      RETURN_IF_ERROR(in.Get(&value));
      argument->value = value;
      return absl::OkStatus();
    }
    case 3: {
      double value = 0;
      RETURN_IF_ERROR(in.Get(&value));
      argument->value = value;
      return absl::OkStatus();
    }
    case 4: {
      bool value = false;
      RETURN_IF_ERROR(GetBool(in, &value));
      argument->value = value;
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
    case 7: {
      EnumArgument value;
      RETURN_IF_ERROR(in.GetString(&value.name));
      argument->value = std::move(value);
      return absl::OkStatus();
    }
    case 8: {
      DeviceArgument value;
      RETURN_IF_ERROR(in.GetString(&value.name));
      argument->value = std::move(value);
      return absl::OkStatus();
    }
    case 9: {
      if (depth >= kMaxArgumentDepth) return DataLoss("argument lists nest too deep");
      uint32_t count = 0;
      RETURN_IF_ERROR(in.GetCount(&count, 1));
      ArgumentList list(count);
      for (Argument& item : list) RETURN_IF_ERROR(GetArgument(in, depth + 1, &item));
      argument->value = std::move(list);
      return absl::OkStatus();
    }
    default:
      return DataLoss("unknown argument kind ", int{kind});
  }
}

void PutStep(ByteWriter& out, const LaunchStep& step) {
  out.Put(step.recipe);
  out.Put(static_cast<uint32_t>(step.bindings.size()));
  for (const Binding& binding : step.bindings) {
    out.PutString(binding.tensor_name);
    out.Put(binding.tensor);
  }
}

void PutStep(ByteWriter& out, const EagerStep& step) {
  out.PutString(step.op);
  out.PutString(step.overload);
  out.Put(static_cast<uint32_t>(step.args.size()));
  for (const Argument& argument : step.args) PutArgument(out, argument);
  out.Put(static_cast<uint32_t>(step.kwargs.size()));
  for (const auto& [name, argument] : step.kwargs) {
    out.PutString(name);
    PutArgument(out, argument);
  }
  out.PutVector(step.outputs);
  out.PutString(step.reason);
}

absl::Status GetStep(ByteReader& in, LaunchStep* step) {
  RETURN_IF_ERROR(in.Get(&step->recipe));
  uint32_t count = 0;
  RETURN_IF_ERROR(in.GetCount(&count, 8));
  step->bindings.resize(count);
  for (Binding& binding : step->bindings) {
    RETURN_IF_ERROR(in.GetString(&binding.tensor_name));
    RETURN_IF_ERROR(in.Get(&binding.tensor));
  }
  return absl::OkStatus();
}

absl::Status GetStep(ByteReader& in, EagerStep* step) {
  RETURN_IF_ERROR(in.GetString(&step->op));
  RETURN_IF_ERROR(in.GetString(&step->overload));
  uint32_t count = 0;
  RETURN_IF_ERROR(in.GetCount(&count, 1));
  step->args.resize(count);
  for (Argument& argument : step->args) RETURN_IF_ERROR(GetArgument(in, 0, &argument));
  RETURN_IF_ERROR(in.GetCount(&count, 5));
  step->kwargs.resize(count);
  for (auto& [name, argument] : step->kwargs) {
    RETURN_IF_ERROR(in.GetString(&name));
    RETURN_IF_ERROR(GetArgument(in, 0, &argument));
  }
  RETURN_IF_ERROR(in.GetVector(&step->outputs));
  return in.GetString(&step->reason);
}

void PutBody(ByteWriter& out, const Program& program) {
  out.PutString(program.name);
  out.Put(static_cast<uint32_t>(program.inputs.size()));
  for (const ProgramInput& input : program.inputs) {
    out.Put(input.kind);
    PutSpec(out, input.spec);
    out.Put<uint8_t>(input.mutated);
    out.Put<uint8_t>(input.on_cpu);
  }
  out.PutVector(program.buffer_bytes);
  out.Put(static_cast<uint32_t>(program.constants.size()));
  for (const ProgramConstant& constant : program.constants) {
    PutSpec(out, constant.spec);
    out.PutBytes(constant.data);
  }
  out.Put(static_cast<uint32_t>(program.tensors.size()));
  for (const ProgramTensor& tensor : program.tensors) {
    out.Put(tensor.placement);
    out.Put(tensor.index);
    PutSpec(out, tensor.spec);
  }
  out.Put(static_cast<uint32_t>(program.recipes.size()));
  for (const RecipeRef& recipe : program.recipes) {
    out.PutRaw(recipe.digest.data(), recipe.digest.size());
    out.Put(recipe.size_bytes);
    out.PutString(recipe.name);
  }
  out.Put(static_cast<uint32_t>(program.steps.size()));
  for (const Step& step : program.steps) {
    out.Put(static_cast<uint8_t>(step.index()));
    std::visit([&](const auto& s) { PutStep(out, s); }, step);
  }
  out.Put(static_cast<uint32_t>(program.outputs.size()));
  for (const ProgramOutput& output : program.outputs) {
    out.Put(output.kind);
    out.Put(output.index);
    out.Put<uint8_t>(output.kind == ProgramOutput::Kind::kInputView);
    if (output.kind == ProgramOutput::Kind::kInputView) PutSpec(out, output.view);
    out.Put(output.int_value);
    out.Put(output.float_value);
  }
  out.Put(program.node_count);
  out.Put(program.eager_node_count);
}

absl::Status GetBody(ByteReader& in, Program* program) {
  uint32_t count = 0;
  RETURN_IF_ERROR(in.GetString(&program->name));
  RETURN_IF_ERROR(in.GetCount(&count, 4));
  program->inputs.resize(count);
  for (ProgramInput& input : program->inputs) {
    RETURN_IF_ERROR(GetEnum(in, ProgramInput::Kind::kScalar, &input.kind));
    // A scalar has no element type; the bytes are those of an empty spec.
    uint8_t dtype = 0;
    RETURN_IF_ERROR(in.Get(&dtype));
    if (dtype >= kNumDTypes) return DataLoss("unknown dtype number ", int{dtype});
    input.spec.dtype = static_cast<DType>(dtype);
    RETURN_IF_ERROR(in.GetVector(&input.spec.sizes));
    RETURN_IF_ERROR(in.GetVector(&input.spec.strides));
    RETURN_IF_ERROR(in.Get(&input.spec.storage_offset));
    RETURN_IF_ERROR(GetBool(in, &input.mutated));
    RETURN_IF_ERROR(GetBool(in, &input.on_cpu));
  }
  RETURN_IF_ERROR(in.GetVector(&program->buffer_bytes));
  RETURN_IF_ERROR(in.GetCount(&count, 8));
  program->constants.resize(count);
  for (ProgramConstant& constant : program->constants) {
    RETURN_IF_ERROR(GetSpec(in, &constant.spec));
    std::span<const uint8_t> data;
    RETURN_IF_ERROR(in.GetBytes(&data));
    constant.data.assign(data.begin(), data.end());
  }
  RETURN_IF_ERROR(in.GetCount(&count, 8));
  program->tensors.resize(count);
  for (ProgramTensor& tensor : program->tensors) {
    RETURN_IF_ERROR(GetEnum(in, Placement::kEager, &tensor.placement));
    RETURN_IF_ERROR(in.Get(&tensor.index));
    RETURN_IF_ERROR(GetSpec(in, &tensor.spec));
  }
  RETURN_IF_ERROR(in.GetCount(&count, 44));
  program->recipes.resize(count);
  for (RecipeRef& recipe : program->recipes) {
    for (uint8_t& byte : recipe.digest) RETURN_IF_ERROR(in.Get(&byte));
    RETURN_IF_ERROR(in.Get(&recipe.size_bytes));
    RETURN_IF_ERROR(in.GetString(&recipe.name));
  }
  RETURN_IF_ERROR(in.GetCount(&count, 5));
  program->steps.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    uint8_t kind = 0;
    RETURN_IF_ERROR(in.Get(&kind));
    if (kind == 0) {
      LaunchStep step;
      RETURN_IF_ERROR(GetStep(in, &step));
      program->steps.emplace_back(std::move(step));
    } else if (kind == 1) {
      EagerStep step;
      RETURN_IF_ERROR(GetStep(in, &step));
      program->steps.emplace_back(std::move(step));
    } else {
      return DataLoss("unknown step kind ", int{kind});
    }
  }
  RETURN_IF_ERROR(in.GetCount(&count, 6));
  program->outputs.resize(count);
  for (ProgramOutput& output : program->outputs) {
    RETURN_IF_ERROR(GetEnum(in, ProgramOutput::Kind::kBool, &output.kind));
    RETURN_IF_ERROR(in.Get(&output.index));
    bool has_view = false;
    RETURN_IF_ERROR(GetBool(in, &has_view));
    if (has_view != (output.kind == ProgramOutput::Kind::kInputView)) {
      return DataLoss("output view does not fit its kind");
    }
    if (has_view) RETURN_IF_ERROR(GetSpec(in, &output.view));
    RETURN_IF_ERROR(in.Get(&output.int_value));
    RETURN_IF_ERROR(in.Get(&output.float_value));
  }
  RETURN_IF_ERROR(in.Get(&program->node_count));
  return in.Get(&program->eager_node_count);
}

}  // namespace

Bytes EncodeProgram(const Program& program) {
  ByteWriter out;
  out.PutRaw(kMagic, sizeof(kMagic));
  out.Put(kProgramVersion);
  PutBody(out, program);
  const Digest digest = Sha256(out.bytes());
  out.PutRaw(digest.data(), digest.size());
  return out.Take();
}

absl::StatusOr<Program> DecodeProgram(std::span<const uint8_t> bytes) {
  constexpr size_t kHead = sizeof(kMagic) + sizeof(uint32_t);
  if (bytes.size() < kHead + sizeof(Digest)) return DataLoss("program of ", bytes.size(), " bytes");
  if (std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0) return DataLoss("not a program");
  uint32_t version = 0;
  std::memcpy(&version, bytes.data() + sizeof(kMagic), sizeof(version));
  if (version != kProgramVersion) {
    return Unimplemented("program version ", version, ", this build reads ", kProgramVersion);
  }
  const auto signed_part = bytes.first(bytes.size() - sizeof(Digest));
  const Digest digest = Sha256(signed_part);
  if (std::memcmp(digest.data(), bytes.data() + signed_part.size(), digest.size()) != 0) {
    return DataLoss("program checksum does not match");
  }
  ByteReader in(signed_part.subspan(kHead));
  Program program;
  RETURN_IF_ERROR_AT(GetBody(in, &program), "program");
  if (in.remaining() != 0) return DataLoss("program: ", in.remaining(), " bytes left over");
  RETURN_IF_ERROR_AT(ValidateProgram(program), "program");
  return program;
}

}  // namespace hpu
