#include <algorithm>
#include <optional>
#include <set>
#include <span>

#include "program/program.h"
#include "program/validate_steps.h"

namespace hpu {
namespace {

using InputKind = ProgramInput::Kind;
using OutputKind = ProgramOutput::Kind;

// Returns whether the elements span at most `limit` bytes.
bool FitsBytes(const TensorSpec& spec, uint64_t limit) {
  const auto span = static_cast<uint64_t>(SpanElements(spec));
  return span <= limit / static_cast<uint64_t>(DTypeSize(spec.dtype));
}

uint64_t InputBytes(const ProgramInput& input) {
  TensorSpec spec = input.spec;
  spec.storage_offset = 0;
  return static_cast<uint64_t>(SpanElements(spec) * DTypeSize(spec.dtype));
}

absl::Status CheckInput(const ProgramInput& input, const std::string& what) {
  if (input.draws != 0 && input.kind != InputKind::kOffset) {
    return DataLoss(what, ": draws random numbers, but is not an offset");
  }
  if (input.kind == InputKind::kTensor) {
    RETURN_IF_ERROR(CheckSpec(input.spec, what));
    if (input.on_cpu && input.mutated) return DataLoss(what, ": lies on the CPU and is written");
    return absl::OkStatus();
  }
  if (input.kind > InputKind::kOffset) return DataLoss(what, ": unknown kind");
  if (input.mutated || input.on_cpu) {
    return DataLoss(what, ": a number that is mutated or on the CPU");
  }
  if (input.kind == InputKind::kScalar) return absl::OkStatus();
  RETURN_IF_ERROR(CheckSpec(input.spec, what));
  if (!input.spec.sizes.empty() || input.spec.storage_offset != 0) {
    return DataLoss(what, ": random state of rank ", input.spec.sizes.size());
  }
  if (input.spec.dtype != DType::kI64) return DataLoss(what, ": random state that is not i64");
  return absl::OkStatus();
}

absl::Status CheckTensor(const Program& program, const ProgramFunction& function,
                         const ProgramTensor& tensor, const std::string& what) {
  RETURN_IF_ERROR(CheckSpec(tensor.spec, what));
  switch (tensor.placement) {
    case Placement::kInput:
      if (tensor.index >= function.inputs.size() ||
          function.inputs[tensor.index].kind == InputKind::kScalar) {
        return DataLoss(what, ": input ", tensor.index, " is not a tensor input");
      }
      if (!FitsBytes(tensor.spec, InputBytes(function.inputs[tensor.index]))) {
        return DataLoss(what, ": reaches past input ", tensor.index);
      }
      return absl::OkStatus();
    case Placement::kBuffer:
      if (tensor.index >= function.buffer_bytes.size()) {
        return DataLoss(what, ": no buffer ", tensor.index);
      }
      if (!FitsBytes(tensor.spec, function.buffer_bytes[tensor.index])) {
        return DataLoss(what, ": reaches past buffer ", tensor.index);
      }
      return absl::OkStatus();
    case Placement::kConstant:
      if (tensor.index >= program.constants.size()) {
        return DataLoss(what, ": no constant ", tensor.index);
      }
      if (!FitsBytes(tensor.spec, program.constants[tensor.index].data.size())) {
        return DataLoss(what, ": reaches past constant ", tensor.index);
      }
      return absl::OkStatus();
    case Placement::kEager:
      return absl::OkStatus();
  }
  return DataLoss(what, ": unknown placement");
}

absl::Status CheckOutput(const ProgramFunction& function, const ProgramOutput& output,
                         const std::string& what) {
  switch (output.kind) {
    case OutputKind::kTensor:
      if (output.index < function.tensors.size()) return absl::OkStatus();
      return DataLoss(what, ": no tensor ", output.index);
    case OutputKind::kInput:
      if (output.index < function.inputs.size()) return absl::OkStatus();
      return DataLoss(what, ": no input ", output.index);
    case OutputKind::kInputView:
      if (output.index >= function.inputs.size() ||
          function.inputs[output.index].kind != InputKind::kTensor) {
        return DataLoss(what, ": no tensor input ", output.index);
      }
      if (output.form == AliasForm::kNone || output.form == AliasForm::kSame) {
        return DataLoss(what, ": a view of form \"", AliasFormName(output.form), "\"");
      }
      return CheckSpec(output.view, what);
    case OutputKind::kNone:
    case OutputKind::kInt:
    case OutputKind::kFloat:
    case OutputKind::kBool:
      return absl::OkStatus();
  }
  return DataLoss(what, ": unknown kind");
}

absl::Status CheckFunction(const Program& program, const ProgramFunction& function) {
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    RETURN_IF_ERROR(CheckInput(function.inputs[i], "input " + std::to_string(i)));
  }
  for (size_t i = 0; i < function.tensors.size(); ++i) {
    RETURN_IF_ERROR(
        CheckTensor(program, function, function.tensors[i], "tensor " + std::to_string(i)));
  }
  for (size_t i = 0; i < function.outputs.size(); ++i) {
    RETURN_IF_ERROR(CheckOutput(function, function.outputs[i], "output " + std::to_string(i)));
  }
  return ValidateSteps(program, function);
}

// An output gives this to another function: a tensor, or random state.
struct Value {
  InputKind kind;
  const TensorSpec* spec;
};
std::optional<Value> ValueOf(const ProgramFunction& function, const ProgramOutput& output) {
  switch (output.kind) {
    case OutputKind::kTensor:
      return Value{InputKind::kTensor, &function.tensors[output.index].spec};
    case OutputKind::kInput: {
      const ProgramInput& input = function.inputs[output.index];
      if (input.kind == InputKind::kScalar) return std::nullopt;
      return Value{input.kind, &input.spec};
    }
    case OutputKind::kInputView:
      return Value{InputKind::kTensor, &output.view};
    default:
      return std::nullopt;
  }
}

// Checks what goes from the forward to the backward, and that each input of the backward is filled
// once.
class Crossings {
 public:
  explicit Crossings(const Program& program)
      : forward_(program.functions[0]), backward_(program.functions[1]) {}

