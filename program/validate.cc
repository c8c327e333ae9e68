#include "program/program.h"

namespace hpu {
namespace {

constexpr size_t kMaxRank = 25;  // HABANA_DIM_MAX

// Elements needed from the first to the last reachable one; negative if sizes overflow.
int64_t SpanElements(const TensorSpec& spec) {
  int64_t last = spec.storage_offset;
  for (size_t d = 0; d < spec.sizes.size(); ++d) {
    if (spec.sizes[d] == 0) return 0;
    int64_t step = 0;
    if (__builtin_mul_overflow(spec.sizes[d] - 1, spec.strides[d], &step) ||
        __builtin_add_overflow(last, step, &last)) {
      return -1;
    }
  }
  return last == INT64_MAX ? -1 : last + 1;
}

absl::Status CheckSpec(const TensorSpec& spec, const std::string& what) {
  if (spec.sizes.size() != spec.strides.size()) {
    return DataLoss(what, ": ", spec.sizes.size(), " sizes but ", spec.strides.size(), " strides");
  }
  if (spec.sizes.size() > kMaxRank) return DataLoss(what, ": rank ", spec.sizes.size());
  if (DTypeSize(spec.dtype) == 0) return DataLoss(what, ": no dtype");
  for (size_t d = 0; d < spec.sizes.size(); ++d) {
    if (spec.sizes[d] < 0 || spec.strides[d] < 0)
      return DataLoss(what, ": negative size or stride");
  }
  // In bytes as well: what follows multiplies.
  const int64_t span = SpanElements(spec);
  if (spec.storage_offset < 0 || span < 0 || span > INT64_MAX / DTypeSize(spec.dtype)) {
    return DataLoss(what, ": elements out of range");
  }
  return absl::OkStatus();
}

// [begin, end) bytes fit `limit`.
bool FitsBytes(const TensorSpec& spec, uint64_t limit) {
  const auto span = static_cast<uint64_t>(SpanElements(spec));
  return span <= limit / static_cast<uint64_t>(DTypeSize(spec.dtype));
}

absl::Status CheckArgument(const Argument& argument, size_t tensors, const std::string& what) {
  if (const auto* tensor = std::get_if<TensorArgument>(&argument.value)) {
    if (tensor->tensor >= tensors)
      return DataLoss(what, ": argument names tensor ", tensor->tensor);
  } else if (const auto* list = std::get_if<ArgumentList>(&argument.value)) {
    for (const Argument& item : *list) RETURN_IF_ERROR(CheckArgument(item, tensors, what));
  }
  return absl::OkStatus();
}

absl::Status CheckTensor(const Program& program, size_t index) {
  const ProgramTensor& tensor = program.tensors[index];
  const std::string what = "tensor " + std::to_string(index);
  RETURN_IF_ERROR(CheckSpec(tensor.spec, what));
  switch (tensor.placement) {
    case Placement::kInput: {
      if (tensor.index >= program.inputs.size() ||
          program.inputs[tensor.index].kind != ProgramInput::Kind::kTensor) {
        return DataLoss(what, ": input ", tensor.index, " is no tensor input");
      }
      TensorSpec input = program.inputs[tensor.index].spec;
      input.storage_offset = 0;
      const auto bytes = static_cast<uint64_t>(SpanElements(input) * DTypeSize(input.dtype));
      if (!FitsBytes(tensor.spec, bytes))
        return DataLoss(what, ": reaches past input ", tensor.index);
      return absl::OkStatus();
    }
    case Placement::kBuffer:
      if (tensor.index >= program.buffer_bytes.size()) {
        return DataLoss(what, ": no buffer ", tensor.index);
      }
      if (!FitsBytes(tensor.spec, program.buffer_bytes[tensor.index])) {
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

}  // namespace

absl::Status ValidateProgram(const Program& program) {
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    if (program.inputs[i].kind == ProgramInput::Kind::kTensor) {
      RETURN_IF_ERROR(CheckSpec(program.inputs[i].spec, "input " + std::to_string(i)));
    }
  }
  for (size_t i = 0; i < program.constants.size(); ++i) {
    RETURN_IF_ERROR(CheckSpec(program.constants[i].spec, "constant " + std::to_string(i)));
  }
  for (size_t i = 0; i < program.tensors.size(); ++i) RETURN_IF_ERROR(CheckTensor(program, i));
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const std::string what = "step " + std::to_string(i);
    if (const auto* launch = std::get_if<LaunchStep>(&program.steps[i])) {
      if (launch->recipe >= program.recipes.size())
        return DataLoss(what, ": no recipe ", launch->recipe);
      for (const Binding& binding : launch->bindings) {
        if (binding.tensor >= program.tensors.size())
          return DataLoss(what, ": no tensor ", binding.tensor);
      }
      continue;
    }
    const auto& eager = std::get<EagerStep>(program.steps[i]);
    for (const Argument& argument : eager.args) {
      RETURN_IF_ERROR(CheckArgument(argument, program.tensors.size(), what));
    }
    for (const auto& [name, argument] : eager.kwargs) {
      RETURN_IF_ERROR(CheckArgument(argument, program.tensors.size(), what));
    }
    for (uint32_t output : eager.outputs) {
      if (output >= program.tensors.size() ||
          program.tensors[output].placement != Placement::kEager) {
        return DataLoss(what, ": output ", output, " is no eager tensor");
      }
    }
  }
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const ProgramOutput& output = program.outputs[i];
    const std::string what = "output " + std::to_string(i);
    switch (output.kind) {
      case ProgramOutput::Kind::kTensor:
        if (output.index >= program.tensors.size())
          return DataLoss(what, ": no tensor ", output.index);
        break;
      case ProgramOutput::Kind::kInput:
      case ProgramOutput::Kind::kInputView:
        if (output.index >= program.inputs.size())
          return DataLoss(what, ": no input ", output.index);
        if (output.kind == ProgramOutput::Kind::kInputView)
          RETURN_IF_ERROR(CheckSpec(output.view, what));
        break;
      default:
        break;
    }
  }
  return absl::OkStatus();
}

}  // namespace hpu
