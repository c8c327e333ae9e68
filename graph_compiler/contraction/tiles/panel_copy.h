// Copies one panel of B into the form in which the micro-kernel reads it (PanelType), at the speed
// of memory. A panel is seen as rows of dwords, one row per k step of the micro-kernel. A dword is:
//
//   kF32           one element
//   kBF16Vectors   elements of vectors 2i (low half) and 2i + 1 (high half)
//   kBF16Pairs     elements of an even k (low half) and of the k after it; the fastest k may be
//                  filled up with zeros, and an odd number of it always is
//   kI8Quads       elements of four consecutive k, the first in the lowest byte; filled up likewise
//   kI16Pairs      elements of two k, widened; filled up likewise
//
// Where the elements of a row follow each other in memory, rows are read by vectors; where the
// elements of a column do, blocks of dwords are transposed in registers. A panel that is not read
// soon is written past the caches.
#pragma once

#include "graph_compiler/contraction/tiles/ir_emitter.h"
#include "graph_compiler/contraction/tiles/micro_kernel.h"

namespace hpu::graph_compiler {

struct PanelCopy {
  MemoryType type =
      MemoryType::kF32;  // of the source; it holds bf16 numbers, or is kI8, unless the panel is f32
  PanelType packed_type = PanelType::kF32;
  bool read_next = false;  // the following kernel reads the panel
  int64_t panel_cols = 0;
  int64_t col_stride = 0;          // elements of the source
  std::vector<int64_t> k_sizes;    // k of the panel runs over these, the last one fastest
  std::vector<int64_t> k_strides;  // elements of the source
  int64_t fastest_k = 0;           // of the panel: k_sizes.back() or more

  // Returns k of the panel, with its filling.
  int64_t k() const;
  bool fills_up_k() const { return fastest_k != k_sizes.back(); }
  bool keeps_bits() const {
    return type != MemoryType::kF32ToBF16 && MemoryTypeSize(type) == PackedSize(packed_type);
  }
  int64_t sum_bytes() const { return IsInteger(packed_type) ? panel_cols * 4 : 0; }
  int64_t panel_bytes() const { return k() * panel_cols * PackedSize(packed_type) + sum_bytes(); }
};

// `from` is the address of the element (0, 0) of the panel. `to` is aligned to a vector.
void EmitPanelCopy(IrEmitter& e, const PanelCopy& panel, llvm::Value* from, llvm::Value* to);
// Copies a panel that has only `cols` columns; the others become 0.
void EmitShortPanelCopy(IrEmitter& e, const PanelCopy& panel, llvm::Value* from, llvm::Value* to,
                        llvm::Value* cols);
// Writes a vector of a panel's row, past the caches unless the panel is read next.
void StorePanelRow(IrEmitter& e, const PanelCopy& panel, llvm::Value* address, llvm::Value* dwords);
// Is the inverse: writes the elements of the first `cols` columns of the panel at `panel_address`
// to their places from `source` on. It works for panels that keep the bits of their elements.
void EmitPanelRestore(IrEmitter& e, const PanelCopy& panel, llvm::Value* source,
                      llvm::Value* panel_address, llvm::Value* cols);

}  // namespace hpu::graph_compiler
