#include "compiler_server/lowering/lower_graph.h"

#include <utility>

#include "compiler_server/lowering/collective_calls.h"
#include "compiler_server/lowering/collective_waits.h"
#include "compiler_server/lowering/eager_steps.h"
#include "compiler_server/lowering/memory_plan.h"
#include "compiler_server/lowering/segment.h"
#include "compiler_server/lowering/segment_lowering.h"

namespace hpu::compiler {
namespace {

using ir::Graph;

void AddInputs(const Graph& graph, ProgramFunction* function) {
  for (const ir::Input& input : graph.inputs()) {
    ProgramInput& entry = function->inputs.emplace_back();
    if (input.value == nullptr) {
      entry.kind = ProgramInput::Kind::kScalar;
      continue;
    }
    entry.spec = SpecOf({input.value->type, 0});
    entry.on_cpu = input.on_cpu;
    if (input.role == ir::InputRole::kSeed) entry.kind = ProgramInput::Kind::kSeed;
    if (input.role == ir::InputRole::kOffset) {
      entry.kind = ProgramInput::Kind::kOffset;
      entry.draws = graph.draws;
    }
  }
  for (const ir::Mutation& mutation : graph.mutations()) {
    function->inputs[mutation.input].mutated = true;
  }
}

void AddOutputs(const Graph& graph, MemoryPlan& memory, EagerSteps& eager,
                ProgramFunction* function) {
  for (const ir::Output& output : graph.outputs()) {
    ProgramOutput entry;
    entry.index = output.index;
    switch (output.kind) {
      case ir::Output::Kind::kTensor: {
        entry.kind = ProgramOutput::Kind::kTensor;
        Memory region = memory.StorageMemory(output.index);
        region.view.type = output.view.type;
        region.view.offset = output.view.offset;
        entry.index = eager.TensorFor(region);
        break;
      }
      case ir::Output::Kind::kInput: {
        const bool whole = output.view == memory.InputMemory(output.index).view;
        if (whole && (output.form == AliasForm::kNone || output.form == AliasForm::kSame)) {
          entry.kind = ProgramOutput::Kind::kInput;
          break;
        }
        entry.kind = ProgramOutput::Kind::kInputView;
        entry.view = SpecOf(output.view);
        entry.form = output.form == AliasForm::kNone ? AliasForm::kView : output.form;
        break;
      }
      case ir::Output::Kind::kNone:
        entry.kind = ProgramOutput::Kind::kNone;
        break;
      case ir::Output::Kind::kInt:
        entry.kind = ProgramOutput::Kind::kInt;
        break;
      case ir::Output::Kind::kFloat:
        entry.kind = ProgramOutput::Kind::kFloat;
        break;
      case ir::Output::Kind::kBool:
        entry.kind = ProgramOutput::Kind::kBool;
        break;
    }
    entry.int_value = output.int_value;
    entry.float_value = output.float_value;
    function->outputs.push_back(std::move(entry));
  }
}

absl::Status AddCollective(const ir::Node& node, MemoryPlan& memory, EagerSteps& eager,
                           ProgramFunction* function) {
  std::optional<CollectiveStep> step = CollectiveStepOf(node);
  if (!step.has_value()) return Internal(node.aten->target, " is no collective step");
  for (ir::Value* operand : node.operands) {
    ASSIGN_OR_RETURN(const uint32_t tensor, eager.OperandTensor(operand));
    step->inputs.push_back(tensor);
  }
  for (const ir::Value* result : node.results) {
    step->outputs.push_back(eager.TensorFor(*memory.HomeOf(*result)));
  }
  function->steps.emplace_back(*std::move(step));
  return absl::OkStatus();
}

// Adds a node that is not part of a recipe.
absl::Status AddNode(const ir::Node& node, NodeKind kind, MemoryPlan& memory, EagerSteps& eager,
                     ProgramFunction* function) {
  if (kind == NodeKind::kWait) return absl::OkStatus();
  if (kind == NodeKind::kCollective) return AddCollective(node, memory, eager, function);
  ++function->eager_node_count;
  return eager.Add(node);
}

}  // namespace

absl::Status LowerGraph(const Graph& graph, const SynapseFunctions& functions,
                        const LoweringOptions& options, std::string name, LoweredProgram* lowered) {
  Program& program = lowered->program;
  program.deterministic = options.deterministic;
  const auto number_of_function = static_cast<uint32_t>(program.functions.size());
  ProgramFunction& function = program.functions.emplace_back();
  function.name = std::move(name);
  function.node_count = graph.captured_nodes;
  AddInputs(graph, &function);
  ASSIGN_OR_RETURN(const SegmentPlan plan, SegmentPlan::Create(graph, options.least_part_bytes));
  MemoryPlan memory(graph, plan, program, function);
  EagerSteps eager(plan, memory, function);
  for (const Segment& segment : plan.segments()) {
    if (!segment.recipe) {
      for (const ir::Node* node : segment.nodes) {
        RETURN_IF_ERROR(AddNode(*node, plan.KindOf(*node), memory, eager, &function));
      }
      continue;
    }
    auto syn = std::make_unique<SynGraph>(
        functions, SynGraphOptions{options.device, options.deterministic, options.inference});
    SegmentLowering lowering(graph, plan, segment, memory, *syn);
    RETURN_IF_ERROR(lowering.Run());
    if (syn->node_count() == 0) continue;  // all tensors were without elements
    lowered->recipes.push_back(
        {std::move(syn), number_of_function, static_cast<uint32_t>(function.steps.size())});
    function.steps.emplace_back(LaunchStep{0, lowering.bindings()});
  }
  AddOutputs(graph, memory, eager, &function);
  const std::vector<uint32_t> number = PlaceCollectiveWaits(&function);
  for (LoweredRecipe& recipe : lowered->recipes) {
    if (recipe.function == number_of_function) recipe.step = number[recipe.step];
  }
  return absl::OkStatus();
}

}  // namespace hpu::compiler
