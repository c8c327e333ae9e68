// A Call is one captured ATen call while it is being rewritten. It gives typed access to the
// arguments by the schema's names, and a builder for the nodes that replace the call.
#pragma once

#include <optional>
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

// The names that most schemas give to their arguments.
inline constexpr std::string_view kSelf = "self";
inline constexpr std::string_view kOther = "other";
inline constexpr std::string_view kInput = "input";
inline constexpr std::string_view kGrad = "grad_output";

class Call {
 public:
  Call(ir::Node& node, ir::Builder& builder, const std::vector<uint32_t>& uses)
      : node_(node), b(builder), uses_(uses) {}

  const std::string& target() const { return node_.aten->target; }
  // These are the declared types and the uses of the results.
  const TensorType& type(size_t result = 0) const { return node_.results[result]->type; }
  DType dtype() const { return type().dtype; }
  size_t result_count() const { return node_.results.size(); }
  bool used(size_t result) const { return uses_[node_.results[result]->id] > 0; }

  // All arguments of the schema are present: those that the caller left out have their default. The
  // call is refused for a name that the schema does not have, for an argument of the wrong kind,
  // and for None where no `if_none` is given. The accessor then returns a harmless value.
  bool Has(std::string_view name) const;  // true if in the schema and not None
  bool IsTensor(std::string_view name) const;
  bool IsNumber(std::string_view name) const;
  bool IsListOfTensors(std::string_view name) const;  // true for a list of at least one tensor
  bool IsRowMajor(std::string_view name) const;       // true for a tensor captured as row-major
  DType NumberType(
      std::string_view name) const;  // the type PyTorch gives to a Python number: bool, i64, f32
  Value* Tensor(std::string_view name);
  // Like Tensor, but a 0-d tensor becomes one of size [1], and results that then have one dimension
  // too many lose it: PyTorch lets a 0-d tensor's only element be a line of dimension 0.
  Value* Line(std::string_view name);
  Value* OptionalTensor(std::string_view name);  // nullptr if None
  std::vector<Value*> Tensors(std::string_view name);
  std::vector<Value*> OptionalTensors(std::string_view name);  // nullptr where an item is None
  // Returns a tensor, or a number as a 0-d constant, in `dtype`.
  Value* Operand(std::string_view name, DType dtype);
  // Like Operand, for arithmetic: if `dtype` is narrower than f32, a number or a 0-d tensor keeps
  // the precision of f32, because PyTorch calculates with it before it rounds the result.
  Value* Factor(std::string_view name, DType dtype);
  // Like Operand, for values that are stored without arithmetic: a number must fit (see Stored).
  Value* Chosen(std::string_view name, DType dtype);
  // Returns a number that is stored in tensors of `dtype`. A number that the type cannot hold
  // refuses the call, because PyTorch raises an error for it.
  double Stored(std::string_view name, DType dtype, std::optional<double> if_none = std::nullopt);
  int64_t Int(std::string_view name, std::optional<int64_t> if_none = std::nullopt);
  double Float(std::string_view name, std::optional<double> if_none = std::nullopt);  // any number
  std::vector<double> Floats(std::string_view name);  // empty if None
  bool Bool(std::string_view name, std::optional<bool> if_none = std::nullopt);
  std::vector<bool> Bools(std::string_view name);
  std::string Text(std::string_view name, std::optional<std::string> if_none = std::nullopt);
  Dims Ints(std::string_view name);  // empty if None; a single int counts as a list of one
  bool DeviceIs(std::string_view name, std::string_view device) const;
  // Returns the index of a dimension, wrapped into [0, rank).
  int64_t Dim(std::string_view name, int64_t rank);
  int64_t WrapDim(int64_t dim, int64_t rank);
  // Returns the dimensions sorted and wrapped. None means all dimensions, and so does an empty
  // list, as in PyTorch's reductions.
  Dims ReducedDims(std::string_view name, int64_t rank);
  static Dims AllDims(int64_t rank);
  // Returns the name of the argument at a place in the schema, for ops that differ only in the
  // names of their arguments.
  std::string_view name(size_t place) const { return node_.aten->args[place].first; }
  size_t argument_count() const { return node_.aten->args.size(); }

