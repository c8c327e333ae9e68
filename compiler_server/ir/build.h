// Makes nodes with inferred result types. The first error sticks: later calls return a placeholder,
// so that a chain of calls needs one check of status() at its end.
#pragma once

#include <span>
#include <vector>

#include "base/status.h"
#include "compiler_server/ir/graph.h"

namespace hpu::ir {

class Builder {
 public:
  // Emits at the end of *order, which the caller later gives to the graph.
  Builder(Graph& graph, std::vector<Node*>* order);

  Graph& graph() { return graph_; }
  const absl::Status& status() const { return status_; }
  void Fail(absl::Status status);
  // These are for decompositions that may be refused: Rewind forgets the error, and the nodes
  // emitted since `mark`.
  size_t Mark() const { return order_->size(); }
  void Rewind(size_t mark);
  std::span<Node* const> Since(size_t mark) const { return std::span(*order_).subspan(mark); }
  // Sets the source line and the captured call of the nodes that follow.
  void SetContext(uint32_t source, uint32_t origin);

  Node* EmitNode(OpKind op, std::vector<Value*> operands, Attrs attrs = {},
                 const TensorType* declared = nullptr);
  // Returns the only result of a node. No device calculates with types of 8 bits that are floats,
  // so elementwise ops and reductions of them are emitted in f32, and the result is rounded.
  Value* Emit(OpKind op, std::vector<Value*> operands, Attrs attrs = {},
              const TensorType* declared = nullptr);

  // These return their operand if there is nothing to do.
  Value* Cast(Value* x, DType dtype);
  Value* Reshape(Value* x, Dims sizes);
  Value* Permute(Value* x, Dims perm);
  Value* Expand(Value* x, Dims sizes);
  Value* Slice(Value* x, int64_t dim, int64_t start, int64_t limit, int64_t step = 1);
  Value* Pad(Value* x, Dims low, Dims high, double value);

  Value* Unary(OpKind op, Value* x) { return Emit(op, {x}); }
  Value* Binary(OpKind op, Value* x, Value* y) { return Emit(op, {x, y}); }
  Value* Binary(OpKind op, Value* x, double y) {
    return Emit(op, {x, Number(y, x->type.dtype, op)});
  }
  Value* Reduce(OpKind op, Value* x, Dims dims, bool keepdim);
  Value* Matmul(Value* a, Value* b, bool transpose_a = false, bool transpose_b = false);
  Value* GroupedMatmul(Value* a, Value* ends, const std::vector<Value*>& bs, bool inner);
  Value* Concat(std::vector<Value*> values, int64_t dim);
  Value* Gather(Value* x, Value* index, int64_t dim);
  Value* Full(double value, DType dtype, Dims sizes);
  Value* Scalar(double value, DType dtype) { return Full(value, dtype, {}); }
  // Makes a number an operand of `op` beside values of `dtype`. It is in f32 if `dtype` is a
  // narrower float that does not hold the number and `op` keeps the precision.
  Value* Number(double value, DType dtype, OpKind op);
  Value* Iota(double start, double step, DType dtype, int64_t count);

 private:
  Graph& graph_;
  std::vector<Node*>* order_;
  absl::Status status_;
  Node* placeholder_ = nullptr;
  uint32_t source_ = 0;
  uint32_t origin_ = 0;
};

}  // namespace hpu::ir
