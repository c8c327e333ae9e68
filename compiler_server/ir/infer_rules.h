// There is one function per shape rule, which returns the result types of a call or the constraint
// that it breaks. infer.cc chooses among them. A rule is a function and its name in proto/ops.yaml.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "compiler_server/ir/graph.h"

namespace hpu::ir {

using Types = std::vector<TensorType>;
using Result = absl::StatusOr<Types>;

// The call whose types are inferred. Its form has been checked: operands and attributes are there.
struct Call {
  OpKind op;
  std::span<Value* const> operands;
  const Attrs& attrs;
  const TensorType* declared;

  const TensorType& type(size_t i) const { return operands[i]->type; }
  const Dims& sizes(size_t i) const { return operands[i]->type.sizes; }
  bool has(size_t i) const { return i < operands.size() && operands[i] != nullptr; }
  int64_t Int(AttrKey key) const { return std::get<int64_t>(*attrs.Find(key)); }
  double Float(AttrKey key) const { return std::get<double>(*attrs.Find(key)); }
  bool Bool(AttrKey key) const { return std::get<bool>(*attrs.Find(key)); }
  const Dims& Ints(AttrKey key) const { return std::get<Dims>(*attrs.Find(key)); }
};

inline Types One(DType dtype, Dims sizes) { return {Contiguous(dtype, std::move(sizes))}; }

inline bool HasDim(const TensorType& type, int64_t dim) { return dim >= 0 && dim < type.rank(); }

// The shapes that rows of proto/ops.yaml name: InferMatmul for `matmul`. Products, windows and
// attention are in infer_contract.cc, ops that only move elements in infer_movement.cc, and the
// others in infer.cc.
#define HPU_SHAPE_RULE(function) Result function(const Call& call);
#include "compiler_server/ir/shape_rules.inc"
#undef HPU_SHAPE_RULE

}  // namespace hpu::ir
