// Rewrites mixtures of experts. The places of all tokens are sorted by expert, and each of the two
// or three lists of weights takes one product of groups (matmul_grouped), so that an expert costs
// what its tokens cost. Where there are no tokens, or the largest value of each expert is asked
// for, too, all experts are computed for all tokens: by one product with their first weights side
// by side and one with their last weights below each other; the router's weights, which are 0 for
// most, multiply what lies between. A recipe keeps these joined weights.
#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {
namespace {

// The gated unit of GPT-OSS: its limit and its factor.
constexpr double kLimit = 7;
constexpr double kAlpha = 1.702;

struct Experts {
  int64_t tokens = 0;
  int64_t count = 0;
  int64_t hidden = 0;
  DType dtype = DType::kF32;  // of the products
  bool permuted = false;      // weights are [results, operands]
};

// Returns a weight in the type of products. A scale is one number or one for each result.
Value* InProductType(Call& call, const Experts& experts, Value* weight, Value* scale) {
  if (scale == nullptr) return call.b.Cast(weight, experts.dtype);
  const int64_t elements = scale->type.elements();
  const Dims sizes = elements == 1      ? Dims{}
                     : experts.permuted ? Dims{elements, 1}
                                        : Dims{1, elements};
  return call.b.Cast((In(call, weight) * Reshape(In(call, scale), sizes)).value, experts.dtype);
}

// Returns the weights of all experts; none if the call is refused.
std::vector<Value*> Weights(Call& call, const Experts& experts, std::string_view name,
                            std::string_view scales) {
  std::vector<Value*> weights = call.Tensors(name);
  std::vector<Value*> factors;
  if (call.Has(scales)) factors = call.Tensors(scales);
  if (static_cast<int64_t>(weights.size()) != experts.count ||
      (!factors.empty() && factors.size() != weights.size())) {
    call.Refuse("weights of ", weights.size(), " experts");
    return {};
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] = InProductType(call, experts, weights[i], factors.empty() ? nullptr : factors[i]);
  }
  return weights;
}

// Joins the weights of all experts along a dimension of [results, operands].
Value* JoinedWeights(Call& call, const Experts& experts, std::string_view name,
                     std::string_view scales, int64_t dim) {
  std::vector<Value*> weights = Weights(call, experts, name, scales);
  if (weights.empty()) return call.Tensor("hidden_states");
  return call.b.Concat(std::move(weights), experts.permuted ? dim : 1 - dim);
}

// Returns x times the joined weights, [tokens, experts, results of an expert].
Expr FirstProduct(Call& call, const Experts& experts, Value* x, std::string_view weights,
                  std::string_view bias) {
  Value* joined = JoinedWeights(call, experts, weights, "d_scale_w12", 0);
  Expr y = In(call, call.b.Matmul(x, joined, false, experts.permuted));
  if (call.Has(bias)) y = y + In(call, call.b.Concat(call.Tensors(bias), 0));
  if (call.refused()) return y;
  return Reshape(y, {experts.tokens, experts.count, y.sizes()[1] / experts.count});
}

// Returns the router's weight of each token and expert, [tokens, experts].
Expr Routing(Call& call, const Experts& experts) {
  Value* table = call.Tensor("expert_routing_table");
  Value* weights = call.Tensor("router_weights");
  if (call.refused()) return {&call, weights};
  const Dims apart = {experts.tokens, weights->type.sizes.back(), 1};
  const Expr chosen = Reshape({&call, table}, apart);
  const Expr numbers = Positions(call, experts.count, table->type.dtype) +
                       static_cast<double>(call.Int("experts_min"));
  return Sum(Cast(chosen == numbers, DType::kF32) * Reshape(In(call, weights), apart), {1}, false);
}

Expr Activated(Call& call, Expr x) {
  const std::string name = call.Text("activation");
  if (name == "relu") return Apply(OpKind::kRelu, x);
  if (name == "gelu") return Apply(OpKind::kGelu, x);
  if (name != "silu") call.Refuse("activation ", name);
  return Apply(OpKind::kSilu, x);
}

