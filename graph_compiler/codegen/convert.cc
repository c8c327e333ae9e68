#include "graph_compiler/codegen/convert.h"

#include <llvm/IR/Intrinsics.h>

namespace hpu::graph_compiler {
namespace {

// A float format of at most 16 bits: sign, exponent and mantissa.
struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;
  uint32_t max_code;       // of the largest finite value
  uint32_t overflow_code;  // the code that larger values become
  uint32_t nan_code;
  bool has_infinity;  // an exponent of all ones means infinity or NaN
  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};
constexpr SmallFloat kHalf{5, 10, 0x7bff, 0x7c00, 0x7e00, true};
constexpr SmallFloat kE5M2{5, 2, 0x7b, 0x7c, 0x7f, true};
constexpr SmallFloat kE4M3{4, 3, 0x7e, 0x7e, 0x7f, false};  // saturates, as PyTorch's does

constexpr uint32_t kF32Sign = 0x80000000u;
constexpr uint32_t kF32Infinity = 0x7f800000u;
constexpr int kF32MantissaBits = 23;
constexpr int kF32Bias = 127;

class BitMath {
 public:
  BitMath(llvm::IRBuilder<>& builder, llvm::Type* shape)
      : b(builder),
        i32(WithLanesOf(builder.getInt32Ty(), shape)),
        f32(WithLanesOf(builder.getFloatTy(), shape)) {}
  llvm::Value* Int(uint32_t value) const { return llvm::ConstantInt::get(i32, value); }
  llvm::Value* AsInt(llvm::Value* value) const { return b.CreateBitCast(value, i32); }
  llvm::Value* AsFloat(llvm::Value* value) const { return b.CreateBitCast(value, f32); }
  llvm::Value* IsNan(llvm::Value* value) const { return b.CreateFCmpUNO(value, value); }

