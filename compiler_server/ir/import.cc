#include "compiler_server/ir/import.h"

#include <algorithm>
#include <cctype>
#include <unordered_map>
#include <unordered_set>

#include "compiler_server/ir/build.h"
#include "compiler_server/ir/verify.h"

namespace hpu::ir {
namespace {

constexpr std::string_view kCopy = "aten.copy_.default";
constexpr std::string_view kAsStrided = "aten.as_strided.default";

absl::StatusOr<TensorType> ImportType(const TensorSpec& spec) {
  TensorType type{spec.dtype, spec.sizes, spec.strides};
  RETURN_IF_ERROR(CheckType(type));
  if (spec.storage_offset > kMaxElements) {
    return InvalidArgument("storage offset ", spec.storage_offset, " is out of range");
  }
  return type;
}

// Replaces everything but letters, digits and '_'.
std::string Word(std::string_view wire) {
  std::string word;
  for (char c : wire) {
    word += std::isalnum(static_cast<unsigned char>(c)) != 0 && (c & 0x80) == 0 ? c : '_';
  }
  return word;
}

// Makes a unique word that does not begin with a digit and does not look like a printed constant.
std::string InputName(std::string_view wire, size_t index, std::unordered_set<std::string>& taken) {
  std::string name = Word(wire);
  const bool digit = !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) != 0;
  if (name.empty() || digit || name.rfind("const", 0) == 0)
    name = "in" + std::to_string(index) + "_" + name;
  while (!taken.insert(name).second) name += "_";
  return name;
}

class Importer {
 public:
  Importer(const CapturedGraph& captured, const ImportLimits& limits)
      : captured_(captured),
        limits_(limits),
        graph_(captured.name.empty() ? "graph" : Word(captured.name)) {}

  absl::StatusOr<Graph> Run() {
    RETURN_IF_ERROR(CheckLimits());
    RETURN_IF_ERROR(ImportInputs());
    RETURN_IF_ERROR(ImportConstants());
    for (size_t i = 0; i < captured_.calls.size(); ++i) {
      const CapturedCall& call = captured_.calls[i];
      std::string where = "call " + std::to_string(i) + " " + Target(call);
      if (!call.source.empty()) where += " (" + call.source + ")";
      RETURN_IF_ERROR_AT(ImportCall(call, static_cast<uint32_t>(i)), where);
    }
    for (size_t i = 0; i < captured_.outputs.size(); ++i) {
      RETURN_IF_ERROR_AT(ImportOutput(captured_.outputs[i], captured_.alias_forms[i]),
                         "output " + std::to_string(i));
    }
    for (const auto& [output, tangent] : captured_.tangents) {
      graph_.tangents.push_back({output, tangent});
    }
    for (const auto& [input, gradient] : captured_.gradients) {
      graph_.gradients.push_back({input, gradient});
    }
    graph_.SetOrder(std::move(order_));
    graph_.captured_nodes = static_cast<uint32_t>(captured_.calls.size());
    RETURN_IF_ERROR(Verify(graph_));
    return std::move(graph_);
  }

 private:
  struct Captured {
    Value* value = nullptr;    // its elements now; nullptr: a number
    Value* origin = nullptr;   // its elements when it was defined
    TensorType type;           // with PyTorch's strides
    uint32_t root = 0;         // captured value that owns its memory; itself if it has its own
    int64_t offset = 0;        // from the root's first element to its own
    uint32_t seen_writes = 0;  // the writes to the root's memory that `value` includes
    uint32_t writes = 0;       // the writes to its own memory, if it is a root
  };

  const std::string& Target(const CapturedCall& call) const {
    return captured_.schema(call).target;
  }

  absl::Status CheckLimits() {
    size_t bytes = 0;
    for (const CapturedConstant& constant : captured_.constants) bytes += constant.data.size();
    const auto over = [](const char* what, size_t count, size_t limit) {
      return Error(absl::StatusCode::kResourceExhausted, "the graph has ", count, " ", what,
                   ", more than ", limit);
    };
    const size_t calls = captured_.calls.size();
    const size_t values = captured_.value_count();
    if (calls > limits_.max_calls) return over("calls", calls, limits_.max_calls);
    if (values > limits_.max_values) return over("values", values, limits_.max_values);
    if (bytes > limits_.max_constant_bytes) {
      return over("bytes of constants", bytes, limits_.max_constant_bytes);
    }
    values_.reserve(values);
    return absl::OkStatus();
  }

  // Adds the next value in the container's numbering, with memory of its own.
  Captured& Define(Value* value, const TensorType& type, int64_t offset) {
    const auto id = static_cast<uint32_t>(values_.size());
    return values_.emplace_back(Captured{value, value, type, id, offset, 0, 0});
  }

