#include "graph_compiler/contraction/gemm/grouped_gemm.h"

#include <algorithm>

#include "graph_compiler/contraction/gemm/groups.h"
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
    FoldOffset(spec_.b);
  }

  EmittedKernels Emit() {
    if (!spec_.inner && spec_.m <= kMaxStreamedRows && spec_.k >= kShortestStream) {
      if (spec_.b.row_stride == 1) return Stream(EmitDotGemm);
      if (spec_.b.col_stride == 1 && spec_.n >= kShortestStream) return Stream(EmitRowStreamGemm);
    }
    return Tiles();
  }

 private:
  std::vector<OperandRef> Operands(const OperandRef& b) const {
    return {spec_.a.buffer, b, spec_.ends};
  }

  uint64_t Flops() const {
    const int64_t rows = spec_.inner ? spec_.groups * spec_.m : spec_.m;
    const int64_t terms = spec_.inner ? spec_.k / spec_.groups : spec_.k;
    return 2 * static_cast<uint64_t>(rows * spec_.n * terms);
  }

  // The bytes that a launch moves if each group has something.
  uint64_t Bytes() const {
    const int64_t matrices = spec_.inner ? 1 : std::min(spec_.groups, spec_.m);
    const int64_t a = spec_.m * spec_.k * MemoryTypeSize(spec_.a.type);
    const int64_t b = matrices * spec_.k * spec_.n * MemoryTypeSize(spec_.b.type);
    const int64_t results = (spec_.inner ? spec_.groups : 1) * spec_.m * spec_.n;
    return static_cast<uint64_t>(a + b) +
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
    gemm.b = spec_.b;
    gemm.groups = spec_.groups;
    gemm.operands = Operands(spec_.b.buffer);
    gemm.epilogue = BindEpilogue(spec_.epilogue, spec_.epilogue_operands, gemm.operands);
    gemm.name = spec_.name;
    gemm.total_flops = Flops();
    gemm.total_bytes = Bytes();
    out_.launches.push_back(emit(cache_, gemm));
    return std::move(out_);
  }

  PanelForm ChooseForm(int vectors) const {
    const MatrixAccess& b = spec_.b;
    if (b.stable && !spec_.inner) return PanelForm::kPacked;
    const PanelForm copied = spec_.inner ? PanelForm::kPacked : PanelForm::kPackedByTask;
    if (b.type != MemoryType::kF32 || b.col_stride != 1) return copied;
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

  EmittedKernels Tiles() {
    const TargetInfo& target = cache_.module().target();
    BoundGroupedGemm gemm;
    gemm.inner = spec_.inner;
    gemm.groups = spec_.groups;
    gemm.m = spec_.m;
    gemm.n = spec_.n;
    gemm.k = spec_.k;
    gemm.name = spec_.name;
    gemm.vectors = ChoosePanelVectors(target, spec_.n);
    gemm.form = ChooseForm(gemm.vectors);
    OperandRef b = spec_.b.buffer;
    PanelFormat format{int64_t{gemm.vectors} * target.f32_lanes};
    if (gemm.form == PanelForm::kPacked && spec_.inner) {
      b = StagePanels(cache_, {}, spec_.b, spec_.k, spec_.n, format, out_);
    } else if (gemm.form == PanelForm::kPacked) {
      if (HoldsBF16(spec_.b.type) && gemm.vectors % 2 == 0) {
        format.packed_type = gemm.panel_type = PanelType::kBF16Vectors;
      }
      b = {OperandRef::Kind::kPacked, 0, 0};
      out_.packed.push_back(
          EmitPanelPacking(cache_, {spec_.groups}, spec_.b, spec_.k, spec_.n, format));
    }
    if (!ReadsAInPlace()) StageRows(cache_, {}, spec_.m, spec_.k, spec_.a, out_);
    gemm.a = spec_.a;
    gemm.b = spec_.b;
    gemm.operands = Operands(b);
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
  if (!IsFactorType(spec.a.type) || !IsFactorType(spec.b.type)) {
    return Unimplemented(spec.name, ": operands of a product of groups must be f32, bf16 or f16");
  }
  return GroupedForms(cache, spec).Emit();
}

}  // namespace hpu::graph_compiler
