#include "graph_compiler/contraction/tiles/packing.h"

#include <algorithm>
#include <cstdlib>

#include "graph_compiler/contraction/tiles/panel_copy.h"
#include "graph_compiler/contraction/tiles/tiling.h"

namespace hpu::graph_compiler {

using llvm::Value;

DenseBatch DenseDimensions(const std::vector<int64_t>& batch, const std::vector<int64_t>& strides) {
  DenseBatch dense;
  for (size_t i = 0; i < batch.size(); ++i) {
    if (strides[i] == 0 || batch[i] == 1) continue;
    dense.sizes.push_back(batch[i]);
    dense.strides.push_back(strides[i]);
    dense.count *= batch[i];
  }
  return dense;
}

std::vector<int64_t> DenseBatchStrides(const std::vector<int64_t>& batch,
                                       const std::vector<int64_t>& strides, int64_t* count) {
  std::vector<int64_t> dense(batch.size(), 0);
  *count = 1;
  for (size_t i = batch.size(); i-- > 0;) {
    if (strides[i] == 0 || batch[i] == 1) continue;
    dense[i] = *count;
    *count *= batch[i];
  }
  return dense;
}

namespace {

// Panels of a batch of matrices. It defines the meaning of a task's number in both kernels.
class PanelKernels {
 public:
  PanelKernels(const TargetInfo& target, const DenseBatch& batch, const PanelCopy& copy, int64_t n)
      : target_(target),
        batch_(batch),
        copy_(copy),
        n_(n),
        panels_(CeilDiv(n, copy.panel_cols)),
        source_size_(MemoryTypeSize(copy.type)) {}

  uint64_t tasks() const { return static_cast<uint64_t>(batch_.count * panels_); }
  uint64_t source_bytes() const { return static_cast<uint64_t>(SourceElements() * source_size_); }
  // Returns the bytes from the first byte of the source range to element (0, 0), because strides
  // may be negative.
  int64_t bytes_before() const {
    int64_t lowest = 0;
    for (const auto& [size, stride] : SourceDimensions()) {
      lowest += std::min<int64_t>(0, (size - 1) * stride);
    }
    return -lowest * source_size_;
  }
  uint64_t packed_bytes() const { return tasks() * static_cast<uint64_t>(copy_.panel_bytes()); }

  // Returns whether the panels hold every bit of the source range exactly once.
  bool CanRestore() const {
    if (!copy_.keeps_bits()) return false;
    std::vector<std::pair<int64_t, int64_t>> dims;  // (stride, size)
    for (const auto& [size, stride] : SourceDimensions()) {
      if (size > 1) dims.emplace_back(stride, size);
    }
    std::sort(dims.begin(), dims.end());
    int64_t dense = 1;
    for (const auto& [stride, size] : dims) {
      if (stride != dense) return false;
      dense *= size;
    }
    return true;
  }

  // The operands are {source, panels}.
  KernelModule::EmitTask Pack() const {
    return [*this](llvm::IRBuilder<>& builder, const KernelFrame& frame, Value* task) {
      IrEmitter e(builder, target_);
      Value* from = Source(e, frame.Operand(builder, 0), task);
      Value* to = e.Address(frame.Operand(builder, 1), e.Mul(task, copy_.panel_bytes()));
      const auto full = [&] { EmitPanelCopy(e, copy_, from, to); };
      if (n_ % copy_.panel_cols == 0) return full();
      Value* cols = Columns(e, task);
      e.If(e.b.CreateICmpSGE(cols, e.Int(copy_.panel_cols)), full,
           [&] { EmitShortPanelCopy(e, copy_, from, to, cols); });
    };
  }

  // The operands are {panels, source}.
  KernelModule::EmitTask Restore() const {
    return [*this](llvm::IRBuilder<>& builder, const KernelFrame& frame, Value* task) {
      IrEmitter e(builder, target_);
      Value* from = e.Address(frame.Operand(builder, 0), e.Mul(task, copy_.panel_bytes()));
      Value* to = Source(e, frame.Operand(builder, 1), task);
      EmitPanelRestore(e, copy_, to, from, e.Min(Columns(e, task), e.Int(copy_.panel_cols)));
    };
  }

 private:
  // Returns (size, stride in elements) of every dimension.
  std::vector<std::pair<int64_t, int64_t>> SourceDimensions() const {
    std::vector<std::pair<int64_t, int64_t>> dims = {{n_, copy_.col_stride}};
    for (size_t i = 0; i < batch_.sizes.size(); ++i) {
      dims.emplace_back(batch_.sizes[i], batch_.strides[i]);
    }
    for (size_t i = 0; i < copy_.k_sizes.size(); ++i) {
      dims.emplace_back(copy_.k_sizes[i], copy_.k_strides[i]);
    }
    return dims;
  }
  int64_t SourceElements() const {
    int64_t last = 0;
    for (const auto& [size, stride] : SourceDimensions()) last += (size - 1) * std::abs(stride);
    return last + 1;
  }