  absl::Status Saved(const SavedValue& saved, const std::string& what) {
    ASSIGN_OR_RETURN(const Value value, Output(forward_, saved.output, what));
    RETURN_IF_ERROR(Fill(saved.input, what));
    const ProgramInput& input = backward_.inputs[saved.input];
    if (input.kind != value.kind || input.spec.dtype != value.spec->dtype ||
        input.spec.sizes != value.spec->sizes || input.spec.strides != value.spec->strides) {
      return DataLoss(what, ": output ", saved.output, " of ", forward_.name, " is not what input ",
                      saved.input, " of ", backward_.name, " takes");
    }
    return absl::OkStatus();
  }

  absl::Status Tangent(const GradientPair& pair) {
    const std::string what = "tangent of output " + std::to_string(pair.forward);
    ASSIGN_OR_RETURN(const Value value, Output(forward_, pair.forward, what));
    RETURN_IF_ERROR(Fill(pair.backward, what));
    const ProgramInput& tangent = backward_.inputs[pair.backward];
    RETURN_IF_ERROR(Same(value, {tangent.kind, &tangent.spec}, what));
    if (!outputs_.insert(pair.forward).second) return DataLoss(what, ": named twice");
    if (forward_.outputs[pair.forward].requires_grad) return absl::OkStatus();
    return DataLoss(what, ": the output requires no gradient");
  }

  absl::Status Gradient(const GradientPair& pair) {
    const std::string what = "gradient of input " + std::to_string(pair.forward);
    if (pair.forward >= forward_.inputs.size()) return DataLoss(what, ": no such input");
    const ProgramInput& input = forward_.inputs[pair.forward];
    ASSIGN_OR_RETURN(const Value value, Output(backward_, pair.backward, what));
    RETURN_IF_ERROR(Same({input.kind, &input.spec}, value, what));
    if (inputs_.insert(pair.forward).second) return absl::OkStatus();
    return DataLoss(what, ": named twice");
  }

