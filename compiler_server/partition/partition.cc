#include "compiler_server/partition/partition.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "compiler_server/partition/graph_copier.h"
#include "compiler_server/partition/min_cut.h"

namespace hpu::compiler {
namespace {

using ir::Node;
using ir::OpClass;
using ir::Output;
using ir::Value;
using ir::ValueKind;

bool IsRecomputable(const Node& node) {
  const OpClass op_class = ir::Traits(node.op).op_class;
  // Resizing to the nearest element only moves elements.
  if (node.op == ir::OpKind::kResize) return node.Text(ir::AttrKey::kMode) != "linear";
  return op_class == OpClass::kElementwise || op_class == OpClass::kMovement ||
         op_class == OpClass::kSource || op_class == OpClass::kRandom;
}

class Partitioner {
 public:
  explicit Partitioner(const ir::Graph& graph)
      : graph_(graph),
        inputs_(graph.caller_inputs() - graph.tangents.size()),
        outputs_(graph.outputs().size() - graph.gradients.size()),
        of_tangents_(graph.value_count(), false),
        convolved_(graph.value_count(), false),
        saved_(graph.value_count(), false) {}

  absl::StatusOr<PartitionedGraph> Run() {
    FindWhatTangentsReach();
    for (const ir::Mutation& mutation : graph_.mutations()) {
      if (of_tangents_[mutation.value->id]) {
        return Unimplemented("the backward writes to input ", mutation.input);
      }
    }
    for (size_t i = 0; i < outputs_; ++i) {
      const Value* value = ValueOf(graph_.outputs()[i]);
      if (value != nullptr && of_tangents_[value->id]) {
        return Unimplemented("output ", i, " depends on a tangent");
      }
    }
    RETURN_IF_ERROR(ChooseSaved());
    MakeForward();
    MakeBackward();
    PartitionedGraph result{std::move(forward_->graph()), std::move(backward_->graph()),
                            std::move(saved_outputs_), static_cast<uint32_t>(outputs_)};
    return result;
  }

 private:
  // The value that an output returns or returns a view of; nullptr for numbers.
  Value* ValueOf(const Output& output) const {
    if (output.kind == Output::Kind::kTensor) return graph_.storages()[output.index].value;
    if (output.kind == Output::Kind::kInput) return graph_.inputs()[output.index].value;
    return nullptr;
  }

  // Whether the input's memory may hold something else when the backward runs.
  bool IsOverwritten(uint32_t input) const {
    return graph_.inputs()[input].copied || IsMutated(input);
  }

  bool IsMutated(uint32_t input) const {
    return std::any_of(graph_.mutations().begin(), graph_.mutations().end(),
                       [&](const ir::Mutation& mutation) { return mutation.input == input; });
  }

  void FindWhatTangentsReach() {
    for (const auto& [output, tangent] : graph_.tangents) {
      of_tangents_[graph_.inputs()[tangent].value->id] = true;
    }
    for (const Node* node : graph_.nodes()) {
      if (!IsBackward(*node)) continue;
      for (const Value* result : node->results) of_tangents_[result->id] = true;
    }
  }

  bool IsBackward(const Node& node) const {
    return std::any_of(node.operands.begin(), node.operands.end(), [&](const Value* operand) {
      return operand != nullptr && of_tangents_[operand->id];
    });
  }

  // The values outside the backward that it reads.
  std::vector<Value*> BackwardReads() {
    std::vector<Value*> reads;
    const auto read = [&](Value* value) {
      if (value != nullptr && !of_tangents_[value->id]) reads.push_back(value);
    };
    for (const Node* node : graph_.nodes()) {
      if (!IsBackward(*node)) continue;
      const bool convolution = ir::Has(node->op, ir::OpFlag::kConvolution);
      for (Value* operand : node->operands) {
        read(operand);
        if (convolution && operand != nullptr) convolved_[operand->id] = true;
      }
    }
    for (const auto& [input, gradient] : graph_.gradients)
      read(ValueOf(graph_.outputs()[gradient]));
    return reads;
  }

  // The values that the forward stores whatever is saved: those that it returns, and those that
  // matrix products and similar nodes read (for a ReLU after a product, this is the ReLU and not
  // the product's own result).
  std::vector<bool> StoredAnyway() const {
    std::vector<bool> stored(graph_.value_count(), false);
    for (size_t i = 0; i < outputs_; ++i) {
      if (const Value* value = ValueOf(graph_.outputs()[i])) stored[value->id] = true;
    }
    for (const Node* node : graph_.nodes()) {
      if (IsBackward(*node) || ir::Traits(node->op).op_class != OpClass::kContract) continue;
      for (const Value* operand : node->operands) {
        if (operand != nullptr) stored[operand->id] = true;
        while (operand != nullptr && operand->kind == ValueKind::kResult &&
               ir::IsView(*operand->producer)) {
          operand = operand->producer->operands[0];
          stored[operand->id] = true;
        }
      }
    }
    return stored;
  }

