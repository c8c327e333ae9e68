#include <charconv>
#include <cmath>

#include "base/hash.h"
#include "compiler_server/ir/text.h"

namespace hpu::ir {
namespace {

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? ' ' : c;
  }
  return quoted + '"';
}

std::string AttrText(const Attr& attr) {
  struct Visitor {
    std::string operator()(int64_t value) { return std::to_string(value); }
    std::string operator()(double value) { return FloatText(value); }
    std::string operator()(bool value) { return value ? "true" : "false"; }
    std::string operator()(const std::string& value) { return Quoted(value); }
    std::string operator()(const Dims& value) { return ToText(std::span<const int64_t>(value)); }
  };
  return std::visit(Visitor{}, attr);
}

class Printer {
 public:
  Printer(const Graph& graph, const PrintOptions& options) : graph_(graph), options_(options) {
    names_.resize(graph.value_count());
    for (const Input& input : graph.inputs()) {
      if (input.value != nullptr) names_[input.value->id].append("%").append(input.name);
    }
    for (size_t i = 0; i < graph.constants().size(); ++i) {
      names_[graph.constants()[i].value->id].append("%const").append(std::to_string(i));
    }
    size_t next = 0;
    for (const Node* node : graph.nodes()) {
      for (const Value* result : node->results) {
        names_[result->id].append("%").append(std::to_string(next++));
      }
    }
  }

  std::string Run() {
    Header();
    for (const Constant& constant : graph_.constants()) PrintConstant(constant);
    for (const Node* node : graph_.nodes()) text_ += "  " + NodeText(*node) + Comment(*node) + "\n";
    for (const Mutation& mutation : graph_.mutations()) PrintMutation(mutation);
    Return();
    Derivative();
    text_ += "}\n";
    return std::move(text_);
  }

  std::string NodeText(const Node& node) const {
    std::string text;
    for (size_t i = 0; i < node.results.size(); ++i) {
      text += (i > 0 ? ", " : "") + Name(node.results[i]);
    }
    text += node.results.empty() ? "" : " = ";
    text += OpName(node.op);
    text += node.aten != nullptr ? AtenText(node) : OperandText(node) + AttrsText(node);
    for (size_t i = 0; i < node.results.size(); ++i) {
      text += (i > 0 ? ", " : " : ") + ToText(node.results[i]->type);
    }
    return text;
  }

  const std::string& Name(const Value* value) const { return names_[value->id]; }

 private:
  void Header() {
    text_ = "graph @" + graph_.name() + "(";
    const bool wide = graph_.inputs().size() > 4;
    bool first = true;
    for (const Input& input : graph_.inputs()) {
      text_ += first ? (wide ? "\n    " : "") : (wide ? ",\n    " : ", ");
      first = false;
      text_ += "%" + input.name + ": ";
      text_ += input.value == nullptr ? "scalar" : ToText(input.value->type);
      if (input.on_cpu) text_ += " cpu";
      if (input.is_weight) text_ += " weight";
      if (input.is_trained) text_ += " trained";
      if (input.donated) text_ += " donated";
      if (input.copied) text_ += " copied";
      if (input.role == InputRole::kSeed) text_ += " seed";
      if (input.role == InputRole::kOffset) {
        text_ += " offset draws " + std::to_string(graph_.draws);
      }
    }
    text_ += ")";
    first = true;
    for (const Output& output : graph_.outputs()) {
      text_ += first ? " -> " : ", ";
      first = false;
      text_ += TypeOf(output);
    }
    text_ += " {\n";
  }

  static std::string TypeOf(const Output& output) {
    switch (output.kind) {
      case Output::Kind::kTensor:
      case Output::Kind::kInput:
        return ToText(output.view.type);
      case Output::Kind::kNone:
        return "none";
      case Output::Kind::kInt:
        return "int";
      case Output::Kind::kFloat:
        return "float";
      case Output::Kind::kBool:
        return "bool";
    }
    return "";
  }

  void PrintConstant(const Constant& constant) {
    text_ += "  const " + Name(constant.value) + " : " + ToText(constant.value->type) + " = ";
    const bool whole = options_.max_constant_bytes < 0 ||
                       static_cast<int64_t>(constant.data.size()) <= options_.max_constant_bytes;
    text_ += (whole ? "0x" + ToHex(constant.data) : "...") + "\n";
  }

