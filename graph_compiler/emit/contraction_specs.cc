#include "graph_compiler/emit/contraction_specs.h"

#include <algorithm>
#include <map>
#include <sstream>

namespace hpu::graph_compiler {
namespace {

// Renumbers a body's operands from values to positions in `operands`.
Body LocalBody(const Body& body, std::vector<ValueId>* operands) {
  std::map<ValueId, uint32_t> numbers;
  Body result = body;
  const auto renumber = [&](Access& access) {
    const auto [place, is_new] =
        numbers.emplace(access.operand.number, static_cast<uint32_t>(operands->size()));
    if (is_new) operands->push_back(access.operand.number);
    access.operand = place->second;
  };
  for (BodyOp& op : result.ops) {
    if (op.op == Opcode::kLoad) renumber(op.access);
  }
  for (Store& store : result.stores) renumber(store.access);
  return result;
}

template <typename Spec>
void SetEpilogue(const Node& node, const FindHome& home, Spec* spec) {
  std::vector<ValueId> operands;
  spec->epilogue = LocalBody(node.body, &operands);
  for (const ValueId value : operands) spec->epilogue_operands.push_back(home(value).ref);
}

MatrixAccess MakeMatrix(const LoopGraph& graph, const View& view, const FindHome& home) {
  const size_t rank = view.shape.size();
  const ValueHome where = home(view.value);
  MatrixAccess access;
  access.buffer = where.ref;
  access.type = view.type;
  access.offset = view.offset;
  access.batch_strides.assign(view.strides.begin(), view.strides.end() - 2);
  access.row_stride = view.strides[rank - 2];
  access.col_stride = view.strides[rank - 1];
  access.stable = where.stable;
  access.buffer_bytes = graph.values[view.value].bytes;
  return access;
}

void CopyStrides(const View& view, int64_t* strides) {
  std::copy(view.strides.begin(), view.strides.end(), strides);
}

// Fills in everything of a convolution that does not depend on its weight or its result.
void SetImage(const View& x, const ConvGeometry& geometry, const FindHome& home, ConvSpec* spec) {
  spec->batch = x.shape[0];
  spec->in_h = x.shape[1];
  spec->in_w = x.shape[2];
  spec->in_c = x.shape[3];
  spec->stride_h = geometry.stride_h;
  spec->stride_w = geometry.stride_w;
  spec->dilation_h = geometry.dilation_h;
  spec->dilation_w = geometry.dilation_w;
  spec->pad_top = geometry.pad_top;
  spec->pad_left = geometry.pad_left;
  spec->groups = geometry.groups;
  spec->direct = geometry.direct;
  spec->x = home(x.value).ref;
  spec->x_type = x.type;
  spec->x_offset = x.offset;
  CopyStrides(x, spec->x_strides);
}

void SetTensor(const View& view, const FindHome& home, OperandRef* ref, int64_t* offset,
               int64_t* strides) {
  *ref = home(view.value).ref;
  *offset = view.offset;
  CopyStrides(view, strides);
}

// Refers to the first element of a view: the view's offset goes into the reference.
OperandRef DenseRef(const View& view, const FindHome& home) {
  OperandRef ref = home(view.value).ref;
  ref.offset += static_cast<uint64_t>(view.offset * MemoryTypeSize(view.type));
  return ref;
}

AttentionSpec SpecOf(const Attention& attention, const std::string& name, const FindHome& home) {
  AttentionSpec spec;
  const Shape& q = attention.q.shape;
  spec.batch = q[0];
  spec.heads = q[1];
  spec.kv_repeat = q[1] / attention.k.shape[1];
  spec.m = q[2];
  spec.n = attention.k.shape[2];
  spec.d = q[3];
  spec.dv = attention.v.shape[3];
  spec.scale = attention.scale;
  spec.causal = attention.causal;
  spec.type = attention.q.type;
  SetTensor(attention.q, home, &spec.q, &spec.q_offset, spec.q_strides);
  SetTensor(attention.k, home, &spec.k, &spec.k_offset, spec.k_strides);
  SetTensor(attention.v, home, &spec.v, &spec.v_offset, spec.v_strides);
  SetTensor(attention.out, home, &spec.out, &spec.out_offset, spec.out_strides);
  if (attention.mask.has_value()) {
    spec.mask_type = attention.mask->type;
    SetTensor(*attention.mask, home, &spec.mask, &spec.mask_offset, spec.mask_strides);
  }
  if (attention.maximum.has_value()) {
    spec.maximum = DenseRef(*attention.maximum, home);
    spec.inverse_sum = DenseRef(*attention.inverse_sum, home);
  }
  if (attention.draw.has_value()) {
    spec.keep = attention.keep;
    spec.seed = DenseRef(attention.draw->seed, home);
    spec.offset = DenseRef(attention.draw->offset, home);
    spec.base = DenseRef(attention.draw->base, home);
  }
  spec.name = name;
  return spec;
}

IntegerZeros ZerosOf(const ProductZeros& zeros, const FindHome& home) {
  IntegerZeros result;
  result.a = zeros.a;
  if (zeros.b.has_value()) result.b = DenseRef(*zeros.b, home);
  return result;
}

// Offsets are left out here and below because they go into the operands of the launches.
void PrintView(std::ostream& out, const View& view, const FindHome& home) {
  out << static_cast<int>(view.type) << ' ' << home(view.value).stable << ' ';
  for (const int64_t size : view.shape) out << size << ',';
  out << ' ';
  for (const int64_t stride : view.strides) out << stride << ',';
  out << '\n';
}

}  // namespace

GemmSpec MakeGemmSpec(const LoopGraph& graph, const Node& node, const FindHome& home) {
  const Gemm& gemm = std::get<Gemm>(node.kind);
  GemmSpec spec;
  const size_t rank = node.domain.size();
  spec.batch.assign(node.domain.begin(), node.domain.end() - 2);
  spec.m = node.domain[rank - 2];
  spec.n = node.domain[rank - 1];
  spec.k = gemm.a.shape.back();
  spec.a = MakeMatrix(graph, gemm.a, home);
  spec.b = MakeMatrix(graph, gemm.b, home);
  spec.zeros = ZerosOf(gemm.zeros, home);
  spec.name = node.name;
  SetEpilogue(node, home, &spec);
  return spec;
}

QuantizedGemmSpec MakeQuantizedGemmSpec(const LoopGraph& graph, const Node& node,
                                        const FindHome& home) {
  const QuantizedGemm& gemm = std::get<QuantizedGemm>(node.kind);
  const View& weights = gemm.weights;
  QuantizedGemmSpec spec;
  spec.m = node.domain[0];
  spec.n = node.domain[1];
  spec.k = gemm.x.shape[1];
  spec.group = gemm.scale.has_value() ? spec.k / gemm.scale->shape[0] : spec.k;
  spec.half = weights.shape.size() == 3 ? weights.shape[2] : 0;
  spec.x = MakeMatrix(graph, gemm.x, home);
  spec.weights = DenseRef(weights, home);
  spec.weight_stride = weights.strides[0];
  if (gemm.scale.has_value()) spec.scale = MakeMatrix(graph, *gemm.scale, home);
  if (gemm.zero.has_value()) spec.zero = MakeMatrix(graph, *gemm.zero, home);
  spec.name = node.name;
  SetEpilogue(node, home, &spec);
  return spec;
}

GroupedGemmSpec MakeGroupedGemmSpec(const LoopGraph& graph, const Node& node,
                                    const FindHome& home) {
  const GroupedGemm& gemm = std::get<GroupedGemm>(node.kind);
  const size_t rank = node.domain.size();
  GroupedGemmSpec spec;
  spec.inner = gemm.inner;
  spec.groups = gemm.ends.shape[0];
  spec.m = node.domain[rank - 2];
  spec.n = node.domain[rank - 1];
  spec.k = gemm.a.shape[1];
  spec.a = MakeMatrix(graph, gemm.a, home);
  for (const View& b : gemm.b) spec.b.push_back(MakeMatrix(graph, b, home));
  spec.ends = DenseRef(gemm.ends, home);
  spec.name = node.name;
  SetEpilogue(node, home, &spec);
  return spec;
}

ConvSpec MakeConvSpec(const LoopGraph& graph, const Node& node, const FindHome& home) {
  const Conv& conv = std::get<Conv>(node.kind);
  ConvSpec spec;
  SetImage(conv.x, conv.geometry, home, &spec);
  const Shape& w = conv.w.shape;
  spec.out_h = node.domain[1];
  spec.out_w = node.domain[2];
  spec.out_c = node.domain[3];
  spec.kernel_h = w[2];
  spec.kernel_w = w[3];
  spec.w = home(conv.w.value).ref;
  spec.w_type = conv.w.type;
  CopyStrides(conv.w, spec.w_strides);
  spec.w_offset = conv.w.offset;
  spec.w_stable = home(conv.w.value).stable;
  spec.w_buffer_bytes = graph.values[conv.w.value].bytes;
  spec.zeros = ZerosOf(conv.zeros, home);
  spec.name = node.name;
  SetEpilogue(node, home, &spec);
  return spec;
}

WeightGradientSpec MakeWeightGradientSpec(const Node& node, const FindHome& home) {
  const WeightGradient& gradient = std::get<WeightGradient>(node.kind);
  WeightGradientSpec spec;
  ConvSpec& conv = spec.conv;
  SetImage(gradient.x, gradient.geometry, home, &conv);
  const Shape& dy = gradient.dy.shape;
  conv.out_h = dy[1];
  conv.out_w = dy[2];
  conv.out_c = dy[3];
  conv.kernel_h = node.domain[0];
  conv.kernel_w = node.domain[1];
  conv.name = node.name;
  SetEpilogue(node, home, &conv);
  spec.dy = home(gradient.dy.value).ref;
  spec.dy_type = gradient.dy.type;
  spec.dy_offset = gradient.dy.offset;
  CopyStrides(gradient.dy, spec.dy_strides);
  return spec;
}

AttentionSpec MakeAttentionSpec(const Node& node, const FindHome& home) {
  return SpecOf(std::get<Attention>(node.kind), node.name, home);
}

AttentionBackwardSpec MakeAttentionBackwardSpec(const Node& node, const FindHome& home) {
  const AttentionBackward& backward = std::get<AttentionBackward>(node.kind);
  AttentionBackwardSpec spec;
  spec.forward = SpecOf(backward.forward, node.name, home);
  SetTensor(backward.out_gradient, home, &spec.out_gradient, &spec.out_gradient_offset,
            spec.out_gradient_strides);
  SetTensor(backward.q_gradient, home, &spec.q_gradient, &spec.q_gradient_offset,
            spec.q_gradient_strides);
  SetTensor(backward.k_gradient, home, &spec.k_gradient, &spec.k_gradient_offset,
            spec.k_gradient_strides);
  SetTensor(backward.v_gradient, home, &spec.v_gradient, &spec.v_gradient_offset,
            spec.v_gradient_strides);
  return spec;
}

std::string ContractionStructure(const LoopGraph& graph, const Node& node, const FindHome& home) {
  std::ostringstream out;
  out << node.kind.index() << ' ';
  for (const int64_t size : node.domain) out << size << ',';
  out << '\n';
  for (const ConstPort& port : node.Ports()) PrintView(out, *port.view, home);
  const auto print_attention = [&](const Attention& attention) {
    out << attention.mask.has_value() << ' ' << attention.maximum.has_value() << ' '
        << std::hexfloat << attention.scale << ' ' << attention.causal << ' ' << attention.keep;
    return out.str();
  };
  if (const auto* attention = std::get_if<Attention>(&node.kind)) {
    return print_attention(*attention);
  }
  if (const auto* backward = std::get_if<AttentionBackward>(&node.kind)) {
    return print_attention(backward->forward);
  }
  if (const auto* gemm = std::get_if<Gemm>(&node.kind)) {
    out << graph.values[gemm->b.value].bytes << ' ' << gemm->zeros.a;
  }
  const auto print_geometry = [&](const ConvGeometry& g) {
    out << ' ' << g.stride_h << ' ' << g.stride_w << ' ' << g.dilation_h << ' ' << g.dilation_w
        << ' ' << g.pad_top << ' ' << g.pad_left << ' ' << g.groups << ' ' << g.direct;
  };
  if (const auto* conv = std::get_if<Conv>(&node.kind)) {
    out << graph.values[conv->w.value].bytes << ' ' << conv->zeros.a;
    print_geometry(conv->geometry);
  }
  if (const auto* gradient = std::get_if<WeightGradient>(&node.kind)) {
    print_geometry(gradient->geometry);
  }
  out << '\n';
  std::vector<ValueId> operands;
  Body body = LocalBody(node.body, &operands);
  for (BodyOp& op : body.ops) op.access.offset = 0;
  for (Store& store : body.stores) store.access.offset = 0;
  out << ToText(body) << std::hexfloat;
  for (const BodyOp& op : body.ops) {
    if (op.op == Opcode::kConstF32) out << op.imm_f32 << ' ';
  }
  return out.str();
}

Factors FactorsOf(const Node& node) {
  const auto both = [](const View& a, const View& b) {
    const bool bf16 = HoldsBF16(a.type) && HoldsBF16(b.type);
    return bf16 ? Factors::kBf16 : Factors::kF32;
  };
  if (const auto* gemm = std::get_if<Gemm>(&node.kind)) return both(gemm->a, gemm->b);
  if (const auto* gemm = std::get_if<GroupedGemm>(&node.kind)) return both(gemm->a, gemm->b[0]);
  if (const auto* conv = std::get_if<Conv>(&node.kind)) return both(conv->x, conv->w);
  if (const auto* weight = std::get_if<WeightGradient>(&node.kind)) {
    return both(weight->x, weight->dy);
  }
  if (const auto* attention = std::get_if<Attention>(&node.kind)) {
    return both(attention->q, attention->k);
  }
  if (const auto* backward = std::get_if<AttentionBackward>(&node.kind)) {
    return both(backward->forward.q, backward->forward.k);
  }
  return Factors::kF32;
}

}  // namespace hpu::graph_compiler