  // The bytes that are moved if the value is saved. It is written once and read once; an input, or
  // a value that is stored anyway, is only read, and to compute the value again the backward would
  // read about as much. A view costs one byte more, so that among equals the value under the view
  // is saved. The view that a convolution reads costs one byte less, because it has the device's
  // layout.
  uint64_t Cost(const Value& value, const std::vector<bool>& stored) const {
    const auto bytes = static_cast<uint64_t>(std::max<int64_t>(value.type.bytes(), 0));
    if (value.kind == ValueKind::kInput) return IsOverwritten(value.index) ? 2 * bytes + 2 : 1;
    const bool view = ir::Traits(value.producer->op).op_class == OpClass::kMovement;
    const uint64_t order = convolved_[value.id] ? 1 : view ? 3 : 2;
    return (stored[value.id] ? bytes : 2 * bytes) + order;
  }

  // The vertices of value v are 2 + 2 v where it is computed and 3 + 2 v where it is read.
  absl::Status ChooseSaved() {
    const auto made = [](const Value& value) { return 2 + 2 * value.id; };
    const auto read = [](const Value& value) { return 3 + 2 * value.id; };
    const std::vector<bool> stored = StoredAnyway();
    MinCut cut(2 + 2 * graph_.value_count());
    std::vector<bool> seen(graph_.value_count(), false);
    std::vector<Value*> pending = BackwardReads();
    for (const Value* value : pending) {
      if (value->kind != ValueKind::kConstant) {
        cut.AddEdge(read(*value), MinCut::kSink, MinCut::kUnlimited);
      }
    }
    while (!pending.empty()) {
      Value* value = pending.back();
      pending.pop_back();
      if (value->kind == ValueKind::kConstant || seen[value->id]) continue;
      seen[value->id] = true;
      cut.AddEdge(made(*value), read(*value), Cost(*value, stored));
      if (value->kind == ValueKind::kInput || !IsRecomputable(*value->producer)) {
        cut.AddEdge(MinCut::kSource, made(*value), MinCut::kUnlimited);
        continue;
      }
      for (Value* operand : value->producer->operands) {
        if (operand == nullptr || operand->kind == ValueKind::kConstant) continue;
        cut.AddEdge(read(*operand), made(*value), MinCut::kUnlimited);
        pending.push_back(operand);
      }
    }
    const std::vector<bool> on_source_side = cut.Solve();
    if (cut.value() >= MinCut::kUnlimited) return Internal("the values to save cannot be chosen");
    for (uint32_t id = 0; id < graph_.value_count(); ++id) {
      saved_[id] = seen[id] && on_source_side[2 + 2 * id] && !on_source_side[3 + 2 * id];
    }
    return absl::OkStatus();
  }

  void MakeForward() {
    forward_.emplace(graph_, graph_.name() + "_forward");
    ir::Graph& forward = forward_->graph();
    for (size_t i = 0; i < inputs_; ++i) {
      const ir::Input& input = graph_.inputs()[i];
      if (input.value == nullptr) {
        forward.AddScalarInput(input.name);
      } else {
        forward_->Map(input.value, forward.AddInput(input.name, input.value->type, input.on_cpu,
                                                    input.is_weight, input.is_trained));
      }
    }
    if (graph_.caller_inputs() < graph_.inputs().size()) {
      const ir::Graph::RandomState state = forward.AddRandomState();
      for (const ir::Input& input : graph_.inputs()) {
        if (input.role == ir::InputRole::kSeed) forward_->Map(input.value, state.seed);
        if (input.role == ir::InputRole::kOffset) forward_->Map(input.value, state.offset);
      }
      forward.draws = graph_.draws;
    }
    // The order is that of the training graph, so that random numbers are drawn in that order.
    const std::vector<bool> live = ForwardNeeds();
    for (Node* node : graph_.nodes()) {
      if (IsBackward(*node)) continue;
      const bool effect =
          node->op == ir::OpKind::kAten && (node->results.empty() || node->aten->draws_random);
      const bool needed = std::any_of(node->results.begin(), node->results.end(),
                                      [&](const Value* result) { return live[result->id]; });
      if (effect || needed) forward_->Emit(*node);
    }
    CopyOutputs(*forward_, 0, outputs_);
    for (const ir::Mutation& mutation : graph_.mutations()) {
      forward.AddMutation({mutation.input, mutation.view, forward_->Get(mutation.value)});
    }
    SaveValues();
  }

