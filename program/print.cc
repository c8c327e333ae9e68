#include <sstream>

#include "program/program.h"

namespace hpu {
namespace {

void Join(std::ostream& out, const std::vector<int64_t>& values) {
  for (size_t i = 0; i < values.size(); ++i) out << (i ? "," : "") << values[i];
}

// f32[2,3]{3,1}@4
void PrintSpec(std::ostream& out, const TensorSpec& spec) {
  out << DTypeName(spec.dtype) << "[";
  Join(out, spec.sizes);
  out << "]{";
  Join(out, spec.strides);
  out << "}";
  if (spec.storage_offset != 0) out << "@" << spec.storage_offset;
}

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

constexpr const char* kPlacementNames[] = {"input", "buffer", "constant", "eager"};

void PrintOutput(std::ostream& out, const ProgramOutput& output) {
  switch (output.kind) {
    case ProgramOutput::Kind::kTensor:
      out << "%" << output.index;
      return;
    case ProgramOutput::Kind::kInput:
      out << "input " << output.index;
      return;
    case ProgramOutput::Kind::kInputView:
      out << "view of input " << output.index << " ";
      PrintSpec(out, output.view);
      return;
    case ProgramOutput::Kind::kNone:
      out << "None";
      return;
    case ProgramOutput::Kind::kInt:
      out << output.int_value;
      return;
    case ProgramOutput::Kind::kFloat:
      out << output.float_value;
      return;
    case ProgramOutput::Kind::kBool:
      out << (output.int_value ? "True" : "False");
      return;
  }
}

}  // namespace

std::string PrintProgram(const Program& program) {
  std::ostringstream out;
  out << "program " << program.name << ": " << program.node_count << " nodes, "
      << program.eager_node_count << " eager\n";
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const ProgramInput& input = program.inputs[i];
    out << "  input " << i << ": ";
    if (input.kind == ProgramInput::Kind::kScalar) {
      out << "scalar";
    } else {
      PrintSpec(out, input.spec);
    }
    out << (input.mutated ? " mutated" : "") << (input.on_cpu ? " cpu" : "") << "\n";
  }
  for (size_t i = 0; i < program.buffer_bytes.size(); ++i) {
    out << "  buffer " << i << ": " << program.buffer_bytes[i] << " bytes\n";
  }
  for (size_t i = 0; i < program.constants.size(); ++i) {
    out << "  constant " << i << ": ";
    PrintSpec(out, program.constants[i].spec);
    out << "\n";
  }
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    const ProgramTensor& tensor = program.tensors[i];
    out << "  %" << i << ": ";
    PrintSpec(out, tensor.spec);
    out << " in " << kPlacementNames[static_cast<int>(tensor.placement)];
    if (tensor.placement != Placement::kEager) out << " " << tensor.index;
    out << "\n";
  }
  for (size_t i = 0; i < program.recipes.size(); ++i) {
    const RecipeRef& recipe = program.recipes[i];
    out << "  recipe " << i << ": " << ToHex(recipe.digest) << " " << recipe.size_bytes << " bytes "
        << recipe.name << "\n";
  }
  for (const Step& step : program.steps) {
    if (const auto* launch = std::get_if<LaunchStep>(&step)) {
      out << "  launch recipe " << launch->recipe << " (";
      for (size_t i = 0; i < launch->bindings.size(); ++i) {
        out << (i ? ", " : "") << launch->bindings[i].tensor_name << "=%"
            << launch->bindings[i].tensor;
      }
      out << ")\n";
      continue;
    }
    const auto& eager = std::get<EagerStep>(step);
    out << "  eager ";
    for (size_t i = 0; i < eager.outputs.size(); ++i) out << (i ? ", %" : "%") << eager.outputs[i];
    out << " = " << eager.op << (eager.overload.empty() ? "" : "." + eager.overload) << "(";
    for (size_t i = 0; i < eager.args.size(); ++i) {
      if (i) out << ", ";
      PrintArgument(out, eager.args[i]);
    }
    for (size_t i = 0; i < eager.kwargs.size(); ++i) {
      out << (i || !eager.args.empty() ? ", " : "") << eager.kwargs[i].first << "=";
      PrintArgument(out, eager.kwargs[i].second);
    }
    out << ")  # " << eager.reason << "\n";
  }
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    out << "  output " << i << ": ";
    PrintOutput(out, program.outputs[i]);
    out << "\n";
  }
  return out.str();
}

}  // namespace hpu
