// Compares attention and its gradient with their definitions, at every ISA level.
#include "tests/graph_compiler/graph_runner.h"

namespace hpu::graph_compiler {
namespace {

class AttentionGuidTest : public LevelTest {};
INSTANTIATE_TEST_SUITE_P(Isa, AttentionGuidTest, testing::ValuesIn(GraphIsaLevels()));

struct AttentionSizes {
  size_t d, queries, keys, heads, key_heads, batch;
};

// Returns softmax(scale * q k^T + bias(head, query, key)) v in f64.
template <typename Bias>
std::vector<float> AttentionByDefinition(const AttentionSizes& n, float scale,
                                         const std::vector<float>& q, const std::vector<float>& k,
                                         const std::vector<float>& v, const Bias& bias) {
  std::vector<float> result(n.d * n.queries * n.heads * n.batch);
  for (size_t bh = 0; bh < n.batch * n.heads; ++bh) {
    const size_t head = bh % n.heads;
    const size_t kv = bh / n.heads * n.key_heads + head / (n.heads / n.key_heads);
    for (size_t i = 0; i < n.queries; ++i) {
      std::vector<double> p(n.keys);
      double sum = 0;
      for (size_t j = 0; j < n.keys; ++j) {
        double s = 0;
        for (size_t l = 0; l < n.d; ++l)
          s += double(q[(bh * n.queries + i) * n.d + l]) * k[(kv * n.keys + j) * n.d + l];
        p[j] = std::exp(s * scale + bias(head, i, j));
        sum += p[j];
      }
      for (size_t l = 0; l < n.d; ++l) {
        double o = 0;
        for (size_t j = 0; j < n.keys; ++j) o += p[j] / sum * v[(kv * n.keys + j) * n.d + l];
        result[(bh * n.queries + i) * n.d + l] = static_cast<float>(o);
      }
    }
  }
  return result;
}

TEST_P(AttentionGuidTest, AttentionMatchesItsDefinition) {
  const size_t d = 8, nq = 5, nk = 7, heads = 4, batch = 2;
  GraphBuilder b;
  const uint32_t q = b.Persistent({d, nq, heads, batch});
  const uint32_t k = b.Persistent({d, nk, 2, batch});
  const uint32_t v = b.Persistent({d, nk, 2, batch});
  const uint32_t mask = b.Persistent({nk, nq, 1, 1});
  const uint32_t out = b.Persistent({d, nq, heads, batch});
  ns_Sdpa_Params params{};
  params.scale = 0.3f;
  b.Node("sdpa_recomp_fwd_f32", {q, k, v, mask}, {out}, params);
  GraphRun run(b.graph);
  const auto qs = RandomFloats(d * nq * heads * batch);
  const auto ks = RandomFloats(d * nk * 2 * batch, 2);
  const auto vs = RandomFloats(d * nk * 2 * batch, 3);
  const auto ms = RandomFloats(nk * nq, 4);
  run.Set(q, qs);
  run.Set(k, ks);
  run.Set(v, vs);
  run.Set(mask, ms);
  RunOrFail(run);
  const auto bias = [&](size_t, size_t i, size_t j) { return ms[i * nk + j]; };
  ExpectNear(run.Get<float>(out),
             AttentionByDefinition({d, nq, nk, heads, 2, batch}, 0.3f, qs, ks, vs, bias), 1e-5);
}

// Biases that were looked up by head, (query, key, head) in memory, are copied once for two layers.
TEST_P(AttentionGuidTest, BiasesThatLieApartAreCopiedOnce) {
  const size_t d = 16, nq = 20, nk = 33, heads = 3, batch = 2;
  GraphBuilder b;
  const uint32_t q = b.Persistent({d, nq, heads, batch});
  const uint32_t k = b.Persistent({d, nk, heads, batch});
  const uint32_t v = b.Persistent({d, nk, heads, batch});
  const uint32_t looked_up = b.Persistent({heads, nk, nq, 1});
  const uint32_t bias = b.Temporary({nk, nq, heads, 1});
  const uint32_t outs[] = {b.Persistent({d, nq, heads, batch}),
                           b.Persistent({d, nq, heads, batch})};
  b.Node("transpose", {looked_up}, {bias}, synTransposeParams{{1, 2, 0, 3, 0}, 4});
  ns_Sdpa_Params params{};
  for (const uint32_t out : outs) {
    params.scale += 0.3f;
    b.Node("sdpa_recomp_fwd_f32", {q, k, v, bias}, {out}, params);
  }
  GraphRun run(b.graph);
  const auto qs = RandomFloats(d * nq * heads * batch);
  const auto ks = RandomFloats(d * nk * heads * batch, 2);
  const auto vs = RandomFloats(d * nk * heads * batch, 3);
  const auto ms = RandomFloats(nk * nq * heads, 4);
  run.Set(q, qs);
  run.Set(k, ks);
  run.Set(v, vs);
  run.Set(looked_up, ms);
  RunOrFail(run);
  EXPECT_EQ(run.recipe.kernels.size(), 3u);
  const auto of_head = [&](size_t h, size_t i, size_t j) { return ms[(i * nk + j) * heads + h]; };
  const AttentionSizes sizes{d, nq, nk, heads, heads, batch};
  float scale = 0;
  for (const uint32_t out : outs) {
    scale += 0.3f;
    ExpectNear(run.Get<float>(out), AttentionByDefinition(sizes, scale, qs, ks, vs, of_head), 1e-5);
  }
}

// The gradient is compared with differences of sum(gradient * attention).
TEST_P(AttentionGuidTest, AttentionsGradientIsItsSlope) {
  const size_t d = 4, nq = 3, nk = 5, heads = 2;
  GraphBuilder b;
  const uint32_t q = b.Persistent({d, nq, heads, 1});
  const uint32_t k = b.Persistent({d, nk, 1, 1});
  const uint32_t v = b.Persistent({d, nk, 1, 1});
  const uint32_t gradient = b.Persistent({d, nq, heads, 1});
  const uint32_t none = kNoTensor;
  const uint32_t out = b.Temporary({d, nq, heads, 1});
  const uint32_t maximum = b.Temporary({1, nq, heads, 1});
  const uint32_t inverse = b.Temporary({1, nq, heads, 1});
  const uint32_t dq = b.Persistent({d, nq, heads, 1});
  const uint32_t dk = b.Persistent({d, nk, 1, 1});
  const uint32_t dv = b.Persistent({d, nk, 1, 1});
  ns_Sdpa_Params params{};
  params.scale = 0.7f;
  b.Node("sdpa_recomp_fwd_f32", {q, k, v}, {out, maximum, inverse}, params);
  b.Node("sdpa_recomp_bwd_f32", {gradient, q, k, v, none, maximum, inverse, none, out},
         {dq, dk, dv}, params);
  GraphRun run(b.graph);
  std::vector<std::vector<float>> in = {RandomFloats(d * nq * heads), RandomFloats(d * nk, 2),
                                        RandomFloats(d * nk, 3)};
  const auto gs = RandomFloats(d * nq * heads, 4);
  run.Set(q, in[0]);
  run.Set(k, in[1]);
  run.Set(v, in[2]);
  run.Set(gradient, gs);
  RunOrFail(run);
  const auto loss = [&] {
    double total = 0;
    for (size_t row = 0; row < heads * nq; ++row) {
      double sum = 0, weighted = 0;
      for (size_t j = 0; j < nk; ++j) {
        double score = 0, value = 0;
        for (size_t l = 0; l < d; ++l) {
          score += double(in[0][row * d + l]) * in[1][j * d + l];
          value += double(gs[row * d + l]) * in[2][j * d + l];
        }
        sum += std::exp(score * 0.7f);
        weighted += std::exp(score * 0.7f) * value;
      }
      total += weighted / sum;
    }
    return total;
  };
  const uint32_t results[] = {dq, dk, dv};
  for (size_t tensor = 0; tensor < 3; ++tensor) {
    std::vector<float> wanted;
    for (float& x : in[tensor]) {
      const float kept = x;
      x = kept + 0.01f;
      const double above = loss(), high = x;
      x = kept - 0.01f;
      const double below = loss(), low = x;
      x = kept;
      wanted.push_back(static_cast<float>((above - below) / (high - low)));
    }
    ExpectNear(run.Get<float>(results[tensor]), wanted, 1e-4);
  }
}

// The operands of a gradient: nq queries over nk keys, and values of dv features.
struct GradientNode {
  GradientNode(GraphBuilder& b, uint32_t d, uint32_t dv, uint32_t nq, uint32_t nk, uint32_t rows)
      : dq(b.Persistent({d, nq, 1, 1})),
        dk(b.Persistent({d, nk, 1, 1})),
        dv_out(b.Persistent({dv, nk, 1, 1})) {
    ns_Sdpa_Params params{};
    params.scale = 1;
    const uint32_t gradient = b.Persistent({dv, nq, 1, 1});
    const uint32_t q = b.Persistent({d, nq, 1, 1});
    const uint32_t k = b.Persistent({d, nk, 1, 1});
    const uint32_t v = b.Persistent({dv, nk, 1, 1});
    const uint32_t maximum = b.Persistent({1, nq, 1, 1});
    const uint32_t inverse = b.Persistent({1, nq, 1, 1});
    const uint32_t result = b.Persistent({dv, rows, 1, 1});
    b.Node("sdpa_recomp_bwd_f32",
           {gradient, q, k, v, kNoTensor, maximum, inverse, kNoTensor, result}, {dq, dk, dv_out},
           params);
  }
  const uint32_t dq, dk, dv_out;
};

TEST_P(AttentionGuidTest, GradientOfNoQueriesIsZero) {
  GraphBuilder b;
  const GradientNode node(b, 4, 3, 0, 5, 0);
  GraphRun run(b.graph);
  run.Set(node.dk, std::vector<float>(20, 7.0f));
  run.Set(node.dv_out, std::vector<float>(15, 7.0f));
  RunOrFail(run);
  EXPECT_EQ(run.Get<float>(node.dk), std::vector<float>(20, 0.0f));
  EXPECT_EQ(run.Get<float>(node.dv_out), std::vector<float>(15, 0.0f));
}

TEST(AttentionShapesTest, AResultThatDoesNotFitIsRefused) {
  GraphBuilder good;
  GradientNode(good, 4, 3, 6, 5, 6);
  EXPECT_TRUE(InferShapes(good.graph).ok());
  GraphBuilder bad;
  GradientNode(bad, 4, 3, 6, 5, 1);
  EXPECT_EQ(InferShapes(bad.graph).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hpu::graph_compiler