  absl::Status ImportInputs() {
    std::unordered_set<std::string> names;
    for (size_t i = 0; i < captured_.inputs.size(); ++i) {
      const CapturedInput& input = captured_.inputs[i];
      const std::string name = InputName(input.name, i, names);
      if (input.kind == CapturedInput::Kind::kScalar) {
        graph_.AddScalarInput(name);
        Define(nullptr, {}, 0);
        continue;
      }
      const auto type = ImportType(input.spec);
      RETURN_IF_ERROR_AT(type.status(), "input " + std::to_string(i));
      Define(graph_.AddInput(name, *type, input.on_cpu, input.is_weight, input.is_trained), *type,
             0);
    }
    return absl::OkStatus();
  }

  absl::Status ImportConstants() {
    for (size_t i = 0; i < captured_.constants.size(); ++i) {
      const CapturedConstant& constant = captured_.constants[i];
      const auto type = ImportType(constant.spec);
      RETURN_IF_ERROR_AT(type.status(), "constant " + std::to_string(i));
      Define(graph_.AddConstant(*type, constant.data), *type, 0);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Value*> Read(uint32_t id) {
    const Captured& captured = values_[id];
    if (captured.seen_writes != values_[captured.root].writes) {
      return Unimplemented("value ", id, " is read after memory it lies in was written");
    }
    return captured.value;
  }

  // Returns nullptr if there is no such argument, or if it is no tensor.
  static const TensorArgument* TensorAt(const CapturedCall& call, size_t index) {
    if (index >= call.args.size()) return nullptr;
    return std::get_if<TensorArgument>(&call.args[index].value);
  }

  absl::Status ImportCall(const CapturedCall& call, uint32_t index) {
    const OpSchema& schema = captured_.schema(call);
    if (schema.target == kCopy) return ImportCopy(call);
    if (schema.target == kAsStrided) return ImportAsStrided(call, index);
    if (!call.writes.empty()) return Unimplemented("writes to a tensor");
    auto aten = std::make_unique<AtenCall>();
    aten->target = schema.target;
    aten->draws_random = call.draws_random;
    std::vector<Value*> operands;
    for (size_t i = 0; i < call.args.size(); ++i) {
      Argument argument = call.args[i];
      absl::Status status;
      ForEachTensor(argument, [&](uint32_t& tensor) {
        const uint32_t captured = tensor;
        const absl::StatusOr<Value*> value = Read(captured);
        if (!value.ok()) return status.Update(value.status());
        tensor = static_cast<uint32_t>(operands.size());
        operands.push_back(*value);
        aten->strides.push_back(values_[captured].type.strides);
      });
      RETURN_IF_ERROR(status);
      aten->args.emplace_back(schema.arguments[i], std::move(argument));
    }
    std::vector<TensorType> types;
    for (const CapturedResult& result : call.results) {
      ASSIGN_OR_RETURN(TensorType type, ImportType(result.spec));
      types.push_back(std::move(type));
    }
    Node* node = graph_.CreateNode(OpKind::kAten, std::move(operands), {}, std::move(types));
    order_.push_back(node);
    node->aten = std::move(aten);
    node->source = graph_.AddSource(call.source);
    node->origin = index + 1;
    for (size_t i = 0; i < call.results.size(); ++i) {
      DefineResult(call.results[i], node->results[i], node->results[i]->type);
    }
    return absl::OkStatus();
  }

  void DefineResult(const CapturedResult& result, Value* value, const TensorType& type) {
    Captured& captured = Define(value, type, 0);
    if (result.memory_of == kOwnMemory) return;
    const Captured& root = values_[result.memory_of];
    // Bytes that are seen as another type are not a region of elements. A copy is as good until the
    // memory is written, and then it is not read again.
    if (root.type.dtype != type.dtype) return;
    captured.root = result.memory_of;
    captured.offset = result.spec.storage_offset;
    captured.seen_writes = root.writes;
  }

  // as_strided(x, size, stride, storage_offset) addresses the memory of x, which only the capture
  // knows. Here it becomes an op over the root.
  absl::Status ImportAsStrided(const CapturedCall& call, uint32_t index) {
    const auto* self = TensorAt(call, 0);
    if (self == nullptr || call.results.size() != 1) {
      return InvalidArgument("as_strided takes a tensor and gives one");
    }
    RETURN_IF_ERROR(Read(self->tensor).status());
    const Captured operand = values_[self->tensor];
    const Captured& root = values_[operand.root];
    const CapturedResult& result = call.results[0];
    ASSIGN_OR_RETURN(const TensorType type, ImportType(result.spec));
    if (type.dtype != root.type.dtype) return InvalidArgument("as_strided changes the type");
    Builder builder(graph_, &order_);
    builder.SetContext(graph_.AddSource(call.source), index + 1);
    Value* memory = root.origin;
    if (memory->kind != ValueKind::kInput) {
      if (!root.type.contiguous()) {
        Dims perm;
        if (!IsDense(root.type, &perm)) {
          return Unimplemented("as_strided of memory that is not dense: ", ToText(root.type));
        }
        memory = builder.Permute(memory, std::move(perm));
      }
      // A value that looks like a copy here may later be the elements of a strided input, whose
      // memory differs.
      const int64_t elements = root.type.elements();
      const bool flat = memory->type.sizes == Dims{elements};
      memory = builder.Reshape(memory, flat ? Dims{1, elements} : Dims{elements});
    }
    const int64_t offset = result.spec.storage_offset;
    const TensorType contiguous = Contiguous(type);
    Value* value =
        builder.Emit(OpKind::kAsStrided, {memory},
                     {{AttrKey::kStrides, type.strides}, {AttrKey::kOffset, offset}}, &contiguous);
    if (!builder.status().ok()) return Unimplemented(builder.status().message());
    Captured& captured = Define(value, type, result.spec.storage_offset);
    captured.root = operand.root;
    captured.seen_writes = operand.seen_writes;
    return absl::OkStatus();
  }

  // The region of the root's memory that the value occupies.
  absl::StatusOr<View> RegionOf(const Captured& captured) const {
    const Captured& root = values_[captured.root];
    View view{captured.type, captured.offset};
    const int64_t span = SpanElements(view.type);
    if (span == 0) view.offset = 0;
    if (view.offset < 0 || view.offset + span > SpanElements(root.type)) {
      return Unimplemented("view ", ToText(view.type), " at element ", view.offset,
                           " reaches outside the ", ToText(root.type), " it is taken of");
    }
    return view;
  }

  // copy_(view of an input, source) changes the input's memory at the end of the graph.
  absl::Status ImportCopy(const CapturedCall& call) {
    const auto* self = TensorAt(call, 0);
    const auto* from = TensorAt(call, 1);
    if (self == nullptr || from == nullptr) return InvalidArgument("copy_ takes two tensors");
    ASSIGN_OR_RETURN(Value * source, Read(from->tensor));
    const Captured target = values_[self->tensor];
    Captured& root = values_[target.root];
    if (root.origin->kind != ValueKind::kInput) {
      return InvalidArgument("copy_ writes to value ", self->tensor,
                             ", which is no input's memory");
    }
    ASSIGN_OR_RETURN(View view, RegionOf(target));
    Builder builder(graph_, &order_);
    builder.SetContext(graph_.AddSource(call.source), 0);
    Value* written = builder.Expand(builder.Cast(source, target.type.dtype), target.type.sizes);
    RETURN_IF_ERROR(builder.status());
    graph_.AddMutation({root.origin->index, std::move(view), written});
    const uint32_t writes = ++root.writes;
    values_[self->tensor].seen_writes = writes;
    values_[self->tensor].value = written;
    for (size_t i = 0; i < call.results.size(); ++i) {
      Captured& again = Define(written, target.type, target.offset);
      again.root = target.root;
      again.seen_writes = writes;
    }
    return absl::OkStatus();
  }

  absl::Status ImportOutput(const Argument& argument, AliasForm form) {
    Output output;
    if (const auto* tensor = std::get_if<TensorArgument>(&argument.value)) {
      RETURN_IF_ERROR(TensorOutput(values_[tensor->tensor], &output));
    } else if (const auto* number = std::get_if<int64_t>(&argument.value)) {
      output.kind = Output::Kind::kInt;
      output.int_value = *number;
    } else if (const auto* real = std::get_if<double>(&argument.value)) {
      output.kind = Output::Kind::kFloat;
      output.float_value = *real;
    } else if (const auto* flag = std::get_if<bool>(&argument.value)) {
      output.kind = Output::Kind::kBool;
      output.int_value = *flag ? 1 : 0;
    }
    if (output.kind == Output::Kind::kInput) {
      const bool whole = output.view == View{graph_.inputs()[output.index].value->type, 0};
      const bool implied = form == (whole ? AliasForm::kSame : AliasForm::kView);
      output.form = implied ? AliasForm::kNone : form;
    }
    graph_.AddOutput(std::move(output));
    return absl::OkStatus();
  }

  absl::Status TensorOutput(const Captured& captured, Output* output) {
    const Captured& root = values_[captured.root];
    ASSIGN_OR_RETURN(output->view, RegionOf(captured));
    if (root.origin->kind == ValueKind::kInput) {
      output->kind = Output::Kind::kInput;
      output->index = root.origin->index;
      return absl::OkStatus();
    }
    if (!root.type.contiguous() && !IsDense(root.type)) {
      return Unimplemented("lies in memory that is not dense: ", ToText(root.type));
    }
    const auto [place, is_new] = storages_.try_emplace(captured.root, 0);
    if (is_new) place->second = graph_.AddStorage({root.origin, root.type});
    output->kind = Output::Kind::kTensor;
    output->index = place->second;
    return absl::OkStatus();
  }

  const CapturedGraph& captured_;
  const ImportLimits& limits_;
  Graph graph_;
  std::vector<Node*> order_;
  std::vector<Captured> values_;                     // by captured id
  std::unordered_map<uint32_t, uint32_t> storages_;  // root -> storage
};

}  // namespace

absl::StatusOr<Graph> Import(const CapturedGraph& graph, const ImportLimits& limits) {
  return Importer(graph, limits).Run();
}

}  // namespace hpu::ir
