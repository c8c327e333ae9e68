#include "compiler_server/passes/decompose/recurrent_cells.h"

#include <algorithm>

namespace hpu::compiler {
namespace {

Value* Add(Call& call, Value* x, Value* y) { return call.b.Binary(OpKind::kAdd, x, y); }

// Returns gate `index` of [B, gates * H].
Value* Gate(Call& call, Value* gates, int64_t index, int64_t size) {
  return call.b.Slice(gates, 1, index * size, (index + 1) * size);
}

// Returns the type for arithmetic on a product and a state.
DType Wider(DType x, DType y) { return x == y ? x : std::max(Widened(x), Widened(y)); }

Value* Joined(Call& call, const std::vector<Expr>& gates, DType dtype) {
  std::vector<Value*> values;
  for (const Expr& gate : gates) values.push_back(call.b.Cast(gate.value, dtype));
  return call.b.Concat(std::move(values), 1);
}

Expr OfSigmoid(Expr y) { return (1.0 - y) * y; }
Expr OfTanh(Expr y) { return 1.0 - y * y; }

// The gates are input, forget, candidate and output.
RecurrentStep LstmForward(Call& call, Value* input, const RecurrentState& before,
                          const RecurrentWeights& weights) {
  const int64_t size = before.cell->type.sizes[1];
  Value* sums = Add(call, RecurrentProduct(call, before.hidden, weights.hidden), input);
  const auto gate = [&](int64_t i) { return In(call, Gate(call, sums, i, size)); };
  RecurrentStep step{.before = before};
  step.gates = {Sigmoid(gate(0)), Sigmoid(gate(1)), Tanh(gate(2)), Sigmoid(gate(3))};
  const DType carried = Wider(sums->type.dtype, before.cell->type.dtype);
  const Expr cell = step.gates[1] * In(call, before.cell) + step.gates[0] * step.gates[2];
  step.after.cell = call.b.Cast(cell.value, carried);
  const Expr hidden = step.gates[3] * Tanh(In(call, step.after.cell));
  step.after.hidden = step.unprojected = call.b.Cast(hidden.value, carried);
  if (weights.projection != nullptr) {
    step.after.hidden = RecurrentProduct(call, step.unprojected, weights.projection);
  }
  return step;
}

RecurrentGradients LstmBackward(Call& call, const RecurrentStep& step, const RecurrentState& after,
                                DType product) {
  const Expr in = step.gates[0], forget = step.gates[1], candidate = step.gates[2];
  const Expr out = step.gates[3];
  const Expr hidden = In(call, after.hidden);
  const Expr tanh = Tanh(In(call, step.after.cell));
  Expr cell = hidden * out * OfTanh(tanh);
  if (after.cell != nullptr) cell = In(call, after.cell) + cell;
  RecurrentGradients gradients;
  gradients.input = gradients.product = Joined(
      call,
      {cell * candidate * OfSigmoid(in), cell * In(call, step.before.cell) * OfSigmoid(forget),
       cell * in * OfTanh(candidate), hidden * tanh * OfSigmoid(out)},
      product);
  gradients.before.cell = call.b.Cast((cell * forget).value, step.before.cell->type.dtype);
  return gradients;
}

// The gates are reset, update and candidate, and a fourth value: the state's contribution to the
// candidate before the reset.
RecurrentStep GruForward(Call& call, Value* input, const RecurrentState& before,
                         const RecurrentWeights& weights) {
  const int64_t size = before.hidden->type.sizes[1];
  Value* hidden = RecurrentProduct(call, before.hidden, weights.hidden);
  if (weights.hidden_bias != nullptr) hidden = Add(call, hidden, weights.hidden_bias);
  const auto sum = [&](int64_t gate) {
    return In(call, Add(call, Gate(call, input, gate, size), Gate(call, hidden, gate, size)));
  };
  const Expr reset = Sigmoid(sum(0));
  const Expr update = Sigmoid(sum(1));
  const Expr given = In(call, Gate(call, hidden, 2, size));
  const Expr candidate = Tanh(In(call, Gate(call, input, 2, size)) + reset * given);
  const Expr after = candidate + update * (In(call, before.hidden) - candidate);
  RecurrentStep step{.before = before, .gates = {reset, update, candidate, given}};
  step.after.hidden = step.unprojected =
      call.b.Cast(after.value, Wider(hidden->type.dtype, before.hidden->type.dtype));
  return step;
}

RecurrentGradients GruBackward(Call& call, const RecurrentStep& step, const RecurrentState& after,
                               DType product) {
  const Expr reset = step.gates[0], update = step.gates[1], candidate = step.gates[2];
  const Expr hidden = In(call, after.hidden);
  const Expr of_update = hidden * (In(call, step.before.hidden) - candidate) * OfSigmoid(update);
  const Expr of_candidate = hidden * (1.0 - update) * OfTanh(candidate);
  const Expr of_reset = of_candidate * step.gates[3] * OfSigmoid(reset);
  RecurrentGradients gradients;
  gradients.input = Joined(call, {of_reset, of_update, of_candidate}, product);
  gradients.product = Joined(call, {of_reset, of_update, of_candidate * reset}, product);
  gradients.before.hidden = call.b.Cast((hidden * update).value, step.before.hidden->type.dtype);
  return gradients;
}

template <OpKind activation>
RecurrentStep RnnForward(Call& call, Value* input, const RecurrentState& before,
                         const RecurrentWeights& weights) {
  Value* sum = Add(call, RecurrentProduct(call, before.hidden, weights.hidden), input);
  RecurrentStep step{.before = before};
  step.after.hidden = step.unprojected =
      call.b.Cast(Apply(activation, In(call, sum)).value, sum->type.dtype);
  return step;
}

template <OpKind activation>
RecurrentGradients RnnBackward(Call& call, const RecurrentStep& step, const RecurrentState& after,
                               DType product) {
  const Expr hidden = In(call, after.hidden);
  const Expr y = In(call, step.after.hidden);
  // Where the result is NaN the gradient passes, like in threshold_backward.
  const Expr sum = activation == OpKind::kTanh ? hidden * OfTanh(y) : Where(y <= 0.0, 0.0, hidden);
  Value* joined = call.b.Cast(sum.value, product);
  return {.input = joined, .product = joined};
}

constexpr RecurrentKind kKinds[] = {
    {.name = "lstm", .forward = LstmForward, .backward = LstmBackward, .has_cell_state = true},
    {.name = "gru", .forward = GruForward, .backward = GruBackward, .adds_hidden_bias = false},
    {.name = "rnn_tanh",
     .forward = RnnForward<OpKind::kTanh>,
     .backward = RnnBackward<OpKind::kTanh>},
    {.name = "rnn_relu",
     .forward = RnnForward<OpKind::kRelu>,
     .backward = RnnBackward<OpKind::kRelu>},
};

}  // namespace

const RecurrentKind* FindRecurrentKind(std::string_view name) {
  const auto* const kind = std::ranges::find(kKinds, name, &RecurrentKind::name);
  return kind == std::end(kKinds) ? nullptr : kind;
}

}  // namespace hpu::compiler
