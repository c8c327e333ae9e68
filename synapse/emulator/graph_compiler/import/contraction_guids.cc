// Matrix products, convolution and attention.
#include <algorithm>

#include "synapse/emulator/graph_compiler/import/guid_table.h"
#include "synapse/emulator/graph_compiler/import/importer.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::emulator {
namespace {

using Args = std::vector<E>;

View SwapLastTwo(const View& view) {
  std::vector<size_t> order(view.shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return PermuteView(view, order);
}

View WithRank(const View& view, size_t rank) {
  View result = view;
  while (result.shape.size() < rank) {
    result.shape.insert(result.shape.begin(), 1);
    result.strides.insert(result.strides.begin(), 0);
  }
  return result;
}

// ---- matrix products ------------------------------------------------------------------------

absl::StatusOr<synGEMMParams> GemmParams(const NodeDesc& node) {
  synGEMMParams params{};
  if (!node.params.empty() && !ReadParams(node, &params)) {
    return InvalidArgument("gemm params of ", node.params.size(), " bytes, 2 wanted");
  }
  return params;
}

absl::StatusOr<std::vector<Sizes>> InferGemm(const ShapeContext& context) {
  if (!context.HasInput(0) || !context.HasInput(1)) return InvalidArgument("an operand is missing");
  ASSIGN_OR_RETURN(const synGEMMParams params, GemmParams(context.node));
  Sizes a = context.Input(0);
  Sizes b = context.Input(1);
  if (a.size() < 2 || b.size() < 2) return InvalidArgument("operands of rank below 2");
  if (params.transpose_a != 0) std::swap(a[0], a[1]);
  if (params.transpose_b != 0) std::swap(b[0], b[1]);
  if (a[0] != b[1]) return InvalidArgument("inner sizes ", a[0], " and ", b[1], " differ");
  ASSIGN_OR_RETURN(const Sizes batch,
                   BroadcastSizes(Sizes(a.begin() + 2, a.end()), Sizes(b.begin() + 2, b.end())));
  Sizes out = {b[0], a[1]};
  out.insert(out.end(), batch.begin(), batch.end());
  return std::vector<Sizes>{out};
}

struct Product {
  View a, b;                     // (batch..., m, k), (batch..., k, n)
  View out;                      // (batch..., m, n)
  const View* addend = nullptr;  // broadcast over out
  double alpha = 1;
  double beta = 1;
};

// A product whose second operand is one matrix for all batches is a single, taller product.
bool FoldBatch(const Product& product, Product* folded) {
  const size_t rank = product.out.shape.size();
  for (size_t d = 0; d + 2 < rank; ++d) {
    if (product.out.shape[d] != 1 && product.b.strides[d] != 0) return false;
  }
  const int64_t k = product.a.shape.back();
  const int64_t n = product.out.shape.back();
  const int64_t rows = n == 0 ? 0 : NumElements(product.out.shape) / n;
  *folded = product;
  if (!ReshapeView(product.a, {rows, k}, &folded->a)) return false;
  if (!ReshapeView(product.out, {rows, n}, &folded->out)) return false;
  folded->b.shape = {k, n};
  folded->b.strides = {product.b.strides[rank - 2], product.b.strides[rank - 1]};
  return true;
}

void AddProduct(Importer& im, Product product) {
  const Shape full = product.out.shape;
  View addend;
  if (product.addend != nullptr) addend = BroadcastView(*product.addend, full);
  Product folded;
  if (full.size() > 2 && FoldBatch(product, &folded)) {
    View flat;
    if (product.addend == nullptr || ReshapeView(addend, folded.out.shape, &flat)) {
      product = folded;
      addend = flat;
    }
  }
  if (product.a.shape.back() == 0) {
    im.MapTo(product.out, {},
             [](BodyBuilder& body, const Args&) { return body.Const(ScalarType::kF32, 0); });
    return;
  }
  Node node;
  node.kind = NodeKind::kGemm;
  node.a = product.a;
  node.b = product.b;
  node.domain = product.out.shape;
  BodyBuilder body;
  E value = body.Accumulator(0, ScalarType::kF32);
  if (product.alpha != 1) value = value * product.alpha;
  if (product.addend != nullptr) {
    E added = Cast(body.Load(Importer::AccessOf(addend, node.domain)), ScalarType::kF32);
    if (product.beta != 1) added = added * product.beta;
    value = value + added;
  }
  body.Store(value, Importer::AccessOf(product.out, node.domain));
  node.body = body.Take();
  im.AddNode(std::move(node));
}

absl::Status CheckFloat(const View& view, const char* what) {
  if (ComputeType(view.type) == ScalarType::kF32) return absl::OkStatus();
  return Unimplemented("matrix product with integer ", what);
}

absl::Status ImportGemm(Importer& im) {
  ASSIGN_OR_RETURN(const synGEMMParams params, GemmParams(im.node()));
  RETURN_IF_ERROR(CheckFloat(im.Input(0), "first operand"));
  RETURN_IF_ERROR(CheckFloat(im.Input(1), "second operand"));
  Product product;
  const Shape shape = im.OutputShape(0);
  product.a = WithRank(im.Input(0), shape.size());
  product.b = WithRank(im.Input(1), shape.size());
  if (params.transpose_a != 0) product.a = SwapLastTwo(product.a);
  if (params.transpose_b != 0) product.b = SwapLastTwo(product.b);
  Shape a_shape = shape;
  Shape b_shape = shape;
  a_shape.back() = product.a.shape.back();
  b_shape[shape.size() - 2] = product.a.shape.back();
  product.a = BroadcastView(product.a, a_shape);
  product.b = BroadcastView(product.b, b_shape);
  View bias;
  if (im.HasInput(2)) {
    bias = im.Input(2);
    product.addend = &bias;
  }
  product.out = im.OutputValue(0);
  AddProduct(im, product);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Sizes>> InferLinear(const ShapeContext& context) {
  if (!context.HasInput(0) || !context.HasInput(1)) return InvalidArgument("an operand is missing");
  Sizes out = context.Input(0);
  const Sizes& w = context.Input(1);
  if (out.empty() || w.size() != 2 || w[0] != out[0]) {
    return InvalidArgument("linear: weight [in, out] does not fit the input's fastest size");
  }
  out[0] = w[1];
  return std::vector<Sizes>{out};
}

absl::Status ImportLinear(Importer& im) {
  Product product;
  const Shape shape = im.OutputShape(0);
  RETURN_IF_ERROR(CheckFloat(im.Input(0), "input"));
  const size_t rank = std::max<size_t>(shape.size(), 2);
  product.a = WithRank(im.Input(0), rank);
  product.b = WithRank(SwapLastTwo(im.Input(1)), rank);
  product.out = WithRank(im.OutputValue(0), rank);
  Shape b_shape = product.out.shape;
  b_shape[rank - 2] = product.a.shape.back();
  product.b = BroadcastView(product.b, b_shape);
  View bias;
  if (im.HasInput(2)) {
    bias = im.Input(2);
    product.addend = &bias;
  }
  AddProduct(im, product);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Sizes>> InferAddmm(const ShapeContext& context) {
  if (!context.HasInput(1) || !context.HasInput(2)) return InvalidArgument("an operand is missing");
  const Sizes& a = context.Input(1);
  const Sizes& b = context.Input(2);
  if (a.size() != 2 || b.size() != 2 || a[0] != b[1]) {
    return InvalidArgument("addmm: operands are not matrices that fit");
  }
  return std::vector<Sizes>{{b[0], a[1]}};
}

absl::Status ImportAddmm(Importer& im) {
  ns_AddmmKernel_Params params{1, 1};
  ReadParams(im.node(), &params);
  Product product;
  product.a = im.Input(1);
  product.b = im.Input(2);
  product.alpha = params.alpha;
  product.beta = params.beta;
  View self;
  if (im.HasInput(0) && params.beta != 0) {
    self = im.Input(0);
    product.addend = &self;
  }
  product.out = im.OutputValue(0);
  AddProduct(im, product);
  return absl::OkStatus();
}

// ---- convolution ----------------------------------------------------------------------------

absl::StatusOr<synConvolutionParams> ConvParams(const NodeDesc& node) {
  synConvolutionParams params{};
  if (!ReadParams(node, &params)) return InvalidArgument("convolution params are missing");
  if (params.dW == 0 || params.dH == 0 || params.kW == 0 || params.kH == 0) {
    return InvalidArgument("convolution with kernel or stride 0");
  }
  params.dilW = std::max(params.dilW, 1u);
  params.dilH = std::max(params.dilH, 1u);
  params.nGroups = std::max(params.nGroups, 1u);
  return params;
}

int64_t ConvOut(uint64_t in, int64_t pads, uint32_t dilation, uint32_t kernel, uint32_t stride) {
  const int64_t span = static_cast<int64_t>(in) + pads - int64_t{dilation} * (kernel - 1) - 1;
  return span < 0 ? 0 : span / stride + 1;
}

absl::StatusOr<std::vector<Sizes>> InferConv(const ShapeContext& context) {
  if (!context.HasInput(0) || !context.HasInput(1)) return InvalidArgument("an operand is missing");
  ASSIGN_OR_RETURN(const synConvolutionParams params, ConvParams(context.node));
  const Sizes& x = context.Input(0);  // C, W, H, N
  const Sizes& w = context.Input(1);  // K, C/g, S, R
  if (x.size() != 4 || w.size() != 4) return InvalidArgument("convolution operands are not 4-D");
  if (w[1] * params.nGroups != x[0] || w[0] % params.nGroups != 0) {
    return InvalidArgument("convolution of ", x[0], " channels by weights for ", w[1], " x ",
                           params.nGroups, " groups");
  }
  if (w[2] != params.kW || w[3] != params.kH) {
    return InvalidArgument("convolution weights ", w[2], "x", w[3], " against kernel params ",
                           params.kW, "x", params.kH);
  }
  return std::vector<Sizes>{{w[0],
                             static_cast<uint64_t>(ConvOut(x[1], int64_t{params.padL} + params.padR,
                                                           params.dilW, params.kW, params.dW)),
                             static_cast<uint64_t>(ConvOut(x[2], int64_t{params.padT} + params.padB,
                                                           params.dilH, params.kH, params.dH)),
                             x[3]}};
}

bool IsPointwise(const synConvolutionParams& p) {
  return p.kW == 1 && p.kH == 1 && p.dW == 1 && p.dH == 1 && p.padL == 0 && p.padR == 0 &&
         p.padT == 0 && p.padB == 0 && p.nGroups == 1;
}

absl::Status ImportConv(Importer& im) {
  ASSIGN_OR_RETURN(const synConvolutionParams params, ConvParams(im.node()));
  RETURN_IF_ERROR(CheckFloat(im.Input(0), "image"));
  const View x = im.Input(0);                             // n, h, w, c
  const View w = PermuteView(im.Input(1), {3, 2, 0, 1});  // ko, c, r, s
  View bias;
  if (im.HasInput(2)) bias = im.Input(2);
  if (IsPointwise(params)) {
    Product product;
    product.a = x;
    product.b = im.Input(1);  // r = 1, s = 1, c, ko
    product.out = im.OutputValue(0);
    Shape b_shape = product.out.shape;
    b_shape[2] = x.shape[3];
    product.b = BroadcastView(product.b, b_shape);
    if (im.HasInput(2)) product.addend = &bias;
    AddProduct(im, product);
    return absl::OkStatus();
  }
  Node node;
  node.kind = NodeKind::kConv;
  node.a = x;
  node.b = w;
  node.conv = {params.dH,   params.dW,   params.dilH,   params.dilW,
               params.padT, params.padL, params.nGroups};
  const View out = im.OutputValue(0);
  node.domain = out.shape;
  BodyBuilder body;
  E value = body.Accumulator(0, ScalarType::kF32);
  if (im.HasInput(2)) value = value + body.Load(Importer::AccessOf(bias, node.domain));
  if (params.activation.reluEnable != 0) value = Max(value, ConstLike(value, 0));
  body.Store(value, Importer::AccessOf(out, node.domain));
  node.body = body.Take();
  im.AddNode(std::move(node));
  return absl::OkStatus();
}

// ---- attention ------------------------------------------------------------------------------

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
    im.MapTo(out, {temporary}, [](BodyBuilder&, const Args& a) { return a[0]; });
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
    {"gemm", InferGemm, ImportGemm},
    {"batch_gemm", InferGemm, ImportGemm},
    {"linear_fwd", InferLinear, ImportLinear},
    {"addmm", InferAddmm, ImportAddmm},
    {"spatial_convolution", InferConv, ImportConv},
    {"sdpa_fwd", InferAttention, ImportAttention},
    {"sdpa_recomp_fwd", InferAttention, ImportAttention},
    {"rotary_pos_embedding_fwd", InferSameAsFirst, ImportRotary},
    {"rope_st2_fwd", InferSameAsFirst, ImportRotary},
};

}  // namespace

std::span<const GuidRow> ContractionRows() { return kRows; }

}  // namespace hpu::emulator
