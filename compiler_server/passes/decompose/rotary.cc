// Rewrites rotary position embeddings: each pair (x, y) of a head becomes
// (x cos - y sin, y cos + x sin), with a sine and a cosine for each element of the pair.
#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {
namespace {

enum Mode : int64_t { kBlockwise = 0, kPairwise = 1 };

// Returns sines or cosines as factors of p: the rows at position_ids, or the columns from `offset`.
Expr RotaryFactors(Call& call, std::string_view name, const Value* p) {
  Value* factors = call.Tensor(name);
  const int64_t size = p->type.sizes.back();
  if (call.refused() || factors->type.rank() < 1) return {&call, factors};
  if (Value* positions = call.OptionalTensor("position_ids"); positions != nullptr) {
    const Dims& sizes = factors->type.sizes;
    if (sizes.size() < 2) {
      call.Refuse("positions in ", ToText(factors->type));
      return {&call, factors};
    }
    Value* table = call.b.Reshape(factors, {sizes[sizes.size() - 2], sizes.back()});
    Value* rows = call.b.Gather(table, positions, 0);
    if (p->type.rank() != 4 || rows->type.rank() != 3) return In(call, rows);
    const Dims& found = rows->type.sizes;
    return In(call, call.b.Reshape(rows, {found[0], 1, found[1], found[2]}));
  }
  if (factors->type.sizes.back() > size) {
    const int64_t offset = call.Int("offset");
    factors = call.b.Slice(factors, factors->type.rank() - 1, offset, offset + size);
  }
  return In(call, factors);
}

struct Pair {
  Expr x, y;
};

// Returns the first and the second elements of all pairs.
Pair Pairs(Expr p, int64_t mode) {
  const int64_t dim = p.rank() - 1;
  const int64_t size = p.sizes().back();
  if (mode == kPairwise) return {Slice(p, dim, 0, size, 2), Slice(p, dim, 1, size, 2)};
  return {Slice(p, dim, 0, size / 2), Slice(p, dim, size / 2, size)};
}

Expr Joined(Pair pair, int64_t mode) {
  Call& call = *pair.x.call;
  const int64_t dim = pair.x.rank() - 1;
  if (mode == kBlockwise) return {&call, call.b.Concat({pair.x.value, pair.y.value}, dim)};
  Dims apart = pair.x.sizes();
  Dims together = apart;
  apart.push_back(1);
  together.back() *= 2;
  Value* joined =
      call.b.Concat({Reshape(pair.x, apart).value, Reshape(pair.y, apart).value}, dim + 1);
  return {&call, call.b.Reshape(joined, together)};
}

template <bool forward>
void Rotary(Call& call) {
  Value* value = call.Tensor(forward ? "input" : "grad_in");
  const int64_t mode = call.Int("mode");
  if (call.refused()) return;
  if (value->type.rank() < 1 || value->type.sizes.back() % 2 != 0) {
    return call.Refuse("rotary embedding of ", ToText(value->type));
  }
  if (mode != kBlockwise && mode != kPairwise) return call.Refuse("mode ", mode);
  const Expr p = In(call, value);
  const Expr sin = RotaryFactors(call, "sin", value);
  const Expr cos = RotaryFactors(call, "cos", value);
  if (call.refused()) return;
  const Pair pair = Pairs(forward ? p : p * sin, mode);
  const Pair turned = forward ? Pair{-pair.y, pair.x} : Pair{pair.y, -pair.x};
  const Expr joined = Joined(turned, mode);
  Give(call, p * cos + (forward ? joined * sin : joined));
}

constexpr HandlerRow kRotaryRows[] = {
    {"hpu.rotary_pos_embedding.default", Rotary<true>},
    {"hpu.rotary_pos_embedding_backward.default", Rotary<false>},
};

}  // namespace

std::span<const HandlerRow> RotaryRows() { return kRotaryRows; }

}  // namespace hpu::compiler
