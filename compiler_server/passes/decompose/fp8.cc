// Rewrites what Gaudi does with floats of 8 bits. They are widened before anything is calculated
// with them. The scales are tensors, numbers or lists of numbers, and multiply.
#include <cstring>
#include <optional>

#include "compiler_server/ir/host_tensor.h"
#include "compiler_server/passes/decompose/expression.h"
#include "compiler_server/passes/decompose/random.h"

namespace hpu::compiler {
namespace {

double Largest(DType dtype) { return dtype == DType::kF8E4M3 ? 448 : 57344; }

Value* RowOfNumbers(Call& call, const std::vector<double>& numbers) {
  Bytes bytes(numbers.size() * sizeof(float));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto number = static_cast<float>(numbers[i]);
    std::memcpy(bytes.data() + i * sizeof(float), &number, sizeof(float));
  }
  const TensorType type = ir::Contiguous(DType::kF32, {static_cast<int64_t>(numbers.size())});
  return call.b.graph().AddConstant(type, std::move(bytes));
}

// Returns a scale that is rounded to `dtype`, in f32. Without the argument there is none.
std::optional<Expr> ScaleFactor(Call& call, std::string_view name, DType dtype,
                                std::string_view shape = "") {
  if (!call.Has(name)) return std::nullopt;
  Value* scale = nullptr;
  if (call.IsTensor(name)) {
    scale = call.Tensor(name);
  } else if (call.IsNumber(name)) {
    scale = call.b.Scalar(call.Float(name), DType::kF32);
  } else {
    scale = RowOfNumbers(call, call.Floats(name));
  }
  if (!shape.empty() && call.Has(shape)) scale = call.b.Reshape(scale, call.Ints(shape));
  return In(call, call.b.Cast(scale, dtype));
}

Expr Scaled(Expr x, const std::optional<Expr>& by) { return by.has_value() ? x * *by : x; }

Expr Saturated(Expr x, DType dtype) { return Min(Max(x, -Largest(dtype)), Largest(dtype)); }

// Gives one of the two numbers of `dtype` next to x, each with a probability that grows with its
// nearness, so that the mean is x and numbers of `dtype` stay.
Expr RoundedAtRandom(Call& call, Expr x, DType dtype) {
  const bool e4m3 = dtype == DType::kF8E4M3;
  const double lowest = e4m3 ? 0x1p-6 : 0x1p-14;
  const double mantissa_bits = e4m3 ? 3 : 2;
  const Expr exponent =
      Apply(OpKind::kFloor, Apply(OpKind::kLog2, Max(Abs(x), lowest))) - mantissa_bits;
  const Expr unit = Apply(OpKind::kExp2, exponent);
  const Expr units = Abs(x) / unit;
  const Expr whole = Apply(OpKind::kFloor, units);
  const Expr up = Cast(Expr{&call, Draw(call, x.sizes())} < units - whole, DType::kF32);
  const Expr rounded = (whole + up) * unit;
  return Where(x < 0.0, rounded * -1.0, rounded);
}

void CastToFp8(Call& call) {
  Value* x = call.Tensor(kInput);
  const DType dtype = x->type.dtype;
  Value* none = call.b.Full(0, DType::kF32, {0});
  if (call.refused()) return;
  if (dtype == call.dtype()) return call.Return({x, none});
  Expr product = In(call, x);
  if (const auto by = ScaleFactor(call, "scale", dtype, "scale_shape"); by.has_value()) {
    product = Cast(Cast(product * *by, dtype), Widened(dtype));
  }
  product = Saturated(product, call.dtype());
  if (call.Bool("stochastic_rounding")) product = RoundedAtRandom(call, product, call.dtype());
  Value* casted = call.b.Cast(product.value, call.dtype());
  if (!call.used(1) || !call.Bool("is_amax")) return call.Return({casted, none});
  Value* amax = call.b.Reduce(OpKind::kReduceMax, Abs(In(call, x)).value,
                              Call::AllDims(x->type.rank()), false);
  call.Return({casted, call.b.Cast(amax, DType::kF32)});
}

void CastFromFp8(Call& call) {
  Give(call, Scaled(In(call, kInput), ScaleFactor(call, "scale", call.dtype(), "scale_shape")));
}

// The operands have f32's precision where the result does, and bf16's else, which holds all floats
// of 8 bits.
Expr Fp8Product(Call& call, Value* a, bool transpose_a, Value* b, bool transpose_b) {
  const bool small = DTypeSize(a->type.dtype) == 1 && DTypeSize(b->type.dtype) == 1;
  const bool narrow = small && DTypeSize(call.dtype()) < 4 && call.dtype() != DType::kF16;
  const DType wide = narrow ? DType::kBF16 : DType::kF32;
  return In(call,
            call.b.Matmul(call.b.Cast(a, wide), call.b.Cast(b, wide), transpose_a, transpose_b));
}

void Fp8Gemm(Call& call) {
  Value* a = call.Tensor("A");
  Value* b = call.Tensor("B");
  if (call.refused()) return;
  Expr y = Fp8Product(call, a, call.Bool("trans_A"), b, call.Bool("trans_B"));
  y = Scaled(y, ScaleFactor(call, "A_scale_inv", DType::kF32));
  y = Scaled(y, ScaleFactor(call, "B_scale_inv", DType::kF32, "B_scale_shape"));
  if (call.Has("bias")) y = y + In(call, "bias");
  if (call.Bool("accumulate")) y = y + In(call, "D");
  Give(call, y);
}

// _scaled_mm(x, y, scale_a, scale_b): the scales are single ones, [M, 1] and [1, N].
void ScaledMm(Call& call) {
  Value* a = call.Tensor(kSelf);
  Value* b = call.Tensor("mat2");
  if (call.refused()) return;
  if (call.Has("scale_result")) return call.Refuse("a scale of the result");
  Expr y = Fp8Product(call, a, false, b, false);
  y = Scaled(y, ScaleFactor(call, "scale_a", DType::kF32));
  y = Scaled(y, ScaleFactor(call, "scale_b", DType::kF32));
  if (call.Has("bias")) y = y + In(call, "bias");
  const bool small = DTypeSize(call.dtype()) == 1;
  Give(call, small ? Saturated(y, call.dtype()) : y);
}

void SumFp8(Call& call) {
  const Expr x = In(call, kSelf);
  const Expr sum = Sum(x, call.ReducedDims("dim", x.rank()), call.Bool("keepdim"));
  const bool small = DTypeSize(call.dtype()) == 1;
  Give(call, small ? Saturated(sum, call.dtype()) : sum);
}

void SoftmaxFp8(Call& call) {
  Expr x = In(call, kInput);
  if (call.refused()) return;
  for (const std::string_view name : {"inv_attn_heads", "input_scale"}) {
    x = Scaled(x, ScaleFactor(call, name, DType::kF32));
  }
  if (call.Has("fused_add")) x = x + In(call, "fused_add");
  const Expr y{&call, call.b.Emit(OpKind::kSoftmax, {x.value},
                                  {{AttrKey::kDim, call.Dim("dim", x.rank())}})};
  const auto scale = ScaleFactor(call, "output_scale", DType::kF32);
  Give(call, scale.has_value() ? Saturated(y * *scale, call.dtype()) : y);
}

constexpr HandlerRow kFp8Rows[] = {
    {"aten._scaled_mm.default", ScaledMm},         {"hpu.cast_from_fp8.default", CastFromFp8},
    {"hpu.cast_from_fp8.scalar", CastFromFp8},     {"hpu.cast_from_fp8.scalar_list", CastFromFp8},
    {"hpu.cast_to_fp8_v2.default", CastToFp8},     {"hpu.cast_to_fp8_v2.scalar", CastToFp8},
    {"hpu.cast_to_fp8_v2.scalar_list", CastToFp8}, {"hpu.fp8_gemm_v2.default", Fp8Gemm},
    {"hpu.fp8_gemm_v2.scalar", Fp8Gemm},           {"hpu.fp8_gemm_v2.scalar_list", Fp8Gemm},
    {"hpu.softmax_fp8.Scalar", SoftmaxFp8},        {"hpu.softmax_fp8.Scalar_scales", SoftmaxFp8},
    {"hpu.softmax_fp8.default", SoftmaxFp8},       {"hpu.sum_fp8.default", SumFp8},
};

}  // namespace

std::span<const HandlerRow> Fp8Rows() { return kFp8Rows; }

}  // namespace hpu::compiler