  Value* FirstColumn(IrEmitter& e, Value* task) const {
    return e.Mul(e.RemConst(task, panels_), copy_.panel_cols);
  }
  Value* Columns(IrEmitter& e, Value* task) const { return e.Sub(e.Int(n_), FirstColumn(e, task)); }
  // Returns the address of the panel's element (0, 0).
  Value* Source(IrEmitter& e, Value* base, Value* task) const {
    const Values index = e.Decompose(e.DivConst(task, panels_), batch_.sizes);
    Value* column = e.Mul(FirstColumn(e, task), copy_.col_stride);
    Value* element = e.Add(e.Dot(index, batch_.strides), column);
    return e.Address(base, e.Add(e.Mul(element, source_size_), bytes_before()));
  }

  TargetInfo target_;
  DenseBatch batch_;
  PanelCopy copy_;
  int64_t n_;
  int64_t panels_;
  int64_t source_size_;
};

}  // namespace

namespace {

struct PanelPacking {
  PanelKernels kernels;
  KernelKey pack_key;
  KernelKey restore_key;
};

PanelPacking MakePacking(KernelCache& cache, const std::vector<int64_t>& batch,
                         const MatrixAccess& b, int64_t k, int64_t n, PanelFormat format,
                         bool read_next) {
  const DenseBatch dense = DenseDimensions(batch, b.batch_strides);
  PanelCopy copy;
  copy.type = b.type;
  copy.packed_type = format.packed_type;
  copy.read_next = read_next;
  copy.panel_cols = format.panel_cols;
  copy.col_stride = b.col_stride;
  copy.k_sizes = format.outer_k_sizes;
  copy.k_sizes.push_back(k);
  copy.k_strides = format.outer_k_strides;
  copy.k_strides.push_back(b.row_stride);
  const int64_t step = KPerStep(format.packed_type);
  copy.fastest_k = RoundUp(std::max(k, format.filled_k), step);

  const auto key_of = [&](const std::string& kind) {
    KernelKey key(kind);
    key.Add(dense.sizes).Add(dense.strides).Add(b.type).Add(b.row_stride).Add(b.col_stride);
    key.Add(k).Add(n).Add(format.panel_cols).Add(format.packed_type);
    key.Add(format.outer_k_sizes).Add(format.outer_k_strides).Add(copy.fastest_k);
    key.Add(cache.module().target().f32_lanes);  // the bf16 forms join halves of whole vectors
    return key;
  };
  return {PanelKernels(cache.module().target(), dense, copy, n),
          key_of(read_next ? "stage_panels" : "pack_panels"), key_of("restore_panels")};
}

OperandRef SourceOf(const PanelKernels& kernels, const MatrixAccess& b) {
  OperandRef source = b.buffer;
  source.offset -= static_cast<uint64_t>(kernels.bytes_before());
  return source;
}

}  // namespace

PackedOperand EmitPanelPacking(KernelCache& cache, const std::vector<int64_t>& batch,
                               const MatrixAccess& b, int64_t k, int64_t n, PanelFormat format) {
  const PanelPacking packing = MakePacking(cache, batch, b, k, n, format, false);
  const PanelKernels& kernels = packing.kernels;

  PackedOperand packed;
  packed.source = SourceOf(kernels, b);
  packed.source_bytes = kernels.source_bytes();
  packed.packed_bytes = kernels.packed_bytes();
  packed.format = packing.pack_key.text();

  KernelLaunch& launch = packed.kernel;
  launch.name = "pack weight";
  launch.engine = Engine::kMme;
  launch.tasks = kernels.tasks();
  launch.bytes = packed.source_bytes + packed.packed_bytes;
  launch.entry = cache.GetOrAdd(packing.pack_key, "pack_panels", kernels.Pack());
  if (b.stable && kernels.CanRestore()) {
    packed.restore_entry = cache.GetOrAdd(packing.restore_key, "restore_panels", kernels.Restore());
  }
  return packed;
}

OperandRef StagePanels(KernelCache& cache, const std::vector<int64_t>& batch, const MatrixAccess& b,
                       int64_t k, int64_t n, PanelFormat format, EmittedKernels& out) {
  const PanelPacking packing = MakePacking(cache, batch, b, k, n, format, true);
  const PanelKernels& kernels = packing.kernels;
  const OperandRef staged = ReserveStaged(kernels.packed_bytes(), out);

  KernelLaunch launch;
  launch.name = "stage";
  launch.engine = Engine::kMme;
  launch.operands = {SourceOf(kernels, b), staged};
  launch.tasks = kernels.tasks();
  launch.bytes = kernels.source_bytes() + kernels.packed_bytes();
  launch.grain = ChooseGrain(launch.tasks, launch.bytes * 4);
  launch.entry = cache.GetOrAdd(packing.pack_key, "stage_panels", kernels.Pack());
  out.launches.push_back(std::move(launch));
  return staged;
}

}  // namespace hpu::graph_compiler
