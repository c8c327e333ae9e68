// Kernels before code generation. A kernel has an iteration space (outermost dimension first; the
// last one is the vector dimension) and a body of straight-line SSA operations on one element. Code
// generation turns "one element" into vectors. The same form of body serves pointwise kernels, the
// passes of row kernels (reductions, softmax, norms) and the epilogues of contractions.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "graph_compiler/ir/memory_type.h"
#include "recipe/recipe.h"

namespace hpu::graph_compiler {

// The memory that an access loads from or stores to.
struct Operand {
  enum class Kind : uint8_t {
    // `number` is a value of the graph; in a kernel it is a position in its list of operands.
    kBuffer,
    kIota,         // loads only: the value is the element's address itself, as i64
    kScratch,      // `number` is a scratch area of the kernel
    kAccumulator,  // stores only, while passes are built: a value that leaves the pass
  };
  constexpr Operand() = default;
  constexpr Operand(uint32_t buffer) : number(buffer) {}  // NOLINT: most operands are buffers
  constexpr Operand(Kind k, uint32_t n) : kind(k), number(n) {}
  bool IsBuffer() const { return kind == Kind::kBuffer; }
  friend auto operator<=>(const Operand&, const Operand&) = default;

  Kind kind = Kind::kBuffer;
  uint32_t number = 0;
};

// Element address = operand base + (offset + sum strides[d] * index[d] + indirect) * element size.
struct Access {
  Operand operand;
  MemoryType type = MemoryType::kF32;
  std::vector<int64_t> strides;  // elements, one per iteration dimension; 0 = broadcast
  int64_t offset = 0;            // elements
  // Gathers and scatters add the value `indirect_value` (i32 or i64) times indirect_stride;
  // kNoValue means none. An index outside of [0, indirect_limit) never leaves the buffer: a load
  // clamps it, and a store writes nothing.
  uint32_t indirect_value = 0xFFFFFFFF;
  int64_t indirect_stride = 0;
  int64_t indirect_limit = 0;
};
inline constexpr uint32_t kNoValue = 0xFFFFFFFF;

enum class Opcode : uint8_t {
  // leaves
  kLoad,
  kConstF32,
  kConstInt,
  kIndex /* value of iteration dimension imm_int as i64 */,
  kAccumulator /* preset value number imm_int: a contraction's result, a row reduction's result */,
  // f32 and integer arithmetic (the type of the result decides)
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMin,
  kMax,
  kNeg,
  kAbs,
  kFma,
  kRem /* C fmod / % */,
  kFloorDiv,
  kFloorMod,
  kAnd,
  kOr,
  kXor,
  kNot,
  kShl,
  kShr,
  // f32 functions; error bounds in codegen/math.h
  kExp,
  kExpm1,
  kLog,
  kLog1p,
  kLog2,
  kLog10,
  kSqrt,
  kRsqrt,
  kReciprocal,
  kSin,
  kCos,
  kTan,
  kTanh,
  kErf,
  kSigmoid,
  kSigmoidBf16 /* for a product that is rounded to bf16: within 2^-13 of the result */,
  kNormalCdf /* of the standard normal distribution; 0 and 1 beyond 5.6 deviations */,
  kNormalCdfBf16 /* for a product that is rounded to bf16: within 2^-11 of the result */,
  kPow,
  kFloor,
  kCeil,
  kTrunc,
  kRound /* half to even */,
  kSign,
  kAtan,
  kAsin,
  kAcos,
  kSinh,
  kCosh,
  kAsinh,
  kAcosh,
  kAtanh,
  kAtan2,
  kErfc,
  kErfinv,
  // comparisons -> kBool; all are ordered except kNe
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kIsNan,
  kIsInf,
  kIsFinite,
  kSelect /* cond, a, b */,
  kCast /* to `type`; float->int truncates and saturates as x86 does not */,
  kRoundTo /* f32 rounded as by a store as MemoryType imm_int: an explicit narrowing cast */,
  kPhiloxUniform /* seed, first block, element number (all i64) -> f32 of [0, 1); codegen/philox.h.
                    imm_int != 0: elements of neighbouring lanes have neighbouring numbers */
  ,
};

struct BodyOp {
  Opcode op;
  ScalarType type;             // of the result
  std::vector<uint32_t> args;  // earlier body values
  double imm_f32 = 0;          // kConstF32
  int64_t imm_int = 0;         // kConstInt, kIndex, kAccumulator, kPhiloxUniform
  Access access;               // kLoad
};

struct Store {
  uint32_t value = 0;
  Access access;  // converts to access.type
};

struct Body {
  std::vector<BodyOp> ops;
  std::vector<Store> stores;
};

}  // namespace hpu::graph_compiler
