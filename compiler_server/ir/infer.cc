#include "compiler_server/ir/infer.h"

#include <algorithm>

#include "compiler_server/ir/constraint.h"
#include "compiler_server/ir/infer_rules.h"
#include "compiler_server/ir/parse_type.h"

namespace hpu::ir {

namespace {

// Whether the value is 0-d and keeps its precision beside values of a narrower type.
bool IsWideNumber(const TensorType& type) { return type.rank() == 0 && type.dtype == DType::kF32; }

}  // namespace

Result InferBroadcast(const Call& call) {
  Dims sizes;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    std::optional<Dims> both = BroadcastSizes(sizes, call.sizes(i));
    CONSTRAINT(both.has_value(), "elementwise_c2", "sizes ", ToText(sizes), " and ",
               ToText(call.sizes(i)), " do not broadcast");
    sizes = *std::move(both);
  }
  const size_t first = call.op == OpKind::kWhere ? 1 : 0;
  if (first == 1) {
    CONSTRAINT(call.type(0).dtype == DType::kBool, "where_c1", "condition is ",
               DTypeName(call.type(0).dtype), ", not bool");
  }
  DType dtype = call.type(first).dtype;
  bool is_number = IsWideNumber(call.type(first));
  for (size_t i = first + 1; i < call.operands.size(); ++i) {
    const TensorType& type = call.type(i);
    if (is_number && IsNarrowFloat(type.dtype)) {
      dtype = type.dtype;
      is_number = false;
    }
    CONSTRAINT(type.dtype == dtype || (IsNarrowFloat(dtype) && IsWideNumber(type)),
               "elementwise_c1", "operand types ", DTypeName(dtype), " and ", DTypeName(type.dtype),
               " differ");
  }
  switch (Traits(call.op).result_type) {
    case ResultType::kBool:
      return One(DType::kBool, std::move(sizes));
    case ResultType::kDeclared:
      return One(call.declared->dtype, std::move(sizes));
    default:
      return One(dtype, std::move(sizes));
  }
}

Result InferSame(const Call& call) {
  const TensorType& x = call.type(0);
  CONSTRAINT(HasDim(x, call.Int(AttrKey::kDim)), "dim_c1", "dim ", call.Int(AttrKey::kDim),
             " is outside ", ToText(x));
  return One(x.dtype, x.sizes);
}

Result InferRunningExtremum(const Call& call) {
  ASSIGN_OR_RETURN(Types types, InferSame(call));
  types.push_back(Contiguous(DType::kI64, call.sizes(0)));
  return types;
}

Result InferReduce(const Call& call) {
  const TensorType& x = call.type(0);
  const Dims& dims = call.Ints(AttrKey::kDims);
  Dims sizes;
  size_t next = 0;
  for (int64_t i = 0; i < x.rank(); ++i) {
    const bool reduced = next < dims.size() && dims[next] == i;
    if (reduced) ++next;
    if (!reduced) sizes.push_back(x.sizes[i]);
    if (reduced && call.Bool(AttrKey::kKeepdim)) sizes.push_back(1);
  }
  CONSTRAINT(next == dims.size(), "reduce_c1", "dims ", ToText(dims),
             " are not sorted, unique and inside ", ToText(x));
  const bool by_index = call.op == OpKind::kArgmax || call.op == OpKind::kArgmin;
  CONSTRAINT(!by_index || dims.size() == 1, "reduce_c2", "takes exactly one dim");
  return One(by_index ? DType::kI64 : x.dtype, std::move(sizes));
}

Result InferNorm(const Call& call) {
  const TensorType& x = call.type(0);
  const int64_t axes = call.Int(AttrKey::kAxes);
  CONSTRAINT(axes >= 1 && axes <= x.rank(), "norm_c1", axes, " normalised axes of ", ToText(x));
  const Dims tail(x.sizes.end() - axes, x.sizes.end());
  for (size_t i = 1; i < call.operands.size(); ++i) {
    if (!call.has(i)) continue;
    CONSTRAINT(call.sizes(i) == tail && call.type(i).dtype == x.dtype, "norm_c2", "operand ", i,
               " is ", ToText(call.type(i)), ", not ", DTypeName(x.dtype), ToText(tail));
  }
  return One(x.dtype, x.sizes);
}

Result InferVector(const Call& call) {
  CONSTRAINT(call.declared->rank() == 1, "iota_c1", "result ", ToText(*call.declared),
             " is no vector");
  return One(call.declared->dtype, call.declared->sizes);
}

// The operands are seed and offset.
Result InferRandom(const Call& call) {
  for (const size_t i : {0, 1}) {
    CONSTRAINT(call.type(i).dtype == DType::kI64 && call.type(i).rank() == 0, "random_c1",
               "operand ", i, " is ", ToText(call.type(i)), ", not i64[]");
  }
  CONSTRAINT(call.Int(AttrKey::kBase) >= 0, "random_c2", "base ", call.Int(AttrKey::kBase));
  CONSTRAINT(call.declared->dtype == DType::kF32, "random_c3", "result ", ToText(*call.declared),
             " is not of f32");
  return One(call.declared->dtype, call.declared->sizes);
}

