#include "benchmarks/gemm_peak/cases.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace hpu::graph_compiler {
namespace {

// Describes many small products: A [batch, m, k], B [batch, k, n].
Case BatchGemm(int64_t batch, int64_t m, int64_t n, int64_t k) {
  GemmSpec spec;
  spec.batch = {batch};
  spec.m = m;
  spec.n = n;
  spec.k = k;
  spec.a.buffer = Persistent(0);
  spec.a.batch_strides = {m * k};
  spec.a.row_stride = k;
  spec.a.col_stride = 1;
  spec.b.buffer = Persistent(1);
  spec.b.batch_strides = {k * n};
  spec.b.row_stride = n;
  spec.b.col_stride = 1;
  spec.epilogue = StoreBody(MemoryType::kF32, {m * n, n, 1});
  spec.epilogue_operands = {Persistent(2)};
  spec.name = "batch_gemm";
  return {"batch " + std::to_string(batch) + " of " + std::to_string(m) + "x" + std::to_string(n) +
              "x" + std::to_string(k),
          [spec](ContractionEmitter& emitter) { return emitter.EmitGemm(spec); },
          {batch * m * k, batch * k * n, batch * m * n}};
}

Case Gemm(int64_t m, int64_t n, int64_t k, bool transposed, bool stable, bool bias_gelu = false,
          MemoryType type = MemoryType::kF32) {
  GemmSpec spec;
  spec.a.type = spec.b.type = type;
  spec.m = m;
  spec.n = n;
  spec.k = k;
  spec.a.buffer = Persistent(0);
  spec.a.row_stride = k;
  spec.a.col_stride = 1;
  spec.b.buffer = Persistent(1);
  spec.b.row_stride = transposed ? 1 : n;
  spec.b.col_stride = transposed ? k : 1;
  spec.b.stable = stable;
  spec.b.buffer_bytes = static_cast<uint64_t>(MemoryTypeSize(type) * n * k);
  spec.epilogue = StoreBody(type, {n, 1});
  if (bias_gelu) {
    Body& body = spec.epilogue;
    BodyOp load = MakeOp(Opcode::kLoad);
    load.access.operand = 1;
    load.access.type = type;
    load.access.strides = {0, 1};
    const auto op = [&](Opcode code, std::vector<uint32_t> args) {
      body.ops.push_back(MakeOp(code, std::move(args)));
      return static_cast<uint32_t>(body.ops.size() - 1);
    };
    body.ops.push_back(load);
    const uint32_t x = op(Opcode::kAdd, {0, 1});
    const bool rough = type == MemoryType::kBF16;
    const uint32_t gate = op(rough ? Opcode::kNormalCdfBf16 : Opcode::kNormalCdf, {x});
    body.stores[0].value = op(Opcode::kMul, {x, gate});
  }
  spec.epilogue_operands = {Persistent(2), Persistent(1)};
  spec.name = "gemm";
  return {std::string("gemm ") + (type == MemoryType::kF32 ? "" : "bf16 ") + std::to_string(m) +
              "x" + std::to_string(n) + "x" + std::to_string(k) +
              (transposed ? " [n,k]" : " [k,n]") + (stable ? "" : " unpacked") +
              (bias_gelu ? " +bias gelu" : ""),
          [spec](ContractionEmitter& emitter) { return emitter.EmitGemm(spec); },
          {m * k, n * k, m * n},
          type};
}

// Describes a convolution with channels last, padding kernel / 2, and dense weights (ko, c, kh,
// kw).
ConvSpec ConvOf(int64_t batch, int64_t size, int64_t c, int64_t ko, int64_t kernel, int64_t stride,
                int64_t groups) {
  ConvSpec spec;
  spec.batch = batch;
  spec.in_h = spec.in_w = size;
  spec.in_c = c;
  spec.out_c = ko;
  spec.kernel_h = spec.kernel_w = kernel;
  spec.stride_h = spec.stride_w = stride;
  spec.pad_top = spec.pad_left = kernel / 2;
  spec.groups = groups;
  spec.out_h = spec.out_w = (size + 2 * (kernel / 2) - kernel) / stride + 1;
  spec.x = Persistent(0);
  spec.w = Persistent(1);
  spec.w_stable = true;
  const int64_t x_strides[] = {size * size * c, size * c, c, 1};
  const int64_t w_strides[] = {c / groups * kernel * kernel, kernel * kernel, kernel, 1};
  std::copy_n(x_strides, 4, spec.x_strides);
  std::copy_n(w_strides, 4, spec.w_strides);
  spec.epilogue_operands = {Persistent(2)};
  return spec;
}

// In bf16 the case includes the operations that a norm (scale and shift in f32) and a relu add.
Case Conv(int64_t size, int64_t c, int64_t ko, int64_t kernel, int64_t stride, int64_t groups = 1,
          MemoryType type = MemoryType::kF32) {
  ConvSpec spec = ConvOf(1, size, c, ko, kernel, stride, groups);
  spec.x_type = spec.w_type = type;
  const int64_t out = spec.out_h;
  spec.epilogue = StoreBody(type, {out * out * ko, out * ko, ko, 1});
  const bool bf16 = type == MemoryType::kBF16;
  if (bf16) {
    Body& body = spec.epilogue;
    for (const uint32_t operand : {1, 2}) {
      body.ops.push_back(MakeOp(Opcode::kLoad));
      body.ops.back().access = {
          .operand = operand, .type = MemoryType::kF32, .strides = {0, 0, 0, 1}};
    }
    body.ops.push_back(MakeOp(Opcode::kFma, {0, 1, 2}));
    body.ops.push_back(MakeOp(Opcode::kConstF32));
    body.ops.push_back(MakeOp(Opcode::kMax, {3, 4}));
    body.stores[0].value = 5;
    spec.epilogue_operands = {Persistent(2), Persistent(3), Persistent(4)};
  }
  spec.name = "conv";
  return {std::string("conv ") + (bf16 ? "bf16 " : "") + std::to_string(kernel) + "x" +
              std::to_string(kernel) + " s" + std::to_string(stride) + " " + std::to_string(size) +
              " c" + std::to_string(c) + "-" + std::to_string(ko) +
              (groups > 1 ? " g" + std::to_string(groups) : "") + (bf16 ? " +norm relu" : ""),
          [spec](ContractionEmitter& emitter) { return emitter.EmitConv(spec); },
          {size * size * c, ko * c / groups * kernel * kernel, out * out * ko, 2 * ko, 2 * ko},
          type};
}

Case ConvWeightGradient(int64_t batch, int64_t size, int64_t c, int64_t ko, int64_t kernel,
                        int64_t stride, MemoryType type) {
  WeightGradientSpec spec;
  ConvSpec& conv = spec.conv;
  conv = ConvOf(batch, size, c, ko, kernel, stride, 1);
  conv.x_type = spec.dy_type = type;
  const int64_t out = conv.out_h;
  const int64_t dy_strides[] = {out * out * ko, out * ko, ko, 1};
  std::copy_n(dy_strides, 4, spec.dy_strides);
  spec.dy = Persistent(1);
  const int64_t taps = kernel * kernel;
  conv.epilogue = StoreBody(MemoryType::kF32, {kernel, 1, taps, c * taps});
  conv.name = "weight_gradient";
  const std::string sizes = std::to_string(size) + " c" + std::to_string(c) + "-" +
                            std::to_string(ko) + " n" + std::to_string(batch);
  const int64_t weights = ko * c * taps * 4 / MemoryTypeSize(type);
  return {std::string("weight gradient ") + (type == MemoryType::kF32 ? "" : "bf16 ") +
              std::to_string(kernel) + "x" + std::to_string(kernel) + " s" +
              std::to_string(stride) + " " + sizes,
          [spec](ContractionEmitter& emitter) { return emitter.EmitWeightGradient(spec); },
          {batch * size * size * c, batch * out * out * ko, weights},
          type};
}

// Operands have the layout of transformers: [batch, position, head, feature]. Keys and values of a
// single query come from a cache [batch, head, position, feature].
Case Attention(int64_t heads, int64_t kv_repeat, int64_t m, int64_t n, int64_t d, bool causal,
               MemoryType type = MemoryType::kF32) {
  AttentionSpec spec;
  spec.type = type;
  spec.batch = 1;
  spec.heads = heads;
  spec.kv_repeat = kv_repeat;
  spec.m = m;
  spec.n = n;
  spec.d = spec.dv = d;
  spec.scale = 0.125f;
  spec.causal = causal;
  const int64_t key_heads = heads / kv_repeat;
  const int64_t strides[] = {0, d, heads * d, 1};
  const bool cached = m == 1;
  const int64_t key_strides[] = {0, cached ? n * d : d, cached ? d : key_heads * d, 1};
  std::copy_n(strides, 4, spec.q_strides);
  std::copy_n(strides, 4, spec.out_strides);
  std::copy_n(key_strides, 4, spec.k_strides);
  std::copy_n(key_strides, 4, spec.v_strides);
  spec.q = Persistent(0);
  spec.k = Persistent(1);
  spec.v = Persistent(2);
  spec.out = Persistent(3);
  spec.name = "attention";
  return {std::string("attention ") + (type == MemoryType::kF32 ? "h" : "bf16 h") +
              std::to_string(heads) + "/" + std::to_string(key_heads) + " " + std::to_string(m) +
              "x" + std::to_string(n) + "x" + std::to_string(d) + (causal ? " causal" : ""),
          [spec](ContractionEmitter& emitter) { return emitter.EmitAttention(spec); },
          {heads * m * d, key_heads * n * d, key_heads * n * d, heads * m * d},
          type};
}

// A task handles one key head; the statistics are arbitrary numbers.
Case AttentionGradient(int64_t heads, int64_t m, int64_t d, bool causal, MemoryType type) {
  AttentionBackwardSpec spec;
  AttentionSpec& forward = spec.forward;
  forward.batch = 1;
  forward.heads = heads;
  forward.m = forward.n = m;
  forward.d = forward.dv = d;
  forward.scale = 0.125f;
  forward.causal = causal;
  forward.type = type;
  const int64_t strides[] = {0, d, heads * d, 1};
  for (int64_t* to : {forward.q_strides, forward.k_strides, forward.v_strides, forward.out_strides,
                      spec.out_gradient_strides, spec.q_gradient_strides, spec.k_gradient_strides,
                      spec.v_gradient_strides}) {
    std::copy_n(strides, 4, to);
  }
  forward.q = Persistent(0);
  forward.k = Persistent(1);
  forward.v = Persistent(2);
  forward.out = Persistent(3);
  forward.maximum = forward.inverse_sum = Persistent(4);
  spec.out_gradient = Persistent(5);
  spec.q_gradient = Persistent(6);
  spec.k_gradient = Persistent(7);
  spec.v_gradient = Persistent(8);
  forward.name = "attention_gradient";
  const int64_t elements = heads * m * d;
  std::vector<int64_t> buffers(9, elements);
  buffers[4] = heads * m * 4 / MemoryTypeSize(type);
  return {std::string("attention gradient ") + (type == MemoryType::kF32 ? "h" : "bf16 h") +
              std::to_string(heads) + " " + std::to_string(m) + "x" + std::to_string(d) +
              (causal ? " causal" : ""),
          [spec](ContractionEmitter& emitter) { return emitter.EmitAttentionBackward(spec); },
          buffers, type};
}

}  // namespace

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const int64_t m : {128, 1}) {
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{768, 768}, {3072, 768}, {768, 3072}}) {
      cases.push_back(Gemm(m, n, k, true, true));
      cases.push_back(Gemm(m, n, k, false, true));
    }
  }
  cases.push_back(Gemm(1, 32000, 768, true, true));
  cases.push_back(Gemm(1, 32000, 768, false, true));
  cases.push_back(Gemm(128, 3072, 768, true, true, true));
  cases.push_back(Gemm(3136, 384, 96, true, true, true, MemoryType::kBF16));
  cases.push_back(Gemm(128, 768, 768, true, false));
  cases.push_back(Gemm(128, 768, 768, false, false));
  cases.push_back(Gemm(4, 3072, 768, true, true));
  cases.push_back(Gemm(4, 3072, 768, false, true));
  cases.push_back(Gemm(16, 3072, 768, true, true));
  cases.push_back(Gemm(1024, 1024, 1024, false, true));
  cases.push_back(Gemm(196, 256, 1024, true, true));
  cases.push_back(Gemm(49, 2048, 512, true, true));
  for (const bool stable : {true, false}) {
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{768, 768}, {3072, 768}, {768, 3072}}) {
      for (const int64_t m : {128, 1024}) {
        cases.push_back(Gemm(m, n, k, true, stable, false, MemoryType::kBF16));
      }
    }
  }
  cases.push_back(BatchGemm(1024, 8, 8, 8));
  cases.push_back(BatchGemm(1024, 5, 7, 3));
  cases.push_back(BatchGemm(96, 64, 64, 64));
  cases.push_back(Attention(12, 1, 128, 128, 64, false));
  cases.push_back(Attention(12, 1, 128, 128, 64, true));
  cases.push_back(Attention(12, 1, 1024, 1024, 64, false));
  cases.push_back(Attention(12, 1, 1024, 1024, 64, true));
  cases.push_back(Attention(32, 1, 1, 1024, 64, false));
  cases.push_back(Attention(32, 4, 1, 1024, 64, false));
  cases.push_back(Attention(12, 1, 128, 128, 64, false, MemoryType::kBF16));
  cases.push_back(Attention(12, 1, 197, 197, 64, false, MemoryType::kBF16));
  cases.push_back(Attention(12, 1, 1024, 1024, 64, true, MemoryType::kBF16));
  for (const MemoryType type : {MemoryType::kF32, MemoryType::kBF16}) {
    cases.push_back(AttentionGradient(24, 128, 64, false, type));
    cases.push_back(AttentionGradient(24, 1024, 64, true, type));
  }
  // These come from ResNet-50, batch 1.
  cases.push_back(Conv(224, 3, 64, 7, 2));
  cases.push_back(Conv(56, 64, 64, 1, 1));
  cases.push_back(Conv(56, 64, 256, 1, 1));
  cases.push_back(Conv(56, 64, 64, 3, 1));
  cases.push_back(Conv(56, 128, 128, 3, 2));
  cases.push_back(Conv(28, 128, 128, 3, 1));
  cases.push_back(Conv(14, 256, 256, 3, 1));
  cases.push_back(Conv(7, 512, 512, 3, 1));
  cases.push_back(Conv(56, 256, 512, 1, 2));
  cases.push_back(Conv(14, 1024, 256, 1, 1));
  cases.push_back(Conv(56, 144, 144, 3, 1, 144));
  cases.push_back(Conv(224, 3, 64, 7, 2, 1, MemoryType::kBF16));
  cases.push_back(Conv(56, 64, 64, 1, 1, 1, MemoryType::kBF16));
  cases.push_back(Conv(56, 64, 256, 1, 1, 1, MemoryType::kBF16));
  cases.push_back(Conv(56, 64, 64, 3, 1, 1, MemoryType::kBF16));
  cases.push_back(Conv(112, 16, 96, 1, 1, 1, MemoryType::kBF16));
  cases.push_back(Conv(56, 144, 144, 3, 1, 144, MemoryType::kBF16));
  // These come from the training of ResNet-50, batch 4, and of a U-Net.
  for (const MemoryType type : {MemoryType::kF32, MemoryType::kBF16}) {
    cases.push_back(ConvWeightGradient(4, 56, 64, 64, 3, 1, type));
    cases.push_back(ConvWeightGradient(4, 56, 64, 256, 1, 1, type));
    cases.push_back(ConvWeightGradient(4, 56, 128, 128, 3, 2, type));
    cases.push_back(ConvWeightGradient(4, 14, 256, 256, 3, 1, type));
    cases.push_back(ConvWeightGradient(4, 7, 512, 512, 3, 1, type));
    cases.push_back(ConvWeightGradient(2, 64, 64, 32, 3, 1, type));
  }
  return cases;
}

}  // namespace hpu::graph_compiler
