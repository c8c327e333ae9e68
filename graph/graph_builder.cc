#include "graph/graph_builder.h"

#include <algorithm>
#include <utility>

namespace hpu {
namespace {

constexpr uint32_t kUnnumbered = UINT32_MAX;

// Cuts at whole UTF-8 characters only.
std::string Cut(std::string label) {
  if (label.size() <= kMaxLabelBytes) return label;
  size_t size = kMaxLabelBytes;
  while (size > 0 && (static_cast<unsigned char>(label[size]) & 0xC0) == 0x80) --size;
  label.resize(size);
  return label;
}

}  // namespace

GraphBuilder::GraphBuilder(std::string name) { graph_.name = Cut(std::move(name)); }

uint32_t GraphBuilder::Define(Defined::Kind kind, uint32_t index, int64_t offset,
                              uint32_t memory_of) {
  const uint32_t value = next_value_++;
  const bool known = memory_of != kOwnMemory && memory_of < value;
  values_.push_back({kind, index, offset, known ? values_[memory_of].memory : value});
  return value;
}

uint32_t GraphBuilder::AddInput(CapturedInput input) {
  input.name = Cut(std::move(input.name));
  const int64_t offset = std::exchange(input.spec.storage_offset, 0);
  graph_.inputs.push_back(std::move(input));
  return Define(Defined::Kind::kInput, static_cast<uint32_t>(graph_.inputs.size() - 1), offset,
                kOwnMemory);
}

uint32_t GraphBuilder::AddConstant(CapturedConstant constant) {
  graph_.constants.push_back(std::move(constant));
  return Define(Defined::Kind::kConstant, static_cast<uint32_t>(graph_.constants.size() - 1), 0,
                kOwnMemory);
}

uint32_t GraphBuilder::AddCall(const OpSchema& schema, CapturedCall call) {
  const auto [place, is_new] =
      schema_of_.emplace(schema.target, static_cast<uint32_t>(graph_.schemas.size()));
  if (is_new) graph_.schemas.push_back(schema);
  call.schema = place->second;
  call.source = Cut(std::move(call.source));
  std::sort(call.writes.begin(), call.writes.end());
  call.writes.erase(std::unique(call.writes.begin(), call.writes.end()), call.writes.end());
  const uint32_t first = next_value_;
  for (CapturedResult& result : call.results) {
    const int64_t offset = std::exchange(result.spec.storage_offset, 0);
    const uint32_t value = Define(Defined::Kind::kResult, results_++, offset, result.memory_of);
    if (result.memory_of == kOwnMemory) continue;
    result.memory_of = values_[value].memory;
    result.spec.storage_offset = offset - values_[result.memory_of].offset;
  }
  graph_.calls.push_back(std::move(call));
  return first;
}

void GraphBuilder::SetOutputs(std::vector<Argument> outputs, std::vector<AliasForm> forms) {
  forms.resize(outputs.size(), AliasForm::kNone);
  for (size_t i = 0; i < outputs.size(); ++i) forms[i] = FormOf(outputs[i], forms[i]);
  graph_.outputs = std::move(outputs);
  graph_.alias_forms = std::move(forms);
}

AliasForm GraphBuilder::FormOf(const Argument& output, AliasForm given) const {
  const auto* tensor = std::get_if<TensorArgument>(&output.value);
  if (tensor == nullptr || tensor->tensor >= values_.size()) return AliasForm::kNone;
  const Defined& value = values_[tensor->tensor];
  if (values_[value.memory].kind != Defined::Kind::kInput) return AliasForm::kNone;
  if (given != AliasForm::kNone) return given;
  return value.kind == Defined::Kind::kInput ? AliasForm::kSame : AliasForm::kView;
}

void GraphBuilder::SetDerivative(std::vector<CapturedTangent> tangents,
                                 std::vector<CapturedGradient> gradients) {
  graph_.tangents = std::move(tangents);
  graph_.gradients = std::move(gradients);
}

absl::StatusOr<CapturedGraph> GraphBuilder::Finish() const {
  CapturedGraph graph = graph_;
  graph.constants.clear();
  // Constants get their numbers at their first use, results after them.
  std::vector<uint32_t> constant_number(graph_.constants.size(), kUnnumbered);
  absl::Status status;
  const auto use = [&](uint32_t value) {
    if (value >= values_.size()) {
      if (status.ok()) status = InvalidArgument("value ", value, " does not exist");
      return;
    }
    if (values_[value].kind != Defined::Kind::kConstant) return;
    const uint32_t constant = values_[value].index;
    if (constant_number[constant] != kUnnumbered) return;
    constant_number[constant] = static_cast<uint32_t>(graph.constants.size());
    graph.constants.push_back(graph_.constants[constant]);
  };
  const auto use_all = [&](const std::vector<Argument>& arguments) {
    for (const Argument& argument : arguments) ForEachTensor(argument, use);
  };
  for (const CapturedCall& call : graph_.calls) {
    use_all(call.args);
    for (const CapturedResult& result : call.results) {
      if (result.memory_of != kOwnMemory) use(result.memory_of);
    }
  }
  use_all(graph_.outputs);
  RETURN_IF_ERROR(status);

  const auto first_constant = static_cast<uint32_t>(graph.inputs.size());
  const auto first_result = first_constant + static_cast<uint32_t>(graph.constants.size());
  const auto renumber = [&](uint32_t& value) {
    const Defined& defined = values_[value];
    switch (defined.kind) {
      case Defined::Kind::kInput:
        value = defined.index;
        return;
      case Defined::Kind::kConstant:
        value = first_constant + constant_number[defined.index];
        return;
      case Defined::Kind::kResult:
        value = first_result + defined.index;
        return;
    }
  };
  for (CapturedCall& call : graph.calls) {
    for (Argument& argument : call.args) ForEachTensor(argument, renumber);
    for (uint32_t& value : call.writes) {
      if (value >= values_.size()) return InvalidArgument("value ", value, " does not exist");
      renumber(value);
    }
    std::sort(call.writes.begin(), call.writes.end());
    for (CapturedResult& result : call.results) {
      if (result.memory_of != kOwnMemory) renumber(result.memory_of);
    }
  }
  for (Argument& output : graph.outputs) ForEachTensor(output, renumber);
  const absl::Status valid = ValidateGraph(graph);
  if (!valid.ok()) return InvalidArgument(valid.message());
  return graph;
}

}  // namespace hpu