  std::string OperandText(const Node& node) const {
    std::string text;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      text += i > 0 ? ", " : " ";
      text += node.operands[i] == nullptr ? "none" : Name(node.operands[i]);
    }
    return text;
  }

  static std::string AttrsText(const Node& node) {
    std::string text;
    for (const auto& [key, value] : node.attrs.items()) {
      const bool* flag = std::get_if<bool>(&value);
      if (flag != nullptr && !*flag) continue;
      text += text.empty() ? " {" : ", ";
      text += std::string(AttrName(key)) + " = " + AttrText(value);
    }
    return text.empty() ? text : text + "}";
  }

  std::string ArgumentText(const Argument& argument, const Node& node) const {
    struct Visitor {
      const Printer& printer;
      const Node& node;
      std::string operator()(const NoneArgument&) { return "none"; }
      std::string operator()(const TensorArgument& a) {
        const Value* operand = node.operands[a.tensor];
        const Dims& strides = node.aten->strides[a.tensor];
        if (strides == operand->type.strides) return printer.Name(operand);
        std::string text = ToText(std::span<const int64_t>(strides));
        text.front() = '{';
        text.back() = '}';
        return printer.Name(operand) + text;
      }
      std::string operator()(int64_t value) { return std::to_string(value); }
      std::string operator()(double value) { return FloatText(value); }
      std::string operator()(bool value) { return value ? "true" : "false"; }
      std::string operator()(const std::string& value) { return Quoted(value); }
      std::string operator()(const DTypeArgument& a) {
        return "dtype " + std::string(DTypeName(a.dtype));
      }
      std::string operator()(const EnumArgument& a) { return "enum " + Quoted(a.name); }
      std::string operator()(const DeviceArgument& a) { return "device " + Quoted(a.name); }
      std::string operator()(const ArgumentList& list) {
        std::string text = "[";
        for (size_t i = 0; i < list.size(); ++i) {
          text += (i > 0 ? ", " : "") + printer.ArgumentText(list[i], node);
        }
        return text + "]";
      }
    };
    return std::visit(Visitor{*this, node}, argument.value);
  }

  std::string AtenText(const Node& node) const {
    std::string text = " " + Quoted(node.aten->target) + "(";
    for (size_t i = 0; i < node.aten->args.size(); ++i) {
      const auto& [name, argument] = node.aten->args[i];
      text += (i > 0 ? ", " : "") + name + " = " + ArgumentText(argument, node);
    }
    return text + (node.aten->draws_random ? ") random" : ")");
  }

  std::string Comment(const Node& node) const {
    const std::string& source = graph_.source(node);
    if (!options_.sources || source.empty()) return "";
    return "  // " + source;
  }

  static std::string ViewText(const View& view, const TensorType& whole) {
    if (view.offset == 0 && view.type == whole) return "";
    std::string text = " as " + ToText(view.type);
    if (view.offset != 0) text += " + " + std::to_string(view.offset);
    return text;
  }

  void PrintMutation(const Mutation& mutation) {
    const Value* input = graph_.inputs()[mutation.input].value;
    text_ += "  mutate " + Name(input) + ViewText(mutation.view, input->type) + " = " +
             Name(mutation.value) + "\n";
  }

  void Return() {
    text_ += "  return";
    std::vector<Storage> seen;  // numbered as the parser numbers them
    bool first = true;
    for (const Output& output : graph_.outputs()) {
      text_ += first ? " " : ", ";
      first = false;
      switch (output.kind) {
        case Output::Kind::kTensor:
          StorageText(output, seen);
          break;
        case Output::Kind::kInput: {
          const Value* input = graph_.inputs()[output.index].value;
          text_ += "alias " + Name(input) + ViewText(output.view, input->type);
          if (output.form != AliasForm::kNone) {
            text_ += std::string(" form ") + AliasFormName(output.form);
          }
          break;
        }
        case Output::Kind::kNone:
          text_ += "none";
          break;
        case Output::Kind::kInt:
          text_ += "int " + std::to_string(output.int_value);
          break;
        case Output::Kind::kFloat:
          text_ += "float " + FloatText(output.float_value);
          break;
        case Output::Kind::kBool:
          text_ += output.int_value != 0 ? "bool true" : "bool false";
      }
    }
    text_ += "\n";
  }

  void Derivative() {
    for (const auto& [output, tangent] : graph_.tangents) {
      text_ += "  tangent " + Name(graph_.inputs()[tangent].value) + " of " +
               std::to_string(output) + "\n";
    }
    for (const auto& [input, gradient] : graph_.gradients) {
      text_ += "  gradient " + std::to_string(gradient) + " of " +
               Name(graph_.inputs()[input].value) + "\n";
    }
  }

  void StorageText(const Output& output, std::vector<Storage>& seen) {
    const Storage& storage = graph_.storages()[output.index];
    text_ += Name(storage.value);
    if (storage.type != storage.value->type) text_ += " in " + ToText(storage.type);
    text_ += ViewText(output.view, storage.type);
    size_t expected = 0;
    while (expected < seen.size() &&
           (seen[expected].value != storage.value || seen[expected].type != storage.type)) {
      ++expected;
    }
    if (expected != output.index) text_ += " buffer " + std::to_string(output.index);
    if (output.index == seen.size()) seen.push_back(storage);
  }

  const Graph& graph_;
  const PrintOptions& options_;
  std::vector<std::string> names_;
  std::string text_;
};

}  // namespace

std::string Print(const Graph& graph, const PrintOptions& options) {
  return Printer(graph, options).Run();
}

std::string PrintDot(const Graph& graph) {
  const PrintOptions options;
  const Printer printer(graph, options);
  std::string text = "digraph " + Quoted(graph.name()) + " {\n  node [shape=box];\n";
  std::vector<std::string> owner(graph.value_count());
  for (const Input& input : graph.inputs()) {
    if (input.value == nullptr) continue;
    owner[input.value->id] = Quoted(printer.Name(input.value));
    text += "  " + owner[input.value->id] + " [shape=oval];\n";
  }
  for (const Constant& constant : graph.constants()) {
    owner[constant.value->id] = Quoted(printer.Name(constant.value));
  }
  size_t index = 0;
  for (const Node* node : graph.nodes()) {
    const std::string name = std::string("n").append(std::to_string(index++));
    text += "  " + name + " [label=" + Quoted(printer.NodeText(*node)) + "];\n";
    for (const Value* operand : node->operands) {
      if (operand != nullptr) text += "  " + owner[operand->id] + " -> " + name + ";\n";
    }
    for (const Value* result : node->results) owner[result->id] = name;
  }
  for (size_t i = 0; i < graph.storages().size(); ++i) {
    text +=
        "  " + owner[graph.storages()[i].value->id] + " -> \"buffer " + std::to_string(i) + "\";\n";
  }
  return text + "}\n";
}

}  // namespace hpu::ir
