// A kernel of loops that is ready for code generation: a fused group whose passes are laid out and
// whose dimensions are ordered, merged and split into tasks, columns and the vector dimension.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph_compiler/ir/loop_graph.h"

namespace hpu::graph_compiler {

class KernelModule;

// The least number of rows that a task takes when the vector dimension is a row: a cache line of
// f32.
inline constexpr int kRowLanes = 16;

struct LoopPass {
  bool row_level = false;  // runs once per row instead of once per element
  Body body;               // loads of results of earlier passes are kAccumulator or scratch loads
  // A value that leaves the pass. It is folded over the columns or, at row level, used unchanged.
  struct Result {
    uint32_t value = 0;
    ReduceKind kind = ReduceKind::kNone;
    uint32_t accumulator = 0;
  };
  std::vector<Result> results;
};

// Accesses of bodies iterate over the dimensions in this order: outer, inner, vector.
struct LoopKernel {
  std::string name;
  Shape outer;         // rows: each is one task (together with a block of the vector dimension)
  Shape inner;         // columns, or serial dimensions, which a task walks through
  int64_t vector = 1;  // the last dimension
  bool vector_is_row = false;     // if false, it is the last column
  int64_t row_lanes = kRowLanes;  // the most rows that a task takes, if it is a row
  bool serial = false;            // inner dimensions run in order, and nothing is folded
  int64_t vector_chunk = 0;  // > 0: tasks take chunks of this many elements of the vector dimension
  std::vector<LoopPass> passes;
  std::vector<ScalarType> accumulators;
  // Operand::number of a buffer is a position in this list.
  std::vector<ValueId> operands;
  std::vector<uint64_t> scratch_bytes;
  std::vector<MemoryType> scratch_types;

  uint64_t Tasks() const;
  uint64_t Grain() const;       // the number of tasks that are worth a thread
  uint64_t Operations() const;  // the arithmetic of the whole kernel (codegen/cost.h)
  uint64_t ScratchBytes() const;
  // Kernels with equal text have equal code. Names and the identities of operands are left out.
  std::string Structure() const;

 private:
  int64_t Elements(const LoopPass& pass) const;  // how often its body runs
};

// Rounds `bytes` up to the multiple at which the next scratch area may start.
uint64_t AlignScratch(uint64_t bytes);

// Takes the offsets that all accesses of an operand share out of the kernel, so that the same loop
// over another part of a buffer is the same code. Returns them in bytes per operand; the caller
// adds them to the addresses of the operands.
std::vector<uint64_t> TakeOffsets(LoopKernel& kernel);

void EmitLoopKernel(KernelModule& module, const LoopKernel& kernel);

}  // namespace hpu::graph_compiler
