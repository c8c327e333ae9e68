#include "graph_compiler/contraction/conv/conv.h"

#include <algorithm>
#include <optional>

#include "graph_compiler/contraction/conv/conv_winograd.h"
#include "graph_compiler/contraction/gemm/gemm.h"
#include "graph_compiler/contraction/tiles/epilogue.h"
#include "graph_compiler/contraction/tiles/int8.h"
#include "graph_compiler/contraction/tiles/packing.h"

namespace hpu::graph_compiler {
namespace {

absl::Status Check(const ConvSpec& spec) {
  if (!IsIntegerProduct(spec.x_type, spec.w_type) &&
      (!IsFactorType(spec.x_type) || !IsFactorType(spec.w_type))) {
    return Unimplemented(spec.name,
                         ": convolution operands must be f32, bf16 or f16, or u8 and i8");
  }
  if (spec.groups < 1 || spec.in_c % spec.groups != 0 || spec.out_c % spec.groups != 0) {
    return InvalidArgument(spec.name, ": ", spec.groups, " groups do not divide ", spec.in_c,
                           " input and ", spec.out_c, " output channels");
  }
  if (spec.stride_h < 1 || spec.stride_w < 1 || spec.dilation_h < 1 || spec.dilation_w < 1 ||
      spec.kernel_h < 1 || spec.kernel_w < 1 || spec.pad_top < 0 || spec.pad_left < 0) {
    return InvalidArgument(spec.name,
                           ": kernel, stride and dilation must be positive, padding not negative");
  }
  return absl::OkStatus();
}

// Rewrites accesses of (n, h, w, c) as accesses of a product: the dimensions [first, 3) become one
// row dimension. Returns nothing if some access does not run evenly through them.
std::optional<Body> CollapsePixels(const Body& body, const ConvSpec& spec, size_t first) {
  const int64_t sizes[] = {spec.batch, spec.out_h, spec.out_w};
  bool possible = true;
  const auto collapse = [&](Access& access) {
    std::vector<int64_t>& strides = access.strides;
    for (size_t i = first; i < 2; ++i) {
      possible &= sizes[i] == 1 || strides[i] == strides[i + 1] * sizes[i + 1];
    }
    strides.erase(strides.begin() + static_cast<ptrdiff_t>(first), strides.begin() + 2);
  };
  Body collapsed = body;
  for (BodyOp& op : collapsed.ops) {
    if (op.op == Opcode::kLoad) collapse(op.access);
    if (op.op != Opcode::kIndex) continue;
    possible &= op.imm_int == 3 || first == 2;
    op.imm_int -= static_cast<int64_t>(2 - first);
  }
  for (Store& store : collapsed.stores) collapse(store.access);
  if (!possible) return std::nullopt;
  return collapsed;
}

bool IsPointwise(const ConvSpec& spec) {
  return spec.kernel_h == 1 && spec.kernel_w == 1 && spec.stride_h == 1 && spec.stride_w == 1 &&
         spec.pad_top == 0 && spec.pad_left == 0 && spec.groups == 1 && spec.out_h == spec.in_h &&
         spec.out_w == spec.in_w;
}

// Returns a 1x1 convolution as a product whose rows are as many of the pixels as the strides allow.
GemmSpec PointwiseGemm(const ConvSpec& spec) {
  const int64_t sizes[] = {spec.batch, spec.in_h, spec.in_w};
  const int64_t* strides = spec.x_strides;
  GemmSpec gemm;
  gemm.n = spec.out_c;
  gemm.k = spec.in_c;
  gemm.name = spec.name;
  gemm.epilogue_operands = spec.epilogue_operands;
  gemm.zeros = spec.zeros;
  for (size_t first = 0; first <= 2; ++first) {
    bool even = true;
    for (size_t i = first; i < 2; ++i) {
      even &= sizes[i] == 1 || strides[i] == strides[i + 1] * sizes[i + 1];
    }
    if (!even) continue;
    std::optional<Body> body = CollapsePixels(spec.epilogue, spec, first);
    if (!body.has_value()) continue;
    gemm.epilogue = *std::move(body);
    gemm.m = 1;
    for (size_t i = first; i < 3; ++i) gemm.m *= sizes[i];
    for (size_t i = 0; i < first; ++i) {
      gemm.batch.push_back(sizes[i]);
      gemm.a.batch_strides.push_back(strides[i]);
      gemm.b.batch_strides.push_back(0);
    }
    break;
  }
  gemm.a.buffer = spec.x;
  gemm.a.type = spec.x_type;
  gemm.a.offset = spec.x_offset;
  gemm.a.row_stride = strides[2];
  gemm.a.col_stride = strides[3];
  gemm.b.buffer = spec.w;
  gemm.b.type = spec.w_type;
  gemm.b.offset = spec.w_offset;
  gemm.b.row_stride = spec.w_strides[1];
  gemm.b.col_stride = spec.w_strides[0];
  gemm.b.stable = spec.w_stable;
  gemm.b.buffer_bytes = spec.w_buffer_bytes;
  return gemm;
}

constexpr int64_t kMostJoinedChannels = 8;

// Returns whether the convolution is done on pairs of bf16, as AVX512_BF16 multiplies them.
bool TakesPairs(const TargetInfo& target, const ConvSpec& spec) {
  return target.avx512_bf16 && spec.x_type == MemoryType::kBF16 && HoldsBF16(spec.w_type);
}

// Returns whether channels lie in pairs.
bool LiesInPairs(const ConvSpec& spec) {
  if (spec.x_strides[3] != 1) return false;
  const bool even = std::all_of(spec.x_strides, spec.x_strides + 3,
                                [](int64_t stride) { return stride % 2 == 0; });
  return spec.in_c / spec.groups % 2 == 0 && even;
}

// Makes input channels and the strides of x count pairs, which are copied like f32.
void CountPairs(ConvSpec& spec) {
  spec.in_c /= 2;
  for (int i = 0; i < 3; ++i) spec.x_strides[i] /= 2;
  spec.x_type = MemoryType::kF32;
}

bool JoinsPairs(const ConvSpec& spec) {
  return spec.groups == 1 && spec.in_c <= kMostJoinedChannels;
}

// Makes input channels and the strides of x count dwords of integers.
void TakeIntegers(KernelCache& cache, PanelType type, ConvSpec& spec, EmittedKernels& out) {
  const int64_t per_dword = KPerStep(type);
  const int64_t channels = RoundUp(spec.in_c, per_dword);
  const bool lies_in_dwords = type == PanelType::kI8Quads && channels == spec.in_c &&
                              spec.x_strides[3] == 1 && spec.x.offset % 4 == 0 &&
                              std::all_of(spec.x_strides, spec.x_strides + 3,
                                          [&](int64_t stride) { return stride % per_dword == 0; });
  if (!lies_in_dwords) {
    MatrixAccess x;
    x.buffer = spec.x;
    x.type = spec.x_type;
    x.batch_strides = {spec.x_strides[0], spec.x_strides[1]};
    x.row_stride = spec.x_strides[2];
    x.col_stride = spec.x_strides[3];
    StageIntegers(cache, {spec.batch, spec.in_h}, spec.in_w, spec.in_c,
                  {type, channels, spec.zeros.a, true}, x, out);
    spec.x = x.buffer;
    spec.x_strides[0] = x.batch_strides[0];
    spec.x_strides[1] = x.batch_strides[1];
    spec.x_strides[2] = x.row_stride;
    spec.x_strides[3] = 1;
  }
  for (int i = 0; i < 3; ++i) spec.x_strides[i] /= per_dword;
  spec.in_c = channels / per_dword;
  spec.x_type = MemoryType::kF32;
}

// Packs the weights into panels: once if they are stable, else in a launch of its own.
OperandRef PackWeights(KernelCache& cache, const ConvSpec& spec, const ConvPlan& plan,
                       bool depthwise, PanelType packed_type, EmittedKernels& out) {
  MatrixAccess w;
  w.buffer = spec.w;
  w.buffer.offset += static_cast<uint64_t>(spec.w_offset * MemoryTypeSize(spec.w_type));
  w.type = spec.w_type;
  w.col_stride = spec.w_strides[0];
  w.stable = spec.w_stable;
  w.row_stride = spec.w_strides[1];
  PanelFormat format;
  format.panel_cols = plan.panel_cols;
  format.packed_type = packed_type;
  format.outer_k_sizes = {spec.kernel_h, spec.kernel_w};
  format.outer_k_strides = {spec.w_strides[2], spec.w_strides[3]};
  std::vector<int64_t> batch;
  int64_t k = plan.lane_group, n = spec.out_c;
  if (plan.column_pairs) {
    format.outer_k_sizes = {spec.kernel_h};
    format.outer_k_strides = {spec.w_strides[2]};
    w.row_stride = spec.w_strides[3];
    k = spec.kernel_w;
  }
  if (!depthwise) {
    w.batch_strides = {plan.group_out * spec.w_strides[0]};
    batch = {spec.groups};
    k = spec.in_c / spec.groups;
    n = plan.group_out;
  }
  if (!spec.w_stable) return StagePanels(cache, batch, w, k, n, format, out);
  out.packed.push_back(EmitPanelPacking(cache, batch, w, k, n, format));
  return {OperandRef::Kind::kPacked, static_cast<uint32_t>(out.packed.size() - 1), 0};
}

}  // namespace

absl::StatusOr<EmittedKernels> EmitConvKernels(KernelCache& cache, const ConvSpec& spec) {
  RETURN_IF_ERROR(Check(spec));
  if (spec.batch == 0 || spec.out_h == 0 || spec.out_w == 0 || spec.out_c == 0) {
    return EmittedKernels();
  }
  if (IsPointwise(spec)) return EmitGemmKernels(cache, PointwiseGemm(spec));
  if (spec.in_c == 0) return Unimplemented(spec.name, ": convolution without input channels");

  const TargetInfo& target = cache.module().target();
  const bool depthwise = TakesDepthwise(target, spec);
  ConvSpec bound = spec;
  bound.x.offset += static_cast<uint64_t>(spec.x_offset * MemoryTypeSize(spec.x_type));
  bound.x_offset = 0;
  const bool takes_pairs = !depthwise && TakesPairs(target, spec);
  const bool lies_in_pairs = takes_pairs && LiesInPairs(spec);
  const bool joins_pairs = takes_pairs && !lies_in_pairs && JoinsPairs(spec);
  const bool pairs = lies_in_pairs || joins_pairs;
  const bool integers = IsIntegerProduct(spec.x_type, spec.w_type);
  EmittedKernels out;
  PanelType packed_type = PanelType::kF32;
  if (integers) {
    packed_type = IntegerPanels(target);
    TakeIntegers(cache, packed_type, bound, out);
  }
  if (lies_in_pairs) CountPairs(bound);
  if (joins_pairs) bound.in_c = CeilDiv(spec.in_c, 2);
  const std::optional<WinogradPlan> winograd =
      depthwise || pairs || integers ? std::nullopt : PlanWinogradConv(target, bound);
  ConvPlan plan = winograd.has_value() ? winograd->block
                  : depthwise          ? PlanDepthwiseConv(target, bound)
                                       : PlanTiledConv(target, bound, pairs || integers);
  if (integers) plan.padding = ZeroDword(packed_type, spec.zeros.a);
  if (joins_pairs) plan.joined_channels = spec.in_c;
  if (pairs || plan.column_pairs) {
    packed_type = PanelType::kBF16Pairs;
  } else if (!depthwise && HoldsBF16(spec.w_type) && plan.vectors % 2 == 0) {
    packed_type = PanelType::kBF16Vectors;
  }

  const OperandRef panels = PackWeights(cache, spec, plan, depthwise, packed_type, out);
  std::vector<OperandRef> operands = {bound.x, panels};
  if (spec.zeros.has_b()) operands.push_back(spec.zeros.b);
  bound.epilogue = BindEpilogue(spec.epilogue, spec.epilogue_operands, operands);
  bound.epilogue_operands = std::move(operands);
  out.launches.push_back(winograd.has_value() ? EmitWinogradConv(cache, bound, *winograd)
                         : depthwise          ? EmitDepthwiseConv(cache, bound, plan)
                                              : EmitTiledConv(cache, bound, plan, packed_type));
  return out;
}

}  // namespace hpu::graph_compiler