// Batch and channels stay the same; the spatial sizes are declared.
Result InferWindowDeclared(const Call& call) {
  const TensorType& x = call.type(0);
  const TensorType& y = *call.declared;
  CONSTRAINT(x.rank() >= 3 && y.rank() == x.rank() && y.sizes.front() == x.sizes.front() &&
                 y.sizes.back() == x.sizes.back(),
             "resize_c1", "result ", ToText(y), " for ", ToText(x));
  return One(x.dtype, y.sizes);
}

Result InferCustom(const Call& call) {
  const auto& guid = std::get<std::string>(*call.attrs.Find(AttrKey::kGuid));
  const auto& params = std::get<std::string>(*call.attrs.Find(AttrKey::kParams));
  const auto& text = std::get<std::string>(*call.attrs.Find(AttrKey::kTypes));
  const int64_t version = call.Int(AttrKey::kVersion);
  Types types;
  Lexer lexer(text);
  do types.push_back(ParseType(lexer));
  while (lexer.ok() && lexer.Try(","));
  const bool row_major = std::ranges::all_of(types, &TensorType::contiguous);
  CONSTRAINT(lexer.ok() && lexer.AtEnd() && row_major, "custom_c1", "types are '", text, "'");
  const bool hexadecimal = params.find_first_not_of("0123456789abcdef") == std::string::npos;
  CONSTRAINT(hexadecimal && params.size() % 2 == 0, "custom_c2", "params are '", params, "'");
  CONSTRAINT(!guid.empty() && version >= 0 && version <= UINT32_MAX, "custom_c3", "guid '", guid,
             "' of version ", version);
  return types;
}

Result InferDeclared(const Call& call) { return One(call.declared->dtype, call.declared->sizes); }

namespace {

bool NeedsDeclared(OpKind op) {
  return Has(op, OpFlag::kDeclaresSizes) || Traits(op).result_type == ResultType::kDeclared;
}

Result Dispatch(const Call& call) {
  static constexpr Result (*kRules[])(const Call&) = {
#define HPU_SHAPE_RULE(function) function,
#include "compiler_server/ir/shape_rules.inc"
#undef HPU_SHAPE_RULE
  };
  return kRules[static_cast<size_t>(Traits(call.op).shape)](call);
}

}  // namespace

absl::Status CheckForm(OpKind op, std::span<Value* const> operands, const Attrs& attrs) {
  const OpTraits& traits = Traits(op);
  const int count = static_cast<int>(operands.size());
  CONSTRAINT(
      count >= traits.min_operands && (traits.max_operands < 0 || count <= traits.max_operands),
      "form_c1", traits.name, " has ", count, " operands");
  for (int i = 0; i < count; ++i) {
    const bool optional = traits.max_operands >= 0 && i >= traits.min_operands;
    CONSTRAINT(operands[i] != nullptr || optional, "form_c2", "operand ", i, " of ", traits.name,
               " is absent");
  }
  CONSTRAINT(attrs.items().size() == traits.attrs.size(), "form_c3", traits.name, " takes ",
             traits.attrs.size(), " attributes, not ", attrs.items().size());
  for (const AttrSpec& spec : traits.attrs) {
    const Attr* attr = attrs.Find(spec.key);
    // The alternatives of Attr have the order of AttrType.
    CONSTRAINT(attr != nullptr && attr->index() == static_cast<size_t>(spec.type), "form_c4",
               traits.name, ": attribute ", AttrName(spec.key), " is missing or of another type");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TensorType>> InferTypes(OpKind op, std::span<Value* const> operands,
                                                   const Attrs& attrs, const TensorType* declared) {
  RETURN_IF_ERROR(CheckForm(op, operands, attrs));
  const OpTraits& traits = Traits(op);
  if (NeedsDeclared(op) && declared == nullptr) {
    return Internal(traits.name, " needs a declared result type");
  }
  for (size_t i = op == OpKind::kWhere ? 1 : 0; i < operands.size(); ++i) {
    // Index operands, and the operands that belong to them, have a rule of their own.
    if (operands[i] == nullptr || (i == 1 && Has(op, OpFlag::kTakesIndex))) continue;
    if (i > 0 && traits.op_class == OpClass::kIndex) continue;
    CONSTRAINT(Contains(traits.dtypes, operands[i]->type.dtype), "dtype_c1", "operand ", i, " of ",
               traits.name, " is ", DTypeName(operands[i]->type.dtype));
  }
  return Dispatch({op, operands, attrs, declared});
}

}  // namespace hpu::ir
