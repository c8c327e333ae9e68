#include <algorithm>
#include <unordered_map>

#include "compiler_server/ir/infer.h"
#include "compiler_server/ir/lexer.h"
#include "compiler_server/ir/parse_type.h"
#include "compiler_server/ir/text.h"
#include "compiler_server/ir/verify.h"

namespace hpu::ir {
namespace {

constexpr int kMaxArgumentDepth = 8;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text), graph_("") {}

  absl::StatusOr<Graph> Run() {
    lexer_.Expect("graph");
    lexer_.Expect("@");
    graph_ = Graph(std::string(lexer_.Word()));
    Inputs();
    std::vector<std::string> types;
    if (lexer_.Try("->")) {
      do types.push_back(OutputType());
      while (lexer_.Try(","));
    }
    lexer_.Expect("{");
    while (lexer_.ok() && !lexer_.Peek("return")) Statement();
    Return();
    Derivative();
    lexer_.Expect("}");
    if (!lexer_.AtEnd()) lexer_.Fail("text behind the graph");
    RETURN_IF_ERROR(lexer_.status());
    RETURN_IF_ERROR(Verify(graph_));
    return std::move(graph_);
  }

 private:
  std::string OutputType() {
    for (const char* word : {"none", "int", "float", "bool"}) {
      // "bool" alone is a Python value, and "bool[" begins a tensor.
      if (lexer_.PeekWord() == word) {
        lexer_.Word();
        if (!lexer_.Peek("[")) return word;
        const TensorType type = Contiguous(DType::kBool, ParseList(lexer_, "[", "]"));
        return ToText(type);
      }
    }
    return ToText(ParseType(lexer_));
  }

  void Define(std::string_view name, Value* value) {
    if (!values_.emplace(std::string(name), value).second) {
      lexer_.Fail("%", name, " is defined twice");
    }
  }

  Value* Use() {
    const std::string_view name = lexer_.ValueName();
    const auto found = values_.find(std::string(name));
    if (found == values_.end()) {
      lexer_.Fail("%", name, " is not defined");
      return nullptr;
    }
    return found->second;
  }

  void Inputs() {
    lexer_.Expect("(");
    if (lexer_.Try(")")) return;
    do {
      const std::string name(lexer_.ValueName());
      lexer_.Expect(":");
      if (lexer_.Try("scalar")) {
        graph_.AddScalarInput(name);
        continue;
      }
      TensorType type = ParseType(lexer_);
      const bool on_cpu = lexer_.Try("cpu"), is_weight = lexer_.Try("weight");
      const bool is_trained = lexer_.Try("trained");
      Define(name, graph_.AddInput(name, std::move(type), on_cpu, is_weight, is_trained));
      Role();
    } while (lexer_.ok() && lexer_.Try(","));
    lexer_.Expect(")");
  }

  // The role follows the type of an input.
  void Role() {
    if (lexer_.Try("donated")) {
      graph_.Donate(graph_.inputs().size() - 1);
    } else if (lexer_.Try("copied")) {
      graph_.MarkCopied(graph_.inputs().size() - 1);
    } else if (lexer_.Try("seed")) {
      graph_.SetRole(InputRole::kSeed);
    } else if (lexer_.Try("offset")) {
      graph_.SetRole(InputRole::kOffset);
      lexer_.Expect("draws");
      graph_.draws = static_cast<uint64_t>(lexer_.Integer());
    }
  }

  void Statement() {
    if (lexer_.Try("const")) return ConstantStatement();
    if (lexer_.Try("mutate")) return MutateStatement();
    std::vector<std::string> names;
    if (lexer_.Peek("%")) {
      do names.emplace_back(lexer_.ValueName());
      while (lexer_.ok() && lexer_.Try(","));
      lexer_.Expect("=");
    }
    NodeStatement(names);
  }

  void ConstantStatement() {
    const std::string name(lexer_.ValueName());
    lexer_.Expect(":");
    TensorType type = ParseType(lexer_);
    lexer_.Expect("=");
    const std::string_view word = lexer_.Word();
    Bytes data;
    bool good = word.size() >= 2 && word.substr(0, 2) == "0x" && word.size() % 2 == 0;
    for (size_t i = 2; good && i + 1 < word.size(); i += 2) {
      const int high = HexDigit(word[i]);
      const int low = HexDigit(word[i + 1]);
      good = high >= 0 && low >= 0;
      data.push_back(static_cast<uint8_t>(high * 16 + low));
    }
    if (!good) return lexer_.Fail("bytes as 0x... are expected");
    Define(name, graph_.AddConstant(std::move(type), std::move(data)));
  }

  View ViewOf(const TensorType& whole) {
    View view{whole, 0};
    if (!lexer_.Try("as")) return view;
    view.type = ParseType(lexer_);
    if (lexer_.Try("+")) view.offset = lexer_.Integer();
    return view;
  }

