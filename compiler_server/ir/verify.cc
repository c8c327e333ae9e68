#include "compiler_server/ir/verify.h"

#include <algorithm>
#include <limits>
#include <span>
#include <unordered_set>

#include "compiler_server/ir/constraint.h"
#include "compiler_server/ir/infer.h"

namespace hpu::ir {
namespace {

// Checks that a view is inside memory of `room` elements.
absl::Status CheckView(const View& view, int64_t room) {
  RETURN_IF_ERROR(CheckType(view.type));
  const int64_t span = SpanElements(view.type);
  CONSTRAINT(
      view.offset >= 0 && view.offset <= kMaxElements && (span == 0 || view.offset + span <= room),
      "view_c1", ToText(view.type), " + ", view.offset, " is outside ", room, " elements");
  return absl::OkStatus();
}

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), defined_(graph.value_count(), false) {}

  absl::Status Run() {
    RETURN_IF_ERROR(CheckInputs());
    for (const Node* node : graph_.nodes()) {
      RETURN_IF_ERROR_AT(CheckNode(*node), Where(*node));
      for (const Value* result : node->results) defined_[result->id] = true;
      ++position_;
    }
    RETURN_IF_ERROR(CheckMutations());
    RETURN_IF_ERROR(CheckOutputs());
    RETURN_IF_ERROR(CheckRandomState());
    return CheckDerivative();
  }

 private:
  std::string Where(const Node& node) const {
    std::string text = "node " + std::to_string(position_) + " " + std::string(OpName(node.op));
    if (node.aten != nullptr) text += " " + node.aten->target;
    if (!graph_.source(node).empty()) text += " (" + graph_.source(node) + ")";
    return text;
  }

  absl::Status CheckInputs() {
    std::unordered_set<std::string_view> names;
    for (const Input& input : graph_.inputs()) {
      CONSTRAINT(!input.name.empty() && names.insert(input.name).second, "input_c1", "input name '",
                 input.name, "' is empty or used twice");
      if (input.value == nullptr) continue;
      RETURN_IF_ERROR_AT(CheckType(input.value->type), "input %" + input.name);
      defined_[input.value->id] = true;
    }
    for (const Constant& constant : graph_.constants()) {
      const TensorType& type = constant.value->type;
      RETURN_IF_ERROR_AT(CheckType(type), "constant");
      CONSTRAINT(type.contiguous(), "constant_c1", "constant ", ToText(type), " is not row-major");
      CONSTRAINT(type.bytes() == static_cast<int64_t>(constant.data.size()), "constant_c2",
                 "constant ", ToText(type), " has ", constant.data.size(), " bytes");
      defined_[constant.value->id] = true;
    }
    return absl::OkStatus();
  }

  absl::Status CheckArgument(const Argument& argument, size_t operands) {
    if (const auto* tensor = std::get_if<TensorArgument>(&argument.value)) {
      CONSTRAINT(tensor->tensor < operands, "aten_c2", "argument names operand ", tensor->tensor,
                 " of ", operands);
    } else if (const auto* list = std::get_if<ArgumentList>(&argument.value)) {
      for (const Argument& item : *list) RETURN_IF_ERROR(CheckArgument(item, operands));
    }
    return absl::OkStatus();
  }

  absl::Status CheckAten(const Node& node) {
    CONSTRAINT(node.aten != nullptr && !node.aten->target.empty(), "aten_c1", "no call");
    for (const auto& [name, argument] : node.aten->args) {
      RETURN_IF_ERROR(CheckArgument(argument, node.operands.size()));
    }
    CONSTRAINT(node.aten->strides.size() == node.operands.size(), "aten_c4",
               node.aten->strides.size(), " lists of strides for ", node.operands.size(),
               " operands");
    for (size_t i = 0; i < node.operands.size(); ++i) {
      CONSTRAINT(node.operands[i] != nullptr, "aten_c3", "absent operand");
      CONSTRAINT(node.aten->strides[i].size() == node.operands[i]->type.sizes.size(), "aten_c4",
                 "strides ", ToText(node.aten->strides[i]), " for ",
                 ToText(node.operands[i]->type));
    }
    return absl::OkStatus();
  }

