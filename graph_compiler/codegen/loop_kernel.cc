#include "graph_compiler/codegen/loop_kernel.h"

#include <algorithm>
#include <limits>
#include <sstream>

#include "graph_compiler/codegen/cost.h"
#include "graph_compiler/codegen/iota.h"
#include "graph_compiler/codegen/loop_emitter.h"
#include "graph_compiler/codegen/module.h"

namespace hpu::graph_compiler {
namespace {

constexpr uint64_t kScratchAlignment = 64;

void AppendShape(std::ostream& out, const Shape& shape) {
  for (const int64_t size : shape) out << size << ',';
  out << ';';
}

}  // namespace

uint64_t AlignScratch(uint64_t bytes) {
  return (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

uint64_t LoopKernel::Tasks() const {
  const int64_t rows = NumElements(outer);
  if (vector_is_row) {
    const int64_t lanes = std::min(row_lanes, vector);
    return static_cast<uint64_t>(rows * ((vector + lanes - 1) / lanes));
  }
  if (vector_chunk > 0) {
    return static_cast<uint64_t>(rows * ((vector + vector_chunk - 1) / vector_chunk));
  }
  return static_cast<uint64_t>(rows);
}

int64_t LoopKernel::Elements(const LoopPass& pass) const {
  const int64_t rows = NumElements(outer) * (vector_is_row ? vector : 1);
  const int64_t columns = NumElements(inner) * (vector_is_row ? 1 : vector);
  return pass.row_level ? rows : rows * columns;
}

uint64_t LoopKernel::Grain() const {
  int64_t cost = 0;
  for (const LoopPass& pass : passes) cost += Elements(pass) * TotalCost(pass.body);
  const int64_t per_task = cost / static_cast<int64_t>(std::max<uint64_t>(Tasks(), 1));
  return static_cast<uint64_t>(
      std::max<int64_t>(kCostWorthAThread / std::max<int64_t>(per_task, 1), 1));
}

uint64_t LoopKernel::Operations() const {
  int64_t operations = 0;
  for (const LoopPass& pass : passes) {
    const auto folds = static_cast<int64_t>(pass.row_level ? 0 : pass.results.size());
    operations += Elements(pass) * (ArithmeticCost(pass.body) + folds);
  }
  return static_cast<uint64_t>(operations);
}

uint64_t LoopKernel::ScratchBytes() const {
  uint64_t bytes = 0;
  for (const uint64_t area : scratch_bytes) bytes += AlignScratch(area);
  return bytes;
}

std::string LoopKernel::Structure() const {
  std::ostringstream out;
  AppendShape(out, outer);
  AppendShape(out, inner);
  out << vector << ' ' << vector_is_row << serial << row_lanes << ' ' << vector_chunk << ' '
      << operands.size();
  for (const uint64_t bytes : scratch_bytes) out << ' ' << bytes;
  for (const LoopPass& pass : passes) {
    out << "\npass " << pass.row_level << '\n' << ToText(pass.body);
    for (const BodyOp& op : pass.body.ops) {
      if (op.op == Opcode::kConstF32) out << std::hexfloat << op.imm_f32 << ' ';
    }
    for (const LoopPass::Result& r : pass.results) {
      out << " result " << r.value << ' ' << static_cast<int>(r.kind) << ' ' << r.accumulator;
    }
  }
  return out.str();
}

std::vector<uint64_t> TakeOffsets(LoopKernel& kernel) {
  std::vector<std::vector<Access*>> accesses(kernel.operands.size());
  const auto add = [&](Access& access) {
    if (access.operand.IsBuffer()) accesses[access.operand.number].push_back(&access);
  };
  for (LoopPass& pass : kernel.passes) {
    for (BodyOp& op : pass.body.ops) {
      if (op.op == Opcode::kLoad) add(op.access);
    }
    for (Store& store : pass.body.stores) add(store.access);
  }
  std::vector<uint64_t> taken(accesses.size(), 0);
  for (size_t i = 0; i < accesses.size(); ++i) {
    int64_t least = std::numeric_limits<int64_t>::max();
    bool same_size = true;
    for (const Access* access : accesses[i]) {
      least = std::min(least, access->offset);
      same_size =
          same_size && MemoryTypeSize(access->type) == MemoryTypeSize(accesses[i].front()->type);
    }
    if (accesses[i].empty() || !same_size || least <= 0) continue;
    for (Access* access : accesses[i]) access->offset -= least;
    taken[i] = static_cast<uint64_t>(least * MemoryTypeSize(accesses[i].front()->type));
  }
  return taken;
}

void EmitLoopKernel(KernelModule& module, const LoopKernel& kernel) {
  LoopKernel lowered = kernel;
  for (LoopPass& pass : lowered.passes) pass = LowerIota(pass);
  module.AddKernel(kernel.name,
                   [&](llvm::IRBuilder<>& builder, const KernelFrame& frame, llvm::Value* task) {
                     EmitLoopTask(builder, frame, module.target(), lowered, task);
                   });
}

}  // namespace hpu::graph_compiler