  // Reads the name of an input; fails if the value is none.
  const Value* UseInput() {
    const Value* value = Use();
    if (value != nullptr && value->kind != ValueKind::kInput) lexer_.Fail("this is no input");
    return lexer_.ok() ? value : nullptr;
  }

  void MutateStatement() {
    Mutation mutation;
    const Value* input = UseInput();
    if (input == nullptr) return;
    mutation.input = input->index;
    mutation.view = ViewOf(input->type);
    lexer_.Expect("=");
    mutation.value = Use();
    if (lexer_.ok()) graph_.AddMutation(std::move(mutation));
  }

  Attr AttrValue(AttrType type) {
    switch (type) {
      case AttrType::kInt:
        return lexer_.Integer();
      case AttrType::kFloat:
        return lexer_.Real();
      case AttrType::kText:
        return lexer_.QuotedText();
      case AttrType::kInts:
        return ParseList(lexer_, "[", "]");
      case AttrType::kBool:
        if (lexer_.Try("true")) return true;
        lexer_.Expect("false");
        return false;
    }
    return false;
  }

  Attrs Attributes(OpKind op) {
    Attrs attrs;
    for (const AttrSpec& spec : Traits(op).attrs) {
      if (spec.type == AttrType::kBool) attrs.Set(spec.key, false);
    }
    if (!lexer_.Try("{")) return attrs;
    do {
      const std::string_view name = lexer_.Word();
      const std::optional<AttrKey> key = AttrFromName(name);
      const auto specs = Traits(op).attrs;
      const auto spec = std::find_if(specs.begin(), specs.end(),
                                     [&](const AttrSpec& s) { return key && s.key == *key; });
      if (spec == specs.end()) {
        lexer_.Fail(OpName(op), " has no attribute '", name, "'");
        return attrs;
      }
      lexer_.Expect("=");
      attrs.Set(*key, AttrValue(spec->type));
    } while (lexer_.ok() && lexer_.Try(","));
    lexer_.Expect("}");
    return attrs;
  }

  // Reads "%x", or "%x{1,4}" if the call was captured with other strides than the value has.
  Argument ArgumentValue(std::vector<Value*>& operands, std::vector<Dims>& strides, int depth) {
    if (depth > kMaxArgumentDepth) lexer_.Fail("arguments are nested too deep");
    if (!lexer_.ok()) return {NoneArgument{}};
    if (lexer_.Peek("%")) {
      operands.push_back(Use());
      const Value* value = operands.back();
      if (lexer_.PeekAdjacent('{')) {
        strides.push_back(ParseList(lexer_, "{", "}"));
      } else {
        strides.push_back(value != nullptr ? value->type.strides : Dims());
      }
      return {TensorArgument{static_cast<uint32_t>(operands.size() - 1)}};
    }
    if (lexer_.Peek("\"")) return {lexer_.QuotedText()};
    if (lexer_.Try("none")) return {NoneArgument{}};
    if (lexer_.Try("true")) return {true};
    if (lexer_.Try("false")) return {false};
    if (lexer_.Try("enum")) return {EnumArgument{lexer_.QuotedText()}};
    if (lexer_.Try("device")) return {DeviceArgument{lexer_.QuotedText()}};
    if (lexer_.Try("dtype")) {
      const std::optional<DType> dtype = DTypeFromName(lexer_.Word());
      if (!dtype) lexer_.Fail("an element type is expected");
      return {DTypeArgument{dtype.value_or(DType::kInvalid)}};
    }
    if (lexer_.Try("[")) {
      ArgumentList list;
      if (lexer_.Try("]")) return {list};
      do list.push_back(ArgumentValue(operands, strides, depth + 1));
      while (lexer_.ok() && lexer_.Try(","));
      lexer_.Expect("]");
      return {list};
    }
    const Lexer::Number number = lexer_.NextNumber();
    if (number.is_float) return {number.real};
    return {number.integer};
  }

  std::unique_ptr<AtenCall> Aten(std::vector<Value*>& operands) {
    auto call = std::make_unique<AtenCall>();
    call->target = lexer_.QuotedText();
    lexer_.Expect("(");
    if (!lexer_.Peek(")")) {
      do {
        std::string name(lexer_.Word());
        lexer_.Expect("=");
        call->args.emplace_back(std::move(name), ArgumentValue(operands, call->strides, 0));
      } while (lexer_.ok() && lexer_.Try(","));
    }
    lexer_.Expect(")");
    call->draws_random = lexer_.Try("random");
    return call;
  }

