#include "graph_compiler/contraction/gemm/grouped_gemm.h"

#include <algorithm>

#include "graph_compiler/contraction/gemm/dwords.h"
#include "graph_compiler/contraction/gemm/groups.h"
#include "graph_compiler/contraction/tiles/amx_tiles.h"
#include "graph_compiler/contraction/tiles/epilogue.h"
#include "graph_compiler/contraction/tiles/packing.h"

namespace hpu::graph_compiler {
namespace {

// With so few rows per group, a copy of B costs more than it saves.
constexpr int64_t kRowsPerGroupWorthPacking = 8;

class GroupedForms {
 public:
  GroupedForms(KernelCache& cache, const GroupedGemmSpec& spec) : cache_(cache), spec_(spec) {
    FoldOffset(spec_.a);
    for (MatrixAccess& b : spec_.b) FoldOffset(b);
  }

  EmittedKernels Emit() {
    if (!spec_.inner && spec_.m <= kMaxStreamedRows && spec_.k >= kShortestStream) {
      if (b().row_stride == 1) return Stream(EmitDotGemm);
      if (b().col_stride == 1 && spec_.n >= kShortestStream) return Stream(EmitRowStreamGemm);
    }
    return Tiles();
  }

 private:
  const MatrixAccess& b() const { return spec_.b[0]; }
  bool separate() const { return !spec_.inner && b().batch_strides.empty(); }
  bool stable() const { return std::ranges::all_of(spec_.b, &MatrixAccess::stable); }

  std::vector<OperandRef> Operands(const std::vector<OperandRef>& matrices) const {
    std::vector<OperandRef> operands = {spec_.a.buffer, spec_.ends};
    operands.insert(operands.end(), matrices.begin(), matrices.end());
    return operands;
  }
  std::vector<OperandRef> MatricesInPlace() const {
    std::vector<OperandRef> matrices;
    for (const MatrixAccess& matrix : spec_.b) matrices.push_back(matrix.buffer);
    return matrices;
  }

  uint64_t Flops() const { return 2 * static_cast<uint64_t>(spec_.m * spec_.n * spec_.k); }

  // The bytes that a launch moves if each group has something.
  uint64_t Bytes() const {
    const int64_t matrices = spec_.inner ? 1 : std::min(spec_.groups, spec_.m);
    const int64_t a = spec_.m * spec_.k * MemoryTypeSize(spec_.a.type);
    const int64_t weights = matrices * spec_.k * spec_.n * MemoryTypeSize(b().type);
    const int64_t results = (spec_.inner ? spec_.groups : 1) * spec_.m * spec_.n;
    return static_cast<uint64_t>(a + weights) +
           EpilogueBytes(spec_.epilogue, static_cast<uint64_t>(results));
  }

  EmittedKernels Stream(KernelLaunch (*emit)(KernelCache&, const BoundGemm&)) {
    MatrixAccess& a = spec_.a;
    if (a.type == MemoryType::kF16 || a.col_stride != 1) {
      StageRows(cache_, {}, spec_.m, spec_.k, a, out_);
    }
    BoundGemm gemm;
    gemm.batch = {spec_.m};
    gemm.m = 1;
    gemm.n = spec_.n;
    gemm.k = spec_.k;
    gemm.a = a;
    gemm.a.batch_strides = {a.row_stride};
    gemm.b = b();
    gemm.groups = spec_.groups;
    gemm.operands = Operands(MatricesInPlace());
    gemm.epilogue = BindEpilogue(spec_.epilogue, spec_.epilogue_operands, gemm.operands);
    gemm.name = spec_.name;
    gemm.total_flops = Flops();
    gemm.total_bytes = Bytes();
    out_.launches.push_back(emit(cache_, gemm));
    return std::move(out_);
  }

  DwordsOfA Dwords() const {
    return ReadInDwords(cache_.module().target(), spec_.a, spec_.k, spec_.n, 2);
  }

  // Pairs of bf16 along k, as in gemm.cc. Ranges of k begin anywhere, so that their pairs would be
  // others for each launch. Matrices that change are staged whole, also those whose groups have no
  // rows.
  bool TakesPairs() const {
    if (!cache_.module().target().avx512_bf16 || spec_.inner || spec_.k == 0) return false;
    if (spec_.a.type != MemoryType::kBF16 || !HoldsBF16(b().type)) return false;
    if (!stable() && spec_.m < kRowsWorthStaging * spec_.groups) return false;
    return Dwords().in_place || spec_.n >= kRowsWorthStaging;
  }

  PanelForm ChooseForm(int vectors) const {
    if (stable() && !spec_.inner) return PanelForm::kPacked;
    const PanelForm copied = spec_.inner ? PanelForm::kPacked : PanelForm::kPackedByTask;
    if (b().type != MemoryType::kF32 || b().col_stride != 1) return copied;
    const TargetInfo& target = cache_.module().target();
    const bool has_masks =
        target.isa >= IsaLevel::kV3 || spec_.n % (vectors * target.f32_lanes) == 0;
    const bool few_rows = spec_.inner || spec_.m < kRowsPerGroupWorthPacking * spec_.groups;
    return has_masks && few_rows ? PanelForm::kInPlace : copied;
  }