// Returns what lies between the products. first(weights, bias) gives the product with a weight as
// values of which the last dimension is an expert's results.
template <typename First>
Expr Between(Call& call, const First& first) {
  if (call.Has("w1")) {
    const Expr gate = first("w1", "");
    return Activated(call, gate) * first("w2", "");
  }
  const Expr both = first("w12", "w12_bias");
  if (call.refused()) return both;
  const int64_t last = both.rank() - 1, size = both.sizes().back();
  if (!call.Has("w12_bias")) {
    return Activated(call, Slice(both, last, 0, size / 2)) * Slice(both, last, size / 2, size);
  }
  const Expr gate = Min(Slice(both, last, 0, size, 2), kLimit);
  const Expr up = Min(Max(Slice(both, last, 1, size, 2), -kLimit), kLimit);
  return gate * Sigmoid(gate * kAlpha) * (up + 1.0);
}

// The places of tokens and their experts, [tokens * experts of a token], in the order of experts.
struct Places {
  Value* order = nullptr;   // the place that comes here
  Value* expert = nullptr;  // counted from 0; the number of experts where it is none of these
  Value* ends = nullptr;    // of the places of each expert, i32
  int64_t count = 0;
};

// Returns the numbers of the elements of a line in ascending order, and these elements.
std::pair<Value*, Value*> Sorted(Call& call, Value* x) {
  const ir::Node* sorted = call.b.EmitNode(
      OpKind::kTopk, {x},
      {{AttrKey::kK, x->type.sizes[0]}, {AttrKey::kDim, int64_t{0}}, {AttrKey::kLargest, false}});
  return {sorted->results[1], sorted->results[0]};
}

Places PlacesByExpert(Call& call, const Experts& experts) {
  Value* table = call.Tensor("expert_routing_table");
  Value* router = call.Tensor("router_weights");
  if (call.refused()) return {};
  // In other shapes a row of the table is not a token's, or the kernel on the CPU broadcasts.
  if (table->type.rank() != 2 || table->type.sizes[0] != experts.tokens ||
      router->type.sizes != table->type.sizes || table->type.elements() == 0) {
    call.Refuse("routing table ", ToText(table->type), " and weights ", ToText(router->type),
                " of ", experts.tokens, " tokens");
    return {};
  }
  Places places;
  places.count = table->type.elements();
  const auto none = static_cast<double>(experts.count);
  const Expr given = Cast(Reshape({&call, table}, {places.count}), DType::kI32);
  const Expr expert = given - static_cast<double>(call.Int("experts_min"));
  const Expr known = (expert >= 0.0) & (expert < none);
  std::tie(places.order, places.expert) = Sorted(call, Where(known, expert, none).value);
  const Expr numbers = Reshape(Positions(call, experts.count, DType::kI32), {experts.count, 1});
  const Expr before = Reshape({&call, places.expert}, {1, places.count}) <= numbers;
  places.ends = Sum(Cast(before, DType::kI32), {1}, false).value;
  return places;
}

// Returns the product of rows, which are in the order of experts, with the weights of their expert.
Expr GroupedProduct(Call& call, const Experts& experts, const Places& places, Value* x,
                    std::string_view weights, std::string_view scales, std::string_view bias) {
  std::vector<Value*> matrices = Weights(call, experts, weights, scales);
  if (matrices.empty() || call.refused()) return {&call, x};
  for (Value*& matrix : matrices) {
    if (experts.permuted) matrix = call.b.Permute(matrix, {1, 0});
  }
  x = call.b.Cast(x, experts.dtype);
  Expr y = In(call, call.b.GroupedMatmul(x, places.ends, matrices, false));
  if (!call.Has(bias) || call.refused()) return y;
  std::vector<Value*> biases = call.Tensors(bias);
  for (Value*& each : biases) each = In(call, each).value;
  if (static_cast<int64_t>(biases.size()) != experts.count) {
    call.Refuse("biases of ", biases.size(), " experts");
    return y;
  }
  Value* joined =
      call.b.Reshape(call.b.Concat(std::move(biases), 0), {experts.count, y.sizes().back()});
  const Expr expert = Min({&call, places.expert}, static_cast<double>(experts.count - 1));
  return y + Expr{&call, call.b.Gather(joined, expert.value, 0)};
}

