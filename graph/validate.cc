#include <algorithm>
#include <set>

#include "base/strides.h"
#include "graph/captured_graph.h"

namespace hpu {
namespace {

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameBytes && (text[0] < '0' || text[0] > '9') &&
         std::all_of(text.begin(), text.end(), IsNameCharacter);
}

class Validator {
 public:
  explicit Validator(const CapturedGraph& graph) : graph_(graph) {}

  absl::Status Run() {
    if (graph_.value_count() > kMaxGraphValues) {
      return DataLoss(graph_.value_count(), " values, more than ", kMaxGraphValues);
    }
    RETURN_IF_ERROR(CheckLabel(graph_.name, "graph name"));
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      RETURN_IF_ERROR_AT(CheckInput(graph_.inputs[i]), "input " + std::to_string(i));
    }
    for (size_t i = 0; i < graph_.constants.size(); ++i) {
      RETURN_IF_ERROR_AT(CheckConstant(graph_.constants[i]), "constant " + std::to_string(i));
    }
    RETURN_IF_ERROR(CheckSchemas());
    defined_ = graph_.inputs.size() + graph_.constants.size();
    owns_memory_.assign(defined_, true);
    for (size_t i = 0; i < defined_; ++i) in_input_.push_back(i < graph_.inputs.size());
    for (size_t i = 0; i < graph_.calls.size(); ++i) {
      const CapturedCall& call = graph_.calls[i];
      RETURN_IF_ERROR_AT(CheckCall(call), "call " + std::to_string(i) + Describe(call));
    }
    if (graph_.alias_forms.size() != graph_.outputs.size()) {
      return DataLoss(graph_.alias_forms.size(), " alias forms for ", graph_.outputs.size(),
                      " outputs");
    }
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      RETURN_IF_ERROR_AT(CheckOutput(graph_.outputs[i], graph_.alias_forms[i]),
                         "output " + std::to_string(i));
    }
    RETURN_IF_ERROR(CheckDerivative());
    if (used_constants_ != graph_.constants.size()) {
      return DataLoss("constant ", used_constants_, " is not used");
    }
    if (used_schemas_ != graph_.schemas.size()) {
      return DataLoss("schema ", used_schemas_, " is not used");
    }
    return absl::OkStatus();
  }

 private:
  std::string Describe(const CapturedCall& call) const {
    if (call.schema >= graph_.schemas.size()) return "";
    return " (" + graph_.schemas[call.schema].target + ")";
  }

  static absl::Status CheckLabel(const std::string& label, const char* what) {
    if (label.size() <= kMaxLabelBytes) return absl::OkStatus();
    return DataLoss(what, " of ", label.size(), " bytes, more than ", kMaxLabelBytes);
  }

  static absl::Status CheckInput(const CapturedInput& input) {
    RETURN_IF_ERROR(CheckLabel(input.name, "name"));
    if (input.kind == CapturedInput::Kind::kScalar) return absl::OkStatus();
    if (input.spec.storage_offset != 0) return DataLoss("storage offset is not 0");
    return CheckSpec(input.spec, "type");
  }

  static absl::Status CheckConstant(const CapturedConstant& constant) {
    RETURN_IF_ERROR(CheckSpec(constant.spec, "type"));
    if (constant.spec.strides != RowMajorStrides(constant.spec.sizes) ||
        constant.spec.storage_offset != 0) {
      return DataLoss("is not row-major");
    }
    const int64_t bytes = NumElements(constant.spec.sizes) * DTypeSize(constant.spec.dtype);
    if (static_cast<uint64_t>(bytes) == constant.data.size()) return absl::OkStatus();
    return DataLoss(constant.data.size(), " bytes where its type has ", bytes);
  }

  static absl::Status CheckTarget(const std::string& target) {
    if (target.size() > kMaxNameBytes) return DataLoss("a target of ", target.size(), " bytes");
    const absl::Status named = ParseTarget(target).status();
    if (!named.ok()) return DataLoss(named.message());
    if (std::all_of(target.begin(), target.end(),
                    [](char c) { return c == '.' || IsNameCharacter(c); })) {
      return absl::OkStatus();
    }
    return DataLoss("a target with other than letters, digits, '_' and '.'");
  }

  absl::Status CheckSchemas() const {
    std::set<std::string_view> targets;
    for (size_t i = 0; i < graph_.schemas.size(); ++i) {
      const OpSchema& schema = graph_.schemas[i];
      const std::string& target = schema.target;
      RETURN_IF_ERROR_AT(CheckTarget(target), "schema " + std::to_string(i));
      if (!targets.insert(target).second) return DataLoss("schema ", i, ": ", target, " again");
      for (const std::string& name : schema.arguments) {
        if (!IsName(name)) {
          return DataLoss("schema ", i, " (", target, "): the name of an argument is not valid");
        }
      }
    }
    return absl::OkStatus();
  }

  // Constants are numbered by first use.
  absl::Status Use(uint32_t value) {
    if (value >= defined_) return DataLoss("value ", value, " is not defined yet");
    if (value < graph_.inputs.size()) {
      if (graph_.inputs[value].kind == CapturedInput::Kind::kTensor) return absl::OkStatus();
      return DataLoss("input ", value, " is a number, not a tensor");
    }
    const size_t constant = value - graph_.inputs.size();
    if (constant >= graph_.constants.size() || constant < used_constants_) return absl::OkStatus();
    if (constant != used_constants_) return DataLoss("constant ", used_constants_, " comes later");
    ++used_constants_;
    return absl::OkStatus();
  }

  absl::Status CheckCall(const CapturedCall& call) {
    RETURN_IF_ERROR(CheckLabel(call.source, "source"));
    if (call.schema > used_schemas_ || call.schema >= graph_.schemas.size()) {
      return DataLoss("schema ", call.schema, " is not defined or not in the order of first use");
    }
    if (call.schema == used_schemas_) ++used_schemas_;
    const OpSchema& schema = graph_.schemas[call.schema];
    if (call.args.size() != schema.arguments.size()) {
      return DataLoss(call.args.size(), " arguments, the schema has ", schema.arguments.size());
    }
    std::set<uint32_t> given;
    for (size_t i = 0; i < call.args.size(); ++i) {
      absl::Status status;
      ForEachTensor(call.args[i], [&](uint32_t value) {
        if (status.ok()) status = Use(value);
        given.insert(value);
      });
      RETURN_IF_ERROR_AT(status, "argument " + schema.arguments[i]);
    }
    if (!std::is_sorted(call.writes.begin(), call.writes.end(), std::less_equal<>())) {
      return DataLoss("written values are not in ascending order");
    }
    for (const uint32_t value : call.writes) {
      if (!given.contains(value))
        return DataLoss("writes value ", value, ", which is not one of its arguments");
    }
    return CheckResults(call);
  }

  absl::Status CheckResults(const CapturedCall& call) {
    for (size_t i = 0; i < call.results.size(); ++i) {
      const CapturedResult& result = call.results[i];
      RETURN_IF_ERROR(CheckSpec(result.spec, "result " + std::to_string(i)));
      const bool own = result.memory_of == kOwnMemory;
      if (!own && (result.memory_of >= defined_ || !owns_memory_[result.memory_of])) {
        return DataLoss("result ", i, " lies in value ", result.memory_of,
                        ", which is not defined or has no memory of its own");
      }
      if (!own) RETURN_IF_ERROR_AT(Use(result.memory_of), "result " + std::to_string(i));
      owns_memory_.push_back(own);
      in_input_.push_back(!own && result.memory_of < graph_.inputs.size());
    }
    defined_ += call.results.size();
    return absl::OkStatus();
  }

  absl::Status CheckOutput(const Argument& output, AliasForm form) {
    const auto* tensor = std::get_if<TensorArgument>(&output.value);
    if (tensor != nullptr) RETURN_IF_ERROR(Use(tensor->tensor));
    const bool in_input = tensor != nullptr && in_input_[tensor->tensor];
    if (in_input != (form != AliasForm::kNone)) {
      return DataLoss(in_input ? "lies in an input's memory without an alias form"
                               : "has an alias form, but is not a tensor in an input's memory");
    }
    if (form == AliasForm::kSame && tensor->tensor >= graph_.inputs.size()) {
      return DataLoss("has the alias form of an input, but is another value");
    }
    if (tensor != nullptr) return absl::OkStatus();
    if (std::holds_alternative<NoneArgument>(output.value) ||
        std::holds_alternative<int64_t>(output.value) ||
        std::holds_alternative<double>(output.value) ||
        std::holds_alternative<bool>(output.value)) {
      return absl::OkStatus();
    }
    return DataLoss("neither a tensor, a number nor None");
  }

  std::vector<const TensorSpec*> Specs() const {
    std::vector<const TensorSpec*> specs;
    for (const CapturedInput& input : graph_.inputs) specs.push_back(&input.spec);
    for (const CapturedConstant& constant : graph_.constants) specs.push_back(&constant.spec);
    for (const CapturedCall& call : graph_.calls) {
      for (const CapturedResult& result : call.results) specs.push_back(&result.spec);
    }
    return specs;
  }

  // Checks an input and an output, of which one is the gradient of the other.
  absl::Status CheckPair(uint32_t input, uint32_t output,
                         const std::vector<const TensorSpec*>& specs) const {
    if (input >= graph_.inputs.size() ||
        graph_.inputs[input].kind != CapturedInput::Kind::kTensor) {
      return DataLoss("input ", input, " is not a tensor");
    }
    const auto* value = output < graph_.outputs.size()
                            ? std::get_if<TensorArgument>(&graph_.outputs[output].value)
                            : nullptr;
    if (value == nullptr) return DataLoss("output ", output, " is not a tensor");
    const TensorSpec& given = graph_.inputs[input].spec;
    const TensorSpec& made = *specs[value->tensor];
    if (given.dtype == made.dtype && given.sizes == made.sizes) return absl::OkStatus();
    return DataLoss("input ", input, " and output ", output, " differ in dtype or sizes");
  }

  absl::Status CheckDerivative() const {
    const std::vector<CapturedTangent>& tangents = graph_.tangents;
    const std::vector<CapturedGradient>& gradients = graph_.gradients;
    if (tangents.empty() && gradients.empty()) return absl::OkStatus();
    if (tangents.empty() != gradients.empty()) {
      return DataLoss(tangents.size(), " tangents for ", gradients.size(), " gradients");
    }
    if (tangents.size() > graph_.inputs.size() || gradients.size() > graph_.outputs.size()) {
      return DataLoss("more tangents than inputs, or gradients than outputs");
    }
    const size_t given = graph_.inputs.size() - tangents.size();
    const size_t returned = graph_.outputs.size() - gradients.size();
    const std::vector<const TensorSpec*> specs = Specs();
    std::set<uint32_t> seen;
    for (size_t i = 0; i < tangents.size(); ++i) {
      const CapturedTangent& pair = tangents[i];
      const std::string what = "tangent " + std::to_string(i);
      if (pair.tangent != given + i) return DataLoss(what, " is input ", pair.tangent);
      if (pair.output >= returned || !seen.insert(pair.output).second) {
        return DataLoss(what, ": output ", pair.output, " is a gradient or has a tangent already");
      }
      RETURN_IF_ERROR_AT(CheckPair(pair.tangent, pair.output, specs), what);
    }
    seen.clear();
    for (size_t i = 0; i < gradients.size(); ++i) {
      const CapturedGradient& pair = gradients[i];
      const std::string what = "gradient " + std::to_string(i);
      if (pair.gradient != returned + i) return DataLoss(what, " is output ", pair.gradient);
      if (pair.input >= given || !seen.insert(pair.input).second) {
        return DataLoss(what, ": input ", pair.input, " is a tangent or has a gradient already");
      }
      RETURN_IF_ERROR_AT(CheckPair(pair.input, pair.gradient, specs), what);
    }
    return absl::OkStatus();
  }

  const CapturedGraph& graph_;
  size_t defined_ = 0;  // number of values defined before the call that is being checked
  std::vector<bool> owns_memory_;
  std::vector<bool> in_input_;  // by value: whether it lies in an input's memory
  size_t used_constants_ = 0;
  size_t used_schemas_ = 0;
};

}  // namespace

size_t CapturedGraph::value_count() const {
  size_t count = inputs.size() + constants.size();
  for (const CapturedCall& call : calls) count += call.results.size();
  return count;
}

absl::Status ValidateGraph(const CapturedGraph& graph) { return Validator(graph).Run(); }

}  // namespace hpu
