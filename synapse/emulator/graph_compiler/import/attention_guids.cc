// Attention and rotary position embeddings.
#include <algorithm>

#include "synapse/emulator/graph_compiler/import/guid_table.h"
#include "synapse/emulator/graph_compiler/import/importer.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::emulator {
namespace {

absl::StatusOr<std::vector<Sizes>> InferAttention(const ShapeContext& context) {
  for (size_t i = 0; i < 3; ++i) {
    if (!context.HasInput(i)) return InvalidArgument("input ", i, " is missing");
    if (context.Input(i).size() < 3) return InvalidArgument("input ", i, " has rank below 3");
  }
  const Sizes& q = context.Input(0);
  const Sizes& k = context.Input(1);
  const Sizes& v = context.Input(2);
  if (q[0] != k[0] || k[1] != v[1]) return InvalidArgument("query, key and value do not fit");
  std::vector<Sizes> outs(context.node.outputs.size());
  outs[0] = q;
  outs[0][0] = v[0];
  return outs;
}

bool IsRead(const Importer& im, size_t output) {
  if (!im.HasOutput(output)) return false;
  const GraphDesc& graph = im.graph();
  const uint32_t tensor = im.node().outputs[output];
  if (graph.tensors[tensor].placement == TensorPlacement::kPersistent) return true;
  for (const NodeDesc& node : graph.nodes) {
    if (std::find(node.inputs.begin(), node.inputs.end(), tensor) != node.inputs.end()) return true;
  }
  return false;
}

View AsRank4(const View& view) { return WithRank(view, 4); }

absl::Status ImportAttention(Importer& im) {
  ns_Sdpa_Params params{};
  if (!ReadParams(im.node(), &params)) return InvalidArgument("params are missing");
  if (params.dropout.ratio != 0) return Unimplemented("attention with dropout");
  for (size_t i = 0; i < 3; ++i) RETURN_IF_ERROR(CheckFloat(im.Input(i), "operand"));
  for (size_t i = 1; i < im.num_outputs(); ++i) {
    if (IsRead(im, i)) {
      return Unimplemented("attention whose output ", i, " (for training) is used");
    }
  }
  if (im.Input(0).shape.size() > 4) return Unimplemented("attention of rank above 4");
  Node node;
  node.kind = NodeKind::kAttention;
  node.a = AsRank4(im.Input(0));
  node.b = AsRank4(im.CastTo(im.Input(1), node.a.type));
  node.c = AsRank4(im.CastTo(im.Input(2), node.a.type));
  if (node.b.shape[1] == 0 || node.a.shape[1] % node.b.shape[1] != 0) {
    return InvalidArgument("attention: ", node.a.shape[1], " query heads over ", node.b.shape[1]);
  }
  node.scale = params.scale;
  node.causal = params.is_causal != 0;
  node.domain = node.a.shape;
  if (im.HasInput(3)) {
    const Shape scores = {node.a.shape[0], node.a.shape[1], node.a.shape[2], node.b.shape[2]};
    View mask = im.Input(3);
    if (mask.type == MemoryType::kI8) mask.type = MemoryType::kBool;
    node.mask = BroadcastView(AsRank4(mask), scores);
    node.has_mask = true;
  }
  // The result is nested as the query is: a model that turned (rows, heads) to (heads, rows) turns
  // them back, and finds its rows whole again.
  const Shape order = im.Input(0).strides;
  const View out = im.OutputValue(0, &order);
  const View temporary =
      out.type == node.a.type ? out : im.NewValue(node.a.type, out.shape, &order);
  node.out = AsRank4(temporary);
  im.AddNode(std::move(node));
  if (temporary.value != out.value) {
    im.MapTo(out, {temporary}, FirstArg);
  }
  return absl::OkStatus();
}

// x * cos + rotated(x) * sin, where rotation swaps the halves (or neighbours) and negates the
// first.
absl::Status ImportRotary(Importer& im) {
  ns_RoPESt2_ParamsV2 params{};
  if (!ReadParams(im.node(), &params)) ReadParams(im.node(), &params.offset);
  if (params.offset != 0) return Unimplemented("rotary embedding with an offset");
  if (im.HasInput(3)) return Unimplemented("rotary embedding with position ids");
  const View x = im.Input(0);
  const size_t last = x.shape.size() - 1;
  const int64_t half = x.shape[last] / 2;
  const bool pairs = params.mode == NS_ROPE_PAIRWISE;
  const View out = im.OutputValue(0);
  const auto part = [&](const View& view, int64_t which) {
    const View wide = BroadcastView(view, x.shape);
    return SliceView(wide, last, pairs ? which : which * half, half, pairs ? 2 : 1);
  };
  for (const int64_t which : {int64_t{0}, int64_t{1}}) {
    im.MapTo(
        part(out, which),
        {part(x, which), part(x, 1 - which), part(im.Input(1), which), part(im.Input(2), which)},
        [&](BodyBuilder&, const Args& a) {
          const E turned = a[1] * a[2];
          return which == 0 ? a[0] * a[3] - turned : a[0] * a[3] + turned;
        });
  }
  return absl::OkStatus();
}

const GuidRow kRows[] = {
    {"sdpa_fwd", InferAttention, ImportAttention},
    {"sdpa_recomp_fwd", InferAttention, ImportAttention},
    {"rotary_pos_embedding_fwd", InferSameAsFirst, ImportRotary},
    {"rope_st2_fwd", InferSameAsFirst, ImportRotary},
};

}  // namespace

std::span<const GuidRow> AttentionRows() { return kRows; }

}  // namespace hpu::emulator
