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
  if (input.mutated || input.on_cpu || input.detached) {
    return DataLoss(what, ": a number that is mutated, on the CPU or detached");
  }
  if (input.kind == InputKind::kScalar) return absl::OkStatus();
  RETURN_IF_ERROR(CheckSpec(input.spec, what));
  if (!input.spec.sizes.empty() || input.spec.storage_offset != 0) {
    return DataLoss(what, ": a number of rank ", input.spec.sizes.size());
  }
  if (input.kind != InputKind::kNumber && input.spec.dtype != DType::kI64) {
    return DataLoss(what, ": random state that is not i64");
  }
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

absl::Status CheckView(const ProgramOutput& output, const std::string& what) {
  RETURN_IF_ERROR(CheckSpec(output.view, what));
  for (const ViewCall& call : output.calls) {
    RETURN_IF_ERROR(CheckName(call.op, what));
    RETURN_IF_ERROR(CheckName(call.overload, what));
    for (const Argument& argument : call.args) RETURN_IF_ERROR(CheckArgument(argument, 0, what));
  }
  return absl::OkStatus();
}

absl::Status CheckOutput(const ProgramFunction& function, size_t index, const std::string& what) {
  const ProgramOutput& output = function.outputs[index];
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
      return CheckView(output, what);
    case OutputKind::kOutputView:
      if (output.index >= index || function.outputs[output.index].kind != OutputKind::kTensor) {
        return DataLoss(what, ": views output ", output.index, ", which is not a tensor before it");
      }
      return CheckView(output, what);
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
    RETURN_IF_ERROR(CheckOutput(function, i, "output " + std::to_string(i)));
  }
  if (function.grad_mode > GradMode::kOn) return DataLoss("unknown grad mode");
  return ValidateSteps(program, function);
}

// An output that another function may take: a tensor or a number of a call.
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
    case OutputKind::kOutputView:
      return Value{InputKind::kTensor, &output.view};
    default:
      return std::nullopt;
  }
}

// Checks the values that go from function to function, and that no input is filled twice.
class Crossings {
 public:
  explicit Crossings(const Program& program) : program_(program) {}

  absl::Status Saved(const SavedValue& saved, const std::string& what) {
    RETURN_IF_ERROR(Order(saved.output.function, saved.input.function, what));
    const ProgramFunction& from = program_.functions[saved.output.function];
    const ProgramFunction& to = program_.functions[saved.input.function];
    ASSIGN_OR_RETURN(const Value value, Output(from, saved.output.index, what));
    RETURN_IF_ERROR(Fill(saved.input, what));
    const ProgramInput& input = to.inputs[saved.input.index];
    if (input.kind != value.kind || input.spec.dtype != value.spec->dtype ||
        input.spec.sizes != value.spec->sizes || input.spec.strides != value.spec->strides) {
      return DataLoss(what, ": output ", saved.output.index, " of ", from.name,
                      " is not what input ", saved.input.index, " of ", to.name, " takes");
    }
    return absl::OkStatus();
  }

  absl::Status Gradients(const Derivative& derivative, const std::string& what) {
    RETURN_IF_ERROR(Order(derivative.forward, derivative.backward, what));
    const ProgramFunction& forward = program_.functions[derivative.forward];
    const ProgramFunction& backward = program_.functions[derivative.backward];
    std::set<uint32_t> outputs, inputs;
    for (const auto& [output, input] : derivative.tangents) {
      const std::string where = what + ", tangent of output " + std::to_string(output);
      ASSIGN_OR_RETURN(const Value value, Output(forward, output, where));
      RETURN_IF_ERROR(Fill({derivative.backward, input}, where));
      const ProgramInput& tangent = backward.inputs[input];
      RETURN_IF_ERROR(Same(value, {tangent.kind, &tangent.spec}, where));
      if (!outputs.insert(output).second) return DataLoss(where, ": named twice");
      if (!forward.outputs[output].requires_grad) {
        return DataLoss(where, ": the output requires no gradient");
      }
    }
    for (const auto& [input, output] : derivative.gradients) {
      const std::string where = what + ", gradient of input " + std::to_string(input);
      if (input >= forward.inputs.size()) return DataLoss(where, ": no such input");
      ASSIGN_OR_RETURN(const Value value, Output(backward, output, where));
      RETURN_IF_ERROR(
          Same({forward.inputs[input].kind, &forward.inputs[input].spec}, value, where));
      if (!inputs.insert(input).second) return DataLoss(where, ": named twice");
    }
    return absl::OkStatus();
  }

