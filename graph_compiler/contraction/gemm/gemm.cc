#include "graph_compiler/contraction/gemm/gemm.h"

#include <algorithm>

#include "graph_compiler/contraction/gemm/dwords.h"
#include "graph_compiler/contraction/tiles/amx_tiles.h"
#include "graph_compiler/contraction/tiles/epilogue.h"
#include "graph_compiler/contraction/tiles/int8.h"
#include "graph_compiler/contraction/tiles/packing.h"

namespace hpu::graph_compiler {
namespace {

// The least number of row tiles that must share a panel before copying it pays.
constexpr int64_t kTilesWorthPacking = 4;
constexpr int64_t kWaysOfL1 = 8;
constexpr int kUsualVectors = 2;

absl::Status Check(const GemmSpec& spec) {
  if (!IsIntegerProduct(spec.a.type, spec.b.type) &&
      (!IsFactorType(spec.a.type) || !IsFactorType(spec.b.type))) {
    return Unimplemented(spec.name, ": gemm operands must be f32, bf16 or f16, or u8 and i8");
  }
  const size_t rank = spec.batch.size();
  if (spec.a.batch_strides.size() != rank || spec.b.batch_strides.size() != rank) {
    return InvalidArgument(spec.name, ": gemm has ", rank, " batch sizes but ",
                           spec.a.batch_strides.size(), " and ", spec.b.batch_strides.size(),
                           " batch strides");
  }
  if (spec.m < 0 || spec.n < 0 || spec.k < 0) {
    return InvalidArgument(spec.name, ": gemm sizes must not be negative");
  }
  return absl::OkStatus();
}

bool HasNegativeStride(const MatrixAccess& access) {
  return access.row_stride < 0 || access.col_stride < 0 ||
         std::any_of(
             access.batch_strides.begin(), access.batch_strides.end(),
             [](int64_t stride) { return stride < 0; });
}

uint64_t TotalBytes(const BoundGemm& gemm, const Body& epilogue) {
  uint64_t total =
      EpilogueBytes(epilogue, static_cast<uint64_t>(gemm.batch_count() * gemm.m * gemm.n));
  const std::pair<const MatrixAccess*, int64_t> matrices[] = {{&gemm.a, gemm.m * gemm.k},
                                                              {&gemm.b, gemm.k * gemm.n}};
  for (const auto& [access, elements] : matrices) {
    int64_t count = elements * MemoryTypeSize(access->type);
    for (size_t i = 0; i < gemm.batch.size(); ++i) {
      if (access->batch_strides[i] != 0) count *= gemm.batch[i];
    }
    total += static_cast<uint64_t>(count);
  }
  return total;
}

// Returns the same sums as B^T A^T: rows and columns change places, in the epilogue too.
GemmSpec Transposed(const GemmSpec& spec) {
  GemmSpec result = spec;
  std::swap(result.m, result.n);
  std::swap(result.a, result.b);
  std::swap(result.a.row_stride, result.a.col_stride);
  std::swap(result.b.row_stride, result.b.col_stride);
  const size_t row = spec.batch.size(), col = row + 1;
  for (BodyOp& op : result.epilogue.ops) {
    if (op.op == Opcode::kLoad) std::swap(op.access.strides[row], op.access.strides[col]);
    if (op.op != Opcode::kIndex) continue;
    if (op.imm_int == static_cast<int64_t>(row)) {
      op.imm_int = static_cast<int64_t>(col);
    } else if (op.imm_int == static_cast<int64_t>(col)) {
      op.imm_int = static_cast<int64_t>(row);
    }
  }
  for (Store& store : result.epilogue.stores) {
    std::swap(store.access.strides[row], store.access.strides[col]);
  }
  return result;
}

// A matrix times a vector reads the matrix once, so it is streamed as one row times a matrix.
bool IsMatrixTimesVector(const GemmSpec& spec) {
  return spec.n == 1 && spec.m > kMaxStreamedRows && spec.k >= kShortestStream &&
         (spec.a.col_stride == 1 || spec.a.row_stride == 1);
}

class GemmForms {
 public:
  GemmForms(KernelCache& cache, const GemmSpec& spec)
      : cache_(cache), spec_epilogue_(spec.epilogue), epilogue_operands_(spec.epilogue_operands) {
    gemm_.batch = spec.batch;
    gemm_.m = spec.m;
    gemm_.n = spec.n;
    gemm_.k = spec.k;
    gemm_.a = spec.a;
    gemm_.b = spec.b;
    gemm_.zeros = spec.zeros;
    gemm_.name = spec.name;
    FoldOffset(gemm_.a);
    FoldOffset(gemm_.b);
    DropUnusedStrides();
    gemm_.total_flops =
        2 * static_cast<uint64_t>(gemm_.batch_count() * gemm_.m * gemm_.n * gemm_.k);
    gemm_.total_bytes = TotalBytes(gemm_, spec.epilogue);
  }

