#include <sstream>

#include "graph/captured_graph.h"

namespace hpu {
namespace {

constexpr size_t kValuesPerConstant = 8;

void PrintInput(std::ostream& out, size_t value, const CapturedInput& input) {
  out << "%" << value << ": ";
  if (input.kind == CapturedInput::Kind::kScalar) {
    out << "number";
  } else {
    PrintSpec(out, input.spec);
    if (input.on_cpu) out << " on cpu";
    if (input.is_weight) out << " weight";
    if (input.is_trained) out << " trained";
  }
  if (!input.name.empty()) out << "  \"" << input.name << '"';
}

void PrintData(std::ostream& out, const Bytes& data) {
  const std::span<const uint8_t> shown(data.data(), std::min(data.size(), kValuesPerConstant));
  out << " = 0x" << ToHex(shown) << (shown.size() < data.size() ? "..." : "");
}

}  // namespace

std::string PrintGraph(const CapturedGraph& graph) {
  std::ostringstream out;
  out << "captured graph \"" << graph.name << "\"\n";
  size_t value = 0;
  for (const CapturedInput& input : graph.inputs) {
    out << "  input ";
    PrintInput(out, value++, input);
    out << "\n";
  }
  for (const CapturedConstant& constant : graph.constants) {
    out << "  constant %" << value++ << ": ";
    PrintSpec(out, constant.spec);
    PrintData(out, constant.data);
    out << "\n";
  }
  for (const CapturedCall& call : graph.calls) {
    out << "  ";
    for (size_t i = 0; i < call.results.size(); ++i) out << (i ? ", " : "") << "%" << value++;
    const OpSchema& schema = graph.schema(call);
    out << (call.results.empty() ? "" : " = ") << schema.target << "(";
    for (size_t i = 0; i < call.args.size(); ++i) {
      out << (i ? ", " : "") << schema.arguments[i] << "=";
      PrintArgument(out, call.args[i]);
    }
    out << ")";
    for (size_t i = 0; i < call.results.size(); ++i) {
      out << (i ? ", " : " : ");
      PrintSpec(out, call.results[i].spec);
      if (call.results[i].memory_of != kOwnMemory) out << " in %" << call.results[i].memory_of;
    }
    for (const uint32_t written : call.writes) out << " writes %" << written;
    if (call.draws_random) out << " random";
    if (!call.source.empty()) out << "  # " << call.source;
    out << "\n";
  }
  out << "  return ";
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    if (i) out << ", ";
    PrintArgument(out, graph.outputs[i]);
    const AliasForm form = i < graph.alias_forms.size() ? graph.alias_forms[i] : AliasForm::kNone;
    if (form != AliasForm::kNone) out << " (" << AliasFormName(form) << ")";
  }
  out << "\n";
  for (const CapturedTangent& pair : graph.tangents) {
    out << "  tangent %" << pair.tangent << " of output " << pair.output << "\n";
  }
  for (const CapturedGradient& pair : graph.gradients) {
    out << "  gradient output " << pair.gradient << " of %" << pair.input << "\n";
  }
  return out.str();
}

}  // namespace hpu