  bool ReadsAInPlace() const {
    const MatrixAccess& a = spec_.a;
    if (a.type != MemoryType::kF32) return false;
    const int64_t steps = spec_.inner ? spec_.k / spec_.groups : spec_.k;
    return a.col_stride == 1 || (a.row_stride == 1 && steps <= kLongestColumnWalk);
  }

  // Returns the places of the panels of each matrix.
  std::vector<OperandRef> Panels(PanelFormat format) {
    std::vector<int64_t> batch;
    if (!spec_.inner && !separate()) batch = {spec_.groups};
    std::vector<OperandRef> panels;
    for (const MatrixAccess& matrix : spec_.b) {
      if (!stable() || spec_.inner) {
        panels.push_back(StagePanels(cache_, batch, matrix, spec_.k, spec_.n, format, out_));
        continue;
      }
      panels.push_back({OperandRef::Kind::kPacked, static_cast<uint32_t>(panels.size()), 0});
      out_.packed.push_back(EmitPanelPacking(cache_, batch, matrix, spec_.k, spec_.n, format));
    }
    return panels;
  }

  BoundGroupedGemm Sizes() const {
    BoundGroupedGemm gemm;
    gemm.inner = spec_.inner;
    gemm.groups = spec_.groups;
    gemm.m = spec_.m;
    gemm.n = spec_.n;
    gemm.k = spec_.k;
    gemm.separate = separate();
    gemm.name = spec_.name;
    return gemm;
  }

  EmittedKernels Tiles() {
    if (TakesPairs()) return Pairs();
    const TargetInfo& target = cache_.module().target();
    BoundGroupedGemm gemm = Sizes();
    gemm.vectors = ChoosePanelVectors(target, spec_.n);
    gemm.form = ChooseForm(gemm.vectors);
    std::vector<OperandRef> matrices = MatricesInPlace();
    if (gemm.form == PanelForm::kPacked) {
      PanelFormat format{int64_t{gemm.vectors} * target.f32_lanes};
      if (!spec_.inner && HoldsBF16(b().type) && gemm.vectors % 2 == 0) {
        format.packed_type = gemm.panel_type = PanelType::kBF16Vectors;
      }
      matrices = Panels(format);
    }
    if (!ReadsAInPlace()) StageRows(cache_, {}, spec_.m, spec_.k, spec_.a, out_);
    return Launch(std::move(gemm), matrices);
  }

  EmittedKernels Pairs() {
    const TargetInfo& target = cache_.module().target();
    const DwordsOfA of_a = Dwords();
    BoundGroupedGemm gemm = Sizes();
    gemm.amx_depth = of_a.amx_depth;
    gemm.vectors =
        gemm.amx_depth > 0 ? AmxPanelVectors(spec_.n) : ChoosePanelVectors(target, spec_.n);
    gemm.panel_type = PanelType::kBF16Pairs;
    PanelFormat format{int64_t{gemm.vectors} * target.f32_lanes, gemm.panel_type};
    format.filled_k = of_a.filled_k;
    const std::vector<OperandRef> matrices = Panels(format);
    if (!of_a.in_place) {
      StagePairs(cache_, {}, spec_.m, spec_.k, of_a.filled_k, spec_.a, out_);
    }
    gemm.k = of_a.filled_k / of_a.per_dword;
    CountDwords(spec_.a, of_a.per_dword);
    return Launch(std::move(gemm), matrices);
  }

  EmittedKernels Launch(BoundGroupedGemm gemm, const std::vector<OperandRef>& matrices) {
    gemm.a = spec_.a;
    gemm.b = b();
    gemm.operands = Operands(matrices);
    gemm.epilogue = BindEpilogue(spec_.epilogue, spec_.epilogue_operands, gemm.operands);
    KernelLaunch launch = EmitGroupedTiles(cache_, gemm);
    launch.flops = Flops();
    launch.bytes = Bytes();
    launch.grain = ChooseGrain(launch.tasks, launch.flops);
    out_.launches.push_back(std::move(launch));
    return std::move(out_);
  }

  KernelCache& cache_;
  GroupedGemmSpec spec_;
  EmittedKernels out_;
};

}  // namespace

absl::StatusOr<EmittedKernels> EmitGroupedGemmKernels(KernelCache& cache,
                                                      const GroupedGemmSpec& spec) {
  if (!IsFactorType(spec.a.type) || !IsFactorType(spec.b.at(0).type)) {
    return Unimplemented(spec.name, ": operands of a product of groups must be f32, bf16 or f16");
  }
  return GroupedForms(cache, spec).Emit();
}

}  // namespace hpu::graph_compiler