  // Refuses the call: it gets no recipe and runs eagerly. The first reason wins.
  template <typename... Parts>
  void Refuse(const Parts&... parts) {
    b.Fail(Unimplemented(parts...));
  }
  bool refused() const { return !b.status().ok(); }

  void Return(Value* value) { Return(std::vector<Value*>{value}); }
  void Return(std::vector<Value*> values);
  // The results in order. nullptr, or a result that is missing at the end, was not provided.
  const std::vector<Value*>& results() const { return results_; }

 private:
  const Argument* Find(std::string_view name) const;  // nullptr if not in the schema
  const Argument* Given(std::string_view name);       // nullptr if None or refused
  const ArgumentList& List(std::string_view name);    // empty if refused
  template <typename T>
  T IfNone(std::string_view name, const std::optional<T>& if_none, T harmless) {
    if (!if_none.has_value()) Refuse("argument ", name, " is None");
    return if_none.value_or(harmless);
  }

  ir::Node& node_;

 public:
  ir::Builder& b;

 private:
  const std::vector<uint32_t>& uses_;
  std::vector<Value*> results_;
  bool has_line_of_scalar_ = false;
};

using Handler = void (*)(Call& call);

struct HandlerRow {
  std::string_view target;
  Handler handler;
  Handler otherwise = nullptr;  // used where no recipe can hold what `handler` emits for a call
};

// The families of handlers. Each row names one target that the family rewrites.
std::span<const HandlerRow> PointwiseRows();
std::span<const HandlerRow> ReduceRows();
std::span<const HandlerRow> NormRows();
std::span<const HandlerRow> ContractRows();
std::span<const HandlerRow> QuantizedWeightRows();
std::span<const HandlerRow> ConvRows();
std::span<const HandlerRow> ViewRows();
std::span<const HandlerRow> MovementRows();
std::span<const HandlerRow> IndexRows();
std::span<const HandlerRow> SourceRows();
std::span<const HandlerRow> PoolRows();
std::span<const HandlerRow> ResizeRows();
std::span<const HandlerRow> VolumePoolRows();
std::span<const HandlerRow> PointwiseSpecialRows();
std::span<const HandlerRow> PowerRows();
std::span<const HandlerRow> SelectionRows();
std::span<const HandlerRow> GridSampleRows();
std::span<const HandlerRow> RecurrentRows();
std::span<const HandlerRow> RotaryRows();
std::span<const HandlerRow> BlockSoftmaxRows();
std::span<const HandlerRow> CustomRows();
std::span<const HandlerRow> Fp8Rows();
std::span<const HandlerRow> ExpertRows();
std::span<const HandlerRow> Int4Rows();
std::span<const HandlerRow> PointwiseBackwardRows();
std::span<const HandlerRow> NormBackwardRows();
std::span<const HandlerRow> LossRows();
std::span<const HandlerRow> AttentionRows();
std::span<const HandlerRow> UnfoldRows();
std::span<const HandlerRow> EmbeddingBagRows();
std::span<const HandlerRow> AveragePoolBackwardRows();
std::span<const HandlerRow> IndexBackwardRows();
std::span<const HandlerRow> ConvBackwardRows();
std::span<const HandlerRow> ForeachRows();
std::span<const HandlerRow> RandomRows();
std::span<const HandlerRow> DistributionRows();
std::span<const HandlerRow> QuantizeRows();

// Returns whether a recipe can calculate the numbers of a call that draws random numbers.
bool RecipesDraw(const ir::Node& node);

// Rewrites a call to the one elementwise op of the table that it corresponds to.
void RewriteElementwise(Call& call, OpKind op);
// Returns the type that PyTorch computes in, for tensors (dimensioned or not) and numbers together.
DType PromotedType(Call& call, std::span<const std::string_view> names);

}  // namespace hpu::compiler