  llvm::IRBuilder<>& b;
  llvm::Type* i32;
  llvm::Type* f32;
};

llvm::Value* F32ToBf16(llvm::IRBuilder<>& builder, llvm::Value* value) {
  const BitMath m(builder, value->getType());
  llvm::Value* bits = m.AsInt(value);
  llvm::Value* odd = builder.CreateAnd(builder.CreateLShr(bits, m.Int(16)), m.Int(1));
  llvm::Value* rounded = builder.CreateAdd(bits, builder.CreateAdd(odd, m.Int(0x7fff)));
  llvm::Value* quiet = builder.CreateOr(bits, m.Int(0x400000));
  llvm::Value* chosen = builder.CreateSelect(m.IsNan(value), quiet, rounded);
  return builder.CreateTrunc(builder.CreateLShr(chosen, m.Int(16)),
                             WithLanesOf(builder.getInt16Ty(), value->getType()));
}

llvm::Value* Bf16ToF32(llvm::IRBuilder<>& builder, llvm::Value* raw) {
  const BitMath m(builder, raw->getType());
  return m.AsFloat(builder.CreateShl(builder.CreateZExt(raw, m.i32), m.Int(16)));
}

// Rounds to nearest even in integer arithmetic. Results below the normal range come from adding a
// power of two that pushes the unwanted bits out of an f32 mantissa.
llvm::Value* F32ToSmall(llvm::IRBuilder<>& builder, llvm::Value* value, const SmallFloat& format) {
  const BitMath m(builder, value->getType());
  const int shift = kF32MantissaBits - format.mantissa_bits;
  llvm::Value* bits = m.AsInt(value);
  llvm::Value* magnitude = builder.CreateAnd(bits, m.Int(~kF32Sign));
  llvm::Value* sign =
      builder.CreateLShr(builder.CreateAnd(bits, m.Int(kF32Sign)), m.Int(32 - format.bits()));

  const uint32_t rebias = static_cast<uint32_t>(kF32Bias - format.bias()) << kF32MantissaBits;
  llvm::Value* odd = builder.CreateAnd(builder.CreateLShr(magnitude, m.Int(shift)), m.Int(1));
  llvm::Value* half = m.Int((1u << (shift - 1)) - 1);
  llvm::Value* normal = builder.CreateLShr(
      builder.CreateAdd(builder.CreateSub(magnitude, m.Int(rebias)), builder.CreateAdd(half, odd)),
      m.Int(shift));
  const uint32_t smallest_normal = rebias + (1u << kF32MantissaBits);
  const uint32_t magic = static_cast<uint32_t>(kF32Bias - format.bias() + shift + 1)
                         << kF32MantissaBits;
  llvm::Value* pushed = builder.CreateFAdd(m.AsFloat(magnitude), m.AsFloat(m.Int(magic)));
  llvm::Value* subnormal = builder.CreateSub(m.AsInt(pushed), m.Int(magic));
  llvm::Value* code = builder.CreateSelect(builder.CreateICmpULT(magnitude, m.Int(smallest_normal)),
                                           subnormal, normal);
  code = builder.CreateSelect(builder.CreateICmpUGT(code, m.Int(format.max_code)),
                              m.Int(format.overflow_code), code);
  code = builder.CreateSelect(m.IsNan(value), m.Int(format.nan_code), code);
  llvm::Type* narrow = builder.getIntNTy(format.bits());
  return builder.CreateTrunc(builder.CreateOr(code, sign), WithLanesOf(narrow, value->getType()));
}

llvm::Value* SmallToF32(llvm::IRBuilder<>& builder, llvm::Value* raw, const SmallFloat& format) {
  const BitMath m(builder, raw->getType());
  const int shift = kF32MantissaBits - format.mantissa_bits;
  const uint32_t sign_bit = 1u << (format.bits() - 1);
  llvm::Value* wide = builder.CreateZExt(raw, m.i32);
  llvm::Value* code = builder.CreateAnd(wide, m.Int(sign_bit - 1));
  llvm::Value* sign =
      builder.CreateShl(builder.CreateAnd(wide, m.Int(sign_bit)), m.Int(32 - format.bits()));

  const uint32_t rebias = static_cast<uint32_t>(kF32Bias - format.bias()) << kF32MantissaBits;
  llvm::Value* shifted = builder.CreateShl(code, m.Int(shift));
  llvm::Value* normal = builder.CreateAdd(shifted, m.Int(rebias));
  // A subnormal gets an exponent of one, and then the value of that exponent is subtracted again.
  const uint32_t one = rebias + (1u << kF32MantissaBits);
  llvm::Value* subnormal = m.AsInt(
      builder.CreateFSub(m.AsFloat(builder.CreateAdd(shifted, m.Int(one))), m.AsFloat(m.Int(one))));
  llvm::Value* bits = builder.CreateSelect(
      builder.CreateICmpULT(code, m.Int(1u << format.mantissa_bits)), subnormal, normal);
  if (format.has_infinity) {
    const uint32_t specials = ((1u << format.exponent_bits) - 1) << format.mantissa_bits;
    bits = builder.CreateSelect(builder.CreateICmpUGE(code, m.Int(specials)),
                                builder.CreateOr(shifted, m.Int(kF32Infinity)), bits);
  } else {
    bits = builder.CreateSelect(builder.CreateICmpEQ(code, m.Int(format.nan_code)),
                                m.Int(kF32Infinity | 0x400000), bits);
  }
  return m.AsFloat(builder.CreateOr(bits, sign));
}

llvm::Value* TruncateFloat(llvm::IRBuilder<>& builder, llvm::Value* value, llvm::Type* element) {
  llvm::Type* type = WithLanesOf(element, value->getType());
  return builder.CreateIntrinsic(llvm::Intrinsic::fptosi_sat, {type, value->getType()}, {value});
}

bool HasHalfInstructions(const TargetInfo& target) { return target.isa >= IsaLevel::kV3; }

}  // namespace

llvm::Type* ElementType(llvm::LLVMContext& context, MemoryType type) {
  if (type == MemoryType::kF32 || type == MemoryType::kF32ToBF16) {
    return llvm::Type::getFloatTy(context);
  }
  return llvm::Type::getIntNTy(context, 8 * static_cast<unsigned>(MemoryTypeSize(type)));
}

llvm::Type* ElementType(llvm::LLVMContext& context, ScalarType type) {
  switch (type) {
    case ScalarType::kF32:
      return llvm::Type::getFloatTy(context);
    case ScalarType::kI32:
      return llvm::Type::getInt32Ty(context);
    case ScalarType::kI64:
      return llvm::Type::getInt64Ty(context);
    case ScalarType::kBool:
      return llvm::Type::getInt1Ty(context);
  }
  return nullptr;
}

llvm::Type* WithLanes(llvm::Type* element, int lanes) {
  if (lanes == 1) return element;
  return llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes));
}

llvm::Type* WithLanesOf(llvm::Type* element, llvm::Type* like) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(like);
  if (vector == nullptr) return element;
  return llvm::FixedVectorType::get(element, vector->getNumElements());
}