  absl::Status CheckNode(const Node& node) {
    for (const Value* operand : node.operands) {
      CONSTRAINT(operand == nullptr || defined_[operand->id], "order_c1",
                 "an operand is used before it is defined");
    }
    for (const Value* result : node.results) RETURN_IF_ERROR(CheckType(result->type));
    if (node.op == OpKind::kAten) return CheckAten(node);
    const int results = Traits(node.op).results;
    CONSTRAINT(
        results < 0 ? !node.results.empty() : static_cast<int>(node.results.size()) == results,
        "form_c5", node.results.size(), " results");
    ASSIGN_OR_RETURN(const std::vector<TensorType> types,
                     InferTypes(node.op, node.operands, node.attrs, &node.results[0]->type));
    CONSTRAINT(types.size() == node.results.size(), "form_c5", node.results.size(), " results");
    for (size_t i = 0; i < types.size(); ++i) {
      const TensorType& type = node.results[i]->type;
      CONSTRAINT(type.dtype == types[i].dtype && type.sizes == types[i].sizes, "result_c1",
                 "result ", i, " is ", ToText(type), ", not ", ToText(types[i]));
      CONSTRAINT(type.contiguous(), "result_c2", "result ", i, " ", ToText(type),
                 " is not row-major");
    }
    return absl::OkStatus();
  }

  absl::Status CheckMutations() {
    for (const Mutation& mutation : graph_.mutations()) {
      CONSTRAINT(mutation.input < graph_.inputs().size() &&
                     graph_.inputs()[mutation.input].value != nullptr,
                 "mutation_c1", "mutation of input ", mutation.input);
      const TensorType& input = graph_.inputs()[mutation.input].value->type;
      const TensorType& value = mutation.value->type;
      CONSTRAINT(defined_[mutation.value->id], "order_c1", "a mutation's value is not defined");
      RETURN_IF_ERROR_AT(CheckView(mutation.view, SpanElements(input)), "mutation");
      CONSTRAINT(mutation.view.type.dtype == input.dtype && value.dtype == input.dtype &&
                     mutation.view.type.sizes == value.sizes,
                 "mutation_c2", ToText(value), " is written to ", ToText(mutation.view.type),
                 " of ", ToText(input));
    }
    return absl::OkStatus();
  }

  absl::Status CheckOutputs() {
    for (const Storage& storage : graph_.storages()) {
      RETURN_IF_ERROR_AT(CheckType(storage.type), "storage");
      CONSTRAINT(defined_[storage.value->id], "order_c1", "an output is not defined");
      CONSTRAINT(storage.type.dtype == storage.value->type.dtype &&
                     storage.type.sizes == storage.value->type.sizes,
                 "storage_c1", "storage ", ToText(storage.type), " of ",
                 ToText(storage.value->type));
      CONSTRAINT(storage.type.contiguous() || IsDense(storage.type), "storage_c2", "storage ",
                 ToText(storage.type), " is not dense");
    }
    for (size_t i = 0; i < graph_.outputs().size(); ++i) {
      RETURN_IF_ERROR_AT(CheckOutput(graph_.outputs()[i]), "output " + std::to_string(i));
    }
    return absl::OkStatus();
  }

  absl::Status CheckOutput(const Output& output) {
    CONSTRAINT(output.form == AliasForm::kNone || output.kind == Output::Kind::kInput, "output_c3",
               "form ", AliasFormName(output.form), " of what is no input");
    if (output.kind == Output::Kind::kTensor) {
      CONSTRAINT(output.index < graph_.storages().size(), "output_c1", "storage ", output.index);
      const TensorType& type = graph_.storages()[output.index].type;
      CONSTRAINT(output.view.type.dtype == type.dtype, "output_c2", "view ",
                 ToText(output.view.type), " of ", ToText(type));
      return CheckView(output.view, SpanElements(type));
    }
    if (output.kind == Output::Kind::kInput) {
      CONSTRAINT(
          output.index < graph_.inputs().size() && graph_.inputs()[output.index].value != nullptr,
          "output_c1", "input ", output.index);
      const TensorType& type = graph_.inputs()[output.index].value->type;
      CONSTRAINT(output.view.type.dtype == type.dtype, "output_c2", "view ",
                 ToText(output.view.type), " of ", ToText(type));
      CONSTRAINT(output.form != AliasForm::kSame || output.view == (View{type, 0}), "output_c3",
                 "a part of input ", output.index, " is said to be the input");
      return CheckView(output.view, SpanElements(type));
    }
    return absl::OkStatus();
  }

