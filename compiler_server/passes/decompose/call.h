// One captured ATen call while it is being rewritten: typed access to its arguments by the schema's
// position and name, and a builder for what replaces it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "compiler_server/ir/build.h"
#include "compiler_server/ir/graph.h"

namespace hpu::compiler {

using ir::AttrKey;
using ir::Dims;
using ir::OpKind;
using ir::TensorType;
using ir::Value;

// An argument: position in the schema and name. Positional or by keyword in the capture.
struct Arg {
  size_t position;
  std::string_view name;
};

class Call {
 public:
  Call(ir::Node& node, ir::Builder& builder, const std::vector<uint32_t>& uses)
      : node_(node), b(builder), uses_(uses) {}

  const std::string& target() const { return node_.aten->target; }
  // Declared types and use of the results.
  const TensorType& type(size_t result = 0) const { return node_.results[result]->type; }
  DType dtype() const { return type().dtype; }
  size_t result_count() const { return node_.results.size(); }
  bool used(size_t result) const { return uses_[node_.results[result]->id] > 0; }

  bool Has(Arg arg) const;  // present and not None
  bool IsTensor(Arg arg) const;
  bool IsNumber(Arg arg) const;
  DType NumberType(Arg arg) const;  // as PyTorch takes a Python number: bool, i64 or f32
  // A wrong kind of argument refuses the call and returns a harmless value.
  Value* Tensor(Arg arg);
  Value* OptionalTensor(Arg arg);  // nullptr if None
  std::vector<Value*> Tensors(Arg arg);
  std::vector<Value*> OptionalTensors(Arg arg);  // nullptr where an item is None
  // A tensor as it is, a number as 0-d constant; in `dtype`.
  Value* Operand(Arg arg, DType dtype);
  int64_t Int(Arg arg);
  int64_t Int(Arg arg, int64_t otherwise);
  double Float(Arg arg, double otherwise);  // also of an int or bool
  std::vector<double> Floats(Arg arg);      // empty if absent
  bool Bool(Arg arg, bool otherwise);
  std::string Text(Arg arg, std::string_view otherwise);
  Dims Ints(Arg arg, Dims otherwise = {});  // a single int counts as a list of one
  bool DeviceIs(Arg arg, std::string_view device) const;
  // Dimension index, wrapped into [0, rank).
  int64_t Dim(Arg arg, int64_t rank);
  int64_t Dim(Arg arg, int64_t rank, int64_t otherwise);
  int64_t WrapDim(int64_t dim, int64_t rank);
  // Sorted, wrapped; all dimensions if absent or (as reductions have it) empty.
  Dims ReducedDims(Arg arg, int64_t rank);

  // No recipe: the call stays and runs eagerly. The first reason wins.
  template <typename... Parts>
  void Refuse(const Parts&... parts) {
    b.Fail(Unimplemented(parts...));
  }
  bool refused() const { return !b.status().ok(); }

  void Return(Value* value) { results_ = {value}; }
  void Return(std::vector<Value*> values) { results_ = std::move(values); }
  // In order; nullptr or missing = not provided.
  const std::vector<Value*>& results() const { return results_; }

 private:
  const Argument* Find(Arg arg) const;

  ir::Node& node_;

 public:
  ir::Builder& b;

 private:
  const std::vector<uint32_t>& uses_;
  std::vector<Value*> results_;
};

using Handler = void (*)(Call& call);

struct HandlerRow {
  std::string_view target;
  Handler handler;
};

// The families; each row is a target that it rewrites.
std::span<const HandlerRow> PointwiseRows();
std::span<const HandlerRow> ReduceRows();
std::span<const HandlerRow> NormRows();
std::span<const HandlerRow> ContractRows();
std::span<const HandlerRow> ConvRows();
std::span<const HandlerRow> ViewRows();
std::span<const HandlerRow> MovementRows();
std::span<const HandlerRow> IndexRows();
std::span<const HandlerRow> SourceRows();
std::span<const HandlerRow> WindowRows();

// An elementwise op of the table, one to one.
void RewriteElementwise(Call& call, OpKind op);
// The type PyTorch computes in, for tensors (dimensioned or not) and numbers together.
DType PromotedType(Call& call, std::span<const Arg> args);

}  // namespace hpu::compiler
