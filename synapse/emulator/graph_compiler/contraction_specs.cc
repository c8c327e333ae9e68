#include "synapse/emulator/graph_compiler/contraction_specs.h"

#include <algorithm>
#include <map>
#include <sstream>

namespace hpu::emulator {
namespace {

// Renumbers a body's operands from values to positions in `operands`.
Body LocalBody(const Body& body, std::vector<ValueId>* operands) {
  std::map<ValueId, uint32_t> numbers;
  Body result = body;
  const auto renumber = [&](Access& access) {
    const auto [place, is_new] =
        numbers.emplace(access.operand, static_cast<uint32_t>(operands->size()));
    if (is_new) operands->push_back(access.operand);
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

void PrintView(std::ostream& out, const View& view, const FindHome& home) {
  out << static_cast<int>(view.type) << ' ' << view.offset << ' ' << home(view.value).stable << ' ';
  for (const int64_t size : view.shape) out << size << ',';
  out << ' ';
  for (const int64_t stride : view.strides) out << stride << ',';
  out << '\n';
}

}  // namespace

GemmSpec MakeGemmSpec(const LoopGraph& graph, const Node& node, const FindHome& home) {
  GemmSpec spec;
  const size_t rank = node.domain.size();
  spec.batch.assign(node.domain.begin(), node.domain.end() - 2);
  spec.m = node.domain[rank - 2];
  spec.n = node.domain[rank - 1];
  spec.k = node.a.shape.back();
  spec.a = MakeMatrix(graph, node.a, home);
  spec.b = MakeMatrix(graph, node.b, home);
  spec.name = node.name;
  SetEpilogue(node, home, &spec);
  return spec;
}

ConvSpec MakeConvSpec(const LoopGraph& graph, const Node& node, const FindHome& home) {
  ConvSpec spec;
  const Shape& x = node.a.shape;
  const Shape& w = node.b.shape;
  spec.batch = x[0];
  spec.in_h = x[1];
  spec.in_w = x[2];
  spec.in_c = x[3];
  spec.out_h = node.domain[1];
  spec.out_w = node.domain[2];
  spec.out_c = node.domain[3];
  spec.kernel_h = w[2];
  spec.kernel_w = w[3];
  spec.stride_h = node.conv.stride_h;
  spec.stride_w = node.conv.stride_w;
  spec.dilation_h = node.conv.dilation_h;
  spec.dilation_w = node.conv.dilation_w;
  spec.pad_top = node.conv.pad_top;
  spec.pad_left = node.conv.pad_left;
  spec.groups = node.conv.groups;
  spec.direct = node.conv.direct;
  spec.x = home(node.a.value).ref;
  spec.w = home(node.b.value).ref;
  spec.x_type = node.a.type;
  spec.w_type = node.b.type;
  CopyStrides(node.a, spec.x_strides);
  CopyStrides(node.b, spec.w_strides);
  spec.x_offset = node.a.offset;
  spec.w_offset = node.b.offset;
  spec.w_stable = home(node.b.value).stable;
  spec.w_buffer_bytes = graph.values[node.b.value].bytes;
  spec.name = node.name;
  SetEpilogue(node, home, &spec);
  return spec;
}

AttentionSpec MakeAttentionSpec(const Node& node, const FindHome& home) {
  AttentionSpec spec;
  const Shape& q = node.a.shape;
  spec.batch = q[0];
  spec.heads = q[1];
  spec.kv_repeat = q[1] / node.b.shape[1];
  spec.m = q[2];
  spec.n = node.b.shape[2];
  spec.d = q[3];
  spec.dv = node.c.shape[3];
  spec.scale = node.scale;
  spec.causal = node.causal;
  spec.type = node.a.type;
  spec.q = home(node.a.value).ref;
  spec.k = home(node.b.value).ref;
  spec.v = home(node.c.value).ref;
  spec.out = home(node.out.value).ref;
  spec.q_offset = node.a.offset;
  spec.k_offset = node.b.offset;
  spec.v_offset = node.c.offset;
  spec.out_offset = node.out.offset;
  CopyStrides(node.a, spec.q_strides);
  CopyStrides(node.b, spec.k_strides);
  CopyStrides(node.c, spec.v_strides);
  CopyStrides(node.out, spec.out_strides);
  if (node.has_mask) {
    spec.mask = home(node.mask.value).ref;
    spec.mask_type = node.mask.type;
    spec.mask_offset = node.mask.offset;
    CopyStrides(node.mask, spec.mask_strides);
  }
  spec.name = node.name;
  return spec;
}

std::string ContractionStructure(const LoopGraph& graph, const Node& node, const FindHome& home) {
  std::ostringstream out;
  out << static_cast<int>(node.kind) << ' ';
  for (const int64_t size : node.domain) out << size << ',';
  out << '\n';
  PrintView(out, node.a, home);
  PrintView(out, node.b, home);
  if (node.kind == NodeKind::kAttention) {
    PrintView(out, node.c, home);
    PrintView(out, node.out, home);
    if (node.has_mask) PrintView(out, node.mask, home);
    out << std::hexfloat << node.scale << ' ' << node.causal;
    return out.str();
  }
  out << graph.values[node.b.value].bytes << ' ';
  const ConvGeometry& conv = node.conv;
  out << conv.stride_h << ' ' << conv.stride_w << ' ' << conv.dilation_h << ' ' << conv.dilation_w
      << ' ' << conv.pad_top << ' ' << conv.pad_left << ' ' << conv.groups << ' ' << conv.direct
      << '\n';
  std::vector<ValueId> operands;
  const Body body = LocalBody(node.body, &operands);
  out << ToText(body) << std::hexfloat;
  for (const BodyOp& op : body.ops) {
    if (op.op == Opcode::kConstF32) out << op.imm_f32 << ' ';
  }
  return out.str();
}

}  // namespace hpu::emulator
