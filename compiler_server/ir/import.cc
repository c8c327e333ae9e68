#include "compiler_server/ir/import.h"

#include <algorithm>
#include <cctype>
#include <unordered_map>
#include <unordered_set>

#include "compiler_server/ir/aliases.h"
#include "compiler_server/ir/build.h"
#include "compiler_server/ir/verify.h"
#include "graph.pb.h"

namespace hpu::ir {
namespace {

constexpr uint32_t kWireVersion = 1;
constexpr int kMaxArgumentDepth = 8;
constexpr std::string_view kCopy = "aten.copy_.default";
constexpr std::string_view kAsStrided = "aten.as_strided.default";

absl::StatusOr<TensorType> ImportType(const wire::TensorType& wire) {
  if (wire.dtype() == 0 || wire.dtype() >= kNumDTypes) {
    return InvalidArgument("element type ", wire.dtype(), " is unknown");
  }
  TensorType type{static_cast<DType>(wire.dtype()),
                  {wire.sizes().begin(), wire.sizes().end()},
                  {wire.strides().begin(), wire.strides().end()}};
  RETURN_IF_ERROR(CheckType(type));
  if (wire.storage_offset() < 0 || wire.storage_offset() > kMaxElements) {
    return InvalidArgument("storage offset ", wire.storage_offset(), " is out of range");
  }
  return type;
}

// Letters, digits and '_'.
std::string Word(std::string_view wire) {
  std::string word;
  for (char c : wire) {
    word += std::isalnum(static_cast<unsigned char>(c)) != 0 && (c & 0x80) == 0 ? c : '_';
  }
  return word;
}

// A word not beginning with a digit, not of the form that constants print as.
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
  Importer(const wire::Graph& wire, const ImportLimits& limits)
      : wire_(wire), limits_(limits), graph_(wire.name().empty() ? "graph" : Word(wire.name())) {}

  absl::StatusOr<Graph> Run() {
    if (wire_.version() != kWireVersion) {
      return InvalidArgument("graph version ", wire_.version(), " is not ", kWireVersion);
    }
    RETURN_IF_ERROR(CheckLimits());
    RETURN_IF_ERROR(ImportInputs());
    RETURN_IF_ERROR(ImportConstants());
    for (int i = 0; i < wire_.nodes_size(); ++i) {
      const wire::Node& node = wire_.nodes(i);
      std::string where = "node " + std::to_string(i) + " " + node.target();
      if (!node.source().empty()) where += " (" + node.source() + ")";
      RETURN_IF_ERROR_AT(ImportNode(node, static_cast<uint32_t>(i)), where);
    }
    for (int i = 0; i < wire_.outputs_size(); ++i) {
      RETURN_IF_ERROR_AT(ImportOutput(wire_.outputs(i)), "output " + std::to_string(i));
    }
    graph_.SetOrder(std::move(order_));
    graph_.captured_nodes = static_cast<uint32_t>(wire_.nodes_size());
    RETURN_IF_ERROR(Verify(graph_));
    return std::move(graph_);
  }

 private:
  struct Captured {
    Value* value = nullptr;      // its elements now
    Value* origin = nullptr;     // its elements when it was defined
    TensorType type;             // with PyTorch's strides
    uint32_t root = 0;           // captured value whose memory it lies in; itself if it has its own
    int64_t storage_offset = 0;  // of its first element, in PyTorch's storage
    uint32_t seen_writes = 0;    // to the root's memory, that `value` includes
    uint32_t writes = 0;         // to its own memory, if it is a root
  };

  absl::Status CheckLimits() {
    size_t values = static_cast<size_t>(wire_.inputs_size()) + wire_.constants_size();
    for (const wire::Node& node : wire_.nodes()) values += node.results_size();
    size_t bytes = 0;
    for (const wire::GraphConstant& constant : wire_.constants()) bytes += constant.data().size();
    const auto over = [](const char* what, size_t count, size_t limit) {
      return Error(absl::StatusCode::kResourceExhausted, "the graph has ", count, " ", what,
                   ", more than ", limit);
    };
    const size_t nodes = static_cast<size_t>(wire_.nodes_size());
    if (nodes > limits_.max_nodes) return over("nodes", nodes, limits_.max_nodes);
    if (values > limits_.max_values) return over("values", values, limits_.max_values);
    if (bytes > limits_.max_constant_bytes) {
      return over("bytes of constants", bytes, limits_.max_constant_bytes);
    }
    values_.resize(values);
    return absl::OkStatus();
  }

