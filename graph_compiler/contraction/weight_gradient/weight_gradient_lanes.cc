// Lanes are channels: those of a group meet each other by shuffles of dy. One pass over the chunk
// adds to as many sums as registers hold.
#include "graph_compiler/contraction/weight_gradient/weight_gradient.h"

namespace hpu::graph_compiler {
using llvm::Value;

void EmitLanesGradient(IrEmitter& e, GradientTask& task, const WeightGradientSpec& spec,
                       const WeightGradientPlan& plan) {
  const int64_t vector_bytes = e.lanes() * 4;
  const int64_t row_bytes = plan.panel_cols * 4;
  const int64_t sums_per_row = plan.unit_rows;  // (kernel column, output of the group)
  const int64_t sums = spec.conv.kernel_h * sums_per_row;
  const auto load = [&](Value* address, int v) {
    return e.LoadF32(e.Address(address, v * vector_bytes), e.lanes());
  };
  // Adds the chunk to sums [first, end) of the unit at `unit`.
  const auto pass = [&](const GradientTask::Chunk& chunk, Value* panel, Value* unit, int64_t first,
                        int64_t end) {
    Values held;
    for (int64_t i = first; i < end; ++i) {
      for (int v = 0; v < plan.vectors; ++v) {
        held.push_back(load(e.Address(unit, i * row_bytes), v));
      }
    }
    const auto position = [&](Value* x, Value* dy, Values carried) {
      for (int v = 0; v < plan.vectors; ++v) {
        Value* all = load(dy, v);
        Values outputs(static_cast<size_t>(plan.group_size));
        Value* pixel = nullptr;
        for (int64_t i = first; i < end; ++i) {
          const int64_t j = i % plan.group_size;
          if (outputs[j] == nullptr) outputs[j] = e.MemberOfGroup(all, plan.group_size, j);
          if (pixel == nullptr || j == 0) {
            const int64_t row = i / sums_per_row;
            const int64_t column = i % sums_per_row / plan.group_size;
            pixel = load(
                e.Address(x, row * task.KernelRowBytes() + column * task.KernelColumnBytes()), v);
          }
          Value*& sum = carried[static_cast<size_t>((i - first) * plan.vectors + v)];
          sum = e.Fma(pixel, outputs[j], sum);
        }
      }
      return carried;
    };
    held = task.ForEachRow(chunk, held, [&](Value* image, Value* row, const Values& outer) {
      Value* x = task.StripRow(image, row);
      Value* dy = task.DyRow(panel, image, row);
      return e.For(e.Int(0), chunk.cols, 1, outer, [&](Value* col, const Values& carried) {
        return position(e.Address(x, e.Mul(col, task.PixelBytes())),
                        e.Address(dy, e.Mul(col, row_bytes)), carried);
      });
    });
    for (int64_t i = first; i < end; ++i) {
      for (int v = 0; v < plan.vectors; ++v) {
        e.StoreF32(e.Address(unit, i * row_bytes + v * vector_bytes),
                   held[static_cast<size_t>((i - first) * plan.vectors + v)]);
      }
    }
  };
  task.Run([&](const GradientTask::Chunk& chunk) {
    task.CopyDy(chunk);
    e.For(task.first_panel(), task.end_panel(), 1, [&](Value* panel) {
      task.FillStrips(chunk, panel);
      Value* unit = task.Sums(e.Int(0), panel);
      const int64_t passes = CeilDiv(sums, plan.rows);
      const int64_t step = CeilDiv(sums, passes);
      for (int64_t first = 0; first < sums; first += step) {
        pass(chunk, panel, unit, first, std::min(sums, first + step));
      }
    });
  });
}

}  // namespace hpu::graph_compiler
