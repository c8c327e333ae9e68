// Turns the sums of a unit into results: they are added over the splits, put in the order (channel,
// kernel row, kernel column), and go through the epilogue. A weight with innermost taps (PyTorch's)
// is written along them, after a transposition; others are written along output channels.
#include <optional>

#include "graph_compiler/codegen/body.h"
#include "graph_compiler/contraction/tiles/matrix_copy.h"
#include "graph_compiler/contraction/weight_gradient/weight_gradient.h"

namespace hpu::graph_compiler {
namespace {

using llvm::Value;

int64_t Taps(const ConvSpec& conv) { return conv.kernel_h * conv.kernel_w; }

int64_t OrderedBytes(const ConvSpec& conv, const WeightGradientPlan& plan) {
  return plan.unit_channels() * Taps(conv) * plan.panel_cols * 4;
}

int64_t TransposedRow(const ConvSpec& conv, const WeightGradientPlan& plan, int lanes) {
  return RoundUp(plan.unit_channels() * Taps(conv), lanes);
}

// Returns the body over (ko, (c, r, s)) if its accesses run evenly through the latter and its
// stores contiguously.
std::optional<Body> AlongTaps(const Body& body, const ConvSpec& conv) {
  const int64_t sizes[] = {conv.kernel_h, conv.kernel_w, conv.in_c / conv.groups};
  bool possible = true;
  const auto collapse = [&](Access& access) {
    const std::vector<int64_t>& strides = access.strides;
    int64_t step = 0, run = 1;
    for (const size_t dim : {1, 0, 2}) {  // innermost first
      if (sizes[dim] == 1) continue;
      if (run == 1) step = strides[dim];
      possible &= strides[dim] == step * run;
      run *= sizes[dim];
    }
    access.strides = {strides[3], step};
  };
  Body collapsed = body;
  for (BodyOp& op : collapsed.ops) {
    if (op.op == Opcode::kLoad) collapse(op.access);
    possible &= op.op != Opcode::kIndex;
  }
  for (Store& store : collapsed.stores) {
    possible &= store.access.strides[3] != 1;
    collapse(store.access);
    possible &= store.access.strides[1] == 1;
  }
  if (!possible) return std::nullopt;
  return collapsed;
}

class UnitFinish {
 public:
  UnitFinish(IrEmitter& e, const KernelFrame& frame, const ConvSpec& conv,
             const WeightGradientPlan& plan, const GradientUnit& unit, Value* scratch)
      : e_(e), frame_(frame), conv_(conv), plan_(plan), ordered_(scratch) {
    const int64_t group_in = plan.lanes ? plan.group_size : conv.in_c / conv.groups;
    const int64_t group_out = plan.lanes ? conv.out_c : conv.out_c / conv.groups;
    const auto existing = [&](Value* first, int64_t step, int64_t total) -> Value* {
      if (total % step == 0) return e_.Int(step);
      return e_.Min(e_.Sub(e_.Int(total), first), e_.Int(step));
    };
    first_channel_ = e_.Mul(unit.channel_tile, plan.unit_channels());
    channels_ = existing(first_channel_, plan.unit_channels(), group_in);
    Value* column = e_.Mul(unit.panel, plan.panel_cols);
    columns_ = existing(column, plan.panel_cols, group_out);
    first_column_ = e_.Add(e_.Mul(unit.group, group_out), column);
  }

  void Run(Value* sums, int64_t splits) {
    Order(sums, splits);
    const std::optional<Body> along_taps = AlongTaps(conv_.epilogue, conv_);
    along_taps.has_value() ? WriteAlongTaps(*along_taps) : WriteAlongOutputs();
  }

 private:
  Value* OrderedRow(Value* channel, Value* row, Value* column) {
    Value* tap = e_.Add(e_.Mul(row, conv_.kernel_w), column);
    Value* number = e_.Add(e_.Mul(channel, Taps(conv_)), tap);
    return e_.Address(ordered_, e_.Mul(number, plan_.panel_cols * 4));
  }

  void Order(Value* sums, int64_t splits) {
    const int64_t vector_bytes = e_.lanes() * 4;
    e_.For(e_.Int(0), e_.Int(conv_.kernel_h), 1, [&](Value* r) {
      e_.For(e_.Int(0), e_.Int(conv_.kernel_w), 1, [&](Value* s) {
        Value* first = e_.Add(e_.Mul(r, plan_.unit_rows), e_.Mul(s, plan_.unit_channels()));
        const auto sum = [&](Value* i, Value* byte) {
          Value* row = e_.Mul(e_.Add(first, i), plan_.panel_cols * 4);
          Value* from = e_.Address(sums, e_.Add(row, byte));
          if (splits == 1) return e_.LoadF32(from, e_.lanes());
          const int64_t unit_bytes = plan_.unit_floats(conv_) * 4;
          return e_.For(e_.Int(1), e_.Int(splits), 1, {e_.LoadF32(from, e_.lanes())},
                        [&](Value* split, const Values& so_far) {
                          Value* next =
                              e_.LoadF32(e_.Address(from, e_.Mul(split, unit_bytes)), e_.lanes());
                          return Values{e_.b.CreateFAdd(so_far[0], next)};
                        })[0];
        };
        e_.For(e_.Int(0), e_.Int(plan_.panel_cols * 4), vector_bytes, [&](Value* byte) {
          if (plan_.lanes) {
            Values outputs;
            for (int64_t j = 0; j < plan_.group_size; ++j) outputs.push_back(sum(e_.Int(j), byte));
            for (int64_t i = 0; i < plan_.group_size; ++i) {
              e_.StoreF32(e_.Address(OrderedRow(e_.Int(i), r, s), byte), OfInput(outputs, i));
            }
            return;
          }
          e_.For(e_.Int(0), e_.Int(plan_.unit_channels()), 1, [&](Value* c) {
            e_.StoreF32(e_.Address(OrderedRow(c, r, s), byte), sum(c, byte));
          });
        });
      });
    });
  }

