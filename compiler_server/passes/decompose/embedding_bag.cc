// Rewrites bags of embeddings, which sum the rows of a table by bag, and the gradient of the table.
#include <limits>

#include "compiler_server/passes/decompose/expression.h"
#include "compiler_server/passes/decompose/indexing.h"
#include "compiler_server/passes/decompose/selection.h"

namespace hpu::compiler {
namespace {

enum Mode { kSum = 0, kMean = 1, kMax = 2 };

struct Bags {
  Value* index = nullptr;  // [N]
  Value* bag = nullptr;    // [N]: the bag that each index is in
  Expr weight;             // [N, 1]: the weight of each row in its bag, 0 for padding
  Expr padded;             // [N, 1]: whether the index is padding; empty if there is none
  Expr size;               // [bags]: number of rows in each bag, without padding
  int64_t each = 0;        // indices in each bag, if it is known to be the same for all
};

// Returns how many of `count` indices each of the bags has where their offsets are a range, as they
// are for indices with two dimensions, and 0 if that is not known.
int64_t IndicesOfEach(const Value* offsets, int64_t bags, int64_t count) {
  const ir::Node* range = offsets->producer;
  while (range != nullptr && range->op == OpKind::kCast) range = range->operands[0]->producer;
  if (range == nullptr || range->op != OpKind::kIota || count % bags != 0) return 0;
  const bool is_equal = offsets->type.elements() == bags && range->Float(AttrKey::kStart) == 0 &&
                        range->Float(AttrKey::kStep) == static_cast<double>(count / bags);
  return is_equal ? count / bags : 0;
}

// Returns x, which has a row for each bag, with a row for each index.
Expr RowOfEachIndex(Call& call, const Bags& bags, Expr x) {
  if (bags.each == 0) return {&call, call.b.Gather(x.value, bags.bag, 0)};
  Dims sizes = x.sizes();
  sizes.insert(sizes.begin() + 1, 1);
  x = Reshape(x, sizes);
  sizes[1] = bags.each;
  x = Expand(x, sizes);
  sizes.erase(sizes.begin());
  sizes[0] = bags.index->type.elements();
  return Reshape(x, sizes);
}

// Returns the sums over the bags of x, which has a row for each index.
Expr SumOfEachBag(Call& call, const Bags& bags, Expr x, int64_t count) {
  Dims sizes = x.sizes();
  sizes[0] = count;
  if (bags.each == 0) {
    Value* zeros = call.b.Full(0, DType::kF32, sizes);
    return {&call, AddRows(call, zeros, 0, bags.bag, x.value)};
  }
  sizes.insert(sizes.begin() + 1, bags.each);
  return Sum(Reshape(x, sizes), {1}, false);
}

// The bag of an index is the number of offsets that are not larger than its place, less one.
Bags ReadBags(Call& call, int64_t bags) {
  Bags result;
  Value* index = call.Tensor("indices");
  Value* offsets = call.Tensor("offsets");
  const int64_t mode = call.Int("mode");
  if (index->type.rank() != 1 || offsets->type.rank() != 1 || index->type.elements() == 0 ||
      bags == 0) {
    call.Refuse("embedding bags of ", ToText(index->type));
  }
  if (call.refused()) return result;
  const int64_t count = index->type.elements();
  result.index = index;
  result.each = IndicesOfEach(offsets, bags, count);
  if (result.each > 0) {
    result.bag = RowOfEachIndex(call, result, Positions(call, bags, DType::kI32)).value;
  } else {
    const Expr starts{&call, call.b.Slice(call.b.Cast(offsets, DType::kI32), 0, 0, bags)};
    const Expr places = Positions(call, count, DType::kI32);
    result.bag = (EdgesBefore(starts, places, /*right=*/true) - 1.0).value;
  }
  Expr counts{&call, call.b.Full(1, DType::kF32, {count, 1})};
  const int64_t padding = call.Int("padding_idx");
  if (padding >= 0) {
    const Expr padded{&call, call.b.Binary(OpKind::kEq, index, static_cast<double>(padding))};
    result.padded = Reshape(padded, {count, 1});
    counts = Where(result.padded, 0.0, counts);
  }
  result.size = SumOfEachBag(call, result, Reshape(counts, {count}), bags);
  result.weight = counts;
  if (mode == kMean) {
    const Expr size = RowOfEachIndex(call, result, result.size);
    result.weight = result.weight / Reshape(Max(size, 1), {count, 1});
  }
  if (Value* each = call.OptionalTensor("per_sample_weights")) {
    result.weight = result.weight * Reshape(In(call, each), {count, 1});
  }
  return result;
}

// Returns x, which has a row for each index, times the weights of the indices. Padding gives 0,
// also where its row holds infinities or NaN.
Expr Weighted(const Bags& bags, Expr x) {
  const Expr product = x * bags.weight;
  return bags.padded.value == nullptr ? product : Where(bags.padded, 0.0, product);
}

// The largest element of each column over the rows of each bag, and the index of the row that it is
// in. If several are equal, the first one counts. A bag without rows has 0. Padding does not count.
struct BagMaxima {
  Expr value;  // [bags, columns]
  Expr index;
};
BagMaxima MaximaOf(Call& call, const Bags& bags, Value* weight) {
  const int64_t count = bags.index->type.elements();
  const int64_t columns = weight->type.sizes[1];
  const Dims sizes = {bags.size.sizes()[0], columns};
  const auto join = [&](OpKind op, double start, Expr source) {
    Value* index = call.b.Expand(call.b.Reshape(bags.bag, {count, 1}), {count, columns});
    Value* first = call.b.Full(start, DType::kF32, sizes);
    return Expr{&call,
                call.b.Emit(op, {first, index, source.value}, {{AttrKey::kDim, int64_t{0}}})};
  };
  const Expr rows = In(call, call.b.Gather(weight, bags.index, 0));
  const Expr counts = bags.weight > 0.0;
  const Expr largest = join(OpKind::kScatterMax, -kInfinity, Where(counts, rows, -kInfinity));
  const Expr of_row{&call, call.b.Gather(largest.value, bags.bag, 0)};
  const auto last = static_cast<double>(count - 1);
  const Expr places{&call, call.b.Reshape(call.b.Iota(0, 1, DType::kF32, count), {count, 1})};
  const Expr first = join(OpKind::kScatterMin, last,
                          Where(counts & (rows == of_row), Expand(places, rows.sizes()), last));
  Value* flat = call.b.Cast(Reshape(first, {sizes[0] * columns}).value, DType::kI32);
  const Expr index{&call, call.b.Reshape(call.b.Gather(bags.index, flat, 0), sizes)};
  const Expr filled = Reshape(bags.size, {sizes[0], 1}) > 0.0;
  return {Where(filled, largest, 0.0), Where(filled, index, 0.0)};
}

// _embedding_bag(weight, indices, offsets, ...) returns the sums, the bag of each index, the sizes
// of the bags, and the indices of the maxima, which only that mode fills. A result that no gradient
// of the mode reads is empty or zeros. If the offsets end with a last one, PyTorch declares one
// more size than there are bags.
void EmbeddingBag(Call& call) {
  const Bags bags = ReadBags(call, call.type().sizes[0]);
  if (call.refused()) return;
  const bool of_maxima = call.Int("mode") == kMax;
  BagMaxima maxima;
  std::vector<Value*> results;
  if (of_maxima) {
    maxima = MaximaOf(call, bags, call.Tensor("weight"));
    results = {Declared(call, 0, maxima.value)};
  } else {
    const Expr rows = Weighted(bags, In(call, call.b.Gather(call.Tensor("weight"), bags.index, 0)));
    results = {Declared(call, 0, SumOfEachBag(call, bags, rows, call.type().sizes[0]))};
  }
  const int64_t bag_count = bags.size.sizes()[0];
  const bool has_end = call.type(2).sizes == Dims{bag_count + 1};  // true with a last offset
  Value* sizes = bags.size.value;
  if (has_end) sizes = call.b.Concat({sizes, call.b.Full(0, DType::kF32, {1})}, 0);
  Value* const statistics[] = {bags.bag, sizes, of_maxima ? maxima.index.value : nullptr};
  for (size_t i = 1; i < call.result_count(); ++i) {
    const TensorType& type = call.type(i);
    Value* statistic = statistics[i - 1];
    if (statistic == nullptr || type.elements() == 0) {
      results.push_back(call.b.Full(0, type.dtype, type.sizes));
    } else if (statistic->type.sizes == type.sizes) {
      results.push_back(call.b.Cast(statistic, type.dtype));
    } else {
      return call.Refuse("embedding bags whose statistic ", i, " is ", ToText(type));
    }
  }
  call.Return(std::move(results));
}

// _embedding_bag_backward(grad, indices, offsets, offset2bag, bag_size, maximum_indices,
// num_weights, scale_grad_by_freq, mode, sparse, per_sample_weights, padding_idx)
void EmbeddingBagBackward(Call& call) {
  Value* grad = call.Tensor("grad");
  if (call.Bool("scale_grad_by_freq")) return call.Refuse("embedding bags scaled by frequency");
  if (call.Bool("sparse")) return call.Refuse("sparse gradient");
  if (grad->type.rank() != 2) return call.Refuse("embedding bags of ", ToText(grad->type));
  Value* zeros = call.b.Full(0, DType::kF32, call.type().sizes);
  if (call.Int("mode") == kMax) {
    const int64_t bags = grad->type.sizes[0];
    Value* size = call.Tensor("bag_size");
    if (size->type.rank() != 1 || size->type.sizes[0] < bags) {
      return call.Refuse("sizes of ", bags, " embedding bags in ", ToText(size->type));
    }
    size = call.b.Reshape(call.b.Slice(size, 0, 0, bags), {bags, 1});
    const Expr filled{&call, call.b.Binary(OpKind::kGt, size, 0.0)};
    const Expr given = Where(filled, In(call, grad), 0.0);
    Value* index = call.Tensor("maximum_indices");
    return Give(call, {&call, AddAt(call, zeros, 0, index, given.value)});
  }
  const Bags bags = ReadBags(call, grad->type.sizes[0]);
  if (call.refused()) return;
  const Expr rows = Weighted(bags, RowOfEachIndex(call, bags, In(call, grad)));
  Give(call, {&call, AddRows(call, zeros, 0, bags.index, rows.value)});
}

constexpr HandlerRow kEmbeddingBagRows[] = {
    {"aten._embedding_bag.default", EmbeddingBag},
    {"aten._embedding_bag_backward.default", EmbeddingBagBackward},
    {"aten._embedding_bag_forward_only.default", EmbeddingBag},
};

}  // namespace

std::span<const HandlerRow> EmbeddingBagRows() { return kEmbeddingBagRows; }

}  // namespace hpu::compiler
