// Evaluates matrix products and attention.
#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "compiler_server/ir/evaluate.h"

namespace hpu::ir::evaluate {
namespace {

Dims BatchStrides(const Dims& batch, const Dims& sizes) {
  const size_t lead = sizes.size() - batch.size();
  const Dims own = RowMajorStrides(batch);
  Dims strides(sizes.size(), 0);
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch[i] != 1) strides[lead + i] = own[i];
  }
  return strides;
}

void Matmul(const Node& node, Operands in, HostTensor& out) {
  const HostTensor& a = *in[0];
  const HostTensor& b = *in[1];
  const bool ta = node.Bool(AttrKey::kTransposeA);
  const bool tb = node.Bool(AttrKey::kTransposeB);
  const int64_t rows = out.sizes[out.rank() - 2];
  const int64_t columns = out.sizes[out.rank() - 1];
  const int64_t inner = a.sizes[a.rank() - (ta ? 2 : 1)];
  const Dims batch(out.sizes.begin(), out.sizes.end() - 2);
  const Dims a_strides = BatchStrides({a.sizes.begin(), a.sizes.end() - 2}, batch);
  const Dims b_strides = BatchStrides({b.sizes.begin(), b.sizes.end() - 2}, batch);
  IndexWalk walk(batch);
  for (int64_t base = 0; base < out.elements(); base += rows * columns) {
    const double* left = a.data.data() + walk.Offset(a_strides) * rows * inner;
    const double* right = b.data.data() + walk.Offset(b_strides) * inner * columns;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < inner; ++k) {
          sum +=
              left[ta ? k * rows + i : i * inner + k] * right[tb ? j * inner + k : k * columns + j];
        }
        out.data[base + i * columns + j] = RoundTo(out.dtype, sum);
      }
    }
    walk.Next();
  }
}

// Returns the group of each of `count` rows or terms; the number of groups for those of none.
std::vector<int64_t> GroupsOf(const HostTensor& ends, int64_t count) {
  std::vector<int64_t> groups(count, ends.elements());
  int64_t begin = 0;
  for (int64_t g = 0; g < ends.elements(); ++g) {
    const int64_t end = std::min(count, static_cast<int64_t>(ends.data[g]));
    for (; begin < end; ++begin) groups[begin] = g;
  }
  return groups;
}

void MatmulGrouped(const Node& node, Operands in, HostTensor& out) {
  const HostTensor& a = *in[0];
  const HostTensor& ends = *in[1];
  const bool inner = node.Bool(AttrKey::kInner);
  const int64_t rows = a.sizes[0], terms = a.sizes[1], columns = out.sizes.back();
  const std::vector<int64_t> groups = GroupsOf(ends, inner ? terms : rows);
  const auto element_of_b = [&](int64_t group, int64_t k, int64_t n) {
    if (inner) return in[2]->data[k * columns + n];
    if (in[2]->rank() == 2) return in[2 + group]->data[k * columns + n];
    return in[2]->data[(group * terms + k) * columns + n];
  };
  for (int64_t i = 0; i < out.elements(); ++i) {
    const int64_t row = i / columns % rows, n = i % columns;
    double sum = 0;
    for (int64_t k = 0; k < terms; ++k) {
      const int64_t group = groups[inner ? k : row];
      const bool counts = inner ? group == i / columns / rows : group < ends.elements();
      if (counts) sum += a.data[row * terms + k] * element_of_b(group, k, n);
    }
    out.data[i] = RoundTo(out.dtype, sum);
  }
}

// Returns the number at (k, n) of weights that are i8 [N, K] or 4 bits in blocks (docs/ir.md).
double QuantizedWeight(const HostTensor& weights, int64_t k, int64_t n) {
  const int64_t inner = weights.sizes[1];
  if (weights.rank() == 2) return weights.data[n * inner + k];
  const int64_t half = weights.sizes[2];
  const int64_t block = n / (2 * half), column = n % (2 * half);
  const auto byte = static_cast<int>(weights.data[(block * inner + k) * half + column % half]);
  return (column < half ? byte % 16 : byte / 16) - 8;
}

