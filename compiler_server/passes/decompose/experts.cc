// Rewrites mixtures of experts. All experts are computed for all tokens by one product with their
// first weights side by side and one with their last weights below each other; the router's
// weights, which are 0 for most, multiply what lies between. A recipe keeps weights that are
// joined.
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

// Joins the weights of all experts along a dimension of [results, operands].
Value* JoinedWeights(Call& call, const Experts& experts, std::string_view name,
                     std::string_view scales, int64_t dim) {
  std::vector<Value*> weights = call.Tensors(name);
  std::vector<Value*> factors;
  if (call.Has(scales)) factors = call.Tensors(scales);
  if (static_cast<int64_t>(weights.size()) != experts.count ||
      (!factors.empty() && factors.size() != weights.size())) {
    call.Refuse("weights of ", weights.size(), " experts");
    return call.Tensor("hidden_states");
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] = InProductType(call, experts, weights[i], factors.empty() ? nullptr : factors[i]);
  }
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

// Returns what lies between the products.
Expr Between(Call& call, const Experts& experts, Value* x) {
  if (call.Has("w1")) {
    const Expr gate = FirstProduct(call, experts, x, "w1", "");
    return Activated(call, gate) * FirstProduct(call, experts, x, "w2", "");
  }
  const Expr both = FirstProduct(call, experts, x, "w12", "w12_bias");
  if (call.refused()) return both;
  const int64_t size = both.sizes()[2];
  if (!call.Has("w12_bias")) {
    return Activated(call, Slice(both, 2, 0, size / 2)) * Slice(both, 2, size / 2, size);
  }
  const Expr gate = Min(Slice(both, 2, 0, size, 2), kLimit);
  const Expr up = Min(Max(Slice(both, 2, 1, size, 2), -kLimit), kLimit);
  return gate * Sigmoid(gate * kAlpha) * (up + 1.0);
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
  const Expr between = Between(call, experts, call.b.Cast(x.value, experts.dtype));
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
