// Attention and rotary position embeddings.
#include <algorithm>

#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/import/importer.h"
#include "synapse/include/synapse_emulator.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::graph_compiler {
namespace {

// `first` is the first of the three inputs query, key and value.
absl::Status CheckOperandSizes(const ShapeContext& context, size_t first) {
  for (size_t i = first; i < first + 3; ++i) {
    if (!context.HasInput(i)) return InvalidArgument("input ", i, " is missing");
    if (context.Input(i).size() < 3) return InvalidArgument("input ", i, " has rank below 3");
  }
  const Sizes& q = context.Input(first);
  const Sizes& k = context.Input(first + 1);
  const Sizes& v = context.Input(first + 2);
  const bool same_heads = std::equal(k.begin() + 2, k.end(), v.begin() + 2, v.end());
  const bool same_batch = q.size() == k.size() && (q.size() < 4 || q[3] == k[3]);
  if (q[0] != k[0] || k[1] != v[1] || !same_heads || !same_batch) {
    return InvalidArgument("query, key and value do not fit");
  }
  return absl::OkStatus();
}

// Returns the sizes of the result and of what training takes. The form that recomputes the weights
// takes one number per row.
absl::StatusOr<std::vector<Sizes>> InferAttention(const ShapeContext& context) {
  RETURN_IF_ERROR(CheckOperandSizes(context, 0));
  const Sizes& q = context.Input(0);
  std::vector<Sizes> outs(context.node.outputs.size());
  outs[0] = q;
  outs[0][0] = context.Input(2)[0];
  for (size_t i = 1; i < outs.size() && i < 3; ++i) {
    outs[i] = q;
    outs[i][0] = 1;
  }
  return outs;
}

// The inputs of the gradient after query, key and value.
constexpr size_t kMaximum = 5, kInverse = 6, kSeed = 7, kResult = 8, kOffset = 9;

absl::StatusOr<std::vector<Sizes>> InferAttentionBackward(const ShapeContext& context) {
  RETURN_IF_ERROR(CheckOperandSizes(context, 1));
  Sizes result = context.Input(1);
  result[0] = context.Input(3)[0];
  Sizes statistic = context.Input(1);
  statistic[0] = 1;
  for (const auto& [i, sizes] : {std::pair<size_t, const Sizes&>{0, result},
                                 {kMaximum, statistic},
                                 {kInverse, statistic},
                                 {kResult, result}}) {
    if (context.HasInput(i) && context.Input(i) != sizes) {
      return InvalidArgument("input ", i, " does not fit the query and the value");
    }
  }
  return std::vector<Sizes>{context.Input(1), context.Input(2), context.Input(3)};
}

View AsRank4(const View& view) { return WithRank(view, 4); }

// Returns whether weights are dropped by the generator that synapse_emulator.h describes.
bool DrawsWeights(Importer& im) { return im.guid_base().starts_with("sdpa_philox"); }

absl::Status ReadSettings(Importer& im, Attention* attention) {
  ns_Sdpa_Params params{};
  if (!ReadParams(im.node(), &params)) return InvalidArgument("params are missing");
  if (params.dropout.ratio != 0) return Unimplemented("attention with dropout");
  attention->scale = params.scale;
  attention->causal = params.is_causal != 0;
  return absl::OkStatus();
}

// Seed and offset follow the mask in the forward node; the gradient's offset is its last input.
absl::Status ReadDraw(Importer& im, size_t first, Attention* attention) {
  synEmulatorSdpaParams params{};
  if (!ReadParams(im.node(), &params)) return InvalidArgument("params are missing");
  if (!(params.keep > 0)) return InvalidArgument("weights are kept with probability ", params.keep);
  attention->scale = params.scale;
  attention->causal = params.isCausal != 0;
  if (params.keep >= 1) return absl::OkStatus();  // all random numbers are below 1
  attention->keep = params.keep;
  const size_t seed = first == 0 ? 4 : kSeed;
  const size_t offset = first == 0 ? 5 : kOffset;
  for (const size_t i : {seed, offset}) {
    if (!im.HasInput(i)) return InvalidArgument("input ", i, " is missing");
    if (im.Input(i).type != MemoryType::kI64 || NumElements(im.Input(i).shape) != 1) {
      return InvalidArgument("seed and offset are not one i64 each");
    }
  }
  const uint64_t base = static_cast<uint64_t>(params.baseHigh) << 32 | params.baseLow;
  attention->draw = {im.Input(seed), im.Input(offset),
                     im.Constant(MemoryType::kI64, {1}, &base, sizeof(base))};
  return absl::OkStatus();
}

// A mask of numbers per query and key may have neither dimension contiguous in memory, as biases of
// relative positions have that were looked up by head. Its elements would be read one by one in
// each layer, so such a mask is copied.
View ReadableMask(Importer& im, const View& mask) {
  const auto lies_apart = [&](size_t dim) { return mask.shape[dim] > 1 && mask.strides[dim] > 1; };
  if (!lies_apart(2) || !lies_apart(3)) return mask;
  View stored = mask;  // without repetitions
  for (size_t dim = 0; dim < stored.shape.size(); ++dim) {
    if (stored.strides[dim] == 0) stored.shape[dim] = 1;
  }
  return BroadcastView(im.SharedContiguous(stored), mask.shape);
}

// Reads the parameters and the operands from input `first` on: query, key, value, mask.
absl::StatusOr<Attention> ReadAttention(Importer& im, size_t first) {
  for (size_t i = first; i < first + 3; ++i) RETURN_IF_ERROR(CheckFactor(im.Input(i), "operand"));
  if (im.Input(first).shape.size() > 4) return Unimplemented("attention of rank above 4");
  Attention attention;
  attention.q = AsRank4(im.Input(first));
  attention.k = AsRank4(im.CastTo(im.Input(first + 1), attention.q.type));
  attention.v = AsRank4(im.CastTo(im.Input(first + 2), attention.q.type));
  if (attention.k.shape[1] == 0 || attention.q.shape[1] % attention.k.shape[1] != 0) {
    return InvalidArgument("attention: ", attention.q.shape[1], " query heads over ",
                           attention.k.shape[1]);
  }
  if (attention.k.shape[2] == 0 || attention.q.shape[3] == 0) {
    return Unimplemented("attention over no keys or no features");
  }
  RETURN_IF_ERROR(DrawsWeights(im) ? ReadDraw(im, first, &attention)
                                   : ReadSettings(im, &attention));
  if (im.HasInput(first + 3)) {
    const Shape scores = {attention.q.shape[0], attention.q.shape[1], attention.q.shape[2],
                          attention.k.shape[2]};
    View mask = im.Input(first + 3);
    if (mask.type == MemoryType::kI8) mask.type = MemoryType::kBool;
    if (mask.type != MemoryType::kBool) RETURN_IF_ERROR(CheckFactor(mask, "mask"));
    attention.mask = BroadcastView(ReadableMask(im, AsRank4(mask)), scores);
  }
  return attention;
}

// A buffer of `type` for output i, nested like `like`: a model that turned (rows, heads) into
// (heads, rows) turns them back and finds its rows contiguous again. Give turns the content of the
// buffer into the output.
struct Result {
  View out, buffer;
};
Result MakeResult(Importer& im, size_t i, const View& like, MemoryType type) {
  const Shape order = like.strides;
  const View out = im.OutputValue(i, &order);
  return {out, out.type == type ? out : im.NewValue(type, out.shape, &order)};
}
void Give(Importer& im, const Result& result) {
  if (result.buffer.value != result.out.value) im.MapTo(result.out, {result.buffer}, FirstArg);
}

absl::Status ImportAttention(Importer& im) {
  ASSIGN_OR_RETURN(Attention attention, ReadAttention(im, 0));
  const bool recomputes = im.guid_base() != "sdpa_fwd";
  bool wants_statistics = attention.draw.has_value();
  for (size_t i = 1; i < im.num_outputs(); ++i) {
    if (!im.IsRead(i)) continue;
    if (!recomputes || i > 2) {
      return Unimplemented("attention whose output ", i, " (for training) is used");
    }
    wants_statistics = true;
  }
  const Result result = MakeResult(im, 0, im.Input(0), attention.q.type);
  attention.out = AsRank4(result.buffer);
  if (wants_statistics) {
    for (const size_t i : {1, 2}) {
      if (im.HasOutput(i) && im.OutputType(i) == MemoryType::kF32) continue;
      return Unimplemented("attention whose outputs 1 and 2 are not of f32");
    }
    attention.maximum = AsRank4(im.OutputValue(1));
    attention.inverse_sum = AsRank4(im.OutputValue(2));
  }
  Node node;
  node.domain = attention.q.shape;
  node.kind = std::move(attention);
  im.AddNode(std::move(node));
  Give(im, result);
  return absl::OkStatus();
}

// The inputs are gradient, query, key, value, mask, maximum, inverse sum, seed, result and, if
// there is a draw, its offset.
absl::Status ImportAttentionBackward(Importer& im) {
  if (NumElements(im.Input(1).shape) == 0 || NumElements(im.Input(3).shape) == 0) {
    // There are no queries or no values, so the gradients are 0.
    for (size_t i = 0; i < 3; ++i) {
      im.MapTo(im.OutputValue(i), {},
               [](BodyBuilder& body, const Args&) { return body.Const(ScalarType::kF32, 0); });
    }
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(Attention attention, ReadAttention(im, 1));
  for (const size_t i : {kMaximum, kInverse}) {
    if (!im.HasInput(i)) return InvalidArgument("input ", i, " is missing");
  }
  if (im.HasInput(kSeed) && !DrawsWeights(im)) return Unimplemented("attention with dropout");
  if (!im.HasInput(kResult)) {
    return Unimplemented("gradient of attention without the forward's result");
  }
  RETURN_IF_ERROR(CheckFactor(im.Input(0), "gradient"));
  RETURN_IF_ERROR(CheckFactor(im.Input(kResult), "result"));
  const MemoryType type = attention.q.type;
  const auto statistic = [&](size_t i) {
    return AsRank4(im.Contiguous(im.CastTo(im.Input(i), MemoryType::kF32)));
  };
  attention.maximum = statistic(kMaximum);
  attention.inverse_sum = statistic(kInverse);
  attention.out = AsRank4(im.CastTo(im.Input(kResult), type));
  AttentionBackward backward;
  backward.out_gradient = AsRank4(im.CastTo(im.Input(0), type));
  const Result results[] = {MakeResult(im, 0, im.Input(1), type),
                            MakeResult(im, 1, im.Input(2), type),
                            MakeResult(im, 2, im.Input(3), type)};
  backward.q_gradient = AsRank4(results[0].buffer);
  backward.k_gradient = AsRank4(results[1].buffer);
  backward.v_gradient = AsRank4(results[2].buffer);
  backward.forward = std::move(attention);
  Node node;
  node.domain = backward.forward.q.shape;
  node.kind = std::move(backward);
  im.AddNode(std::move(node));
  for (const Result& result : results) Give(im, result);
  return absl::OkStatus();
}

// Computes x * cos + rotated(x) * sin, where the rotation swaps the halves (or neighbours) and
// negates the first.
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

const GuidRow kAttentionRows[] = {
    {"sdpa_fwd", InferAttention, ImportAttention},
    {"sdpa_philox_bwd", InferAttentionBackward, ImportAttentionBackward},
    {"sdpa_philox_fwd", InferAttention, ImportAttention},
    {"sdpa_recomp_bwd", InferAttentionBackward, ImportAttentionBackward},
    {"sdpa_recomp_fwd", InferAttention, ImportAttention},
    {"rotary_pos_embedding_fwd", InferSameAsFirst, ImportRotary},
    {"rope_st2_fwd", InferSameAsFirst, ImportRotary},
};

}  // namespace

std::span<const GuidRow> AttentionRows() { return kAttentionRows; }

}  // namespace hpu::graph_compiler