void MatmulQuantized(Operands in, HostTensor& out) {
  const HostTensor& x = *in[0];
  const HostTensor* scale = in.size() > 2 ? in[2] : nullptr;
  const HostTensor* zero = in.size() > 3 ? in[3] : nullptr;
  const int64_t inner = x.sizes[1], columns = out.sizes[1];
  const int64_t group = scale == nullptr ? inner : inner / scale->sizes[0];
  for (int64_t i = 0; i < out.elements(); ++i) {
    const int64_t row = i / columns, n = i % columns;
    double sum = 0;
    for (int64_t k = 0; k < inner; ++k) {
      const int64_t factor = k / group * columns + n;
      double weight = QuantizedWeight(*in[1], k, n);
      if (scale != nullptr) weight *= scale->data[factor];
      if (zero != nullptr) weight += zero->data[factor];
      sum += x.data[row * inner + k] * weight;
    }
    out.data[i] = RoundTo(out.dtype, sum);
  }
}

// Computes the rows of attention's scores one at a time.
class ScoreRows {
 public:
  ScoreRows(const Node& node, const HostTensor& q, const HostTensor& k, const HostTensor* mask)
      : node_(node), q_(q), k_(k), mask_(mask), scores_(k.sizes[2]) {
    const Dims sizes = {q.sizes[0], q.sizes[1], q.sizes[2], k.sizes[2]};
    mask_strides_ = mask == nullptr ? Dims(4, 0) : BatchStrides(mask->sizes, sizes);
  }

  int64_t count() const { return q_.sizes[0] * q_.sizes[1] * q_.sizes[2]; }
  // The index of the (batch, key head) that row `row` of (batch, head, query) reads.
  int64_t KeyHead(int64_t row) const {
    const int64_t heads = q_.sizes[1], kv_heads = k_.sizes[1];
    const int64_t head = row / q_.sizes[2];
    return head / heads * kv_heads + head % heads / (heads / kv_heads);
  }

  const std::vector<double>& Of(int64_t row) {
    const int64_t heads = q_.sizes[1], rows = q_.sizes[2], depth = q_.sizes[3];
    const int64_t columns = k_.sizes[2];
    const int64_t i = row % rows, head = row / rows % heads, batch = row / rows / heads;
    const double* keys = &k_.data[KeyHead(row) * columns * depth];
    for (int64_t j = 0; j < columns; ++j) {
      double score = 0;
      for (int64_t d = 0; d < depth; ++d) {
        score += q_.data[row * depth + d] * keys[j * depth + d];
      }
      score *= node_.Float(AttrKey::kScale);
      if (mask_ != nullptr) {
        score += mask_->data[batch * mask_strides_[0] + head * mask_strides_[1] +
                             i * mask_strides_[2] + j * mask_strides_[3]];
      }
      if (node_.Bool(AttrKey::kCausal) && j > i) score = -INFINITY;
      scores_[j] = score;
    }
    return scores_;
  }

 private:
  const Node& node_;
  const HostTensor& q_;
  const HostTensor& k_;
  const HostTensor* mask_;
  Dims mask_strides_;
  std::vector<double> scores_;
};

// The factors of the weights: 1 / keep or 0, as the generator decides.
class Kept {
 public:
  Kept(const Node& node, Operands in, size_t seed) {
    if (node.attrs.Find(AttrKey::kKeep) == nullptr || node.Float(AttrKey::kKeep) == 1) return;
    keep_ = node.Float(AttrKey::kKeep);
    seed_ = static_cast<uint64_t>(in[seed]->data[0]);
    first_ = static_cast<uint64_t>(in[seed + 1]->data[0] + double(node.Int(AttrKey::kBase)));
  }

  // The factor for number `place` of the draw.
  double Factor(int64_t place) const {
    if (keep_ == 1) return 1;
    const auto number = static_cast<uint64_t>(place);
    const uint32_t bits = PhiloxBlockOf(seed_, first_ + number / 4)[number % 4];
    return UniformFromBits(bits) < static_cast<float>(keep_) ? 1 / keep_ : 0;
  }

 private:
  double keep_ = 1;
  uint64_t seed_ = 0;
  uint64_t first_ = 0;
};

