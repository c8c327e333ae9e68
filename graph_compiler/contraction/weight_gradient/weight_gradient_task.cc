#include "graph_compiler/contraction/tiles/matrix_copy.h"
#include "graph_compiler/contraction/weight_gradient/weight_gradient.h"

namespace hpu::graph_compiler {

using llvm::Value;

namespace {

constexpr int64_t kStripSlackFloats = 64;  // vector accesses may run over the end of a strip

int64_t SumBytes(const WeightGradientSpec& spec, const WeightGradientPlan& plan) {
  if (plan.splits > 1) return 0;
  return plan.channel_tiles_per_task * plan.panels_per_task * plan.unit_floats(spec.conv) * 4;
}

int64_t DyImageBytes(const WeightGradientPlan& plan) {
  return plan.cut.pixels() * plan.panel_cols * 4;
}

int64_t DyBytes(const WeightGradientPlan& plan) {
  if (plan.runs.pairs > 0) return plan.panels_per_task * plan.panel_cols * plan.runs.dy_row * 2;
  return plan.panels_per_task * plan.images * DyImageBytes(plan);
}

int64_t StripBytes(const WeightGradientSpec& spec, const WeightGradientPlan& plan) {
  if (plan.runs.pairs > 0) return plan.runs.strip_dwords * 4;
  return RoundUp(plan.cut.strip_floats(spec.conv) + kStripSlackFloats, 16) * 4;
}

int64_t FirstStrip(const WeightGradientSpec& spec, const WeightGradientPlan& plan) {
  return SumBytes(spec, plan) + DyBytes(plan);
}

int64_t EndOfStrips(const WeightGradientSpec& spec, const WeightGradientPlan& plan) {
  return FirstStrip(spec, plan) + plan.images * StripBytes(spec, plan);
}

}  // namespace

GradientTask::GradientTask(IrEmitter& e, const KernelFrame& frame, const WeightGradientSpec& spec,
                           const WeightGradientPlan& plan, Value* task)
    : e_(e), frame_(frame), spec_(spec), conv_(spec.conv), plan_(plan) {
  // Neighbouring tasks share positions.
  const Values index =
      e_.Decompose(task, {plan.splits, plan.groups(conv_), plan.channel_blocks, plan.panel_blocks});
  split_ = index[0];
  group_ = index[1];
  const auto end = [&](Value* first, int64_t step, int64_t count) {
    if (count % step == 0) return e_.Add(first, step);
    return e_.Min(e_.Add(first, step), e_.Int(count));
  };
  first_tile_ = e_.Mul(index[2], plan.channel_tiles_per_task);
  end_tile_ = end(first_tile_, plan.channel_tiles_per_task, plan.channel_tiles);
  first_panel_ = e_.Mul(index[3], plan.panels_per_task);
  end_panel_ = end(first_panel_, plan.panels_per_task, plan.panels);
}

int64_t GradientTask::ScratchBytes(const WeightGradientSpec& spec, const WeightGradientPlan& plan) {
  const int64_t finish = plan.splits > 1 ? 0 : FinishBytes(spec.conv, plan);
  return EndOfStrips(spec, plan) + finish;
}

void GradientTask::ForEachUnit(const std::function<void(Value*, Value*)>& body) {
  e_.For(first_tile_, end_tile_, 1, [&](Value* tile) {
    e_.For(first_panel_, end_panel_, 1, [&](Value* panel) { body(tile, panel); });
  });
}

Value* GradientTask::Sums(Value* tile, Value* panel) {
  const int64_t bytes = plan_.unit_floats(conv_) * 4;
  if (plan_.splits > 1) {
    Value* number = e_.Add(e_.Mul(group_, plan_.channel_tiles), tile);
    number = e_.Add(e_.Mul(number, plan_.panels), panel);
    number = e_.Add(e_.Mul(number, plan_.splits), split_);
    return e_.Address(frame_.Operand(e_.b, 2), e_.Mul(number, bytes));
  }
  Value* number =
      e_.Add(e_.Mul(e_.Sub(tile, first_tile_), plan_.panels_per_task), e_.Sub(panel, first_panel_));
  return e_.Address(frame_.scratch, e_.Mul(number, bytes));
}

void GradientTask::Run(const std::function<void(const Chunk&)>& add,
                       const std::function<void(Value* sums)>& complete) {
  const int lanes = e_.lanes();
  ForEachUnit([&](Value* tile, Value* panel) {
    Value* sums = Sums(tile, panel);
    e_.For(e_.Int(0), e_.Int(plan_.unit_floats(conv_) * 4), lanes * 4,
           [&](Value* byte) { e_.StoreF32(e_.Address(sums, byte), e_.Zero(lanes)); });
  });
  const auto part = [&](Value* first, int64_t size, int64_t total) -> Value* {
    if (total % size == 0) return e_.Int(size);
    return e_.Min(e_.Sub(e_.Int(total), first), e_.Int(size));
  };
  Value* first = e_.Mul(split_, plan_.chunks_per_split);
  Value* end = plan_.chunks % plan_.chunks_per_split == 0
                   ? e_.Add(first, plan_.chunks_per_split)
                   : e_.Min(e_.Add(first, plan_.chunks_per_split), e_.Int(plan_.chunks));
  e_.For(first, end, 1, [&](Value* number) {
    const Values index =
        e_.Decompose(number, {plan_.image_blocks, plan_.cut.blocks_h, plan_.cut.blocks_w});
    Chunk chunk;
    chunk.first_image = e_.Mul(index[0], plan_.images);
    chunk.images = part(chunk.first_image, plan_.images, conv_.batch);
    chunk.block_h = index[1];
    chunk.block_w = index[2];
    chunk.rows = part(e_.Mul(index[1], plan_.cut.tile_h), plan_.cut.tile_h, conv_.out_h);
    chunk.cols = part(e_.Mul(index[2], plan_.cut.tile_w), plan_.cut.tile_w, conv_.out_w);
    add(chunk);
  });
  if (complete != nullptr) {
    ForEachUnit([&](Value* tile, Value* panel) { complete(Sums(tile, panel)); });
  }
  if (plan_.splits > 1) return;
  ForEachUnit([&](Value* tile, Value* panel) {
    FinishUnit(e_, frame_, conv_, plan_, {group_, tile, panel}, Sums(tile, panel), 1,
               e_.Address(frame_.scratch, EndOfStrips(spec_, plan_)));
  });
}

void GradientTask::CopyDy(const Chunk& chunk) {
  const int64_t* strides = spec_.dy_strides;
  const int size = MemoryTypeSize(spec_.dy_type);
  const int64_t group_out = plan_.lanes ? conv_.out_c : conv_.out_c / conv_.groups;
  Value* first = e_.Add(e_.Mul(chunk.first_image, strides[0]),
                        e_.Add(e_.Mul(chunk.block_h, plan_.cut.tile_h * strides[1]),
                               e_.Mul(chunk.block_w, plan_.cut.tile_w * strides[2])));
  first = e_.Add(first, e_.Mul(group_, group_out * strides[3]));
  const auto copy = [&](Value* panel, Value* cols) {
    e_.For(e_.Int(0), chunk.images, 1, [&](Value* image) {
      e_.For(e_.Int(0), chunk.rows, 1, [&](Value* row) {
        Value* from = e_.Add(e_.Mul(image, strides[0]), e_.Mul(row, strides[1]));
        from = e_.Add(first, e_.Add(from, e_.Mul(panel, plan_.panel_cols * strides[3])));
        const MatrixSource source{e_.Address(frame_.Operand(e_.b, 1), e_.Mul(from, size)),
                                  spec_.dy_type, strides[2], strides[3]};
        EmitMatrixCopy(e_, source, {DyRow(panel, image, row), plan_.panel_cols, plan_.panel_cols},
                       chunk.cols, cols);
      });
    });
  };
  const int64_t tail = group_out % plan_.panel_cols;
  Value* full_end = tail == 0 ? end_panel_ : e_.Min(end_panel_, e_.Int(plan_.panels - 1));
  e_.For(first_panel_, full_end, 1, [&](Value* panel) { copy(panel, e_.Int(plan_.panel_cols)); });
  if (tail == 0) return;
  e_.For(full_end, end_panel_, 1, [&](Value* panel) { copy(panel, e_.Int(tail)); });
}

void GradientTask::FillStrips(const Chunk& chunk, Value* tile) {
  const int64_t channels = plan_.cut.strip_channels;
  const int64_t group_in = plan_.lanes ? conv_.in_c : conv_.in_c / conv_.groups;
  Value* first = e_.Mul(tile, channels);
  const auto fill = [&](int64_t count) {
    e_.For(e_.Int(0), chunk.images, 1, [&](Value* image) {
      KernelFrame frame = frame_;
      frame.scratch = e_.Address(e_.Address(frame_.scratch, FirstStrip(spec_, plan_)),
                                 e_.Mul(image, StripBytes(spec_, plan_)));
      ConvTask(e_, frame, conv_, plan_.cut, e_.Add(chunk.first_image, image), chunk.block_h,
               chunk.block_w)
          .FillStrip(e_.Add(e_.Mul(group_, group_in), first), e_.Int(count));
    });
  };
  const int64_t tail = group_in % channels;
  if (tail == 0) return fill(channels);
  if (group_in < channels) return fill(tail);
  e_.If(
      e_.b.CreateICmpSLE(e_.Add(first, channels), e_.Int(group_in)), [&] { fill(channels); },
      [&] { fill(tail); });
}

int64_t GradientTask::RowBytes() const {
  return plan_.cut.strip_cols(conv_) * plan_.cut.strip_channels * 4;
}
int64_t GradientTask::PixelBytes() const { return conv_.stride_w * plan_.cut.strip_channels * 4; }
int64_t GradientTask::KernelRowBytes() const { return conv_.dilation_h * RowBytes(); }
int64_t GradientTask::KernelColumnBytes() const {
  return conv_.dilation_w * plan_.cut.strip_channels * 4;
}

Value* GradientTask::DyPanel(Value* panel) {
  Value* number = e_.Sub(panel, first_panel_);
  Value* offset = e_.Mul(number, plan_.panel_cols * plan_.runs.dy_row * 2);
  return e_.Address(e_.Address(frame_.scratch, SumBytes(spec_, plan_)), offset);
}

Value* GradientTask::Strip(Value* image) {
  return e_.Address(e_.Address(frame_.scratch, FirstStrip(spec_, plan_)),
                    e_.Mul(image, StripBytes(spec_, plan_)));
}

Value* GradientTask::StripRow(Value* image, Value* row) {
  Value* offset =
      e_.Add(e_.Mul(image, StripBytes(spec_, plan_)), e_.Mul(row, conv_.stride_h * RowBytes()));
  return e_.Address(e_.Address(frame_.scratch, FirstStrip(spec_, plan_)), offset);
}

Value* GradientTask::DyRow(Value* panel, Value* image, Value* row) {
  Value* number = e_.Add(e_.Mul(e_.Sub(panel, first_panel_), plan_.images), image);
  Value* offset = e_.Add(e_.Mul(number, DyImageBytes(plan_)),
                         e_.Mul(row, plan_.cut.tile_w * plan_.panel_cols * 4));
  return e_.Address(e_.Address(frame_.scratch, SumBytes(spec_, plan_)), offset);
}

Values GradientTask::ForEachRow(
    const Chunk& chunk, const Values& init,
    const std::function<Values(Value* image, Value* row, const Values&)>& body) {
  const auto rows = [&](Value* image, const Values& carried) {
    if (plan_.cut.tile_h == 1) return body(image, e_.Int(0), carried);
    return e_.For(e_.Int(0), chunk.rows, 1, carried,
                  [&](Value* row, const Values& inner) { return body(image, row, inner); });
  };
  if (plan_.images == 1) return rows(e_.Int(0), init);
  return e_.For(e_.Int(0), chunk.images, 1, init, rows);
}

}  // namespace hpu::graph_compiler
