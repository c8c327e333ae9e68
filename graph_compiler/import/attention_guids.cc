// Attention and rotary position embeddings.
#include <algorithm>

#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/import/importer.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::graph_compiler {
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

View AsRank4(const View& view) { return WithRank(view, 4); }

absl::Status ImportAttention(Importer& im) {
  ns_Sdpa_Params params{};
  if (!ReadParams(im.node(), &params)) return InvalidArgument("params are missing");
  if (params.dropout.ratio != 0) return Unimplemented("attention with dropout");
  for (size_t i = 0; i < 3; ++i) RETURN_IF_ERROR(CheckFactor(im.Input(i), "operand"));
  for (size_t i = 1; i < im.num_outputs(); ++i) {
    if (im.IsRead(i)) {
      return Unimplemented("attention whose output ", i, " (for training) is used");
    }
  }
  if (im.Input(0).shape.size() > 4) return Unimplemented("attention of rank above 4");
  Attention attention;
  attention.q = AsRank4(im.Input(0));
  attention.k = AsRank4(im.CastTo(im.Input(1), attention.q.type));
  attention.v = AsRank4(im.CastTo(im.Input(2), attention.q.type));
  if (attention.k.shape[1] == 0 || attention.q.shape[1] % attention.k.shape[1] != 0) {
    return InvalidArgument("attention: ", attention.q.shape[1], " query heads over ",
                           attention.k.shape[1]);
  }
  if (attention.k.shape[2] == 0 || attention.q.shape[3] == 0) {
    return Unimplemented("attention over no keys or no features");
  }
  attention.scale = params.scale;
  attention.causal = params.is_causal != 0;
  if (im.HasInput(3)) {
    const Shape scores = {attention.q.shape[0], attention.q.shape[1], attention.q.shape[2],
                          attention.k.shape[2]};
    View mask = im.Input(3);
    if (mask.type == MemoryType::kI8) mask.type = MemoryType::kBool;
    if (mask.type != MemoryType::kBool) RETURN_IF_ERROR(CheckFactor(mask, "mask"));
    attention.mask = BroadcastView(AsRank4(mask), scores);
  }
  // The result is nested as the query is: a model that turned (rows, heads) to (heads, rows) turns
  // them back, and finds its rows whole again.
  const Shape order = im.Input(0).strides;
  const View out = im.OutputValue(0, &order);
  const View temporary =
      out.type == attention.q.type ? out : im.NewValue(attention.q.type, out.shape, &order);
  attention.out = AsRank4(temporary);
  Node node;
  node.domain = attention.q.shape;
  node.kind = std::move(attention);
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

}  // namespace hpu::graph_compiler
