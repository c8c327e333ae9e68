#include "graph_compiler/ir/loop_graph.h"

#include <algorithm>
#include <iterator>
#include <sstream>

namespace hpu::graph_compiler {
namespace {

void AddOnce(std::vector<ValueId>& list, ValueId value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

// Sets the strides of a view along dimensions of size 1 to 0, so that equal windows are equal
// views.
Shape StandStill(const Shape& shape, Shape strides) {
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) strides[d] = 0;
  }
  return strides;
}

const char* OpcodeName(Opcode op) {
  static constexpr const char* kNames[] = {"load",
                                           "const",
                                           "const_int",
                                           "index",
                                           "accumulator",
                                           "add",
                                           "sub",
                                           "mul",
                                           "div",
                                           "min",
                                           "max",
                                           "neg",
                                           "abs",
                                           "fma",
                                           "rem",
                                           "floor_div",
                                           "floor_mod",
                                           "and",
                                           "or",
                                           "xor",
                                           "not",
                                           "shl",
                                           "shr",
                                           "exp",
                                           "expm1",
                                           "log",
                                           "log1p",
                                           "log2",
                                           "log10",
                                           "sqrt",
                                           "rsqrt",
                                           "reciprocal",
                                           "sin",
                                           "cos",
                                           "tan",
                                           "tanh",
                                           "erf",
                                           "sigmoid",
                                           "sigmoid16",
                                           "cdf",
                                           "cdf16",
                                           "pow",
                                           "floor",
                                           "ceil",
                                           "trunc",
                                           "round",
                                           "sign",
                                           "atan",
                                           "asin",
                                           "acos",
                                           "sinh",
                                           "cosh",
                                           "asinh",
                                           "acosh",
                                           "atanh",
                                           "atan2",
                                           "erfc",
                                           "erfinv",
                                           "eq",
                                           "ne",
                                           "lt",
                                           "le",
                                           "gt",
                                           "ge",
                                           "is_nan",
                                           "is_inf",
                                           "is_finite",
                                           "select",
                                           "cast",
                                           "round_to",
                                           "philox_uniform"};
  static_assert(std::size(kNames) == static_cast<size_t>(Opcode::kPhiloxUniform) + 1);
  return kNames[static_cast<size_t>(op)];
}

void PrintShape(std::ostream& out, const Shape& shape) {
  out << '[';
  for (size_t i = 0; i < shape.size(); ++i) out << (i == 0 ? "" : ",") << shape[i];
  out << ']';
}

void PrintAccess(std::ostream& out, const Access& access) {
  static constexpr const char* kKinds[] = {"%", "iota", "scratch", "accumulator"};
  out << kKinds[static_cast<size_t>(access.operand.kind)];
  if (access.operand.kind != Operand::Kind::kIota) out << access.operand.number;
  out << ' ' << TypeName(access.type) << " strides ";
  PrintShape(out, access.strides);
  out << " offset " << access.offset;
  if (access.indirect_value != kNoValue) {
    out << " + v" << access.indirect_value << "<" << access.indirect_limit << " * "
        << access.indirect_stride;
  }
}

void PrintView(std::ostream& out, const char* name, const View& view) {
  out << "  " << name << " = %" << view.value << ' ' << TypeName(view.type) << ' ';
  PrintShape(out, view.shape);
  out << " strides ";
  PrintShape(out, view.strides);
  out << " offset " << view.offset << '\n';
}

const char* KindName(const Node& node) {
  static constexpr const char* kNames[] = {"loop",         "gemm",
                                           "conv",         "weight_gradient",
                                           "attention",    "attention_backward",
                                           "sort",         "quantized_gemm",
                                           "grouped_gemm", "custom"};
  static_assert(std::size(kNames) == std::variant_size_v<decltype(node.kind)>);
  return kNames[node.kind.index()];
}

const char* ReduceName(ReduceKind kind) {
  static constexpr const char* kNames[] = {"none", "sum", "prod", "max", "min"};
  return kNames[static_cast<size_t>(kind)];
}

// `kind` is the kind of a node and may be const.
template <typename PortType, typename Variant>
std::vector<PortType> ListPorts(Variant& kind) {
  std::vector<PortType> ports;
  const auto read = [&](const char* name, auto& view) { ports.push_back({name, &view, false}); };
  const auto write = [&](const char* name, auto& view) { ports.push_back({name, &view, true}); };
  const auto read_attention = [&](auto& attention) {
    read("q", attention.q);
    read("k", attention.k);
    read("v", attention.v);
    if (attention.mask.has_value()) read("mask", *attention.mask);
    if (!attention.draw.has_value()) return;
    read("seed", attention.draw->seed);
    read("offset", attention.draw->offset);
    read("base", attention.draw->base);
  };
  if (auto* gemm = std::get_if<Gemm>(&kind)) {
    read("a", gemm->a);
    read("b", gemm->b);
    if (gemm->zeros.b.has_value()) read("b_zero", *gemm->zeros.b);
  } else if (auto* quantized = std::get_if<QuantizedGemm>(&kind)) {
    read("x", quantized->x);
    read("weights", quantized->weights);
    if (quantized->scale.has_value()) read("scale", *quantized->scale);
    if (quantized->zero.has_value()) read("zero", *quantized->zero);
  } else if (auto* grouped = std::get_if<GroupedGemm>(&kind)) {
    read("a", grouped->a);
    read("ends", grouped->ends);
    for (auto& b : grouped->b) read("b", b);
  } else if (auto* conv = std::get_if<Conv>(&kind)) {
    read("x", conv->x);
    read("w", conv->w);
    if (conv->zeros.b.has_value()) read("w_zero", *conv->zeros.b);
  } else if (auto* gradient = std::get_if<WeightGradient>(&kind)) {
    read("x", gradient->x);
    read("dy", gradient->dy);
  } else if (auto* attention = std::get_if<Attention>(&kind)) {
    read_attention(*attention);
    write("out", attention->out);
    if (attention->maximum.has_value()) write("maximum", *attention->maximum);
    if (attention->inverse_sum.has_value()) write("inverse_sum", *attention->inverse_sum);
  } else if (auto* backward = std::get_if<AttentionBackward>(&kind)) {
    read_attention(backward->forward);
    read("out", backward->forward.out);
    read("maximum", *backward->forward.maximum);
    read("inverse_sum", *backward->forward.inverse_sum);
    read("out_gradient", backward->out_gradient);
    write("q_gradient", backward->q_gradient);
    write("k_gradient", backward->k_gradient);
    write("v_gradient", backward->v_gradient);
  } else if (auto* sort = std::get_if<Sort>(&kind)) {
    read("in", sort->in);
    if (sort->values.has_value()) write("values", *sort->values);
    if (sort->indices.has_value()) write("indices", *sort->indices);
  } else if (auto* custom = std::get_if<CustomCall>(&kind)) {
    for (auto& input : custom->inputs) read("input", input.view);
    for (auto& output : custom->outputs) write("output", output.view);
  }
  return ports;
}

}  // namespace