// If the node has results for its gradient, also computes those: the logarithm of each row's sum of
// powers, or its maximum and 1 / the sum of its powers.
void Sdpa(const Node& node, Operands in, std::vector<HostTensor>& out) {
  ScoreRows rows(node, *in[0], *in[1], in.size() > 3 ? in[3] : nullptr);
  const Kept kept(node, in, 4);
  const HostTensor& v = *in[2];
  const int64_t columns = v.sizes[2], width = v.sizes[3];
  for (int64_t row = 0; row < rows.count(); ++row) {
    const std::vector<double>& scores = rows.Of(row);
    const double peak = columns == 0 ? -INFINITY : *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (const double score : scores) sum += peak == -INFINITY ? 0 : std::exp(score - peak);
    // A row that attends to nothing is zero, as in PyTorch, and so are its gradients.
    if (out.size() == 3) {
      out[1].data[row] = peak == -INFINITY ? 0 : RoundTo(out[1].dtype, peak);
      out[2].data[row] = peak == -INFINITY ? 1 : RoundTo(out[2].dtype, 1 / sum);
    } else if (out.size() == 2) {
      out[1].data[row] = peak == -INFINITY ? 0 : RoundTo(out[1].dtype, peak + std::log(sum));
    }
    if (peak == -INFINITY) continue;
    const double* values = &v.data[rows.KeyHead(row) * columns * width];
    for (int64_t d = 0; d < width; ++d) {
      double value = 0;
      for (int64_t j = 0; j < columns; ++j) {
        value +=
            std::exp(scores[j] - peak) * kept.Factor(row * columns + j) * values[j * width + d];
      }
      out[0].data[row * width + d] = RoundTo(out[0].dtype, value / sum);
    }
  }
}

void SdpaBackward(const Node& node, Operands in, std::vector<HostTensor>& out) {
  const HostTensor& gradient = *in[0];
  const HostTensor& q = *in[1];
  const HostTensor& k = *in[2];
  const HostTensor& v = *in[3];
  const HostTensor& result = *in[4];
  const bool has_maximum = node.op == OpKind::kSdpaTrainBackward;
  const size_t mask = has_maximum ? 7 : 6;
  const Kept kept(node, in, mask + 1);
  ScoreRows rows(node, q, k, in.size() > mask ? in[mask] : nullptr);
  const int64_t columns = k.sizes[2], depth = q.sizes[3], width = v.sizes[3];
  for (int64_t row = 0; row < rows.count(); ++row) {
    const std::vector<double>& scores = rows.Of(row);
    const double* g = &gradient.data[row * width];
    double dot = 0;
    for (int64_t d = 0; d < width; ++d) dot += g[d] * result.data[row * width + d];
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t key = rows.KeyHead(row) * columns + j;
      const double power = std::exp(scores[j] - in[5]->data[row]);
      const double weight = has_maximum ? power * in[6]->data[row] : power;
      const double factor = kept.Factor(row * columns + j);
      double product = 0;
      for (int64_t d = 0; d < width; ++d) {
        product += g[d] * v.data[key * width + d];
        out[2].data[key * width + d] += weight * factor * g[d];
      }
      const double slope = weight * (product * factor - dot) * node.Float(AttrKey::kScale);
      for (int64_t d = 0; d < depth; ++d) {
        out[0].data[row * depth + d] += slope * k.data[key * depth + d];
        out[1].data[key * depth + d] += slope * q.data[row * depth + d];
      }
    }
  }
  for (HostTensor& tensor : out) {
    for (double& value : tensor.data) value = RoundTo(tensor.dtype, value);
  }
}

}  // namespace

void Contract(const Node& node, Operands in, std::vector<HostTensor>& out) {
  switch (node.op) {
    case OpKind::kMatmul:
      return Matmul(node, in, out[0]);
    case OpKind::kMatmulGrouped:
      return MatmulGrouped(node, in, out[0]);
    case OpKind::kMatmulQuantized:
      return MatmulQuantized(in, out[0]);
    case OpKind::kSdpa:
    case OpKind::kSdpaLogsumexp:
    case OpKind::kSdpaTrain:
      return Sdpa(node, in, out);
    case OpKind::kSdpaBackward:
    case OpKind::kSdpaTrainBackward:
      return SdpaBackward(node, in, out);
    default:
      return Convolution(node, in, out[0]);
  }
}

}  // namespace hpu::ir::evaluate
