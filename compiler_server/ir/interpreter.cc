#include "compiler_server/ir/interpreter.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hpu::ir {
namespace {

using Memory = std::vector<double>;

Memory Store(const HostTensor& tensor, const Dims& strides) {
  const TensorType type{tensor.dtype, tensor.sizes, strides};
  Memory memory(static_cast<size_t>(SpanElements(type)));
  IndexWalk walk(tensor.sizes);
  for (double value : tensor.data) {
    memory[walk.Offset(strides)] = value;
    walk.Next();
  }
  return memory;
}

HostTensor Load(const Memory& memory, const View& view) {
  HostTensor tensor = MakeHostTensor(view.type.dtype, view.type.sizes);
  IndexWalk walk(tensor.sizes);
  for (double& value : tensor.data) {
    value = memory[view.offset + walk.Offset(view.type.strides)];
    walk.Next();
  }
  return tensor;
}

class Run {
 public:
  Run(const Graph& graph, const std::vector<HostTensor>& inputs)
      : graph_(graph), inputs_(inputs), values_(graph.value_count()) {}

  absl::StatusOr<RunResult> Go() {
    RETURN_IF_ERROR(Bind());
    for (const Node* node : graph_.nodes()) {
      RETURN_IF_ERROR_AT(Step(*node), std::string(OpName(node->op)));
    }
    Mutate();
    return Collect();
  }

 private:
  absl::Status Bind() {
    size_t next = 0;
    for (const Input& input : graph_.inputs()) {
      memories_.emplace_back();
      if (input.value == nullptr) continue;
      if (next == inputs_.size()) return InvalidArgument("too few inputs");
      const HostTensor& given = inputs_[next++];
      const TensorType& type = input.value->type;
      if (given.dtype != type.dtype || given.sizes != type.sizes) {
        return InvalidArgument("input %", input.name, " is not ", ToText(type));
      }
      values_[input.value->id] = given;
      memories_.back() = Store(given, type.strides);
    }
    for (const Constant& constant : graph_.constants()) {
      const TensorType& type = constant.value->type;
      values_[constant.value->id] = FromBytes(type.dtype, type.sizes, constant.data);
    }
    return absl::OkStatus();
  }

  absl::Status Step(const Node& node) {
    std::vector<const HostTensor*> operands;
    for (const Value* operand : node.operands) {
      operands.push_back(operand == nullptr ? nullptr : &values_[operand->id]);
    }
    ASSIGN_OR_RETURN(std::vector<HostTensor> results, EvaluateNode(node, operands));
    for (size_t i = 0; i < results.size(); ++i) {
      values_[node.results[i]->id] = std::move(results[i]);
    }
    return absl::OkStatus();
  }

  void Mutate() {
    for (const Mutation& mutation : graph_.mutations()) {
      Memory& memory = memories_[mutation.input];
      const HostTensor& value = values_[mutation.value->id];
      IndexWalk walk(value.sizes);
      for (double element : value.data) {
        memory[mutation.view.offset + walk.Offset(mutation.view.type.strides)] = element;
        walk.Next();
      }
    }
  }

  RunResult Collect() {
    RunResult result;
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      const Value* value = graph_.inputs()[i].value;
      if (value != nullptr) result.inputs.push_back(Load(memories_[i], {value->type, 0}));
    }
    for (const Output& output : graph_.outputs()) {
      switch (output.kind) {
        case Output::Kind::kTensor: {
          const Storage& storage = graph_.storages()[output.index];
          const HostTensor& value = values_[storage.value->id];
          result.outputs.push_back(Load(Store(value, storage.type.strides), output.view));
          break;
        }
        case Output::Kind::kInput:
          result.outputs.push_back(Load(memories_[output.index], output.view));
          break;
        case Output::Kind::kNone:
          result.outputs.emplace_back();
          break;
        case Output::Kind::kFloat:
          result.outputs.push_back(MakeHostTensor(DType::kF64, {}, output.float_value));
          break;
        case Output::Kind::kInt:
        case Output::Kind::kBool: {
          const auto number = static_cast<double>(output.int_value);
          result.outputs.push_back(MakeHostTensor(DType::kF64, {}, number));
          break;
        }
      }
    }
    return result;
  }

  const Graph& graph_;
  const std::vector<HostTensor>& inputs_;
  std::vector<HostTensor> values_;  // by value id
  std::vector<Memory> memories_;    // by input
};

// splitmix64
uint64_t Next(uint64_t& state) {
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

absl::StatusOr<RunResult> Interpret(const Graph& graph, const std::vector<HostTensor>& inputs) {
  return Run(graph, inputs).Go();
}

std::vector<HostTensor> RandomInputs(const Graph& graph, uint64_t seed) {
  std::vector<HostTensor> inputs;
  for (const Input& input : graph.inputs()) {
    if (input.value == nullptr) continue;
    const TensorType& type = input.value->type;
    HostTensor tensor = MakeHostTensor(type.dtype, type.sizes);
    for (double& value : tensor.data) {
      const uint64_t bits = Next(seed);
      if (IsFloat(type.dtype)) {
        // These are multiples of 2^-5 in [-2, 2), which are exact in floats of 16 bits.
        value =
            RoundTo(type.dtype, static_cast<double>(static_cast<int64_t>(bits % 128) - 64) / 32);
      } else {
        // These are also valid as indices into any dimension of two or more.
        value = static_cast<double>(bits % 2);
      }
    }
    // Elements that share memory must be equal.
    inputs.push_back(Load(Store(tensor, type.strides), {type, 0}));
  }
  return inputs;
}

double Difference(const HostTensor& a, const HostTensor& b) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (a.dtype != b.dtype || a.sizes != b.sizes || a.data.size() != b.data.size()) return kInfinity;
  double scale = 1;
  double largest = 0;
  for (size_t i = 0; i < a.data.size(); ++i) {
    const double x = a.data[i];
    const double y = b.data[i];
    if (std::isnan(x) != std::isnan(y)) return kInfinity;
    if (x == y || std::isnan(x)) continue;
    if (std::isinf(x) || std::isinf(y)) return kInfinity;
    scale = std::max(scale, std::fabs(x));
    largest = std::max(largest, std::fabs(x - y));
  }
  return largest / scale;
}

}  // namespace hpu::ir