bool Node::IsMap() const {
  const Loop* loop = AsLoop();
  return loop != nullptr && loop->reduced == 0 && loop->serial == 0;
}

std::vector<Port> Node::Ports() { return ListPorts<Port>(kind); }
std::vector<ConstPort> Node::Ports() const { return ListPorts<ConstPort>(kind); }

std::vector<ValueId> Node::Reads() const {
  std::vector<ValueId> reads;
  for (const BodyOp& op : body.ops) {
    if (op.op == Opcode::kLoad && op.access.operand.IsBuffer()) {
      AddOnce(reads, op.access.operand.number);
    }
  }
  for (const ConstPort& port : Ports()) {
    if (!port.written) AddOnce(reads, port.view->value);
  }
  return reads;
}

std::vector<ValueId> Node::Writes() const {
  std::vector<ValueId> writes;
  for (const Store& store : body.stores) {
    if (store.access.operand.IsBuffer()) AddOnce(writes, store.access.operand.number);
  }
  for (const ConstPort& port : Ports()) {
    if (port.written) AddOnce(writes, port.view->value);
  }
  return writes;
}

bool UsesIota(const Body& body) {
  return std::any_of(body.ops.begin(), body.ops.end(), [](const BodyOp& op) {
    return op.op == Opcode::kLoad && op.access.operand.kind == Operand::Kind::kIota;
  });
}

