#include "graph_compiler/contraction/conv/conv.h"
#include "graph_compiler/contraction/tiles/epilogue.h"
#include "graph_compiler/contraction/tiles/matrix_copy.h"

namespace hpu::graph_compiler {

using llvm::Value;

namespace {

constexpr int kTableFields = 3;  // byte offset, output row, output column
constexpr int kOffsetField = 0, kRowField = 1, kColField = 2;
constexpr int64_t kConvSlackFloats = 16;  // vector stores may run over the end of the strip

int64_t StripBytes(const ConvSpec& spec, const ConvPlan& plan) {
  return plan.strip ? RoundUp(plan.strip_floats(spec) + kConvSlackFloats, 16) * 4 : 0;
}

int64_t TableEntries(const ConvPlan& plan) { return plan.pixels(); }

}  // namespace

ConvTask::ConvTask(IrEmitter& e, const KernelFrame& frame, const ConvSpec& spec,
                   const ConvPlan& plan, Value* image, Value* block_h, Value* block_w)
    : e_(e), frame_(frame), spec_(spec), plan_(plan), image_(image) {
  first_h_ = e_.Mul(block_h, plan.tile_h);
  first_w_ = e_.Mul(block_w, plan.tile_w);
  const bool equal_h = spec.out_h % plan.tile_h == 0;
  const bool equal_w = spec.out_w % plan.tile_w == 0;
  tile_h_ = equal_h ? e_.Int(plan.tile_h)
                    : e_.Min(e_.Sub(e_.Int(spec.out_h), first_h_), e_.Int(plan.tile_h));
  tile_w_ = equal_w ? e_.Int(plan.tile_w)
                    : e_.Min(e_.Sub(e_.Int(spec.out_w), first_w_), e_.Int(plan.tile_w));
  if (!equal_h || !equal_w) pixel_count_ = e_.b.CreateMul(tile_h_, tile_w_);
}

int64_t ConvTask::ScratchBytes(const ConvSpec& spec, const ConvPlan& plan) {
  return StripBytes(spec, plan) + RoundUp(TableEntries(plan) * kTableFields * 8, 64);
}

llvm::Value* ConvTask::end_of_scratch() {
  return e_.Address(frame_.scratch, ScratchBytes(spec_, plan_));
}

int64_t ConvTask::RowBytes() const {
  if (!plan_.strip) return spec_.x_strides[1] * 4;
  return plan_.strip_cols(spec_) * plan_.strip_channels * 4;
}

int64_t ConvTask::ColBytes() const {
  return plan_.strip ? plan_.strip_channels * 4 : spec_.x_strides[2] * 4;
}

void ConvTask::ZeroStrip(Value* from, Value* to) {
  const int lanes = e_.lanes();
  Value* padding = e_.Splat(e_.b.getInt32(plan_.padding), lanes);
  padding = e_.b.CreateBitCast(padding, e_.F32(lanes));
  e_.For(from, to, lanes * 4,
         [&](Value* byte) { e_.StoreF32(e_.Address(frame_.scratch, byte), padding); });
}

// This goes front to back: stores of zeros run over their end, into memory that is filled later or
// into the slack.
void ConvTask::FillStrip(Value* first_channel, Value* channels) {
  Value* strip = frame_.scratch;
  // These are the input coordinates of the strip's first element; the part inside the input is
  // copied.
  Value* top = e_.Add(e_.Mul(first_h_, spec_.stride_h), -spec_.pad_top);
  Value* left = e_.Add(e_.Mul(first_w_, spec_.stride_w), -spec_.pad_left);
  const auto span = [&](Value* tile, int64_t stride, int64_t kernel, int64_t dilation) {
    return e_.Add(e_.Mul(e_.Add(tile, -1), stride), (kernel - 1) * dilation + 1);
  };
  Value* bottom = e_.Add(top, span(tile_h_, spec_.stride_h, spec_.kernel_h, spec_.dilation_h));
  Value* right = e_.Add(left, span(tile_w_, spec_.stride_w, spec_.kernel_w, spec_.dilation_w));
  Value* begin_h = e_.Max(top, e_.Int(0));
  Value* end_h = e_.Min(bottom, e_.Int(spec_.in_h));
  Value* begin_w = e_.Max(left, e_.Int(0));
  Value* columns = e_.Max(e_.Sub(e_.Min(right, e_.Int(spec_.in_w)), begin_w), e_.Int(0));
  const bool padded = !ReadsNoPadding(spec_);
  const auto row_start = [&](Value* row) {
    Value* inside = e_.Max(e_.Min(row, e_.Int(plan_.strip_rows(spec_))), e_.Int(0));
    return e_.Mul(inside, RowBytes());
  };
  if (padded) ZeroStrip(e_.Int(0), row_start(e_.Sub(begin_h, top)));

  const int size = MemoryTypeSize(spec_.x_type);
  const int64_t* strides = spec_.x_strides;
  Value* source_base = e_.Add(e_.Mul(image_, strides[0]), e_.Mul(first_channel, strides[3]));
  const bool dense_rows =
      strides[3] == 1 && strides[2] == plan_.strip_channels && plan_.strip_channels == spec_.in_c;
  e_.For(begin_h, end_h, 1, [&](Value* h) {
    Value* from = e_.Add(source_base, e_.Add(e_.Mul(h, strides[1]), e_.Mul(begin_w, strides[2])));
    Value* row = e_.Mul(e_.Sub(h, top), RowBytes());
    Value* before = e_.Min(e_.Mul(e_.Sub(begin_w, left), ColBytes()), e_.Int(RowBytes()));
    Value* to = e_.Add(row, before);
    if (padded) ZeroStrip(row, to);
    MatrixSource source{e_.Address(frame_.Operand(e_.b, 0), e_.Mul(from, size)), spec_.x_type,
                        strides[2], strides[3]};
    MatrixTarget target{e_.Address(strip, to), plan_.strip_channels, plan_.strip_channels};
    if (plan_.joined_channels > 0) {
      EmitPairCopy(e_, source, target, columns, plan_.joined_channels);
    } else if (dense_rows) {
      target.padded_cols = 0;
      EmitMatrixCopy(e_, source, target, e_.Int(1), e_.Mul(columns, plan_.strip_channels));
    } else {
      EmitMatrixCopy(e_, source, target, columns, channels);
    }
    if (padded) ZeroStrip(e_.Add(to, e_.Mul(columns, ColBytes())), e_.Add(row, RowBytes()));
  });
  if (padded) {
    ZeroStrip(row_start(e_.Max(e_.Sub(end_h, top), e_.Sub(begin_h, top))),
              e_.Int(plan_.strip_floats(spec_) * 4));
  }
}

llvm::Value* ConvTask::TableEntry(Value* pixel, int field) {
  Value* table = e_.Address(frame_.scratch, StripBytes(spec_, plan_));
  return e_.Address(table, e_.Add(e_.Mul(pixel, kTableFields * 8), field * 8));
}

void ConvTask::FillPixelTable() {
  const auto store = [&](Value* pixel, int field, Value* value) {
    e_.b.CreateAlignedStore(value, TableEntry(pixel, field), llvm::Align(8));
  };
  const auto fill = [&](Value* pixel, Value* h, Value* w) {
    // In place, addresses start at the image; in a strip, at the task's first pixel.
    Value* row = plan_.strip ? h : e_.Add(first_h_, h);
    Value* col = plan_.strip ? w : e_.Add(first_w_, w);
    store(
        pixel, kOffsetField,
        e_.Add(e_.Mul(row, spec_.stride_h * RowBytes()), e_.Mul(col, spec_.stride_w * ColBytes())));
    store(pixel, kRowField, e_.Add(first_h_, h));
    store(pixel, kColField, e_.Add(first_w_, w));
  };
  e_.For(e_.Int(0), tile_h_, 1, [&](Value* h) {
    Value* row_start = e_.b.CreateMul(h, tile_w_);
    e_.For(e_.Int(0), tile_w_, 1, [&](Value* w) { fill(e_.Add(row_start, w), h, w); });
  });
  if (pixel_count_ == nullptr) return;
  // Tiles of pixels at equal distances (AMX) must not leave the row.
  const auto last_col = [&](Value* pixel) {
    const bool fixed = llvm::isa<llvm::ConstantInt>(tile_w_);
    return fixed ? e_.RemConst(pixel, plan_.tile_w) : e_.Add(tile_w_, -1);
  };
  e_.For(pixel_count_, e_.Int(TableEntries(plan_)), 1,
         [&](Value* pixel) { fill(pixel, e_.Add(tile_h_, -1), last_col(pixel)); });
}

llvm::Value* ConvTask::InputBase(Value* first_channel) {
  if (plan_.strip) return frame_.scratch;
  Value* offset = e_.Add(e_.Mul(image_, spec_.x_strides[0]), first_channel);
  return e_.Address(frame_.Operand(e_.b, 0), e_.Mul(offset, 4));
}

llvm::Value* ConvTask::TapOffset(Value* row, Value* col) {
  return e_.Add(e_.Mul(row, spec_.dilation_h * RowBytes()),
                e_.Mul(col, spec_.dilation_w * ColBytes()));
}

llvm::Value* ConvTask::PixelOffset(Value* pixel) {
  return e_.b.CreateAlignedLoad(e_.b.getInt64Ty(), TableEntry(pixel, kOffsetField), llvm::Align(8));
}

Values ConvTask::PixelIndex(Value* pixel) {
  const auto load = [&](int field) {
    return e_.b.CreateAlignedLoad(e_.b.getInt64Ty(), TableEntry(pixel, field), llvm::Align(8));
  };
  return {load(kRowField), load(kColField)};
}

bool ReadsNoPadding(const ConvSpec& spec) {
  const auto inside = [](int64_t out, int64_t stride, int64_t kernel, int64_t dilation, int64_t pad,
                         int64_t in) {
    return pad == 0 && (out - 1) * stride + (kernel - 1) * dilation < in;
  };
  return inside(spec.out_h, spec.stride_h, spec.kernel_h, spec.dilation_h, spec.pad_top,
                spec.in_h) &&
         inside(spec.out_w, spec.stride_w, spec.kernel_w, spec.dilation_w, spec.pad_left,
                spec.in_w);
}

KernelKey ConvKey(const std::string& kind, const ConvSpec& spec, const ConvPlan& plan) {
  KernelKey key(kind);
  for (const int64_t value : {spec.in_h,
                              spec.in_w,
                              spec.in_c,
                              spec.out_h,
                              spec.out_w,
                              spec.out_c,
                              spec.kernel_h,
                              spec.kernel_w,
                              spec.stride_h,
                              spec.stride_w,
                              spec.dilation_h,
                              spec.dilation_w,
                              spec.pad_top,
                              spec.pad_left,
                              spec.groups,
                              plan.tile_h,
                              plan.tile_w,
                              plan.panel_cols,
                              plan.panels_per_task,
                              plan.joined_channels,
                              int64_t{plan.padding},
                              int64_t{plan.column_pairs},
                              spec.zeros.a,
                              int64_t{spec.zeros.has_b()}}) {
    key.Add(value);
  }
  key.Add(plan.amx_depth)
      .Add(spec.batch == 1)
      .Add(spec.x_type)
      .Add(spec.groups_share_weights())
      .Add(plan.strip)
      .Add(plan.tiles_of_rows)
      .Add(plan.tiles.main_rows);
  for (const int64_t stride : spec.x_strides) key.Add(stride);
  return key.Add(spec.epilogue);
}

KernelLaunch MakeConvLaunch(const ConvSpec& spec, const ConvPlan& plan, int64_t groups,
                            int64_t group_channels) {
  KernelLaunch launch;
  launch.operands = spec.epilogue_operands;
  launch.tasks = static_cast<uint64_t>(spec.batch * groups * plan.blocks_h * plan.blocks_w *
                                       plan.panel_blocks);
  launch.engine = Engine::kMme;
  launch.name = spec.name;
  const int64_t outputs = spec.batch * spec.out_h * spec.out_w * spec.out_c;
  const int64_t taps = spec.kernel_h * spec.kernel_w * group_channels;
  launch.flops = static_cast<uint64_t>(2 * outputs * taps);
  launch.bytes = static_cast<uint64_t>(spec.batch * spec.in_h * spec.in_w * spec.in_c *
                                           MemoryTypeSize(spec.x_type) +
                                       taps * spec.out_c * MemoryTypeSize(spec.w_type)) +
                 EpilogueBytes(spec.epilogue, static_cast<uint64_t>(outputs));
  launch.grain = ChooseGrain(launch.tasks, launch.flops);
  return launch;
}

}  // namespace hpu::graph_compiler
