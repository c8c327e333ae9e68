// One function per shape rule: result types of a call, or the constraint that it breaks. infer.cc
// chooses among them.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "compiler_server/ir/graph.h"

namespace hpu::ir {

using Types = std::vector<TensorType>;
using Result = absl::StatusOr<Types>;

// The call that is typed. Its form has been checked: operands and attributes are there.
struct Call {
  OpKind op;
  std::span<Value* const> operands;
  const Attrs& attrs;
  const TensorType* declared;

  const TensorType& type(size_t i) const { return operands[i]->type; }
  const Dims& sizes(size_t i) const { return operands[i]->type.sizes; }
  bool has(size_t i) const { return i < operands.size() && operands[i] != nullptr; }
  int64_t Int(AttrKey key) const { return std::get<int64_t>(*attrs.Find(key)); }
  bool Bool(AttrKey key) const { return std::get<bool>(*attrs.Find(key)); }
  const Dims& Ints(AttrKey key) const { return std::get<Dims>(*attrs.Find(key)); }
};

inline Types One(DType dtype, Dims sizes) { return {Contiguous(dtype, std::move(sizes))}; }

inline bool HasDim(const TensorType& type, int64_t dim) { return dim >= 0 && dim < type.rank(); }

// infer_contract.cc: products, windows, attention.
Result InferMatmul(const Call& call);
Result InferConv(const Call& call);
Result InferConvTranspose(const Call& call);
Result InferPool(const Call& call);
Result InferSdpa(const Call& call);

// infer_movement.cc: the same elements elsewhere.
Result InferReshape(const Call& call);
Result InferPermute(const Call& call);
Result InferExpand(const Call& call);
Result InferSlice(const Call& call);
Result InferConcat(const Call& call);
Result InferPad(const Call& call);
Result InferStrided(const Call& call);
Result InferStridedScatter(const Call& call);
Result InferGather(const Call& call);
Result InferGatherElements(const Call& call);
Result InferScatter(const Call& call);
Result InferTopk(const Call& call);

}  // namespace hpu::ir