  // By value: whether outputs, mutations or saved values of the forward depend on it.
  std::vector<bool> ForwardNeeds() const {
    std::vector<bool> live = saved_;
    for (size_t i = 0; i < outputs_; ++i) {
      if (const Value* value = ValueOf(graph_.outputs()[i])) live[value->id] = true;
    }
    for (const ir::Mutation& mutation : graph_.mutations()) live[mutation.value->id] = true;
    for (auto node = graph_.nodes().rbegin(); node != graph_.nodes().rend(); ++node) {
      const auto& results = (*node)->results;
      const bool needed = std::any_of(results.begin(), results.end(),
                                      [&](const Value* result) { return live[result->id]; });
      if (!needed) continue;
      for (const Value* operand : (*node)->operands) {
        if (operand != nullptr) live[operand->id] = true;
      }
    }
    return live;
  }

  // Copies outputs [begin, end) of the training graph, which share storages as they did there. An
  // output of the backward may be an input of the training graph; then it is the value that stands
  // for that input.
  void CopyOutputs(GraphCopier& copier, size_t begin, size_t end) {
    std::unordered_map<uint32_t, uint32_t> storages;
    for (size_t i = begin; i < end; ++i) {
      Output output = graph_.outputs()[i];
      if (output.kind == Output::Kind::kTensor) {
        const ir::Storage& storage = graph_.storages()[output.index];
        auto place = storages.find(output.index);
        if (place == storages.end()) {
          const uint32_t copy =
              copier.graph().AddStorage({copier.Get(storage.value), storage.type});
          place = storages.emplace(output.index, copy).first;
        }
        output.index = place->second;
      } else if (output.kind == Output::Kind::kInput) {
        output.index = copier.Get(graph_.inputs()[output.index].value)->index;
      }
      copier.graph().AddOutput(std::move(output));
    }
  }

  // Saves the values in the order in which they are defined.
  void SaveValues() {
    for (const ir::Input& input : graph_.inputs()) {
      if (input.value != nullptr) SaveIfChosen(input.value);
    }
    for (const Node* node : graph_.nodes()) {
      for (Value* result : node->results) SaveIfChosen(result);
    }
  }

  void SaveIfChosen(Value* value) {
    if (!saved_[value->id]) return;
    saved_values_.push_back(value);
    saved_outputs_.push_back(OutputOf(value));
  }

  // The forward's output for the value, which is added if there is none.
  uint32_t OutputOf(Value* value) {
    ir::Graph& forward = forward_->graph();
    Value* copy = forward_->Get(value);
    Output output;
    output.view.type = value->type;
    if (value->kind == ValueKind::kInput && !IsOverwritten(value->index)) {
      output.kind = Output::Kind::kInput;
      output.index = copy->index;
    } else {
      for (uint32_t i = 0; i < forward.outputs().size(); ++i) {
        const Output& other = forward.outputs()[i];
        if (other.kind != Output::Kind::kTensor) continue;
        const ir::Storage& storage = forward.storages()[other.index];
        if (storage.value == copy && other.view.offset == 0 && other.view.type == storage.type) {
          return i;
        }
      }
      output.kind = Output::Kind::kTensor;
      output.view.type = ir::Contiguous(value->type);
      output.index = forward.AddStorage({copy, output.view.type});
    }
    forward.AddOutput(std::move(output));
    return static_cast<uint32_t>(forward.outputs().size() - 1);
  }

  void MakeBackward() {
    backward_.emplace(graph_, graph_.name() + "_backward");
    ir::Graph& backward = backward_->graph();
    for (size_t i = 0; i < saved_values_.size(); ++i) {
      const Output& output = forward_->graph().outputs()[saved_outputs_[i]];
      // A number on the CPU is saved from where it is.
      const bool on_cpu =
          output.kind == Output::Kind::kInput && forward_->graph().inputs()[output.index].on_cpu;
      backward_->Map(saved_values_[i],
                     backward.AddInput("saved" + std::to_string(i), output.view.type, on_cpu));
      const bool returned = saved_outputs_[i] < outputs_;
      if (!returned && output.kind == Output::Kind::kTensor) backward.Donate(i);
    }
    for (const auto& [output, tangent] : graph_.tangents) {
      const ir::Input& input = graph_.inputs()[tangent];
      backward_->Map(input.value, backward.AddInput("tangent_" + input.name, input.value->type));
    }
    for (Node* node : graph_.nodes()) {
      if (IsBackward(*node)) backward_->Emit(*node);
    }
    CopyOutputs(*backward_, outputs_, graph_.outputs().size());
  }

  const ir::Graph& graph_;
  const size_t inputs_;            // without tangents
  const size_t outputs_;           // without gradients
  std::vector<bool> of_tangents_;  // depends on a tangent, by value id
  std::vector<bool> convolved_;    // read by convolutions of the backward, by value id
  std::vector<bool> saved_;        // by value id
  std::vector<Value*> saved_values_;
  std::vector<uint32_t> saved_outputs_;  // outputs of the forward, by saved value
  std::optional<GraphCopier> forward_;
  std::optional<GraphCopier> backward_;
};

}  // namespace

absl::StatusOr<PartitionedGraph> Partition(const ir::Graph& graph) {
  return Partitioner(graph).Run();
}

}  // namespace hpu::compiler