Expr SortedMixture(Call& call, const Experts& experts, Value* x) {
  const Places places = PlacesByExpert(call, experts);
  if (call.refused()) return {&call, x};
  const int64_t choices = places.count / experts.tokens;
  const Expr token = Reshape(Positions(call, experts.tokens, DType::kI32), {experts.tokens, 1});
  const Expr tokens = Reshape(Expand(token, {experts.tokens, choices}), {places.count});
  Value* rows = call.b.Gather(x, call.b.Gather(tokens.value, places.order, 0), 0);
  const Expr between = Between(call, [&](std::string_view weights, std::string_view bias) {
    return GroupedProduct(call, experts, places, rows, weights, "d_scale_w12", bias);
  });
  const Expr y =
      GroupedProduct(call, experts, places, between.value, "w3", "d_scale_w3", "w3_bias");
  if (call.refused()) return y;
  Value* given = call.b.Reshape(call.Tensor("router_weights"), {places.count});
  const Expr known = Expr{&call, places.expert} < static_cast<double>(experts.count);
  const Expr router = Where(known, In(call, call.b.Gather(given, places.order, 0)), 0.0);
  const Expr weighted = y * Reshape(router, {places.count, 1});
  // The numbers of the places in the order in which they were sorted are where they are now.
  Value* back = Sorted(call, places.order).first;
  const Expr apart = Reshape({&call, call.b.Gather(weighted.value, back, 0)},
                             {experts.tokens, choices, y.sizes().back()});
  return Sum(apart, {1}, false);
}

void MixtureOfExperts(Call& call) {
  Value* hidden = call.Tensor("hidden_states");
  const std::vector<Value*> last = call.Tensors("w3");
  if (call.refused()) return;
  if (hidden->type.rank() != 2 || last.empty()) {
    return call.Refuse("experts of ", ToText(hidden->type));
  }
  const Experts experts = {.tokens = hidden->type.sizes[0],
                           .count = static_cast<int64_t>(last.size()),
                           .hidden = hidden->type.sizes[1],
                           .dtype = call.dtype(),
                           .permuted = call.Bool("permuted_weights")};
  Expr x = In(call, hidden);
  if (call.Has("d_scale_hidden_states")) x = x * In(call, "d_scale_hidden_states");
  Value* operand = call.b.Cast(x.value, experts.dtype);
  if (call.result_count() == 1 && experts.tokens > 0) {
    return Give(call, SortedMixture(call, experts, operand));
  }
  const Expr between = Between(call, [&](std::string_view weights, std::string_view bias) {
    return FirstProduct(call, experts, operand, weights, bias);
  });
  const Expr routing = Routing(call, experts);
  if (call.refused()) return;
  const int64_t size = between.sizes()[2];
  const Expr weighted = between * Reshape(routing, {experts.tokens, experts.count, 1});
  Value* flat = call.b.Reshape(call.b.Cast(weighted.value, experts.dtype),
                               {experts.tokens, experts.count * size});
  Value* joined = JoinedWeights(call, experts, "w3", "d_scale_w3", 1);
  Expr y = In(call, call.b.Matmul(flat, joined, false, experts.permuted));
  if (call.Has("w3_bias")) {
    Value* biases =
        call.b.Reshape(call.b.Concat(call.Tensors("w3_bias"), 0), {experts.count, experts.hidden});
    y = y + In(call, call.b.Matmul(routing.value, call.b.Cast(biases, DType::kF32)));
  }
  if (call.result_count() == 1) return Give(call, y);
  Value* largest = call.b.Reduce(OpKind::kReduceMax, between.value, {0, 2}, false);
  // The reference takes the largest of values in the type of the activations.
  largest = call.b.Cast(largest, call.type(0).dtype);
  Give(call, {y, {&call, largest}});
}

constexpr HandlerRow kExpertRows[] = {
    {"hpu.mixture_of_experts.bias_fused_weights", MixtureOfExperts},
    {"hpu.mixture_of_experts.default", MixtureOfExperts},
    {"hpu.mixture_of_experts.fp8_fused_weights", MixtureOfExperts},
    {"hpu.mixture_of_experts.fp8_fused_weights_dynamic", MixtureOfExperts},
    {"hpu.mixture_of_experts.fp8_fused_weights_scalars", MixtureOfExperts},
    {"hpu.mixture_of_experts.fp8_measurement", MixtureOfExperts},
    {"hpu.mixture_of_experts.fp8_measurement_fused_weights", MixtureOfExperts},
    {"hpu.mixture_of_experts.fused_weights", MixtureOfExperts},
};

}  // namespace

std::span<const HandlerRow> ExpertRows() { return kExpertRows; }

}  // namespace hpu::compiler