  // In outputs[j], lanes are input channels. In the result for input i of each group, lanes are
  // outputs.
  Value* OfInput(const Values& outputs, int64_t i) {
    const auto size = static_cast<int64_t>(outputs.size());
    Value* result = outputs[0];
    for (int64_t j = 0; j < size && size > 1; ++j) {
      std::vector<int> order;
      for (int lane = 0; lane < e_.lanes(); ++lane) {
        const bool taken = lane % size == j;
        order.push_back(static_cast<int>(taken ? e_.lanes() + lane / size * size + i : lane));
      }
      result = e_.b.CreateShuffleVector(result, outputs[j], order);
    }
    return result;
  }

  // Runs `body` for vectors of [0, count). The last one is masked if `total` (which count is a part
  // of) is not a multiple of the vector length.
  void ForEachVector(Value* count, int64_t total,
                     const std::function<void(Value* at, Value* mask)>& body) {
    const int lanes = e_.lanes();
    Value* full = e_.Mul(e_.DivConst(count, lanes), lanes);
    e_.For(e_.Int(0), full, lanes, [&](Value* at) { body(at, nullptr); });
    if (total % lanes == 0) return;
    e_.If(e_.b.CreateICmpSLT(full, count),
          [&] { body(full, e_.LaneMask(e_.Sub(count, full), lanes)); });
  }

  void Write(const Body& body, Values index, Value* mask, Value* from) {
    BodyPosition position;
    position.index = std::move(index);
    position.lanes = e_.lanes();
    position.mask = mask;
    EmitBody(e_.b, frame_, e_.target(), body, position, {e_.LoadF32(from, e_.lanes())});
  }

  void WriteAlongOutputs() {
    const int64_t total = plan_.lanes ? conv_.out_c : conv_.out_c / conv_.groups;
    e_.For(e_.Int(0), channels_, 1, [&](Value* c) {
      e_.For(e_.Int(0), e_.Int(conv_.kernel_h), 1, [&](Value* r) {
        e_.For(e_.Int(0), e_.Int(conv_.kernel_w), 1, [&](Value* s) {
          Value* row = OrderedRow(c, r, s);
          ForEachVector(columns_, total, [&](Value* at, Value* mask) {
            Write(conv_.epilogue, {r, s, e_.Add(first_channel_, c), e_.Add(first_column_, at)},
                  mask, e_.Address(row, e_.Mul(at, 4)));
          });
        });
      });
    });
  }

  void WriteAlongTaps(const Body& body) {
    const int64_t run = plan_.unit_channels() * Taps(conv_);
    const int64_t row = TransposedRow(conv_, plan_, e_.lanes());
    Value* transposed = e_.Address(ordered_, OrderedBytes(conv_, plan_));
    EmitMatrixCopy(e_, {ordered_, MemoryType::kF32, 1, plan_.panel_cols}, {transposed, row, row},
                   e_.Int(plan_.panel_cols), e_.Int(run));
    const int64_t total = conv_.in_c / conv_.groups * Taps(conv_);
    Value* first = e_.Mul(first_channel_, Taps(conv_));
    e_.For(e_.Int(0), columns_, 1, [&](Value* column) {
      Value* from = e_.Address(transposed, e_.Mul(column, row * 4));
      Value* count = e_.Mul(channels_, Taps(conv_));
      const int64_t part = run <= total && total % run == 0 ? run : 1;
      ForEachVector(count, part, [&](Value* at, Value* mask) {
        Write(body, {e_.Add(first_column_, column), e_.Add(first, at)}, mask,
              e_.Address(from, e_.Mul(at, 4)));
      });
    });
  }

  IrEmitter& e_;
  const KernelFrame& frame_;
  const ConvSpec& conv_;
  const WeightGradientPlan& plan_;
  Value* ordered_;        // [channel][kernel row][kernel column][panel_cols]
  Value* first_channel_;  // within its group
  Value* channels_;       // of the unit that exist
  Value* first_column_;   // of all output channels
  Value* columns_;
};

}  // namespace

int64_t FinishBytes(const ConvSpec& conv, const WeightGradientPlan& plan) {
  const int64_t most_lanes = plan.panel_cols;
  return OrderedBytes(conv, plan) +
         plan.panel_cols * RoundUp(plan.unit_channels() * Taps(conv), most_lanes) * 4;
}

void FinishUnit(IrEmitter& e, const KernelFrame& frame, const ConvSpec& conv,
                const WeightGradientPlan& plan, const GradientUnit& unit, Value* sums,
                int64_t splits, Value* scratch) {
  UnitFinish(e, frame, conv, plan, unit, scratch).Run(sums, splits);
}

}  // namespace hpu::graph_compiler
