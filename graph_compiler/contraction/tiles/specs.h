// Describes a contraction for the fusion pass that finds it and for the kernels that compute it:
// shapes, accesses of operands and the epilogue.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph_compiler/ir/loop_ir.h"
#include "recipe/recipe.h"

namespace hpu::graph_compiler {

// A matrix operand: element (row, col) of batch b lies at offset + sum batch_strides[i]*b[i] +
// row*row_stride + col*col_stride, in elements of `type`.
struct MatrixAccess {
  OperandRef buffer;
  MemoryType type = MemoryType::kF32;
  int64_t offset = 0;
  std::vector<int64_t> batch_strides;  // one per batch dimension (0 = broadcast), outermost first
  int64_t row_stride = 0;
  int64_t col_stride = 0;
  // True for inputs of the graph that stay the same from launch to launch as far as the compiler
  // knows (a persistent tensor that no kernel of this recipe writes), so that it pays to pack them
  // once.
  bool stable = false;
  uint64_t buffer_bytes = 0;  // extent of the buffer from its base (what a packed copy depends on)
};

// Moves the offset into the reference to the buffer.
inline void FoldOffset(MatrixAccess& access) {
  access.buffer.offset += static_cast<uint64_t>(access.offset * MemoryTypeSize(access.type));
  access.offset = 0;
}

// The numbers that stand for 0 in the operands of a product of u8 by i8. Its sums are sums of (a -
// a_zero) * (b - b_zero[n]), exact in i32; i32 is then the type of the epilogue's kAccumulator.
struct IntegerZeros {
  int64_t a = 0;
  OperandRef b;  // i64, one per column of the result; kNull means 0
  bool has_b() const { return b.kind != OperandRef::Kind::kNull; }
};

// C[b, m, n] = epilogue(sum_k A[b, m, k] * B[b, k, n]), accumulated in f32.
// The epilogue's iteration space is (batch dims..., m, n), with vector dimension n; kAccumulator 0
// is the sum; its stores write the results. Its Access::operand numbers index `epilogue_operands`.
struct GemmSpec {
  std::vector<int64_t> batch;  // sizes, outermost first; empty = one matrix
  int64_t m = 0, n = 0, k = 0;
  MatrixAccess a, b;
  IntegerZeros zeros;
  Body epilogue;
  std::vector<OperandRef> epilogue_operands;
  std::string name;
};

// A product whose rows, or whose terms, belong to groups: group g has those from ends[g - 1] (0 for
// the first) to ends[g], which are known only when the product runs. An end beyond the last row or
// term counts as their number, and one before its predecessor as that one. Accumulated in f32.
//
//   !inner:  C[m, n] = epilogue(sum_k A[m, k] * B[group of m, k, n]); rows of no group have sum 0
//   inner:   C[g, m, n] = epilogue(sum over k in group g of A[m, k] * B[k, n])
struct GroupedGemmSpec {
  bool inner = false;
  int64_t groups = 0, m = 0, n = 0, k = 0;
  MatrixAccess a;
  // One with a batch stride, or one without for each group, equal but for the buffer; one without
  // if `inner`.
  std::vector<MatrixAccess> b;
  OperandRef ends;  // i32 [groups], dense
  Body epilogue;    // over (m, n), or (groups, m, n)
  std::vector<OperandRef> epilogue_operands;
  std::string name;
};

// C[m, n] = epilogue(sum over groups g of scale[g, n] * (sum over k in g of x[m, k] * q[k, n]) +
//                    zero[g, n] * (sum over k in g of x[m, k])), accumulated in f32.
// If `half` is 0, q is i8, with columns of k contiguous and `weight_stride` bytes apart. Else q is
// 4 bits minus 8, in blocks of 2 * half columns that are `weight_stride` bytes apart; a block has
// `half` bytes per k, each with column j in its low bits and column j + half in its high ones.
struct QuantizedGemmSpec {
  int64_t m = 0, n = 0, k = 0;
  int64_t group = 0;  // a divisor of k
  int64_t half = 0;   // a multiple of the lanes of any target
  MatrixAccess x;     // (m, k)
  OperandRef weights;
  int64_t weight_stride = 0;
  MatrixAccess scale, zero;  // (groups, n); a buffer of kNull means factors of 1 and zeros of 0
  Body epilogue;
  std::vector<OperandRef> epilogue_operands;
  std::string name;
};

// Computes y[n, ho, wo, ko] (channels last, iteration space (n, ho, wo, ko), vector dimension ko).
// x is indexed by (n, h, w, c) and w by (ko, c/groups, kh, kw), with any strides.
struct ConvSpec {
  int64_t batch = 0, in_h = 0, in_w = 0, in_c = 0, out_h = 0, out_w = 0, out_c = 0;
  int64_t kernel_h = 0, kernel_w = 0, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  int64_t pad_top = 0, pad_left = 0, groups = 1;
  bool direct = false;  // allows no form that rounds sums of pixels before it multiplies them
  OperandRef x, w;
  MemoryType x_type = MemoryType::kF32, w_type = MemoryType::kF32;
  int64_t x_strides[4] = {}, w_strides[4] = {};  // elements, in the orders above
  int64_t x_offset = 0, w_offset = 0;
  bool w_stable = false;
  uint64_t w_buffer_bytes = 0;
  IntegerZeros zeros;
  Body epilogue;
  std::vector<OperandRef> epilogue_operands;
  std::string name;

