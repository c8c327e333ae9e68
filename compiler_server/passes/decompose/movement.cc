// Rewrites calls that rearrange elements: joining, padding, repeating, triangles.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "compiler_server/passes/decompose/expression.h"

namespace hpu::compiler {
namespace {

void Cat(Call& call) {
  std::vector<Value*> parts;
  for (Value* part : call.Tensors("tensors")) {
    // PyTorch ignores empty vectors among tensors of any rank.
    if (part->type.rank() == 1 && part->type.sizes[0] == 0) continue;
    parts.push_back(call.b.Cast(part, call.dtype()));
  }
  if (parts.empty()) return call.Return(call.b.Full(0, call.dtype(), call.type().sizes));
  const int64_t dim = call.Dim("dim", parts[0]->type.rank());
  call.Return(call.b.Concat(std::move(parts), dim));
}

void Stack(Call& call) {
  const int64_t dim = call.Dim("dim", call.type().rank());
  std::vector<Value*> parts;
  for (Value* part : call.Tensors("tensors")) {
    if (call.refused()) return;
    Dims sizes = part->type.sizes;
    if (static_cast<int64_t>(sizes.size()) + 1 != call.type().rank()) {
      return call.Refuse("parts of another rank");
    }
    sizes.insert(sizes.begin() + dim, 1);
    parts.push_back(call.b.Cast(call.b.Reshape(part, sizes), call.dtype()));
  }
  if (parts.empty()) return call.Refuse("nothing to stack");
  call.Return(call.b.Concat(std::move(parts), dim));
}

// `pad` is (low, high) of the last dimension, then of the one before, and so on. Negative values
// cut elements off.
void EmitPad(Call& call, double value) {
  Value* x = call.Tensor(kSelf);
  if (x->type.dtype == DType::kBool) value = value != 0 ? 1 : 0;
  const Dims pad = call.Ints("pad");
  const int64_t rank = x->type.rank();
  if (pad.size() % 2 != 0 || static_cast<int64_t>(pad.size()) > 2 * rank) {
    return call.Refuse("padding ", ir::ToText(pad), " of ", ToText(x->type));
  }
  Dims low(rank, 0);
  Dims high(rank, 0);
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const int64_t dim = rank - 1 - static_cast<int64_t>(i);
    low[dim] = std::max<int64_t>(pad[2 * i], 0);
    high[dim] = std::max<int64_t>(pad[2 * i + 1], 0);
    const int64_t start = std::max<int64_t>(-pad[2 * i], 0);
    const int64_t cut = std::max<int64_t>(-pad[2 * i + 1], 0);
    x = call.b.Slice(x, dim, start, x->type.sizes[dim] - cut);
    if (call.refused()) return;
  }
  const auto positive = [](int64_t v) { return v > 0; };
  const bool grows = std::any_of(low.begin(), low.end(), positive) ||
                     std::any_of(high.begin(), high.end(), positive);
  if (!grows) return call.Return(x);
  // The device pads with integers of 32 bits.
  if (IsFloat(x->type.dtype) || std::fabs(value) <= std::numeric_limits<int32_t>::max()) {
    return call.Return(call.b.Pad(x, low, high, value));
  }
  const Expr inside{&call, call.b.Pad(call.b.Full(1, DType::kBool, x->type.sizes), low, high, 0)};
  Give(call, Where(inside, Expr{&call, call.b.Pad(x, low, high, 0)}, value));
}
void ConstantPad(Call& call) { EmitPad(call, call.Stored("value", call.dtype())); }
void Pad(Call& call) {
  if (call.Text("mode") != "constant") return call.Refuse("padding mode");
  EmitPad(call, call.Stored("value", call.dtype(), 0));
}

// Copies along the dimensions: [a, b] x (r, s) -> [r, a, s, b] -> [r * a, s * b].
void EmitRepeat(Call& call, Dims repeats) {
  Value* x = call.Tensor(kSelf);
  Dims sizes = x->type.sizes;
  if (repeats.size() < sizes.size()) {  // tile(): missing repeats are 1
    repeats.insert(repeats.begin(), sizes.size() - repeats.size(), 1);
  }
  sizes.insert(sizes.begin(), repeats.size() - sizes.size(), 1);
  Dims apart;
  Dims copied;
  for (size_t i = 0; i < sizes.size(); ++i) {
    apart.insert(apart.end(), {1, sizes[i]});
    copied.insert(copied.end(), {repeats[i], sizes[i]});
  }
  if (copied.size() > ir::kMaxRank) return call.Refuse("repeat of ", sizes.size(), " dimensions");
  x = call.b.Expand(call.b.Reshape(x, apart), copied);
  call.Return(call.b.Reshape(x, call.type().sizes));
}

void Repeat(Call& call) { EmitRepeat(call, call.Ints("repeats")); }
void Tile(Call& call) { EmitRepeat(call, call.Ints("dims")); }

// repeat_interleave(x, n, dim) repeats each element n times in a row.
void RepeatInterleave(Call& call) {
  Value* x = call.Tensor(kSelf);
  const int64_t count = call.Int("repeats");
  const bool flat = !call.Has("dim");
  if (flat) x = call.b.Reshape(x, {x->type.elements()});
  const int64_t dim = flat ? 0 : call.Dim("dim", x->type.rank());
  if (call.refused()) return;
  Dims sizes = x->type.sizes;
  sizes.insert(sizes.begin() + dim + 1, 1);
  x = call.b.Reshape(x, sizes);
  sizes[dim + 1] = count;
  call.Return(call.b.Reshape(call.b.Expand(x, sizes), call.type().sizes));
}

void Roll(Call& call) {
  Value* x = call.Tensor(kSelf);
  const Dims shifts = call.Ints("shifts");
  Dims dims = call.Ints("dims");
  const bool flat = dims.empty();
  if (flat) {
    x = call.b.Reshape(x, {x->type.elements()});
    dims = {0};
  }
  if (shifts.size() != dims.size()) return call.Refuse("roll with unequal shifts and dims");
  for (size_t i = 0; i < dims.size() && !call.refused(); ++i) {
    const int64_t dim = call.WrapDim(dims[i], x->type.rank());
    if (call.refused() || x->type.sizes[dim] == 0) continue;
    const int64_t size = x->type.sizes[dim];
    const int64_t shift = ((shifts[i] % size) + size) % size;
    if (shift == 0) continue;
    x = call.b.Concat(
        {call.b.Slice(x, dim, size - shift, size), call.b.Slice(x, dim, 0, size - shift)}, dim);
  }
  call.Return(flat ? call.b.Reshape(x, call.type().sizes) : x);
}

Value* Flipped(Call& call, Value* x, const Dims& dims) {
  for (int64_t dim : dims) {
    dim = call.WrapDim(dim, x->type.rank());
    if (call.refused()) return x;
    const int64_t size = x->type.sizes[dim];
    if (size < 2) continue;
    Value* backwards = call.b.Iota(static_cast<double>(size - 1), -1, DType::kI32, size);
    x = call.b.Gather(x, backwards, dim);
  }
  return x;
}
void Flip(Call& call) { call.Return(Flipped(call, call.Tensor(kSelf), call.Ints("dims"))); }

// rot90(x, k, dims)
void QuarterTurns(Call& call) {
  Value* x = call.Tensor(kSelf);
  Dims dims = call.Ints("dims");
  if (dims.size() != 2) return call.Refuse("no plane to turn in");
  for (int64_t& dim : dims) dim = call.WrapDim(dim, x->type.rank());
  const int64_t turns = ((call.Int("k") % 4) + 4) % 4;
  if (call.refused()) return;
  if (turns == 0) return call.Return(x);
  if (turns == 2) return call.Return(Flipped(call, x, dims));
  Dims perm = Call::AllDims(x->type.rank());
  std::swap(perm[dims[0]], perm[dims[1]]);
  call.Return(call.b.Permute(Flipped(call, x, {dims[turns == 1 ? 1 : 0]}), perm));
}

// channel_shuffle(x, groups): [N, groups * C, ..] -> [N, C * groups, ..]
void ChannelShuffle(Call& call) {
  Value* x = call.Tensor(kSelf);
  const Dims sizes = x->type.sizes;
  const int64_t groups = call.Int("groups");
  if (call.refused() || sizes.size() < 3 || groups < 1 || sizes[1] % groups != 0) {
    return call.Refuse("channels of ", ToText(x->type), " in ", groups, " groups");
  }
  x = call.b.Reshape(
      x, {sizes[0], groups, sizes[1] / groups, NumElements(std::span(sizes).subspan(2))});
  call.Return(call.b.Reshape(call.b.Permute(x, {0, 2, 1, 3}), sizes));
}

// broadcast_tensors(tensors) expands each tensor to its declared sizes.
void BroadcastTensors(Call& call) {
  std::vector<Value*> results;
  for (Value* x : call.Tensors("tensors")) {
    results.push_back(call.b.Expand(x, call.type(results.size()).sizes));
  }
  call.Return(std::move(results));
}

// Keeps the elements whose column - row is on the wanted side of the diagonal.
void Triangle(Call& call, OpKind keep) {
  Value* x = call.Tensor(kSelf);
  const int64_t rank = x->type.rank();
  if (rank < 2) return call.Refuse("triangle of ", ToText(x->type));
  const int64_t rows = x->type.sizes[rank - 2];
  Value* row = call.b.Reshape(call.b.Iota(0, 1, DType::kI32, rows), {rows, 1});
  Value* column = call.b.Iota(0, 1, DType::kI32, x->type.sizes[rank - 1]);
  const auto diagonal = static_cast<double>(call.Int("diagonal"));
  Value* edge = call.b.Binary(OpKind::kAdd, row, diagonal);
  Value* zero = call.b.Scalar(0, x->type.dtype);
  call.Return(call.b.Emit(OpKind::kWhere, {call.b.Binary(keep, column, edge), x, zero}));
}
void Tril(Call& call) { Triangle(call, OpKind::kLe); }
void Triu(Call& call) { Triangle(call, OpKind::kGe); }

// Returns x with the window that begins at `start` in one dimension replaced by `source`.
Value* ReplaceWindow(Call& call, Value* x, Value* source, int64_t dim, int64_t start) {
  const int64_t limit = start + source->type.sizes[dim];
  std::vector<Value*> parts;
  if (start > 0) parts.push_back(call.b.Slice(x, dim, 0, start));
  parts.push_back(source);
  if (limit < x->type.sizes[dim]) {
    parts.push_back(call.b.Slice(x, dim, limit, x->type.sizes[dim]));
  }
  return call.b.Concat(std::move(parts), dim);
}

// slice_scatter(x, source, dim, start, end, step)
void SliceScatter(Call& call) {
  Value* x = call.Tensor(kSelf);
  Value* source = call.b.Cast(call.Tensor("src"), x->type.dtype);
  const int64_t dim = call.Dim("dim", x->type.rank());
  if (call.Int("step") != 1) return call.Refuse("slice_scatter with a step");
  if (call.refused() || source->type.rank() != x->type.rank()) return call.Refuse("source rank");
  const int64_t size = x->type.sizes[dim];
  int64_t start = call.Int("start", 0);
  if (start < 0) start += size;
  start = std::clamp<int64_t>(start, 0, size);
  call.Return(ReplaceWindow(call, x, source, dim, start));
}

// select_scatter(x, source, dim, index)
void SelectScatter(Call& call) {
  Value* x = call.Tensor(kSelf);
  const int64_t dim = call.Dim("dim", x->type.rank());
  if (call.refused()) return;
  const int64_t index = call.Dim("index", x->type.sizes[dim]);
  Dims sizes = x->type.sizes;
  sizes[dim] = 1;
  Value* source = call.b.Cast(call.b.Reshape(call.Tensor("src"), sizes), x->type.dtype);
  if (call.refused()) return;
  call.Return(ReplaceWindow(call, x, source, dim, index));
}

// [.., C * r * r, H, W] -> [.., C, H * r, W * r]
void PixelShuffle(Call& call) {
  Value* x = call.Tensor(kSelf);
  const int64_t factor = call.Int("upscale_factor");
  const int64_t rank = x->type.rank();
  if (rank < 3 || factor < 1) return call.Refuse("pixel_shuffle of ", ToText(x->type));
  const Dims& sizes = x->type.sizes;
  const int64_t batch = NumElements(std::span(sizes).first(rank - 3));
  Value* y = call.b.Reshape(x, {batch, sizes[rank - 3] / (factor * factor), factor, factor,
                                sizes[rank - 2], sizes[rank - 1]});
  y = call.b.Permute(y, {0, 1, 4, 2, 5, 3});
  call.Return(call.b.Reshape(y, call.type().sizes));
}

constexpr HandlerRow kMovementRows[] = {
    {"aten.broadcast_tensors.default", BroadcastTensors},
    {"aten.cat.default", Cat},
    {"aten.channel_shuffle.default", ChannelShuffle},
    {"aten.concat.default", Cat},
    {"aten.constant_pad_nd.default", ConstantPad},
    {"aten.flip.default", Flip},
    {"aten.pad.default", Pad},
    {"aten.pixel_shuffle.default", PixelShuffle},
    {"aten.repeat.default", Repeat},
    {"aten.repeat_interleave.self_int", RepeatInterleave},
    {"aten.roll.default", Roll},
    {"aten.rot90.default", QuarterTurns},
    {"aten.select_scatter.default", SelectScatter},
    {"aten.slice_scatter.default", SliceScatter},
    {"aten.stack.default", Stack},
    {"aten.tile.default", Tile},
    {"aten.tril.default", Tril},
    {"aten.triu.default", Triu},
};

}  // namespace

std::span<const HandlerRow> MovementRows() { return kMovementRows; }

}  // namespace hpu::compiler