  std::vector<Value*> Operands() {
    std::vector<Value*> operands;
    if (!lexer_.Peek("%") && !lexer_.Peek("none")) return operands;
    do operands.push_back(lexer_.Try("none") ? nullptr : Use());
    while (lexer_.ok() && lexer_.Try(","));
    return operands;
  }

  void NodeStatement(const std::vector<std::string>& names) {
    const std::string_view word = lexer_.Word();
    const std::optional<OpKind> op = OpFromName(word);
    if (!op) return lexer_.Fail("'", word, "' is no op");
    std::vector<Value*> operands;
    std::unique_ptr<AtenCall> aten;
    Attrs attrs;
    if (*op == OpKind::kAten) {
      aten = Aten(operands);
    } else {
      operands = Operands();
      attrs = Attributes(*op);
    }
    std::vector<TensorType> types;
    if (!names.empty()) {
      lexer_.Expect(":");
      do types.push_back(ParseType(lexer_));
      while (lexer_.ok() && lexer_.Try(","));
    }
    if (names.size() != types.size()) {
      lexer_.Fail(names.size(), " results but ", types.size(), " types");
    }
    if (!lexer_.ok()) return;
    Node* node = graph_.AddNode(*op, std::move(operands), std::move(attrs), std::move(types));
    node->aten = std::move(aten);
    for (size_t i = 0; i < names.size(); ++i) Define(names[i], node->results[i]);
  }

  void Return() {
    lexer_.Expect("return");
    if (lexer_.Peek("}")) return;
    do ReturnItem();
    while (lexer_.ok() && lexer_.Try(","));
  }

  // A tangent or gradient names an output by its position, from 0. The verifier checks the
  // positions.
  void Derivative() {
    while (lexer_.ok() && lexer_.Try("tangent")) {
      const Value* input = UseInput();
      lexer_.Expect("of");
      const auto output = static_cast<uint32_t>(lexer_.Integer());
      if (input != nullptr) graph_.tangents.push_back({output, input->index});
    }
    while (lexer_.ok() && lexer_.Try("gradient")) {
      const auto output = static_cast<uint32_t>(lexer_.Integer());
      lexer_.Expect("of");
      const Value* input = UseInput();
      if (input != nullptr) graph_.gradients.push_back({input->index, output});
    }
  }

  void ReturnItem() {
    Output output;
    if (lexer_.Try("none")) {
      output.kind = Output::Kind::kNone;
    } else if (lexer_.Try("int")) {
      output.kind = Output::Kind::kInt;
      output.int_value = lexer_.Integer();
    } else if (lexer_.Try("float")) {
      output.kind = Output::Kind::kFloat;
      output.float_value = lexer_.Real();
    } else if (lexer_.Try("bool")) {
      output.kind = Output::Kind::kBool;
      output.int_value = std::get<bool>(AttrValue(AttrType::kBool)) ? 1 : 0;
    } else if (lexer_.Try("alias")) {
      const Value* input = UseInput();
      if (input == nullptr) return;
      output.kind = Output::Kind::kInput;
      output.index = input->index;
      output.view = ViewOf(input->type);
      if (lexer_.Try("form")) output.form = Form();
    } else {
      StorageItem(output);
    }
    if (lexer_.ok()) graph_.AddOutput(std::move(output));
  }

  AliasForm Form() {
    const std::string_view name = lexer_.Word();
    for (int number = 1; number <= static_cast<int>(kLastAliasForm); ++number) {
      const auto form = static_cast<AliasForm>(number);
      if (name == AliasFormName(form)) return form;
    }
    lexer_.Fail("form ", name, " is not known");
    return AliasForm::kNone;
  }

  void StorageItem(Output& output) {
    Storage storage{Use(), {}};
    if (storage.value == nullptr) return;
    storage.type = lexer_.Try("in") ? ParseType(lexer_) : storage.value->type;
    output.kind = Output::Kind::kTensor;
    output.view = ViewOf(storage.type);
    const std::vector<Storage>& known = graph_.storages();
    const auto same = [&](const Storage& other) {
      return other.value == storage.value && other.type == storage.type;
    };
    int64_t index = std::find_if(known.begin(), known.end(), same) - known.begin();
    if (lexer_.Try("buffer")) index = lexer_.Integer();
    const auto count = static_cast<int64_t>(known.size());
    if (index < 0 || index > count || (index < count && !same(known[index]))) {
      return lexer_.Fail("buffer ", index, " is not the next one and holds no such value");
    }
    if (index == count) graph_.AddStorage(std::move(storage));
    output.index = static_cast<uint32_t>(index);
  }

  Lexer lexer_;
  Graph graph_;
  std::unordered_map<std::string, Value*> values_;
};

}  // namespace

absl::StatusOr<Graph> Parse(std::string_view text) { return Parser(text).Run(); }

}  // namespace hpu::ir