  absl::Status Define(uint32_t id, Value* value, int64_t storage_offset) {
    if (id >= values_.size()) return InvalidArgument("value id ", id, " is not dense");
    if (values_[id].value != nullptr) return InvalidArgument("value ", id, " is defined twice");
    values_[id] = {value, value, value->type, id, storage_offset, 0, 0};
    return absl::OkStatus();
  }

  absl::Status ImportInputs() {
    std::unordered_set<std::string> names;
    for (int i = 0; i < wire_.inputs_size(); ++i) {
      const wire::GraphInput& input = wire_.inputs(i);
      const std::string name = InputName(input.name(), i, names);
      if (input.kind_case() == wire::GraphInput::kScalar) {
        graph_.AddScalarInput(name);
        continue;
      }
      if (input.kind_case() != wire::GraphInput::kTensor) {
        return InvalidArgument("input ", i, " is neither tensor nor scalar");
      }
      auto type = ImportType(input.tensor());
      RETURN_IF_ERROR_AT(type.status(), "input " + std::to_string(i));
      RETURN_IF_ERROR(Define(input.value(), graph_.AddInput(name, *type, input.on_cpu()),
                             input.tensor().storage_offset()));
    }
    return absl::OkStatus();
  }

  absl::Status ImportConstants() {
    for (const wire::GraphConstant& constant : wire_.constants()) {
      auto type = ImportType(constant.tensor());
      RETURN_IF_ERROR_AT(type.status(), "constant " + std::to_string(constant.value()));
      Bytes data(constant.data().begin(), constant.data().end());
      RETURN_IF_ERROR(Define(constant.value(), graph_.AddConstant(*type, std::move(data)), 0));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<uint32_t> Lookup(uint32_t id) const {
    if (id >= values_.size() || values_[id].value == nullptr) {
      return InvalidArgument("value ", id, " is not defined before its use");
    }
    return id;
  }

  absl::StatusOr<Value*> Read(uint32_t id) {
    ASSIGN_OR_RETURN(id, Lookup(id));
    const Captured& captured = values_[id];
    if (captured.seen_writes != values_[captured.root].writes) {
      return Unimplemented("value ", id, " is read after memory it lies in was written");
    }
    return captured.value;
  }

  absl::StatusOr<Argument> ImportArgument(const wire::Argument& wire, std::vector<Value*>& operands,
                                          int depth) {
    using Kind = wire::Argument::KindCase;
    switch (wire.kind_case()) {
      case Kind::kNone:
      case Kind::KIND_NOT_SET:
        return Argument{NoneArgument{}};
      case Kind::kValue: {
        ASSIGN_OR_RETURN(Value * value, Read(wire.value()));
        operands.push_back(value);
        return Argument{TensorArgument{static_cast<uint32_t>(operands.size() - 1)}};
      }
      case Kind::kIntValue:
        return Argument{wire.int_value()};
      case Kind::kFloatValue:
        return Argument{wire.float_value()};
      case Kind::kBoolValue:
        return Argument{wire.bool_value()};
      case Kind::kStringValue:
        return Argument{wire.string_value()};
      case Kind::kDtype:
        if (wire.dtype() == 0 || wire.dtype() >= kNumDTypes) {
          return InvalidArgument("argument: element type ", wire.dtype(), " is unknown");
        }
        return Argument{DTypeArgument{static_cast<DType>(wire.dtype())}};
      case Kind::kMemoryFormat:
        return Argument{EnumArgument{wire.memory_format()}};
      case Kind::kLayout:
        return Argument{EnumArgument{wire.layout()}};
      case Kind::kDevice:
        return Argument{DeviceArgument{wire.device()}};
      case Kind::kList: {
        if (depth == kMaxArgumentDepth) return InvalidArgument("arguments are nested too deep");
        ArgumentList list;
        for (const wire::Argument& item : wire.list().items()) {
          ASSIGN_OR_RETURN(Argument argument, ImportArgument(item, operands, depth + 1));
          list.push_back(std::move(argument));
        }
        return Argument{std::move(list)};
      }
    }
    return InvalidArgument("argument of unknown kind");
  }

  absl::Status ImportNode(const wire::Node& wire, uint32_t index) {
    if (wire.target() == kCopy) return ImportCopy(wire);
    if (wire.target() == kAsStrided) return ImportAsStrided(wire, index);
    if (wire.target().empty()) return InvalidArgument("no target");
    auto call = std::make_unique<AtenCall>();
    call->target = wire.target();
    std::vector<Value*> operands;
    for (const wire::Argument& item : wire.args()) {
      ASSIGN_OR_RETURN(Argument argument, ImportArgument(item, operands, 0));
      call->args.push_back(std::move(argument));
    }
    for (const wire::NamedArgument& item : wire.kwargs()) {
      ASSIGN_OR_RETURN(Argument argument, ImportArgument(item.argument(), operands, 0));
      call->kwargs.emplace_back(item.name(), std::move(argument));
    }
    std::vector<TensorType> types;
    for (const wire::Result& result : wire.results()) {
      ASSIGN_OR_RETURN(TensorType type, ImportType(result.tensor()));
      types.push_back(std::move(type));
    }
    Node* node = graph_.CreateNode(OpKind::kAten, std::move(operands), {}, std::move(types));
    order_.push_back(node);
    node->aten = std::move(call);
    node->source = graph_.AddSource(wire.source());
    node->origin = index + 1;
    for (int i = 0; i < wire.results_size(); ++i) {
      const wire::Result& result = wire.results(i);
      RETURN_IF_ERROR(Define(result.value(), node->results[i], result.tensor().storage_offset()));
      RETURN_IF_ERROR(TraceMemory(wire, *node, result.value()));
    }
    return absl::OkStatus();
  }

  // If the result is a view of the node's first argument, both lie in the same root's memory.
  absl::Status TraceMemory(const wire::Node& wire, const Node& node, uint32_t id) {
    if (wire.args_size() == 0 || wire.args(0).kind_case() != wire::Argument::kValue) {
      return absl::OkStatus();
    }
    Captured& result = values_[id];
    const Captured& operand = values_[wire.args(0).value()];
    if (AliasesFirstOperand(*node.aten, operand.type, result.type)) {
      result.root = operand.root;
      result.seen_writes = values_[operand.root].writes;
    }
    return absl::OkStatus();
  }

  // as_strided(x, size, stride, storage_offset) addresses the memory x lies in, which only the
  // capture knows: here it becomes an op over the root.
  absl::Status ImportAsStrided(const wire::Node& wire, uint32_t index) {
    if (wire.args_size() < 3 || wire.args(0).kind_case() != wire::Argument::kValue ||
        wire.results_size() != 1) {
      return InvalidArgument("as_strided takes a tensor, sizes and strides");
    }
    RETURN_IF_ERROR(Read(wire.args(0).value()).status());
    const Captured operand = values_[wire.args(0).value()];
    const Captured& root = values_[operand.root];
    ASSIGN_OR_RETURN(const TensorType type, ImportType(wire.results(0).tensor()));
    if (type.dtype != root.type.dtype) return InvalidArgument("as_strided changes the type");
    Builder builder(graph_, &order_);
    builder.SetContext(graph_.AddSource(wire.source()), index + 1);
    Value* memory = root.origin;
    if (memory->kind != ValueKind::kInput) {
      if (!root.type.contiguous()) {
        Dims perm;
        if (!IsDensePermutation(root.type, &perm)) {
          return Unimplemented("as_strided of memory that is not dense: ", ToText(root.type));
        }
        memory = builder.Permute(memory, std::move(perm));
      }
      // What is a copy here may turn out to be a strided input's elements, whose memory is another.
      const int64_t elements = root.type.elements();
      const bool flat = memory->type.sizes == Dims{elements};
      memory = builder.Reshape(memory, flat ? Dims{1, elements} : Dims{elements});
    }
    const int64_t offset = wire.results(0).tensor().storage_offset() - root.storage_offset;
    const TensorType contiguous = Contiguous(type);
    Value* value =
        builder.Emit(OpKind::kAsStrided, {memory},
                     {{AttrKey::kStrides, type.strides}, {AttrKey::kOffset, offset}}, &contiguous);
    if (!builder.status().ok()) return Unimplemented(builder.status().message());
    const uint32_t id = wire.results(0).value();
    RETURN_IF_ERROR(Define(id, value, wire.results(0).tensor().storage_offset()));
    values_[id].type = type;
    values_[id].root = operand.root;
    values_[id].seen_writes = operand.seen_writes;
    return absl::OkStatus();
  }

  // Region of the root's memory that the value is.
  absl::StatusOr<View> RegionOf(const Captured& captured) const {
    const Captured& root = values_[captured.root];
    View view{captured.type, captured.storage_offset - root.storage_offset};
    const int64_t span = SpanElements(view.type);
    if (span == 0) view.offset = 0;
    if (view.offset < 0 || view.offset + span > SpanElements(root.type)) {
      return Unimplemented("view ", ToText(view.type), " at element ", view.offset,
                           " reaches outside the ", ToText(root.type), " it is taken of");
    }
    return view;
  }

  // copy_(view of an input, source): the input's memory changes when the graph is done.
  absl::Status ImportCopy(const wire::Node& wire) {
    if (wire.args_size() < 2 || wire.args(0).kind_case() != wire::Argument::kValue ||
        wire.args(1).kind_case() != wire::Argument::kValue) {
      return InvalidArgument("copy_ takes two tensors");
    }
    ASSIGN_OR_RETURN(const uint32_t id, Lookup(wire.args(0).value()));
    ASSIGN_OR_RETURN(Value * source, Read(wire.args(1).value()));
    Captured& target = values_[id];
    const Value* root = values_[target.root].origin;
    if (root->kind != ValueKind::kInput) {
      return InvalidArgument("copy_ writes to value ", id, ", which is no input's memory");
    }
    ASSIGN_OR_RETURN(View view, RegionOf(target));
    Builder builder(graph_, &order_);
    builder.SetContext(graph_.AddSource(wire.source()), 0);
    Value* written = builder.Expand(builder.Cast(source, target.type.dtype), target.type.sizes);
    RETURN_IF_ERROR(builder.status());
    graph_.AddMutation({root->index, std::move(view), written});
    ++values_[target.root].writes;
    target.seen_writes = values_[target.root].writes;
    target.value = written;
    for (const wire::Result& result : wire.results()) {
      RETURN_IF_ERROR(Define(result.value(), written, target.storage_offset));
      Captured& again = values_[result.value()];
      again.type = target.type;
      again.root = target.root;
      again.seen_writes = target.seen_writes;
    }
    return absl::OkStatus();
  }

  absl::Status ImportOutput(const wire::Argument& wire) {
    using Kind = wire::Argument::KindCase;
    Output output;
    switch (wire.kind_case()) {
      case Kind::kNone:
        break;
      case Kind::kIntValue:
        output.kind = Output::Kind::kInt;
        output.int_value = wire.int_value();
        break;
      case Kind::kFloatValue:
        output.kind = Output::Kind::kFloat;
        output.float_value = wire.float_value();
        break;
      case Kind::kBoolValue:
        output.kind = Output::Kind::kBool;
        output.int_value = wire.bool_value() ? 1 : 0;
        break;
      case Kind::kValue: {
        ASSIGN_OR_RETURN(const uint32_t id, Lookup(wire.value()));
        RETURN_IF_ERROR(TensorOutput(values_[id], &output));
        break;
      }
      default:
        return InvalidArgument("neither a tensor, a number nor None");
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
    if (!root.type.contiguous() && !IsDensePermutation(root.type)) {
      return Unimplemented("lies in memory that is not dense: ", ToText(root.type));
    }
    const auto [place, is_new] = storages_.try_emplace(captured.root, 0);
    if (is_new) place->second = graph_.AddStorage({root.origin, root.type});
    output->kind = Output::Kind::kTensor;
    output->index = place->second;
    return absl::OkStatus();
  }

  const wire::Graph& wire_;
  const ImportLimits& limits_;
  Graph graph_;
  std::vector<Node*> order_;
  std::vector<Captured> values_;                     // by captured id
  std::unordered_map<uint32_t, uint32_t> storages_;  // root -> storage
};

}  // namespace

absl::StatusOr<Graph> Import(const wire::Graph& graph, const ImportLimits& limits) {
  return Importer(graph, limits).Run();
}

}  // namespace hpu::ir
