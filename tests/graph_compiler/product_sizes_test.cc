// Products whose sizes differ share their code, and compute what their own sizes say.
#include "graph_compiler/codegen/object_cache.h"
#include "tests/graph_compiler/graph_runner.h"

namespace hpu::graph_compiler {
namespace {

class ProductSizesTest : public LevelTest {};
INSTANTIATE_TEST_SUITE_P(Isa, ProductSizesTest, testing::ValuesIn(GraphIsaLevels()));

struct Product {
  uint64_t m, k, n;
};

// Compiles and runs the product, and returns how many objects were generated for it.
uint64_t ObjectsFor(IsaLevel isa, const Product& p) {
  GraphBuilder b;
  const uint32_t x = b.Persistent({p.k, p.m});
  const uint32_t w = b.Persistent({p.n, p.k});
  const uint32_t out = b.Persistent({p.n, p.m});
  b.Node("gemm", {x, w}, {out}, synGEMMParams{false, false});
  GraphRun run(b.graph);
  const auto xs = RandomFloats(p.m * p.k, 1, -1, 1);
  const auto ws = RandomFloats(p.k * p.n, 2, -1, 1);
  run.Set(x, xs);
  run.Set(w, ws);
  const uint64_t before = ObjectCache::OfProcess().counts().missing;
  const absl::Status status = run.Run(isa);
  EXPECT_TRUE(status.ok()) << status;
  const auto results = run.Get<float>(out);
  for (uint64_t i = 0; i < p.m; i += 7) {
    for (uint64_t j = 0; j < p.n; ++j) {
      double sum = 0;
      for (uint64_t k = 0; k < p.k; ++k) sum += double{xs[i * p.k + k]} * ws[k * p.n + j];
      EXPECT_NEAR(results[i * p.n + j], sum, 1e-3) << p.m << 'x' << p.k << 'x' << p.n;
    }
  }
  return ObjectCache::OfProcess().counts().missing - before;
}

TEST_P(ProductSizesTest, OtherSizesNeedNoNewCode) {
  EXPECT_GT(ObjectsFor(GetParam(), {331, 210, 200}), 0u);
  EXPECT_EQ(ObjectsFor(GetParam(), {347, 210, 200}), 0u);
  EXPECT_EQ(ObjectsFor(GetParam(), {379, 211, 200}), 0u);
  EXPECT_EQ(ObjectsFor(GetParam(), {331, 222, 216}), 0u);
}

}  // namespace
}  // namespace hpu::graph_compiler