View PermuteView(const View& view, const std::vector<size_t>& order) {
  View result = view;
  for (size_t i = 0; i < order.size(); ++i) {
    result.shape[i] = view.shape[order[i]];
    result.strides[i] = view.strides[order[i]];
  }
  return result;
}

View BroadcastView(const View& view, const Shape& shape) {
  View result = view;
  result.strides = StandStill(shape, BroadcastStrides(view.shape, view.strides, shape));
  result.shape = shape;
  return result;
}

View WithRank(const View& view, size_t rank) {
  View result = view;
  while (result.shape.size() < rank) {
    result.shape.insert(result.shape.begin(), 1);
    result.strides.insert(result.strides.begin(), 0);
  }
  return result;
}

View SliceView(const View& view, size_t dim, int64_t begin, int64_t size, int64_t step) {
  View result = view;
  result.offset += begin * view.strides[dim];
  result.shape[dim] = size;
  result.strides[dim] *= step;
  return result;
}

bool ReshapeView(const View& view, const Shape& shape, View* result) {
  std::optional<Shape> strides = ReshapeStrides(view.shape, view.strides, shape);
  if (!strides.has_value()) return false;
  *result = view;
  result->strides = StandStill(shape, *std::move(strides));
  result->shape = shape;
  return true;
}

std::string ToText(const Body& body) {
  std::ostringstream out;
  for (size_t i = 0; i < body.ops.size(); ++i) {
    const BodyOp& op = body.ops[i];
    out << "    v" << i << " = " << OpcodeName(op.op) << ' ' << TypeName(op.type);
    for (const uint32_t arg : op.args) out << " v" << arg;
    if (op.op == Opcode::kConstF32) out << ' ' << op.imm_f32;
    if (op.op == Opcode::kConstInt || op.op == Opcode::kIndex || op.op == Opcode::kAccumulator ||
        op.op == Opcode::kRoundTo) {
      out << ' ' << op.imm_int;
    }
    if (op.op == Opcode::kLoad) {
      out << ' ';
      PrintAccess(out, op.access);
    }
    out << '\n';
  }
  for (const Store& store : body.stores) {
    out << "    store v" << store.value << " -> ";
    PrintAccess(out, store.access);
    out << '\n';
  }
  return out.str();
}

std::string ToText(const LoopGraph& graph) {
  std::ostringstream out;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    static constexpr const char* kHomes[] = {"workspace", "persistent", "constant", "kept"};
    out << '%' << i << " = " << kHomes[static_cast<size_t>(value.home)] << ' '
        << TypeName(value.type) << ' ';
    PrintShape(out, value.shape);
    out << " strides ";
    PrintShape(out, value.strides);
    out << ' ' << value.name << '\n';
  }
  for (const Node& node : graph.nodes) {
    out << KindName(node) << ' ' << node.name << " domain ";
    PrintShape(out, node.domain);
    if (const Loop* loop = node.AsLoop()) {
      if (loop->reduced > 0) out << ' ' << ReduceName(loop->reduce) << " over " << loop->reduced;
      if (loop->serial > 0) out << " serial " << loop->serial;
    }
    out << '\n';
    for (const ConstPort& port : node.Ports()) PrintView(out, port.name, *port.view);
    out << ToText(node.body);
  }
  return out.str();
}

}  // namespace hpu::graph_compiler
