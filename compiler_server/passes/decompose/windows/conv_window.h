// This header defines the window of a convolution and the permutations of dimensions to the
// device's form and back.
#pragma once

#include "compiler_server/passes/decompose/call.h"

namespace hpu::compiler {

struct ConvWindow {
  Dims stride;
  Dims pads;  // low and high per dimension
  Dims dilation;
  int64_t groups = 1;
};

// Returns one value per dimension, from one value for all dimensions or one for each.
inline Dims PerDimension(Call& call, Dims values, int64_t spatial) {
  if (values.size() == 1) values.resize(spatial, values[0]);
  if (static_cast<int64_t>(values.size()) != spatial) {
    call.Refuse("window argument with ", values.size(), " entries for ", spatial, " dimensions");
    values.assign(spatial, 1);
  }
  return values;
}

inline Dims BothSides(const Dims& padding) {
  Dims pads;
  for (int64_t pad : padding) pads.insert(pads.end(), {pad, pad});
  return pads;
}

inline Dims ChannelsLast(int64_t rank) {
  Dims perm = {0};
  for (int64_t i = 2; i < rank; ++i) perm.push_back(i);
  perm.push_back(1);
  return perm;
}

inline Dims ChannelsFirst(int64_t rank) {
  Dims perm = {0, rank - 1};
  for (int64_t i = 1; i < rank - 1; ++i) perm.push_back(i);
  return perm;
}

// Calls `emit` with x [N, C, spatial] as [N, spatial, C] and returns its result as [N, C, spatial].
// If the call is refused it returns x, and nothing that was emitted is kept.
template <typename F>
Value* InChannelsLast(Call& call, Value* x, F emit) {
  const int64_t rank = x->type.rank();
  Value* y = emit(call.b.Permute(x, ChannelsLast(rank)));
  return call.refused() ? x : call.b.Permute(y, ChannelsFirst(rank));
}

// This permutation takes [K, C/groups, spatial] to [spatial, C/groups, K].
inline Dims WeightPerm(int64_t rank) {
  Dims perm;
  for (int64_t i = 2; i < rank; ++i) perm.push_back(i);
  perm.push_back(1);
  perm.push_back(0);
  return perm;
}

inline ir::Attrs WindowAttrs(const ConvWindow& window) {
  return {{AttrKey::kStride, window.stride},
          {AttrKey::kPads, window.pads},
          {AttrKey::kDilation, window.dilation},
          {AttrKey::kGroups, window.groups}};
}

}  // namespace hpu::compiler
