// A kernel of loops ready for code generation: a fused group with its passes laid out and its
// dimensions ordered, merged and split into tasks, columns and the vector dimension.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph_compiler/ir/loop_graph.h"

namespace hpu::graph_compiler {

class KernelModule;

// Rows that a task takes at least when the vector dimension is a row: a cache line of f32.
inline constexpr int kRowLanes = 16;

struct LoopPass {
  bool row_level = false;  // once per row instead of once per element
  Body body;               // loads of results of earlier passes are kAccumulator or scratch loads
  // Values that leave the pass: folded over the columns (or, row level, kept as they are).
  struct Result {
    uint32_t value = 0;
    ReduceKind kind = ReduceKind::kNone;
    uint32_t accumulator = 0;
  };
  std::vector<Result> results;
};

// Iteration order of bodies' accesses: outer..., inner..., vector.
struct LoopKernel {
  std::string name;
  Shape outer;                    // rows: one task each (with blocks of the vector dimension)
  Shape inner;                    // columns, or serial dimensions, walked within a task
  int64_t vector = 1;             // the last dimension
  bool vector_is_row = false;     // else it is the last column
  int64_t row_lanes = kRowLanes;  // rows that a task takes at most, if it is a row
  bool serial = false;            // inner dimensions run in order and nothing is folded
  int64_t vector_chunk = 0;  // > 0: tasks take chunks of this many elements of the vector dimension
  std::vector<LoopPass> passes;
  std::vector<ScalarType> accumulators;
  // What Operand::number of buffers counts.
  std::vector<ValueId> operands;
  std::vector<uint64_t> scratch_bytes;
  std::vector<MemoryType> scratch_types;

  uint64_t Tasks() const;
  uint64_t Grain() const;       // tasks worth a thread's while
  uint64_t Operations() const;  // arithmetic of the whole kernel (codegen/cost.h)
  uint64_t ScratchBytes() const;
  // Equal text, equal code: names and operands' identities are left out.
  std::string Structure() const;

 private:
  int64_t Elements(const LoopPass& pass) const;  // how often its body runs
};

// Scratch areas follow each other at multiples of this rounding.
uint64_t AlignScratch(uint64_t bytes);

// Takes the offsets that all accesses of an operand share out of the kernel, so that the same loop
// over another part of a buffer is the same code; returns them, bytes per operand, for the
// operands' addresses.
std::vector<uint64_t> TakeOffsets(LoopKernel& kernel);

void EmitLoopKernel(KernelModule& module, const LoopKernel& kernel);

}  // namespace hpu::graph_compiler
