#include <sstream>

#include "program/program.h"

namespace hpu {
namespace {

constexpr const char* kPlacementNames[] = {"input", "buffer", "constant", "eager"};
static_assert(std::size(kPlacementNames) == static_cast<size_t>(Placement::kEager) + 1);
constexpr const char* kInputNames[] = {"", "scalar", "random seed ", "random offset "};
static_assert(std::size(kInputNames) == static_cast<size_t>(ProgramInput::Kind::kOffset) + 1);
constexpr const char* kReduceOpNames[] = {"", "sum", "average", "product", "min", "max"};
static_assert(std::size(kReduceOpNames) == static_cast<size_t>(CollectiveStep::ReduceOp::kMax) + 1);

// Prints "%1, %2" or "a, b" of anything that `print` writes.
template <typename Items, typename Print>
void PrintList(std::ostream& out, const Items& items, const Print& print) {
  const char* separator = "";
  for (const auto& item : items) {
    out << separator;
    print(item);
    separator = ", ";
  }
}

void PrintTensors(std::ostream& out, const std::vector<uint32_t>& tensors) {
  PrintList(out, tensors, [&](uint32_t tensor) { out << "%" << tensor; });
}

void PrintOp(std::ostream& out, const std::string& op, const std::string& overload) {
  out << op << (overload.empty() ? "" : "." + overload);
}

void PrintArguments(std::ostream& out, const std::vector<Argument>& arguments) {
  PrintList(out, arguments, [&](const Argument& argument) { PrintArgument(out, argument); });
}

// Prints everything after the kind's name.
void PrintStep(std::ostream& out, const LaunchStep& step) {
  const auto bindings = [&](bool written) {
    std::vector<const Binding*> chosen;
    for (const Binding& binding : step.bindings) {
      if (binding.written == written) chosen.push_back(&binding);
    }
    PrintList(out, chosen, [&](const Binding* binding) {
      out << binding->tensor_name << "=%" << binding->tensor;
    });
  };
  out << "recipe " << step.recipe << " (";
  bindings(false);
  out << ") -> (";
  bindings(true);
  out << ")";
}

void PrintStep(std::ostream& out, const EagerStep& step) {
  if (!step.outputs.empty()) {
    PrintTensors(out, step.outputs);
    out << " = ";
  }
  PrintOp(out, step.op, step.overload);
  out << "(";
  PrintArguments(out, step.args);
  out << ")  # " << step.reason;
}

void PrintStep(std::ostream& out, const CollectiveStep& step) {
  const CollectiveRow& row = kCollectives[static_cast<size_t>(step.op)];
  out << row.name << "(";
  PrintTensors(out, step.inputs);
  out << ") -> (";
  PrintTensors(out, step.outputs);
  out << ")";
  if (row.reduces) out << " " << kReduceOpNames[static_cast<size_t>(step.reduce_op)];
  if (row.has_root) out << " from rank " << step.root;
  const auto splits = [&](const char* what, const std::vector<int64_t>& values) {
    if (values.empty()) return;
    out << " " << what << " [";
    PrintList(out, values, [&](int64_t value) { out << value; });
    out << "]";
  };
  splits("rows in", step.input_splits);
  splits("rows out", step.output_splits);
  out << " in group \"" << step.group << "\"";
  if (step.group_size != 0) out << " of " << step.group_size;
}

void PrintStep(std::ostream& out, const WaitStep& step) { out << "for step " << step.step; }

void PrintOutput(std::ostream& out, const ProgramOutput& output) {
  using Kind = ProgramOutput::Kind;
  switch (output.kind) {
    case Kind::kTensor:
      out << "%" << output.index;
      break;
    case Kind::kInput:
      out << "input " << output.index;
      break;
    case Kind::kInputView:
      out << "view of input " << output.index << " ";
      PrintSpec(out, output.view);
      if (output.form != AliasForm::kView) out << " (" << AliasFormName(output.form) << ")";
      break;
    case Kind::kNone:
      out << "None";
      break;
    case Kind::kInt:
      out << output.int_value;
      break;
    case Kind::kFloat:
      out << output.float_value;
      break;
    case Kind::kBool:
      out << (output.int_value ? "True" : "False");
      break;
  }
  out << (output.requires_grad ? " requires_grad" : "") << (output.returned ? "" : " saved only");
}

void PrintFunction(std::ostream& out, const ProgramFunction& function) {
  out << function.name << ": " << function.node_count << " nodes, " << function.eager_node_count
      << " eager\n";
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    const ProgramInput& input = function.inputs[i];
    out << "  input " << i << ": " << kInputNames[static_cast<size_t>(input.kind)];
    if (input.kind != ProgramInput::Kind::kScalar) PrintSpec(out, input.spec);
    out << (input.mutated ? " mutated" : "") << (input.on_cpu ? " cpu" : "");
    if (input.draws != 0) out << " draws " << input.draws;
    out << "\n";
  }
  for (size_t i = 0; i < function.buffer_bytes.size(); ++i) {
    out << "  buffer " << i << ": " << function.buffer_bytes[i] << " bytes\n";
  }
  for (size_t i = 0; i < function.tensors.size(); ++i) {
    const ProgramTensor& tensor = function.tensors[i];
    out << "  %" << i << ": ";
    PrintSpec(out, tensor.spec);
    out << " in " << kPlacementNames[static_cast<size_t>(tensor.placement)];
    if (tensor.placement != Placement::kEager) out << " " << tensor.index;
    out << "\n";
  }
  for (const Step& step : function.steps) {
    out << "  " << StepName(step) << " ";
    std::visit([&](const auto& kind) { PrintStep(out, kind); }, step);
    out << "\n";
  }
  for (size_t i = 0; i < function.outputs.size(); ++i) {
    out << "  output " << i << ": ";
    PrintOutput(out, function.outputs[i]);
    out << "\n";
  }
}

}  // namespace

std::string PrintProgram(const Program& program) {
  std::ostringstream out;
  out << "program of " << program.functions.size()
      << (program.functions.size() == 1 ? " function" : " functions")
      << (program.deterministic ? ", deterministic" : "") << "\n";
  for (size_t i = 0; i < program.constants.size(); ++i) {
    out << "  constant " << i << ": ";
    PrintSpec(out, program.constants[i].spec);
    out << "\n";
  }
  for (size_t i = 0; i < program.recipes.size(); ++i) {
    const RecipeRef& recipe = program.recipes[i];
    out << "  recipe " << i << ": " << ToHex(recipe.digest) << " " << recipe.size_bytes
        << " bytes\n";
  }
  for (const ProgramFunction& function : program.functions) PrintFunction(out, function);
  for (const SavedValue& saved : program.saved) {
    out << "saved output " << saved.output << " -> backward's input " << saved.input
        << (saved.donated ? " donated" : "") << "\n";
  }
  for (const auto& [output, input] : program.tangents) {
    out << "tangent of output " << output << " -> backward's input " << input << "\n";
  }
  for (const auto& [input, output] : program.gradients) {
    out << "gradient of input " << input << " <- backward's output " << output << "\n";
  }
  return out.str();
}

}  // namespace hpu
