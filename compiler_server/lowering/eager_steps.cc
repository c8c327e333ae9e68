#include "compiler_server/lowering/eager_steps.h"

#include <utility>

#include "compiler_server/lowering/lower.h"
#include "graph/op_schema.h"

namespace hpu::compiler {
namespace {

// Returns at most kMaxReasonBytes of the text, without cutting a character.
std::string Bounded(std::string reason) {
  if (reason.size() <= kMaxReasonBytes) return reason;
  size_t end = kMaxReasonBytes;
  while (end > 0 && (static_cast<uint8_t>(reason[end]) & 0xC0) == 0x80) --end;
  reason.resize(end);
  return reason;
}

ArgumentList IntList(const ir::Dims& dims) {
  ArgumentList list(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) list[i].value = dims[i];
  return list;
}

}  // namespace

absl::Status EagerSteps::Add(const ir::Node& node) {
  if (node.aten == nullptr) return Internal(ir::OpName(node.op), " has no ATen call");
  EagerStep step;
  ASSIGN_OR_RETURN(OperatorName op, ParseTarget(node.aten->target));
  step.op = std::move(op.name);
  step.overload = std::move(op.overload);
  for (const auto& [name, argument] : node.aten->args) {
    step.args.push_back(argument);
    RETURN_IF_ERROR(Resolve(node, &step.args.back()));
  }
  for (const ir::Value* result : node.results) {
    step.outputs.push_back(memory_.HomeOf(*result)->index);
  }
  step.reason = Bounded(node.aten->reason.empty() ? std::string(CheckLowerable(node).message())
                                                  : node.aten->reason);
  function_.steps.emplace_back(std::move(step));
  return absl::OkStatus();
}

// Tensor arguments refer to the node's operands before, and to the program's tensors afterwards.
absl::Status EagerSteps::Resolve(const ir::Node& node, Argument* argument) {
  if (auto* tensor = std::get_if<TensorArgument>(&argument->value)) {
    if (tensor->tensor >= node.operands.size() || node.operands[tensor->tensor] == nullptr) {
      return Internal(node.aten->target, ": no operand ", tensor->tensor);
    }
    ASSIGN_OR_RETURN(tensor->tensor, OperandTensor(node.operands[tensor->tensor]));
  } else if (auto* list = std::get_if<ArgumentList>(&argument->value)) {
    for (Argument& item : *list) RETURN_IF_ERROR(Resolve(node, &item));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> EagerSteps::OperandTensor(ir::Value* value) {
  std::optional<ir::RootView> view = plan_.FindRootView(value);
  if (!view.has_value()) return Internal("operand ", value->id, " cannot be addressed by strides");
  std::optional<Memory> memory = memory_.HomeOf(*view->root);
  if (!memory.has_value()) return Internal("operand ", value->id, " has no memory");
  memory->view.type = view->view.type;
  memory->view.offset += view->view.offset;
  return TensorFor(*memory);
}

uint32_t EagerSteps::AddView(const std::string& op, const std::string& overload,
                             std::vector<Argument> args, const ir::TensorType& type) {
  const uint32_t result = memory_.NewEagerTensor(type);
  EagerStep step;
  step.op = op;
  step.overload = overload;
  step.args = std::move(args);
  step.outputs = {result};
  step.reason = "view of an eager result";
  function_.steps.emplace_back(std::move(step));
  return result;
}

uint32_t EagerSteps::AddAsStrided(uint32_t tensor, const ir::TensorType& type) {
  std::vector<Argument> args(3);
  args[0].value = TensorArgument{tensor};
  args[1].value = IntList(type.sizes);
  args[2].value = IntList(type.strides);
  return AddView("aten::as_strided", "", std::move(args), type);
}

uint32_t EagerSteps::TensorFor(const Memory& memory) {
  const ir::View& view = memory.view;
  if (memory.placement != Placement::kEager) {
    return memory_.Tensor(memory.placement, memory.index, SpecOf(view));
  }
  const TensorSpec& whole = function_.tensors[memory.index].spec;
  if (view.offset == 0 && view.type.sizes == whole.sizes && view.type.strides == whole.strides) {
    return memory.index;
  }
  // as_strided counts its offset from the start of the storage, which is unknown here; without an
  // offset it keeps that of the tensor. So an offset becomes a slice of the elements in memory
  // order.
  uint32_t base = memory.index;
  if (view.offset != 0) {
    const int64_t span = view.offset + ir::SpanElements(view.type);
    const ir::TensorType flat = ir::Contiguous(view.type.dtype, {span});
    std::vector<Argument> args(4);
    args[0].value = TensorArgument{AddAsStrided(base, flat)};
    args[1].value = int64_t{0};
    args[2].value = view.offset;
    args[3].value = span;
    base = AddView("aten::slice", "Tensor", std::move(args),
                   ir::Contiguous(view.type.dtype, {span - view.offset}));
  }
  return AddAsStrided(base, view.type);
}

}  // namespace hpu::compiler