  // Checks that seed and offset, i64[], are the last inputs, or are absent.
  absl::Status CheckRandomState() const {
    const size_t given = graph_.caller_inputs();
    const std::span<const Input> state = std::span(graph_.inputs()).subspan(given);
    if (state.empty()) {
      CONSTRAINT(graph_.draws == 0, "random_state_c1", "draws without a state");
      return absl::OkStatus();
    }
    CONSTRAINT(state.size() == 2 && state[0].role == InputRole::kSeed &&
                   state[1].role == InputRole::kOffset,
               "random_state_c1", "the last inputs are not seed and offset");
    for (const Input& input : state) {
      CONSTRAINT(input.value != nullptr && !input.on_cpu &&
                     input.value->type == Contiguous(DType::kI64, {}),
                 "random_state_c2", "%", input.name, " is not i64[]");
    }
    return absl::OkStatus();
  }

  // Checks an input and an output of which one is the gradient of the other.
  absl::Status CheckPair(uint32_t input, uint32_t output) const {
    CONSTRAINT(input < graph_.inputs().size() && graph_.inputs()[input].value != nullptr,
               "derivative_c1", "input ", input, " is no tensor");
    CONSTRAINT(output < graph_.outputs().size() &&
                   (graph_.outputs()[output].kind == Output::Kind::kTensor ||
                    graph_.outputs()[output].kind == Output::Kind::kInput),
               "derivative_c1", "output ", output, " is no tensor");
    const TensorType& given = graph_.inputs()[input].value->type;
    const TensorType& made = graph_.outputs()[output].view.type;
    CONSTRAINT(given.dtype == made.dtype && given.sizes == made.sizes, "derivative_c1", "input ",
               input, " is ", ToText(given), ", output ", output, " ", ToText(made));
    return absl::OkStatus();
  }

  absl::Status CheckDerivative() const {
    const auto& tangents = graph_.tangents;
    const auto& gradients = graph_.gradients;
    CONSTRAINT(tangents.empty() == gradients.empty() && tangents.size() <= graph_.caller_inputs() &&
                   gradients.size() <= graph_.outputs().size(),
               "derivative_c2", tangents.size(), " tangents for ", gradients.size(), " gradients");
    const size_t given = graph_.caller_inputs() - tangents.size();
    const size_t returned = graph_.outputs().size() - gradients.size();
    for (size_t i = 0; i < tangents.size(); ++i) {
      CONSTRAINT(tangents[i].tangent == given + i && tangents[i].output < returned, "derivative_c3",
                 "tangents are not the caller's last inputs, in order");
      RETURN_IF_ERROR(CheckPair(tangents[i].tangent, tangents[i].output));
    }
    for (size_t i = 0; i < gradients.size(); ++i) {
      CONSTRAINT(gradients[i].gradient == returned + i && gradients[i].input < given,
                 "derivative_c3", "gradients are not the last outputs, in order");
      RETURN_IF_ERROR(CheckPair(gradients[i].input, gradients[i].gradient));
    }
    return absl::OkStatus();
  }

  const Graph& graph_;
  std::vector<bool> defined_;
  size_t position_ = 0;
};

}  // namespace

absl::Status CheckType(const TensorType& type) {
  CONSTRAINT(type.dtype != DType::kInvalid && static_cast<int>(type.dtype) < kNumDTypes, "type_c1",
             "unknown element type");
  CONSTRAINT(type.rank() <= kMaxRank, "type_c2", "rank ", type.rank(), " is above ", kMaxRank);
  CONSTRAINT(type.strides.size() == type.sizes.size(), "type_c3", type.strides.size(),
             " strides for ", type.sizes.size(), " sizes");
  int64_t elements = 1;
  int64_t span = 1;
  for (size_t i = 0; i < type.sizes.size(); ++i) {
    const int64_t size = type.sizes[i];
    const int64_t stride = type.strides[i];
    CONSTRAINT(size >= 0 && stride >= 0, "type_c4", "negative size or stride in ", ToText(type));
    CONSTRAINT(size <= kMaxElements && stride <= kMaxElements, "type_c5", "size or stride above ",
               kMaxElements);
    const int64_t factor = std::max<int64_t>(size, 1);
    CONSTRAINT(elements <= kMaxElements / factor, "type_c5", "more than ", kMaxElements,
               " elements");
    elements *= factor;
    if (size > 1) {
      CONSTRAINT(stride <= (kMaxElements - span) / (size - 1), "type_c5", "spans more than ",
                 kMaxElements, " elements");
      span += (size - 1) * stride;
    }
  }
  return absl::OkStatus();
}

absl::Status Verify(const Graph& graph) { return Verifier(graph).Run(); }

}  // namespace hpu::ir
