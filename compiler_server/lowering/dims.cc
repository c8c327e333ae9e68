#include "compiler_server/lowering/dims.h"

#include <algorithm>

namespace hpu::compiler {
namespace {

using ir::AttrKey;
using ir::Dims;
using ir::OpKind;

// `sizes` with leading ones added up to `rank`.
Dims Padded(const Dims& sizes, size_t rank) {
  Dims padded(rank - sizes.size(), 1);
  padded.insert(padded.end(), sizes.begin(), sizes.end());
  return padded;
}

}  // namespace

int64_t Product(const Dims& sizes, size_t begin, size_t end) {
  return NumElements(DimsView(sizes).subspan(begin, end - begin));
}

Dims AroundDim(const Dims& sizes, int64_t dim) {
  const auto at = static_cast<size_t>(dim);
  return {Product(sizes, 0, at), sizes[at], Product(sizes, at + 1, sizes.size())};
}

std::vector<Dims> MergeBroadcastDims(const std::vector<Dims>& sizes) {
  const size_t rank = sizes[0].size();
  std::vector<Dims> padded;
  for (const Dims& dims : sizes) padded.push_back(Padded(dims, rank));
  std::vector<Dims> merged(sizes.size());
  size_t previous = rank;  // the last dimension that was kept; rank = none
  for (size_t d = 0; d < rank; ++d) {
    if (padded[0][d] == 1) continue;
    const bool alike = previous < rank && std::all_of(
                                              padded.begin(), padded.end(),
                                              [&](const Dims& dims) {
                                                return (dims[previous] == padded[0][previous]) ==
                                                       (dims[d] == padded[0][d]);
                                              });
    for (size_t i = 0; i < merged.size(); ++i) {
      if (alike) {
        merged[i].back() *= padded[i][d];
      } else {
        merged[i].push_back(padded[i][d]);
      }
    }
    previous = d;
  }
  return merged;
}

MergedPermutation MergePermutation(const Dims& sizes, const Dims& perm) {
  // The groups of source dimensions, in the order of the result.
  std::vector<std::pair<int64_t, int64_t>> groups;  // first source dimension, merged size
  int64_t previous = -1;
  const auto next_real = [&](int64_t d) {
    do {
      ++d;
    } while (d < static_cast<int64_t>(sizes.size()) && sizes[d] == 1);
    return d;
  };
  for (int64_t p : perm) {
    if (sizes[p] == 1) continue;
    if (previous >= 0 && next_real(previous) == p) {
      groups.back().second *= sizes[p];
    } else {
      groups.emplace_back(p, sizes[p]);
    }
    previous = p;
  }
  std::vector<size_t> by_source(groups.size());
  for (size_t i = 0; i < groups.size(); ++i) by_source[i] = i;
  std::sort(by_source.begin(), by_source.end(),
            [&](size_t a, size_t b) { return groups[a].first < groups[b].first; });
  MergedPermutation merged;
  merged.perm.resize(groups.size());
  for (size_t s = 0; s < by_source.size(); ++s) {
    merged.sizes.push_back(groups[by_source[s]].second);
    merged.perm[by_source[s]] = static_cast<int64_t>(s);
  }
  return merged;
}

}  // namespace hpu::compiler