  EmittedKernels Emit() {
    if (gemm_.m == 0 || gemm_.n == 0 || gemm_.batch_count() == 0) return std::move(out_);
    if (!integers() && gemm_.m <= kMaxStreamedRows && gemm_.k >= kShortestStream) {
      if (gemm_.b.row_stride == 1) return Stream(EmitDotGemm);
      if (gemm_.b.col_stride == 1 && gemm_.n >= kShortestStream) return Stream(EmitRowStreamGemm);
    }
    return Tiled();
  }

 private:
  // A stride over one element or none may have any value, so this sets the value that kernels like
  // best.
  void DropUnusedStrides() {
    if (gemm_.k <= 1) gemm_.a.col_stride = 1;
    if (gemm_.m <= 1) gemm_.a.row_stride = 0;
    if (gemm_.n <= 1 && gemm_.b.col_stride != 1)
      gemm_.b.col_stride = gemm_.b.row_stride == 1 ? gemm_.k : 1;
    if (gemm_.k <= 1 && gemm_.b.col_stride != 1) gemm_.b.row_stride = 1;
    for (size_t i = 0; i < gemm_.batch.size(); ++i) {
      if (gemm_.batch[i] == 1) gemm_.a.batch_strides[i] = gemm_.b.batch_strides[i] = 0;
    }
  }

  // `b` is the place where the kernel reads B. If that is a packed B, an epilogue that also reads B
  // still means the original one.
  void Bind(const OperandRef& b) {
    gemm_.operands = {gemm_.a.buffer, b};
    if (gemm_.zeros.has_b()) gemm_.operands.push_back(gemm_.zeros.b);
    gemm_.epilogue = BindEpilogue(spec_epilogue_, epilogue_operands_, gemm_.operands);
  }

  EmittedKernels Stream(KernelLaunch (*emit)(KernelCache&, const BoundGemm&)) {
    if (gemm_.a.type == MemoryType::kF16 || gemm_.a.col_stride != 1) {
      StageRows(cache_, gemm_.batch, gemm_.m, gemm_.k, gemm_.a, out_);
    }
    Bind(gemm_.b.buffer);
    out_.launches.push_back(emit(cache_, gemm_));
    return std::move(out_);
  }

  // Rows that are a multiple of 4 KiB apart fall into the same sets of L1. If there are more of
  // them than L1 has ways, they would evict each other while a tile walks along them.
  bool RowsCollide() const {
    const int tile_rows = MaxTileRows(cache_.module().target(), kUsualVectors);
    return gemm_.m > kWaysOfL1 && tile_rows > kWaysOfL1 && gemm_.a.row_stride % 1024 == 0 &&
           gemm_.a.row_stride != 0;
  }

  bool ReadsAInPlace() const {
    if (gemm_.a.type != MemoryType::kF32 || RowsCollide()) return false;
    return gemm_.a.col_stride == 1 || (gemm_.a.row_stride == 1 && gemm_.k <= kLongestColumnWalk);
  }

  PanelForm ChoosePanelForm(const TargetInfo& target, int vectors) const {
    if (gemm_.k == 0) return PanelForm::kInPlace;
    if (gemm_.b.stable && !HasNegativeStride(gemm_.b)) return PanelForm::kPacked;
    const int64_t panel_cols = static_cast<int64_t>(vectors) * target.f32_lanes;
    const bool has_masks = target.isa >= IsaLevel::kV3 || gemm_.n % panel_cols == 0;
    const bool few_tiles = gemm_.m <= kTilesWorthPacking * MaxTileRows(target, vectors);
    const bool readable = gemm_.b.type == MemoryType::kF32 && gemm_.b.col_stride == 1;
    return readable && has_masks && few_tiles ? PanelForm::kInPlace : PanelForm::kPackedByTask;
  }

  bool integers() const { return IsIntegerProduct(gemm_.a.type, gemm_.b.type); }

  // Returns the number of matrices of A that are multiplied by the same B.
  int64_t SharersOfB() const {
    int64_t count = 1;
    for (size_t i = 0; i < gemm_.batch.size(); ++i) {
      if (gemm_.b.batch_strides[i] == 0) count *= gemm_.batch[i];
    }
    return count;
  }

  // If tasks packed the panels, every block of rows would pack the same panels again.
  bool StagesPanels(PanelForm form) const {
    return form == PanelForm::kPackedByTask && PackingRowBlocks(gemm_.m) * SharersOfB() > 1 &&
           !HasNegativeStride(gemm_.b);
  }

  // AVX512_BF16 multiplies pairs of bf16 along k. An operand that does not lie in pairs is staged,
  // which costs about as much as a few rows or columns of the product.
  bool TakesPairs(PanelForm form) const {
    if (!cache_.module().target().avx512_bf16 || gemm_.k == 0) return false;
    if (gemm_.a.type != MemoryType::kBF16 || !HoldsBF16(gemm_.b.type)) return false;
    if (form != PanelForm::kPacked && gemm_.m * SharersOfB() < kRowsWorthStaging) return false;
    return Dwords().in_place || gemm_.n >= kRowsWorthStaging;
  }

