#include "synapse/emulator/graph_compiler/loop_graph.h"

#include <algorithm>
#include <numeric>
#include <sstream>

namespace hpu::emulator {
namespace {

void AddOnce(std::vector<ValueId>& list, ValueId value) {
  if (value == kIotaOperand) return;
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

const char* OpcodeName(Opcode op) {
  static constexpr const char* kNames[] = {
      "load",  "const",     "const_int", "index",      "accumulator", "add",       "sub",
      "mul",   "div",       "min",       "max",        "neg",         "abs",       "fma",
      "rem",   "floor_div", "floor_mod", "and",        "or",          "xor",       "not",
      "shl",   "shr",       "exp",       "expm1",      "log",         "log1p",     "log2",
      "log10", "sqrt",      "rsqrt",     "reciprocal", "sin",         "cos",       "tan",
      "tanh",  "erf",       "sigmoid",   "pow",        "floor",       "ceil",      "trunc",
      "round", "sign",      "atan",      "asin",       "acos",        "sinh",      "cosh",
      "asinh", "acosh",     "atanh",     "atan2",      "eq",          "ne",        "lt",
      "le",    "gt",        "ge",        "is_nan",     "is_inf",      "is_finite", "select",
      "cast",  "round_to"};
  return kNames[static_cast<size_t>(op)];
}

const char* TypeName(ScalarType type) {
  static constexpr const char* kNames[] = {"f32", "i32", "i64", "bool"};
  return kNames[static_cast<size_t>(type)];
}

const char* TypeName(MemoryType type) {
  static constexpr const char* kNames[] = {"f32", "bf16", "f16", "i8",   "u8",     "i16",   "u16",
                                           "i32", "u32",  "i64", "bool", "f8e4m3", "f8e5m2"};
  return kNames[static_cast<size_t>(type)];
}

void PrintShape(std::ostream& out, const Shape& shape) {
  out << '[';
  for (size_t i = 0; i < shape.size(); ++i) out << (i == 0 ? "" : ",") << shape[i];
  out << ']';
}

void PrintAccess(std::ostream& out, const Access& access) {
  if (access.operand == kIotaOperand) {
    out << "iota";
  } else {
    out << '%' << access.operand;
  }
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
  static constexpr const char* kNames[] = {"loop", "gemm", "conv", "attention", "sort"};
  return kNames[static_cast<size_t>(node.kind)];
}

const char* ReduceName(ReduceKind kind) {
  static constexpr const char* kNames[] = {"none", "sum", "prod", "max", "min"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace

std::vector<ValueId> Node::Reads() const {
  std::vector<ValueId> reads;
  for (const BodyOp& op : body.ops) {
    if (op.op == Opcode::kLoad) AddOnce(reads, op.access.operand);
  }
  if (kind != NodeKind::kLoop) AddOnce(reads, a.value);
  if (kind != NodeKind::kLoop && kind != NodeKind::kSort) AddOnce(reads, b.value);
  if (kind == NodeKind::kAttention) AddOnce(reads, c.value);
  if (has_mask) AddOnce(reads, mask.value);
  return reads;
}

std::vector<ValueId> Node::Writes() const {
  std::vector<ValueId> writes;
  for (const Store& store : body.stores) AddOnce(writes, store.access.operand);
  if (kind == NodeKind::kAttention || (kind == NodeKind::kSort && has_values)) {
    AddOnce(writes, out.value);
  }
  if (kind == NodeKind::kSort && has_indices) AddOnce(writes, out_indices.value);
  return writes;
}

bool Node::UsesIota() const {
  return std::any_of(body.ops.begin(), body.ops.end(), [](const BodyOp& op) {
    return op.op == Opcode::kLoad && op.access.operand == kIotaOperand;
  });
}

int64_t NumElements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Shape RowMajorStrides(const Shape& shape) {
  Shape strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

Shape StridesInOrderOf(const Shape& shape, const Shape& like) {
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t x, size_t y) { return like[x] > like[y]; });
  Shape strides(shape.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride *= std::max<int64_t>(shape[order[i]], 1);
  }
  return strides;
}

bool IsDense(const Shape& shape, const Shape& strides) {
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != 1) dims.emplace_back(strides[i], shape[i]);
  }
  std::sort(dims.begin(), dims.end());
  int64_t expected = 1;
  for (const auto& [stride, size] : dims) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
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
  result.shape = shape;
  result.strides.assign(shape.size(), 0);
  const size_t missing = shape.size() - view.shape.size();
  for (size_t i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] != 1) result.strides[missing + i] = view.strides[i];
  }
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

// Walks both shapes from the inside; every group of old dimensions whose sizes multiply to a group
// of new ones must itself be describable by one stride.
bool ReshapeView(const View& view, const Shape& shape, View* result) {
  *result = view;
  result->shape = shape;
  result->strides = RowMajorStrides(shape);
  if (NumElements(shape) == 0) return true;
  // Old dimensions merged into runs of (size, stride), outermost first.
  std::vector<std::pair<int64_t, int64_t>> runs;
  for (size_t i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] == 1) continue;
    if (!runs.empty() && runs.back().second == view.strides[i] * view.shape[i]) {
      runs.back() = {runs.back().first * view.shape[i], view.strides[i]};
    } else {
      runs.emplace_back(view.shape[i], view.strides[i]);
    }
  }
  size_t run = runs.size();
  int64_t left = 1;  // elements of the current run not yet used up
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) {
      result->strides[i] = 0;
      continue;
    }
    if (left == 1) {
      if (run == 0) return false;
      --run;
      left = runs[run].first;
      stride = runs[run].second;
    }
    if (left % shape[i] != 0) return false;
    result->strides[i] = stride;
    stride *= shape[i];
    left /= shape[i];
  }
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
    static constexpr const char* kHomes[] = {"workspace", "persistent", "constant"};
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
    if (node.reduced > 0) out << ' ' << ReduceName(node.reduce) << " over " << node.reduced;
    if (node.serial > 0) out << " serial " << node.serial;
    out << '\n';
    if (node.kind != NodeKind::kLoop) PrintView(out, "a", node.a);
    if (node.kind == NodeKind::kGemm || node.kind == NodeKind::kConv) PrintView(out, "b", node.b);
    if (node.kind == NodeKind::kAttention) {
      PrintView(out, "k", node.b);
      PrintView(out, "v", node.c);
      if (node.has_mask) PrintView(out, "mask", node.mask);
      PrintView(out, "out", node.out);
    }
    out << ToText(node.body);
  }
  return out.str();
}

}  // namespace hpu::emulator