llvm::Value* Widen(llvm::IRBuilder<>& builder, const TargetInfo& target, llvm::Value* raw,
                   MemoryType type) {
  llvm::Type* shape = raw->getType();
  switch (type) {
    case MemoryType::kF32:
    case MemoryType::kI32:
    case MemoryType::kI64:
      return raw;
    case MemoryType::kBF16:
      return Bf16ToF32(builder, raw);
    case MemoryType::kF32ToBF16:
      return Bf16ToF32(builder, F32ToBf16(builder, raw));
    case MemoryType::kF16:
      if (!HasHalfInstructions(target)) return SmallToF32(builder, raw, kHalf);
      return builder.CreateFPExt(
          builder.CreateBitCast(raw, WithLanesOf(builder.getHalfTy(), shape)),
          WithLanesOf(builder.getFloatTy(), shape));
    case MemoryType::kF8E5M2:
      return SmallToF32(builder, raw, kE5M2);
    case MemoryType::kF8E4M3:
      return SmallToF32(builder, raw, kE4M3);
    case MemoryType::kI8:
    case MemoryType::kI16:
      return builder.CreateSExt(raw, WithLanesOf(builder.getInt32Ty(), shape));
    case MemoryType::kU8:
    case MemoryType::kU16:
      return builder.CreateZExt(raw, WithLanesOf(builder.getInt32Ty(), shape));
    case MemoryType::kU32:
      return builder.CreateZExt(raw, WithLanesOf(builder.getInt64Ty(), shape));
    case MemoryType::kBool:
      return builder.CreateICmpNE(raw, llvm::Constant::getNullValue(shape));
  }
  return nullptr;
}

llvm::Value* Narrow(llvm::IRBuilder<>& builder, const TargetInfo& target, llvm::Value* value,
                    ScalarType from, MemoryType type) {
  value = ConvertScalar(builder, value, from, ComputeType(type));
  llvm::Type* shape = value->getType();
  switch (type) {
    case MemoryType::kF32:
    case MemoryType::kI32:
    case MemoryType::kI64:
      return value;
    case MemoryType::kBF16:
      if (!target.bf16_denormals_are_zero) return F32ToBf16(builder, value);
      return builder.CreateBitCast(
          builder.CreateFPTrunc(value, WithLanesOf(builder.getBFloatTy(), shape)),
          WithLanesOf(builder.getInt16Ty(), shape));
    case MemoryType::kF16:
      if (!HasHalfInstructions(target)) return F32ToSmall(builder, value, kHalf);
      return builder.CreateBitCast(
          builder.CreateFPTrunc(value, WithLanesOf(builder.getHalfTy(), shape)),
          WithLanesOf(builder.getInt16Ty(), shape));
    case MemoryType::kF8E5M2:
      return F32ToSmall(builder, value, kE5M2);
    case MemoryType::kF8E4M3:
      return F32ToSmall(builder, value, kE4M3);
    case MemoryType::kBool:
      return builder.CreateZExt(value, WithLanesOf(builder.getInt8Ty(), shape));
    case MemoryType::kF32ToBF16:
      break;  // no value is stored as this type
    case MemoryType::kI8:
    case MemoryType::kU8:
    case MemoryType::kI16:
    case MemoryType::kU16:
    case MemoryType::kU32:
      return builder.CreateTrunc(value,
                                 WithLanesOf(ElementType(builder.getContext(), type), shape));
  }
  return nullptr;
}

llvm::Value* ConvertScalar(llvm::IRBuilder<>& builder, llvm::Value* value, ScalarType from,
                           ScalarType to) {
  if (from == to) return value;
  llvm::Type* shape = value->getType();
  llvm::Type* type = WithLanesOf(ElementType(builder.getContext(), to), shape);
  if (to == ScalarType::kBool) {
    if (from == ScalarType::kF32) {
      return builder.CreateFCmpUNE(value, llvm::Constant::getNullValue(shape));
    }
    return builder.CreateICmpNE(value, llvm::Constant::getNullValue(shape));
  }
  switch (from) {
    case ScalarType::kF32:
      return TruncateFloat(builder, value, ElementType(builder.getContext(), to));
    case ScalarType::kBool:
      return to == ScalarType::kF32 ? builder.CreateUIToFP(value, type)
                                    : builder.CreateZExt(value, type);
    case ScalarType::kI32:
      return to == ScalarType::kF32 ? builder.CreateSIToFP(value, type)
                                    : builder.CreateSExt(value, type);
    case ScalarType::kI64:
      return to == ScalarType::kF32 ? builder.CreateSIToFP(value, type)
                                    : builder.CreateTrunc(value, type);
  }
  return nullptr;
}

}  // namespace hpu::graph_compiler