  // Whether the groups read the same weights, which are packed once then.
  bool groups_share_weights() const { return w_strides[0] == 0; }
};

// The gradient of a convolution by its weight:
//
//   dw[r, s, c, ko] =
//       epilogue(sum over (n, ho, wo) of dy[n, ho, wo, ko] * x[n, h, w, c of ko's group])
//
// where (h, w) is what tap (r, s) of the forward convolution sees at (ho, wo). The iteration space
// is (r, s, c, ko), with c counted within its group and vector dimension ko. Accumulation is in
// f32.
struct WeightGradientSpec {
  // The forward convolution without w; the epilogue, its operands and the name belong to the
  // gradient.
  ConvSpec conv;
  OperandRef dy;
  MemoryType dy_type = MemoryType::kF32;
  int64_t dy_strides[4] = {};  // elements, (n, ho, wo, ko)
  int64_t dy_offset = 0;
};

// out = softmax(q k^T * scale + mask, causal) v, in one pass over keys (no score matrix in memory).
// q [b, h, m, d], k [b, h / kv_repeat, n, d], v [b, h / kv_repeat, n, dv]; strides are in elements.
struct AttentionSpec {
  int64_t batch = 0, heads = 0, kv_repeat = 1, m = 0, n = 0, d = 0, dv = 0;
  float scale = 1;
  bool causal = false;  // key j is visible to query i iff j <= i (PyTorch's top-left rule)
  OperandRef q, k, v, out, mask;            // mask kNull = none
  MemoryType type = MemoryType::kF32;       // q, k, v, out
  MemoryType mask_type = MemoryType::kF32;  // kF32/kBF16 additive; kBool true = keep
  int64_t q_offset = 0, k_offset = 0, v_offset = 0, out_offset = 0, mask_offset = 0;
  int64_t q_strides[4] = {}, k_strides[4] = {}, v_strides[4] = {}, out_strides[4] = {};
  int64_t mask_strides[4] = {};  // (b, h, m, n), 0 = broadcast
  // The statistics that the gradient takes, f32, row-major (b, h, m): the maximum of the row's
  // scores and 1 / the sum of exp(score - maximum). They are 0 and 1 for a row whose keys are all
  // hidden, so that its weights are 0. Both are present or neither is.
  OperandRef maximum, inverse_sum;
  // Weights are kept with probability `keep` and divided by it. The operands are the seed, offset
  // and base of the draw, i64 each (attention_dropout.h). They are absent where all weights are
  // kept.
  float keep = 1;
  OperandRef seed, offset, base;
  std::string name;

  bool HasStatistics() const { return maximum.kind != OperandRef::Kind::kNull; }
  bool Drops() const { return seed.kind != OperandRef::Kind::kNull; }
};

// Gradients of q, k and v from the gradient of out. `forward` has the operands that the forward
// read and, to be read as well, its results: out and both statistics (any maximum and inverse sum
// with the same exp(score - maximum) * inverse sum). The gradients have the strides of q, k, v and
// out.
struct AttentionBackwardSpec {
  AttentionSpec forward;
  OperandRef out_gradient, q_gradient, k_gradient, v_gradient;
  int64_t out_gradient_offset = 0, q_gradient_offset = 0, k_gradient_offset = 0,
          v_gradient_offset = 0;
  int64_t out_gradient_strides[4] = {}, q_gradient_strides[4] = {}, k_gradient_strides[4] = {},
          v_gradient_strides[4] = {};
};

// The parts that emission adds to a recipe. Kernel entries are numbered by the order of AddKernel
// calls: KernelLaunch::entry holds the kernel's ordinal in the module until the image is laid out.
struct EmittedKernels {
  std::vector<KernelLaunch> launches;  // operands of kind kPacked index `packed` below
  std::vector<PackedOperand> packed;
  uint64_t workspace_bytes = 0;  // extra workspace; its OperandRefs are kWorkspace with
                                 // index kExtraWorkspace and offsets from 0
};
inline constexpr uint32_t kExtraWorkspace = 0xFFFFFFFF;

}  // namespace hpu::graph_compiler