  // Called after all saved values and tangents: only the program can give a backward its tensors.
  absl::Status Complete(const Derivative& derivative, const std::string& what) const {
    const ProgramFunction& backward = program_.functions[derivative.backward];
    for (uint32_t i = 0; i < backward.inputs.size(); ++i) {
      const InputKind kind = backward.inputs[i].kind;
      if (kind != InputKind::kTensor && kind != InputKind::kNumber) continue;
      if (!filled_.contains({derivative.backward, i})) {
        return DataLoss(what, ": input ", i, " of ", backward.name,
                        " is neither a tangent nor saved");
      }
    }
    return absl::OkStatus();
  }

 private:
  // Values go only to later functions, so there is no circle.
  absl::Status Order(uint32_t from, uint32_t to, const std::string& what) const {
    if (to >= program_.functions.size()) return DataLoss(what, ": no function ", to);
    if (from < to) return absl::OkStatus();
    return DataLoss(what, ": function ", to, " is not after function ", from);
  }
  static absl::StatusOr<Value> Output(const ProgramFunction& function, uint32_t output,
                                      const std::string& what) {
    if (output >= function.outputs.size()) {
      return DataLoss(what, ": ", function.name, " has no output ", output);
    }
    const std::optional<Value> value = ValueOf(function, function.outputs[output]);
    if (value.has_value()) return *value;
    return DataLoss(what, ": output ", output, " of ", function.name,
                    " is neither a tensor nor a number");
  }
  static absl::Status Same(const Value& primal, const Value& gradient, const std::string& what) {
    if (primal.kind == InputKind::kTensor && gradient.kind == InputKind::kTensor &&
        primal.spec->dtype == gradient.spec->dtype && primal.spec->sizes == gradient.spec->sizes) {
      return absl::OkStatus();
    }
    return DataLoss(what, ": differs in dtype or sizes");
  }
  absl::Status Fill(const FunctionSlot& input, const std::string& what) {
    const ProgramFunction& function = program_.functions[input.function];
    if (input.index >= function.inputs.size()) {
      return DataLoss(what, ": ", function.name, " has no input ", input.index);
    }
    if (filled_.insert(input).second) return absl::OkStatus();
    return DataLoss(what, ": input ", input.index, " of ", function.name, " is filled twice");
  }

  const Program& program_;
  std::set<FunctionSlot> filled_;
};

absl::Status CheckCrossings(const Program& program) {
  Crossings crossings(program);
  for (size_t i = 0; i < program.saved.size(); ++i) {
    RETURN_IF_ERROR(crossings.Saved(program.saved[i], "saved value " + std::to_string(i)));
  }
  for (size_t i = 0; i < program.derivatives.size(); ++i) {
    RETURN_IF_ERROR(crossings.Gradients(program.derivatives[i], "derivative " + std::to_string(i)));
  }
  for (size_t i = 0; i < program.derivatives.size(); ++i) {
    RETURN_IF_ERROR(crossings.Complete(program.derivatives[i], "derivative " + std::to_string(i)));
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
  if (program.functions.empty()) return DataLoss("no function");
  std::set<std::string_view> names;
  for (size_t i = 0; i < program.functions.size(); ++i) {
    const ProgramFunction& function = program.functions[i];
    const std::string what = "function " + std::to_string(i);
    RETURN_IF_ERROR(CheckName(function.name, what));
    if (function.name.empty()) return DataLoss(what, ": no name");
    if (!names.insert(function.name).second) return DataLoss(what, ": a second ", function.name);
    RETURN_IF_ERROR_AT(CheckFunction(program, function), function.name);
  }
  return CheckCrossings(program);
}

}  // namespace hpu