  // Returns the elements per dword in the panels: pairs of bf16, pairs or quads of integers.
  int64_t PerDword() const {
    return integers() ? KPerStep(IntegerPanels(cache_.module().target())) : 2;
  }

  DwordsOfA Dwords() const {
    return ReadInDwords(cache_.module().target(), gemm_.a, gemm_.k, gemm_.n, PerDword());
  }

  void StageDwords(int64_t filled_k) {
    if (!integers()) {
      return StagePairs(cache_, gemm_.batch, gemm_.m, gemm_.k, filled_k, gemm_.a, out_);
    }
    const IntegerRows rows{IntegerPanels(cache_.module().target()), filled_k, gemm_.zeros.a};
    StageIntegers(cache_, gemm_.batch, gemm_.m, gemm_.k, rows, gemm_.a, out_);
  }

  EmittedKernels Tiled() {
    const TargetInfo& target = cache_.module().target();
    PanelUse use;
    use.vectors = ChoosePanelVectors(target, gemm_.n);
    PanelForm form = ChoosePanelForm(target, use.vectors);
    PanelType packed_type = PanelType::kF32;
    bool stages_panels = false;
    const bool dwords = integers() || TakesPairs(form);
    if (dwords) {
      packed_type = integers() ? IntegerPanels(target) : PanelType::kBF16Pairs;
      stages_panels = form != PanelForm::kPacked;
      form = PanelForm::kPacked;
    } else if (StagesPanels(form)) {
      stages_panels = true;
      form = PanelForm::kPacked;
    } else if (form == PanelForm::kPacked && HoldsBF16(gemm_.b.type) && use.vectors % 2 == 0) {
      packed_type = PanelType::kBF16Vectors;
    }
    use.packed_by_task = form == PanelForm::kPackedByTask;
    DwordsOfA of_a;
    if (dwords) of_a = Dwords();
    use.amx_depth = of_a.amx_depth;
    if (use.amx_depth > 0) use.vectors = AmxPanelVectors(gemm_.n);
    OperandRef b = gemm_.b.buffer;
    PanelFormat format{static_cast<int64_t>(use.vectors) * target.f32_lanes, packed_type};
    format.filled_k = of_a.filled_k;
    if (stages_panels) {
      b = StagePanels(cache_, gemm_.batch, gemm_.b, gemm_.k, gemm_.n, format, out_);
    } else if (form == PanelForm::kPacked) {
      b = {OperandRef::Kind::kPacked, 0, 0};
      out_.packed.push_back(
          EmitPanelPacking(cache_, gemm_.batch, gemm_.b, gemm_.k, gemm_.n, format));
    }
    if (dwords) {
      if (!of_a.in_place) StageDwords(of_a.filled_k);
      // From here on k, with its filling, and the strides of A count dwords.
      gemm_.k_elements = of_a.filled_k;
      gemm_.k = of_a.filled_k / of_a.per_dword;
      CountDwords(gemm_.a, of_a.per_dword);
    }
    const GemmBlocks blocks =
        ChooseGemmBlocks(target, gemm_.batch_count(), gemm_.m, gemm_.n, gemm_.k, use);
    if (!dwords && gemm_.k > 0 && !ReadsAInPlace()) {
      gemm_.a_in_panels = gemm_.a.row_stride == 1 && gemm_.m > 1;
      if (gemm_.a_in_panels) {
        StageRowPanels(cache_, gemm_.batch, blocks.tiles, gemm_.k, gemm_.a, out_);
      } else {
        StageRows(cache_, gemm_.batch, gemm_.m, gemm_.k, gemm_.a, out_);
      }
    }
    Bind(b);
    out_.launches.push_back(EmitTiledGemm(cache_, gemm_, form, blocks, packed_type));
    return std::move(out_);
  }

  KernelCache& cache_;
  BoundGemm gemm_;
  const Body spec_epilogue_;
  const std::vector<OperandRef> epilogue_operands_;
  EmittedKernels out_;
};

}  // namespace

int64_t BoundGemm::batch_count() const {
  int64_t count = 1;
  for (const int64_t size : batch) count *= size;
  return count;
}

absl::StatusOr<EmittedKernels> EmitGemmKernels(KernelCache& cache, const GemmSpec& spec) {
  RETURN_IF_ERROR(Check(spec));
  if (!IsIntegerProduct(spec.a.type, spec.b.type) && IsMatrixTimesVector(spec))
    return GemmForms(cache, Transposed(spec)).Emit();
  return GemmForms(cache, spec).Emit();
}

}  // namespace hpu::graph_compiler
