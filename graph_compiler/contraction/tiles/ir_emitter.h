// A small vocabulary over llvm::IRBuilder for the kernels of this folder: constant-folding index
// arithmetic, loops with carried SSA values, and the vector operations whose form depends on the
// target (fused multiply-add, widening loads, transposition).
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <vector>

#include "graph_compiler/codegen/module.h"
#include "graph_compiler/ir/loop_ir.h"

namespace hpu::graph_compiler {

inline constexpr int64_t kLineBytes = 64;  // of a cache

using Values = std::vector<llvm::Value*>;

class IrEmitter {
 public:
  // Factors and results of bf16 are narrowed in the way in which the target multiplies them (see
  // bf16_denormals_are_zero in TargetInfo).
  IrEmitter(llvm::IRBuilder<>& builder, const TargetInfo& target)
      : b(builder), target_(target), lanes_(target.f32_lanes) {
    target_.bf16_denormals_are_zero = target.avx512_bf16;
  }

  llvm::IRBuilder<>& b;

  const TargetInfo& target() const { return target_; }
  int lanes() const { return lanes_; }

  // Integers are i64. Multiplication by and addition of constants fold 0 and 1 away, so that
  // address arithmetic with compile-time strides costs nothing where a stride is trivial.
  llvm::Value* Int(int64_t value) { return b.getInt64(value); }
  llvm::Value* Mul(llvm::Value* x, int64_t factor);
  llvm::Value* Add(llvm::Value* x, llvm::Value* y);
  llvm::Value* Add(llvm::Value* x, int64_t y) { return Add(x, Int(y)); }
  llvm::Value* Sub(llvm::Value* x, llvm::Value* y) { return b.CreateSub(x, y); }
  llvm::Value* DivConst(llvm::Value* x, int64_t divisor);  // x >= 0
  llvm::Value* RemConst(llvm::Value* x, int64_t divisor);  // x >= 0
  llvm::Value* Min(llvm::Value* x, llvm::Value* y);
  llvm::Value* Max(llvm::Value* x, llvm::Value* y);
  // Splits a flat number (row-major over sizes) into its coordinates.
  Values Decompose(llvm::Value* flat, const std::vector<int64_t>& sizes);
  // Returns sum index[i] * strides[i].
  llvm::Value* Dot(const Values& index, const std::vector<int64_t>& strides);

  // Returns base + bytes.
  llvm::Value* Address(llvm::Value* base, llvm::Value* bytes);
  llvm::Value* Address(llvm::Value* base, int64_t bytes) { return Address(base, Int(bytes)); }

  // Emits for (i = begin; i < end; i += step). The body may create blocks of its own.
  void For(llvm::Value* begin, llvm::Value* end, int64_t step,
           const std::function<void(llvm::Value* i)>& body);
  // Emits the same loop with loop-carried values: the body gets the current ones and returns the
  // next ones.
  Values For(llvm::Value* begin, llvm::Value* end, int64_t step, const Values& init,
             const std::function<Values(llvm::Value* i, const Values& carried)>& body);
  void If(llvm::Value* condition, const std::function<void()>& then,
          const std::function<void()>& otherwise = nullptr);
  // Emits condition ? then() : otherwise(), of which only one is evaluated.
  Values Choose(llvm::Value* condition, const std::function<Values()>& then,
                const std::function<Values()>& otherwise);

  // The following work on f32 vectors. lanes == 1 means a scalar.
  llvm::Type* F32(int lanes);
  llvm::Value* F32Const(float value, int lanes);
  llvm::Value* Zero(int lanes) { return F32Const(0.0f, lanes); }
  llvm::Value* Splat(llvm::Value* scalar, int lanes);
  llvm::Value* Fma(llvm::Value* x, llvm::Value* y, llvm::Value* sum);
  llvm::Value* LoadF32(llvm::Value* address, int lanes);
  void StoreF32(llvm::Value* address, llvm::Value* value);
  // Loads `lanes` consecutive elements of a float type as f32; with `mask` (vector of i1) missing
  // lanes are not touched and read as 0. kBool is an attention mask: 0 where true, -inf elsewhere.
  llvm::Value* LoadWide(llvm::Value* address, MemoryType type, int lanes,
                        llvm::Value* mask = nullptr);
  // Loads the bits of `lanes` consecutive elements that are bf16 numbers (HoldsBF16); `mask` as
  // above.
  llvm::Value* LoadBF16(llvm::Value* address, MemoryType type, int lanes,
                        llvm::Value* mask = nullptr);
  // Returns sum[i] + a[2i] * b[2i] + a[2i + 1] * b[2i + 1] on pairs of bf16, which may also be
  // lanes of f32. Needs AVX512_BF16.
  llvm::Value* DotPairs(llvm::Value* a, llvm::Value* b, llvm::Value* sum);
  // Returns sum[i] + the dot product of the dwords a[i] and b[i], on 8-bit integers as lanes of
  // f32. A dword is four u8 of a by four i8 of b where the CPU has VNNI, else two i16 of each. It
  // never saturates.
  llvm::Value* DotIntegers(llvm::Value* a, llvm::Value* b, llvm::Value* sum);
  llvm::Type* I32(int lanes);
  void PrefetchToL1(llvm::Value* address) { Prefetch(address, 3); }
  void PrefetchToL2(llvm::Value* address) { Prefetch(address, 2); }
  // Must follow stores that bypassed the caches, before other threads may see them.
  void StoreFence();
  // Returns an i1 vector whose first `count` lanes are set.
  llvm::Value* LaneMask(llvm::Value* count, int lanes);
  // Lane c of the result is lane c / group * group + member of x; `group` divides the lanes.
  llvm::Value* MemberOfGroup(llvm::Value* x, int64_t group, int64_t member);
  // Moves vectors[i][j] to result[j][i]; there must be as many vectors as lanes.
  Values Transpose(Values vectors);
  // One step of SumLanes: lanes whose bit `distance` is clear hold x[i] + x[i | distance], and the
  // others hold the same of y.
  llvm::Value* AddInterleaved(llvm::Value* x, llvm::Value* y, int distance);
  // Lane i of the result is the sum over the lanes of vectors[i]; there must be as many vectors as
  // lanes.
  llvm::Value* SumLanes(Values vectors);
  llvm::Value* MaxF32(llvm::Value* x, llvm::Value* y);

 private:
  void Prefetch(llvm::Value* address, int locality);
  // In result[i], bit `distance` of lane i chooses y over x; the source lane has that bit set to
  // `high`.
  llvm::Value* Interleave(llvm::Value* x, llvm::Value* y, int distance, bool high);

  TargetInfo target_;
  int lanes_;
};

}  // namespace hpu::graph_compiler
