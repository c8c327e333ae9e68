// Matrix products and convolution.
#include <algorithm>

#include "graph_compiler/import/guid_table.h"
#include "graph_compiler/import/importer.h"
#include "graph_compiler/import/transposed_conv.h"
#include "synapse/include/synapse_node_params.h"

namespace hpu::graph_compiler {
namespace {

View SwapLastTwo(const View& view) {
  std::vector<size_t> order(view.shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return PermuteView(view, order);
}

absl::StatusOr<synGEMMParams> GemmParams(const NodeDesc& node) {
  synGEMMParams params{};
  if (!node.params.empty() && !ReadParams(node, &params)) {
    return InvalidArgument("gemm params of ", node.params.size(), " bytes, 2 wanted");
  }
  return params;
}

absl::StatusOr<std::vector<Sizes>> InferGemm(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 2));
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

// If the second operand of a product is one matrix for all batches, it is a single, taller product.
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
  node.kind = Gemm{product.a, product.b};
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

absl::Status ImportGemm(Importer& im) {
  ASSIGN_OR_RETURN(const synGEMMParams params, GemmParams(im.node()));
  RETURN_IF_ERROR(CheckFactor(im.Input(0), "first operand"));
  RETURN_IF_ERROR(CheckFactor(im.Input(1), "second operand"));
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
  RETURN_IF_ERROR(NeedInputs(context, 2));
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
  RETURN_IF_ERROR(CheckFactor(im.Input(0), "input"));
  RETURN_IF_ERROR(CheckFactor(im.Input(1), "weight"));
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
  RETURN_IF_ERROR(CheckFactor(im.Input(1), "first operand"));
  RETURN_IF_ERROR(CheckFactor(im.Input(2), "second operand"));
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
  RETURN_IF_ERROR(NeedInputs(context, 2));
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

ConvGeometry GeometryOf(const synConvolutionParams& p, const NodeDesc& node) {
  return {p.dH, p.dW, p.dilH, p.dilW, p.padT, p.padL, p.nGroups, node.deterministic};
}

absl::Status ImportConv(Importer& im) {
  ASSIGN_OR_RETURN(const synConvolutionParams params, ConvParams(im.node()));
  RETURN_IF_ERROR(CheckFactor(im.Input(0), "image"));
  RETURN_IF_ERROR(CheckFactor(im.Input(1), "weight"));
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
  if (x.shape[3] == 0) return Unimplemented("convolution without input channels");
  Node node;
  node.kind = Conv{x, w, GeometryOf(params, im.node())};
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

absl::StatusOr<std::vector<Sizes>> InferTransposedConv(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 2));
  ASSIGN_OR_RETURN(const synConvolutionParams params, ConvParams(context.node));
  const Sizes& x = context.Input(0);         // K, W, H, N
  const Sizes& w = context.Input(1);         // K, C/g, S, R
  const Sizes& y = context.Output(0).sizes;  // C, W, H, N
  if (x.size() != 4 || w.size() != 4 || y.size() != 4) {
    return InvalidArgument("dedx operands are not 4-D");
  }
  if (w[0] != x[0] || w[1] * params.nGroups != y[0] || x[0] % params.nGroups != 0) {
    return InvalidArgument("dedx of ", x[0], " channels to ", y[0], " by weights for ", w[1], " x ",
                           params.nGroups, " groups");
  }
  if (w[2] != params.kW || w[3] != params.kH) {
    return InvalidArgument("dedx weights ", w[2], "x", w[3], " against kernel params ", params.kW,
                           "x", params.kH);
  }
  const int64_t width =
      ConvOut(y[1], int64_t{params.padL} + params.padR, params.dilW, params.kW, params.dW);
  const int64_t height =
      ConvOut(y[2], int64_t{params.padT} + params.padB, params.dilH, params.kH, params.dH);
  if (width != static_cast<int64_t>(x[1]) || height != static_cast<int64_t>(x[2]) || x[3] != y[3]) {
    return InvalidArgument("dedx to ", SizesText(y), ": a convolution of it does not give ",
                           SizesText(x));
  }
  return std::vector<Sizes>{y};
}

absl::Status ImportDedx(Importer& im) {
  ASSIGN_OR_RETURN(const synConvolutionParams params, ConvParams(im.node()));
  RETURN_IF_ERROR(CheckFactor(im.Input(0), "gradient"));
  RETURN_IF_ERROR(CheckFactor(im.Input(1), "weight"));
  return ImportTransposedConv(im, params);
}

// From dy [K, Wo, Ho, N] and x [C, W, H, N] comes the weight [K, C/g, S, R] of the forward
// convolution.
absl::StatusOr<std::vector<Sizes>> InferDedw(const ShapeContext& context) {
  RETURN_IF_ERROR(NeedInputs(context, 2));
  ASSIGN_OR_RETURN(const synConvolutionParams params, ConvParams(context.node));
  const Sizes& dy = context.Input(0);
  const Sizes& x = context.Input(1);
  if (dy.size() != 4 || x.size() != 4) return InvalidArgument("dedw operands are not 4-D");
  if (x[0] % params.nGroups != 0 || dy[0] % params.nGroups != 0) {
    return InvalidArgument("dedw of ", x[0], " to ", dy[0], " channels in ", params.nGroups,
                           " groups");
  }
  const int64_t width =
      ConvOut(x[1], int64_t{params.padL} + params.padR, params.dilW, params.kW, params.dW);
  const int64_t height =
      ConvOut(x[2], int64_t{params.padT} + params.padB, params.dilH, params.kH, params.dH);
  if (width != static_cast<int64_t>(dy[1]) || height != static_cast<int64_t>(dy[2]) ||
      x[3] != dy[3]) {
    return InvalidArgument("dedw: a convolution of ", SizesText(x), " does not give ",
                           SizesText(dy));
  }
  return std::vector<Sizes>{{dy[0], x[0] / params.nGroups, params.kW, params.kH}};
}

absl::Status ImportDedw(Importer& im) {
  ASSIGN_OR_RETURN(const synConvolutionParams params, ConvParams(im.node()));
  RETURN_IF_ERROR(CheckFactor(im.Input(0), "gradient"));
  RETURN_IF_ERROR(CheckFactor(im.Input(1), "image"));
  const View dy = im.Input(0);  // n, ho, wo, ko
  const View x = im.Input(1);   // n, h, w, c
  const View out = im.OutputValue(0);
  if (NumElements(out.shape) == 0) return absl::OkStatus();
  if (NumElements(dy.shape) == 0) {
    im.MapTo(out, {},
             [](BodyBuilder& body, const Args&) { return body.Const(ScalarType::kF32, 0); });
    return absl::OkStatus();
  }
  im.AddContraction(WeightGradient{x, dy, GeometryOf(params, im.node())}, out);
  return absl::OkStatus();
}

const GuidRow kContractionRows[] = {
    {"gemm", InferGemm, ImportGemm},
    {"batch_gemm", InferGemm, ImportGemm},
    {"linear_fwd", InferLinear, ImportLinear},
    {"addmm", InferAddmm, ImportAddmm},
    {"spatial_convolution", InferConv, ImportConv, true},
    {"dedw", InferDedw, ImportDedw, true},
    {"dedx", InferTransposedConv, ImportDedx, true},
};

}  // namespace

std::span<const GuidRow> ContractionRows() { return kContractionRows; }

}  // namespace hpu::graph_compiler