  // Called after all saved values and tangents: only the program can give a backward its tensors.
  absl::Status Complete() const {
    for (uint32_t i = 0; i < backward_.inputs.size(); ++i) {
      if (backward_.inputs[i].kind != InputKind::kTensor || filled_.contains(i)) continue;
      return DataLoss("input ", i, " of ", backward_.name, " is neither a tangent nor saved");
    }
    return absl::OkStatus();
  }

 private:
  static absl::StatusOr<Value> Output(const ProgramFunction& function, uint32_t output,
                                      const std::string& what) {
    if (output >= function.outputs.size()) {
      return DataLoss(what, ": ", function.name, " has no output ", output);
    }
    const std::optional<Value> value = ValueOf(function, function.outputs[output]);
    if (value.has_value()) return *value;
    return DataLoss(what, ": output ", output, " of ", function.name,
                    " is neither a tensor nor random state");
  }
  static absl::Status Same(const Value& primal, const Value& gradient, const std::string& what) {
    if (primal.kind == InputKind::kTensor && gradient.kind == InputKind::kTensor &&
        primal.spec->dtype == gradient.spec->dtype && primal.spec->sizes == gradient.spec->sizes) {
      return absl::OkStatus();
    }
    return DataLoss(what, ": differs in dtype or sizes");
  }
  absl::Status Fill(uint32_t input, const std::string& what) {
    if (input >= backward_.inputs.size()) {
      return DataLoss(what, ": ", backward_.name, " has no input ", input);
    }
    if (filled_.insert(input).second) return absl::OkStatus();
    return DataLoss(what, ": input ", input, " of ", backward_.name, " is filled twice");
  }

  const ProgramFunction& forward_;
  const ProgramFunction& backward_;
  std::set<uint32_t> filled_;   // inputs of the backward
  std::set<uint32_t> outputs_;  // outputs of the forward that have tangents
  std::set<uint32_t> inputs_;   // inputs of the forward that have gradients
};

absl::Status CheckCrossings(const Program& program) {
  Crossings crossings(program);
  for (size_t i = 0; i < program.saved.size(); ++i) {
    RETURN_IF_ERROR(crossings.Saved(program.saved[i], "saved value " + std::to_string(i)));
  }
  for (const GradientPair& pair : program.tangents) RETURN_IF_ERROR(crossings.Tangent(pair));
  for (const GradientPair& pair : program.gradients) RETURN_IF_ERROR(crossings.Gradient(pair));
  return crossings.Complete();
}

// Nothing can take what a function without a backward would save.
absl::Status CheckWithoutBackward(const ProgramFunction& function) {
  for (size_t i = 0; i < function.outputs.size(); ++i) {
    const ProgramOutput& output = function.outputs[i];
    if (output.requires_grad || !output.returned) {
      return DataLoss("output ", i, ": is for a backward, which there is not");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateProgram(const Program& program) {
  for (size_t i = 0; i < program.constants.size(); ++i) {
    const ProgramConstant& constant = program.constants[i];
    RETURN_IF_ERROR(CheckSpec(constant.spec, "constant " + std::to_string(i)));
    if (!FitsBytes(constant.spec, constant.data.size())) {
      return DataLoss("constant ", i, ": ", constant.data.size(), " bytes are too few");
    }
  }
  if (program.functions.empty() || program.functions.size() > 2) {
    return DataLoss(program.functions.size(), " functions, not a forward and perhaps a backward");
  }
  std::set<std::string_view> names;
  for (size_t i = 0; i < program.functions.size(); ++i) {
    const ProgramFunction& function = program.functions[i];
    const std::string what = "function " + std::to_string(i);
    RETURN_IF_ERROR(CheckName(function.name, what));
    if (function.name.empty()) return DataLoss(what, ": no name");
    if (!names.insert(function.name).second) return DataLoss(what, ": a second ", function.name);
    RETURN_IF_ERROR_AT(CheckFunction(program, function), function.name);
  }
  const ProgramFunction& last = program.functions.back();
  RETURN_IF_ERROR_AT(CheckWithoutBackward(last), last.name);
  if (program.functions.size() == 2) return CheckCrossings(program);
  if (program.saved.empty() && program.tangents.empty() && program.gradients.empty()) {
    return absl::OkStatus();
  }
  return DataLoss("saved values or gradients without a backward");
}

}  // namespace hpu
